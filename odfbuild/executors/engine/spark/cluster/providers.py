"""Providers of Spark sessions: this machine, a cluster, a server of Spark Connect.

A provider says what Java is started with, and what has to hold before there is work.  The driver is
a child of this process or its neighbour, unless there is a server, where nothing is started.
Python tasks run with this interpreter, or the one that PYSPARK_PYTHON names on a cluster.
"""

import os
import socket
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol
from urllib.parse import urlsplit

from odfbuild.errors import EngineFailedError
from odfbuild.executors.engine.spark.cluster.package_archive import package_folder
from odfbuild.executors.engine.spark.cluster.properties import (
    SECRET,
    ClusterPropertyError,
    cluster_properties,
    cluster_secret,
    is_fixed,
)
from odfbuild.executors.engine.spark.settings import JAVA_OF_EXECUTORS
from odfbuild.values import dataclass

_LOOPBACK: Final = "127.0.0.1"
_ELSEWHERE: Final = "192.0.2.1"  # an address of documentation: its route is that of the network
_CLOSED: Final = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
"""Of every connection to Spark's own ports: Spark makes the secret where it is one process."""

_CLUSTER_CORES: Final = 16  # partitions follow from it; those with little in them are joined
_PATIENCE: Final = 5.0  # seconds for a master to take a connection
WAIT: Final = 300.0
"""Seconds that a cluster may be without executors, unless the project says otherwise."""

_KEYS: Final = (
    *(f"s3a.{name}" for name in ("access.key", "secret.key", "session.token")),
    *(f"{kind}.aws{name}" for kind in ("s3", "s3n") for name in ("AccessKeyId", "SecretAccessKey")),
)
NO_KEYS: Final = MappingProxyType({f"spark.hadoop.fs.{name}": "" for name in _KEYS})
"""Keys of stores, which Spark takes from the environment of the driver and sends to executors."""
OBJECTS: Final = "spark.odfbuild.objects"
"""The setting of a session whose executors read and write objects below this prefix."""

SERVER: Final = "sc://"
"""What the masters begin with that are servers of Spark Connect."""

_HADOOP: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


class ClusterUnreachableError(EngineFailedError):
    """Nothing answers at the address of a master, or the address is of an unknown kind."""

    code = "cluster-unreachable"


class SessionProvider(Protocol):
    """Where sessions come from.

    `master` is Spark's name for it, `wait` the seconds that it may be without executors, `objects`
    the prefix of a store for the files of steps, None where executors see them in their folder.
    """

    @property
    def master(self) -> str | None: ...

    @property
    def is_local(self) -> bool:
        """Tell whether Spark runs in one process on this machine."""

    @property
    def wait(self) -> float: ...

    @property
    def objects(self) -> str | None: ...

    def address(self) -> str:
        """Return the address of this machine that Spark's other machines see."""

    @property
    def is_remote(self) -> bool:
        """Tell whether the driver is not here, but in a server that somebody else started."""

    def place_settings(self, cores: int, memory: str, /) -> dict[str, str]:
        """Return the settings that say where it runs, `memory` being the heap of each process."""


