"""A standalone Spark cluster on loopback: a master and workers, as processes of the test."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from odfbuild.executors.engine.spark.jvm.java import find_java
from odfbuild.executors.engine.spark.jvm.launch import class_path, module_options, spark_home

__all__ = ["cluster"]

_PATIENCE = 90.0  # seconds until a process that is not ready is given up


@contextmanager
def cluster(folder: Path, workers: int = 2, *, properties: Path | None = None) -> Iterator[str]:
    """Yield the address of a cluster whose workers have one core each; `properties` is a file."""
    more = [] if properties is None else ["--properties-file", str(properties)]
    with ExitStack() as running:
        where = running.enter_context(_started(folder, "master", "--webui-port", "0", *more))
        address = _said(where, r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            given = ["--cores", "1", "--memory", "2g", "--webui-port", "0"]
            given += ["--work-dir", str(folder / f"work-{number}"), *more, address]
            log = running.enter_context(_started(folder, f"worker-{number}", *given))
            _said(log, r"(Successfully registered with master)")
        yield address


@contextmanager
def _started(folder: Path, name: str, *given: str) -> Iterator[Path]:
    """Run a daemon as long as the context lasts; yields the file of what it says."""
    kind = name.partition("-")[0]
    java = find_java()
    command = [str(java.program), "-Xmx256m", *module_options(java), "-cp", class_path()]
    command += [f"org.apache.spark.deploy.{kind}.{kind.capitalize()}"]
    command += ["--host", "127.0.0.1", "--port", "0", *given]
    home = {"SPARK_HOME": str(spark_home()), "JAVA_HOME": str(java.home)}
    home["SPARK_SCALA_VERSION"] = "2.13"  # as Spark's own scripts do
    environment = {**os.environ, **home, "SPARK_LOCAL_IP": "127.0.0.1"}
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, cwd=folder
        )
    try:
        yield log
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
