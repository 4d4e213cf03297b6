"""The JVM of a resident engine as its keeper handles it: over Py4J, without PySpark."""

import contextlib
import gc
import struct
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odfbuild.executors.spark.archive import build_later, options
from odfbuild.executors.spark.cluster import own_address, place_settings, python_program
from odfbuild.executors.spark.java import Java, find_java
from odfbuild.executors.spark.jvm import Jvm, JvmFailedError, java_options, launch, log_lines
from odfbuild.executors.spark.resident import Place, traits
from odfbuild.executors.spark.settings import DEFAULT_MEMORY, fixed_settings
from odfbuild.regular_files import read_regular

__all__ = ["JavaDoor"]

_PATIENCE = 120.0  # seconds until Spark is given up
_ENDING = 20.0  # seconds for Java to end by itself
_LOG = 16 << 20  # bytes of its log that are kept


@dataclass(frozen=True, slots=True)
class JavaDoor:
    """A JVM with a Spark context, and the keeper's own way into it."""

    jvm: Jvm
    gateway: Any
    context: Any
    java: Java
    traits: Mapping[str, str]

    @staticmethod
    def start(place: Place, wanted: Mapping[str, Any]) -> "JavaDoor":
        """Start Java and Spark as wanted, and wait until they are ready.

        Raises JvmFailedError, JavaNotFoundError.
        """
        java = find_java()
        master, cores = wanted["master"], int(wanted["cores"])
        memory = wanted["memory"] or DEFAULT_MEMORY
        said = traits(java, master, wanted["memory"], cores)
        jvm = launch(
            java,
            java_options(
                java, quick=False, folder=place.jvm, archive=[f"-Xmx{memory}", *options(java)]
            ),
            fixed_settings(place.jvm, place_settings(master, cores, memory)),
            place.jvm,
            address=own_address(master),
            python=python_program(master),
        )
        try:
            gateway = _connected(jvm)
            view = gateway.jvm
            context = view.org.apache.spark.SparkContext.getOrCreate()
            view.org.apache.spark.sql.classic.SparkSession.builder().getOrCreate()
        except BaseException as error:
            said_last = log_lines(jvm.log)[-1:]
            jvm.stop(keep_log=True)
            if isinstance(error, JvmFailedError):
                raise
            raise JvmFailedError(
                what="Spark did not start",
                why=f"it said: {said_last[0]}" if said_last else "it gave no reason",
                fix=f"see {jvm.log}",
            ) from None
        return JavaDoor(jvm, gateway, context, java, said)

    @property
    def pid(self) -> int:
        return self.jvm.process.pid

    def lend(self) -> tuple[object, int, str]:
        view = self.gateway.jvm
        entrance = view.org.apache.spark.api.python.Py4JServer(self.context.conf())
        entrance.start()
        return entrance, int(entrance.getListeningPort()), str(entrance.secret())

    def take_back(self, entrance: Any, tag: str, *, last: bool) -> None:
        with contextlib.suppress(Exception):
            self.context.cancelJobsWithTag(tag)
            entrance.shutdown()
            self.gateway.detach(entrance)
        if last:
            with contextlib.suppress(Exception):
                self._clear()
        gc.collect()  # what Py4J gave us refers to itself, and keeps what it stands for alive

    def _clear(self) -> None:
        """Let go of what users left in the caches, and of a long log."""
        sessions = self.gateway.jvm.org.apache.spark.sql.classic.SparkSession
        sessions.getDefaultSession().get().sharedState().cacheManager().clearCache()
        if self.jvm.log.stat().st_size > _LOG:
            with self.jvm.log.open("r+b") as log:
                log.truncate()

    def lives(self) -> bool:
        return self.jvm.process.poll() is None

    def end(self) -> None:
        threading.Thread(target=self._end_hard, daemon=True).start()
        with contextlib.suppress(Exception):
            self.jvm.stop(keep_log=False)
        build_later(self.java)

    def _end_hard(self) -> None:
        time.sleep(_ENDING)
        self.jvm.process.kill()


def _connected(jvm: Jvm) -> Any:
    """Return the keeper's way into the JVM, once it is there."""
    from py4j.clientserver import ClientServer, JavaParameters, PythonParameters

    port, secret = _waited(jvm.process, jvm.folder / "connection")
    gateway = ClientServer(
        java_parameters=JavaParameters(port=port, auth_token=secret, auto_convert=True),
        python_parameters=PythonParameters(port=0, eager_load=False),
    )
    (jvm.folder / "connection").unlink(missing_ok=True)
    return gateway


def _waited(process: "subprocess.Popen[bytes]", path: Path) -> tuple[int, str]:
    until = time.monotonic() + _PATIENCE
    while not path.exists():
        if process.poll() is not None or time.monotonic() > until:
            raise JvmFailedError(
                what="Java ended while starting" if process.poll() is not None else "Java hangs",
                why=_last_line(path.with_name("jvm.log")),
                fix=f"see {path.with_name('jvm.log')}; another Java can be chosen with JAVA_HOME",
            )
        time.sleep(0.02)
    written = read_regular(path)
    port, length = struct.unpack_from(">ii", written)
    return port, written[8 : 8 + length].decode()


def _last_line(log: Path) -> str:
    lines = log_lines(log)
    return f"it said: {lines[-1]}" if lines else "it said nothing"