@dataclass(frozen=True, slots=True)
class LocalProvider:
    """Spark within the Java process of this machine."""

    master: str | None = None

    @property
    def is_local(self) -> bool:
        return True

    @property
    def wait(self) -> float:
        return 0.0

    @property
    def objects(self) -> str | None:
        return None

    @property
    def is_remote(self) -> bool:
        return False

    def address(self) -> str:
        return _LOOPBACK

    def place_settings(self, cores: int, _memory: str, /) -> dict[str, str]:
        return {
            "spark.master": self.master or f"local[{cores}]",
            "spark.driver.host": _LOOPBACK,
            "spark.driver.bindAddress": _LOOPBACK,
            **_python_path(),
            **_CLOSED,
            "spark.default.parallelism": str(cores),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterProvider:
    """Spark whose driver is here, and whose executors a cluster has.

    `settings` are those of the project: how much of the cluster is taken.  The machines see the
    workspace under the same path, or reach `objects`, a prefix of an object store; and they have
    Python with the same packages.
    """

    master: str
    settings: Mapping[str, str] = field(default_factory=dict)
    wait: float = WAIT
    objects: str | None = None

    @property
    def is_local(self) -> bool:
        return False

    @property
    def is_remote(self) -> bool:
        return False

    def address(self) -> str:
        """Return the address by which executors reach this machine.

        Raises ClusterPropertyError, ClusterSecretError.
        """
        given = cluster_properties().get("spark.driver.host")
        if given:
            return given
        hosts = [*(host for host, _ in _addresses(self.master)), _ELSEWHERE]
        return next(filter(None, map(_route, hosts)), _LOOPBACK)

    def place_settings(self, _cores: int, memory: str, /) -> dict[str, str]:
        """Return the settings that say where it runs, `memory` being the heap of each process.

        Raises ClusterPropertyError for a setting that is not to be given, and ClusterSecretError.
        """
        for name in self.settings:
            if is_fixed(name):
                raise ClusterPropertyError(
                    what=f"the project sets {name}",
                    why="odfbuild sets it itself: results depend on it",
                    fix="remove it from `settings` in odfbuild.yaml",
                )
        address = self.address()
        return {
            "spark.driver.host": address,
            "spark.driver.bindAddress": address,
            **NO_KEYS,
            **self.settings,
            **cluster_properties(),
            **self._closing_settings(),
            **({} if self.objects is None else {OBJECTS: self.objects}),
            "spark.master": self.master,
            "spark.executor.memory": memory,
            "spark.executor.extraJavaOptions": JAVA_OF_EXECUTORS,
        }

    def _closing_settings(self) -> dict[str, str]:
        """Return what closes connections: YARN and Kubernetes hand over a secret that Spark makes.

        A standalone cluster has one if there is a file of one.
        """
        if not self.master.startswith("spark://"):
            return dict(_CLOSED)
        secret = cluster_secret()
        return {} if secret is None else {**_CLOSED, SECRET: secret}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProvider:
    """Spark in a server of Spark Connect, to which this machine has one outgoing connection.

    Its machines see the workspace under the same path, or reach `objects`, as those of a cluster.
    """

    master: str
    wait: float = WAIT
    objects: str | None = None

    @property
    def is_local(self) -> bool:
        return False

    @property
    def is_remote(self) -> bool:
        return True

    def address(self) -> str:
        return _LOOPBACK  # nothing there connects to this machine

    def place_settings(self, _cores: int, _memory: str, /) -> dict[str, str]:
        return {}


def provider_of(
    master: str | None,
    settings: Mapping[str, str] | None = None,
    wait: float | None = None,
    objects: str | None = None,
) -> SessionProvider:
    """Return the provider of sessions of a master."""
    if master is None or master.startswith("local"):
        return LocalProvider(master)
    if master.startswith(SERVER):
        return ServerProvider(master=master, wait=WAIT if wait is None else wait, objects=objects)
    return ClusterProvider(
        master=master,
        settings=dict(settings or {}),
        wait=WAIT if wait is None else wait,
        objects=objects,
    )


def python_program(provider: SessionProvider, env: Mapping[str, str] = os.environ) -> str:
    """Return the interpreter of Python tasks: this one; a cluster may have it elsewhere."""
    given = None if provider.is_local else env.get("PYSPARK_PYTHON")
    return given or sys.executable


def nominal_cores(provider: SessionProvider, cores: int) -> int:
    """Return the number of cores to plan with: a cluster's are not known before it is asked."""
    return cores if provider.is_local else _CLUSTER_CORES


def configuration_folders(
    provider: SessionProvider, env: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """Return the folders of Hadoop's configuration, which Java finds YARN by."""
    if provider.master != "yarn":
        return ()
    return tuple(dict.fromkeys(env[name] for name in _HADOOP if env.get(name)))


def check_reachable(provider: SessionProvider, env: Mapping[str, str] = os.environ) -> None:
    """Raise ClusterUnreachableError where it is known at once that there will be no session."""
    if provider.is_local:
        return
    master = str(provider.master)
    if master == "yarn" and not configuration_folders(provider, env):
        raise ClusterUnreachableError(
            what="Spark would run on YARN, but its address is not known",
            why="its address is in Hadoop's configuration",
            fix="set HADOOP_CONF_DIR to the folder of core-site.xml and yarn-site.xml",
        )
    places = tuple(_addresses(master))
    if not places and master != "yarn":
        raise ClusterUnreachableError(
            what=f"'{master}' is not a master that odfbuild supports",
            why="Spark runs on this machine (local[4]), a standalone cluster (spark://HOST:7077), "
            "YARN (yarn), Kubernetes (k8s://https://HOST:6443) or a server of Spark Connect "
            "(sc://HOST:15002)",
            fix="correct `master` in odfbuild.yaml",
        )
    failures = []
    for host, port in places:
        try:
            socket.create_connection((host, port), timeout=_PATIENCE).close()
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return
    if failures:
        raise ClusterUnreachableError(
            what=f"no master of {master} can be reached",
            why="; ".join(failures),
            fix="start the cluster, or correct `master` in odfbuild.yaml",
        )


def _addresses(master: str) -> Iterator[tuple[str, int]]:
    """Yield host and port of each master that a name has: `spark://a:1,b:2`, `k8s://https://a`."""
    kind, _, rest = master.partition("://")
    if kind == "sc":
        urls, default = [f"//{rest.partition('/')[0]}"], 15002
    elif kind == "spark":
        urls, default = [f"//{each}" for each in rest.split(",")], 7077
    elif kind == "k8s":
        urls, default = [rest if "://" in rest else f"https://{rest}"], 443
    else:
        return
    for url in urls:
        with suppress(ValueError):
            parts = urlsplit(url)
            if parts.hostname:
                yield parts.hostname, parts.port or (80 if parts.scheme == "http" else default)


def _route(host: str) -> str | None:
    """Return the address of this machine on the way to a host."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            way.connect((host, 9))  # sends nothing
            return str(way.getsockname()[0])
    except OSError:
        return None


def _python_path() -> dict[str, str]:
    """Let Python tasks find this package also where it is used without being installed."""
    folder = package_folder().parent
    installed = {Path(sysconfig.get_path(each)).resolve() for each in ("purelib", "platlib")}
    return {} if folder in installed else {"spark.executorEnv.PYTHONPATH": str(folder)}
