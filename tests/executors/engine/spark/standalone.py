"""A standalone Spark cluster on loopback: a master and workers, as processes of the test."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from odfbuild.executors.engine.spark.jvm.java import find_java
from odfbuild.executors.engine.spark.jvm.launch import class_path, module_options, spark_home

__all__ = ["Standalone", "cluster", "descendants", "needs_executors", "standalone"]

needs_executors = pytest.mark.skipif(
    not find_java().has_vector_module,
    reason="Spark starts executors with a module that this Java lacks",
)

_PATIENCE = 90.0  # seconds until a process that is not ready is given up


class Standalone:
    """A cluster that runs, whose workers have one core each and come and go."""

    def __init__(self, folder: Path, running: ExitStack, more: list[str]) -> None:
        self.folder = folder
        self._running = running
        self._more = more
        self._workers: list[subprocess.Popen[bytes]] = []
        where, _ = running.enter_context(_started(folder, "master", "--webui-port", "0", *more))
        self.address = _said(where, r"Starting Spark master at (spark://\S+)")

    @property
    def workers(self) -> list[int]:
        """Return the process ids of the workers, also of those that have ended."""
        return [each.pid for each in self._workers]

    def add_worker(
        self,
        *,
        host: str = "127.0.0.1",
        masked: Path | None = None,
        processor: int | None = None,
    ) -> None:
        """Start a worker; `masked` is a folder that it sees empty, in a mount of its own.

        With the number of a processor it has that alone, and so has what it starts.
        """
        number = len(self._workers)
        given = ["--cores", "1", "--memory", "2g", "--webui-port", "0", *self._more]
        given += ["--work-dir", str(self.folder / f"work-{number}"), self.address]
        log, process = self._running.enter_context(
            _started(
                self.folder,
                f"worker-{number}",
                *given,
                host=host,
                masked=masked,
                processor=processor,
            )
        )
        self._workers.append(process)
        _said(log, r"(Successfully registered with master)")

    def kill_workers(self) -> None:
        """Kill all workers with what they started, as a machine without power does."""
        for process in self._workers:
            for each in (*descendants(process.pid), process.pid):
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Return the processes that a process started, behind those that these started."""
    found = Path(f"/proc/{pid}/task").glob("*/children")
    direct = [int(each) for path in found for each in path.read_text("ascii").split()]
    return [*(below for each in direct for below in descendants(each)), *direct]


@contextmanager
def standalone(folder: Path, *, properties: Path | None = None) -> Iterator[Standalone]:
    """Yield a cluster without workers; `properties` is a file."""
    more = [] if properties is None else ["--properties-file", str(properties)]
    with ExitStack() as running:
        yield Standalone(folder, running, more)


@contextmanager
def cluster(folder: Path, workers: int = 2, *, properties: Path | None = None) -> Iterator[str]:
    """Yield the address of a cluster whose workers have one core each; `properties` is a file."""
    with standalone(folder, properties=properties) as found:
        for _ in range(workers):
            found.add_worker()
        yield found.address


_MASK = 'mount -t tmpfs none "$0" && exec "$@"'


@contextmanager
def _started(
    folder: Path,
    name: str,
    *given: str,
    host: str = "127.0.0.1",
    masked: Path | None = None,
    processor: int | None = None,
) -> "Iterator[tuple[Path, subprocess.Popen[bytes]]]":
    """Run a daemon as long as the context lasts; yields the file of what it says."""
    kind = name.partition("-")[0]
    java = find_java()
    command = [] if processor is None else ["taskset", "-c", str(processor)]
    command += [] if masked is None else ["unshare", "-m", "/bin/sh", "-c", _MASK, str(masked)]
    command += [str(java.program), "-Xmx256m", *module_options(java), "-cp", class_path()]
    command += [f"org.apache.spark.deploy.{kind}.{kind.capitalize()}"]
    command += ["--host", host, "--port", "0", *given]
    home = {"SPARK_HOME": str(spark_home()), "JAVA_HOME": str(java.home)}
    home["SPARK_SCALA_VERSION"] = "2.13"  # as Spark's own scripts do
    environment = {**os.environ, **home, "SPARK_LOCAL_IP": host}
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, cwd=folder
        )
    try:
        yield log, process
    finally:
        process.terminate()
        process.wait(timeout=_PATIENCE)


def _said(log: Path, pattern: str) -> str:
    """Wait until a daemon has said something; return the group of the pattern."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        found = re.search(pattern, log.read_text("utf-8", "replace"))
        if found:
            return found.group(1)
        time.sleep(0.1)
    raise AssertionError(f"{log.name}: {log.read_text('utf-8', 'replace')[-2000:]}")
