"""A server of Spark Connect on loopback, as a process of the test."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from odfbuild.executors.engine.spark.cluster.connect.plugin import PLUGIN, plugin_archive
from odfbuild.executors.engine.spark.jvm.java import find_java
from odfbuild.executors.engine.spark.jvm.launch import class_path, module_options, spark_home
from odfbuild.executors.engine.spark.settings import JAVA_OF_EXECUTORS
from tests.support.servers.object_store import free_ports

__all__ = ["CLIENT", "TOKEN", "ConnectServer", "connect_server", "properties_text"]

CLIENT = Path(sys.prefix) / "connect"
"""The folder of the packages that the client of Spark Connect imports, which `make` lays there."""

TOKEN = "a-token-of-the-tests-alone"
_PATIENCE = 120.0  # seconds until a server that is not ready is given up
_MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"
_MASK = 'mount -t tmpfs none "$0" && exec "$@"'


class ConnectServer:
    """A server that runs."""

    def __init__(self, port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.address = f"sc://127.0.0.1:{port}"
        self.log = log
        self._process = process

    def kill(self) -> None:
        """Kill it, as a machine without power does."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(timeout=_PATIENCE)


def properties_text(token: str = TOKEN) -> str:
    """Return what a user has in the file of cluster properties."""
    return f"spark.connect.authenticate.token {token}\n"


@contextmanager
def connect_server(
    folder: Path,
    *,
    java: Sequence[str] = tuple(JAVA_OF_EXECUTORS.split()),
    plugin: bytes | None = None,
    settings: Mapping[str, str] | None = None,
    masked: Path | None = None,
    port: int | None = None,
) -> Iterator[ConnectServer]:
    """Run a server as long as the context lasts, which asks for the token.

    `java` are options, `plugin` is another archive than ours, empty for none, `settings` are those
    of Spark, and `masked` is a folder that it sees empty, in a mount of its own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / "plugin.jar"
    archive.write_bytes(plugin_archive() if plugin is None else plugin)
    (found,) = free_ports(1) if port is None else (port,)
    given = {
        "spark.master": "local[2]",
        "spark.app.name": "connect",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(found),
        "spark.connect.authenticate.token": TOKEN,
        "spark.connect.extensions.relation.classes": PLUGIN,
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        **(settings or {}),
    }
    if plugin == b"":
        archive.unlink()
        del given["spark.connect.extensions.relation.classes"]
    program = find_java()
    command = [] if masked is None else ["unshare", "-m", "/bin/sh", "-c", _MASK, str(masked)]
    command += [str(program.program), "-Xmx1g", *module_options(program), *java]
    command += [f"-D{name}={value}" for name, value in given.items()]
    command += ["-cp", f"{archive}:{class_path()}", _MAIN]
    home = {"SPARK_HOME": str(spark_home()), "JAVA_HOME": str(program.home)}
    log = folder / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**os.environ, **home, "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=folder,
        )
    try:
        _wait_for(log, process)
        yield ConnectServer(found, process, log)
    finally:
        process.terminate()
        process.wait(timeout=_PATIENCE)


def _wait_for(log: Path, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until and process.poll() is None:
        if re.search(r"Spark Connect server started at", log.read_text("utf-8", "replace")):
            return
        time.sleep(0.1)
    raise AssertionError(log.read_text("utf-8", "replace")[-3000:])
