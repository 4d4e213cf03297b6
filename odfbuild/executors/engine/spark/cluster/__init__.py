"""Placement of work in Spark: within its own process here, or on the workers of a cluster.

Either way Python tasks run with this interpreter and find this package.  The machines of a cluster
see the workspace under the same path, and have Python with the same packages at the same place, or
where PYSPARK_PYTHON says.
"""

import os
import socket
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from odfbuild.executors.engine.spark.cluster.secret import SECRET, cluster_secret

_LOOPBACK = "127.0.0.1"
_CLOSED = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
"""Of every connection to Spark's own ports: Spark makes the secret where it is one process."""

NO_XML_FETCHES = tuple(
    f"-Djavax.xml.accessExternal{each}=" for each in ("DTD", "Schema", "Stylesheet")
)
"""Options of Java: XML in a row names files and addresses, which are not read."""

_CLUSTER_CORES = 16  # partitions follow from it; those with little in them are joined


def is_local(master: str | None) -> bool:
    """Tell whether Spark runs in one process on this machine."""
    return master is None or master.startswith("local")


def own_address(master: str | None) -> str:
    """Return the address of this machine that the master's machine sees."""
    host = None if is_local(master) else urlsplit(str(master)).hostname
    if host is None:
        return _LOOPBACK
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            way.connect((host, 9))  # sends nothing
            return str(way.getsockname()[0])
    except OSError:
        return _LOOPBACK


def python_program(master: str | None, env: Mapping[str, str] = os.environ) -> str:
    """Return the interpreter of Python tasks: this one; a cluster may have it elsewhere."""
    given = None if is_local(master) else env.get("PYSPARK_PYTHON")
    return given or sys.executable


def place_settings(master: str | None, cores: int, memory: str) -> dict[str, str]:
    """Return the settings that say where Spark runs, `memory` being the heap of each process."""
    address = own_address(master)
    shared = {
        "spark.master": master or f"local[{cores}]",
        "spark.driver.host": address,
        "spark.driver.bindAddress": address,
        **_python_path(),
    }
    if is_local(master):
        return {**shared, **_CLOSED, "spark.default.parallelism": str(cores)}
    secret = cluster_secret()
    closed = {} if secret is None else {**_CLOSED, SECRET: secret}
    return {
        **shared,
        **closed,
        "spark.executor.memory": memory,
        "spark.executor.extraJavaOptions": " ".join(
            ("-Xss4m", "-Duser.timezone=UTC", "-Dfile.encoding=UTF-8", *NO_XML_FETCHES)
        ),
    }


def nominal_cores(master: str | None, cores: int) -> int:
    """Return the number of cores to plan with: a cluster's are not known before it is asked."""
    return cores if is_local(master) else _CLUSTER_CORES


def _python_path() -> dict[str, str]:
    """Let Python tasks find this package also where it is used without being installed."""
    folder = Path(__file__).resolve().parents[5]
    installed = {Path(sysconfig.get_path(each)).resolve() for each in ("purelib", "platlib")}
    return {} if folder in installed else {"spark.executorEnv.PYTHONPATH": str(folder)}
