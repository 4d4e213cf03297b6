"""A JVM that ends in the middle of an apply: named, and the rest of the run goes on."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process.inside import lay_out
from tests.support.projects import environment, program
from tests.support.projects.texts import derivative, root

pytestmark = pytest.mark.spark

BIG = (
    "select t, k, length(array_join(transform(sequence(1, 20000000 + v), "
    "x -> repeat('abcdefgh', 12)), '')) as v from src"
)


def test_a_resident_engine_without_memory_is_named_and_others_go_on(tmp_path: Path) -> None:
    shop = lay_out(
        tmp_path,
        {
            "odfbuild.yaml": "odfbuild: 1\nengine: {spark: {memory: 480m, resident: auto}}\n",
            "datasets/src.yaml": root(),
            "datasets/a.yaml": derivative("a", query=f'"{BIG}"'),
            "datasets/b.yaml": derivative("b"),
            "data/1.csv": "t,k,v\n2024-01-01,a,1\n2024-01-02,b,2\n",
        },
    )
    started = program("engine", "start", "--idle", "5m", cwd=shop)
    assert started.code == 0, started.err
    try:
        done = program("apply", "--yes", "-j", "1", cwd=shop)
    finally:
        program("engine", "stop", "--now", cwd=shop)
    assert done.code == 4, done.err
    assert "error[engine-memory]: a: Spark failed to run the query: Java ran out of memory" in (
        done.err
    )
    assert "raise `memory` in odfbuild.yaml" in done.err
    assert "jvm-last.log" in done.err
    assert "transform:b: 2 blocks, 2 rows" in done.out + done.err


_TWO_STEPS = """
import os, signal, sys, threading, time
from pathlib import Path
from odfbuild.executors.engine.spark.cluster.driver import executor_ids, is_stopped
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.errors import noticing_end, spark_errors
from odfbuild.executors.engine.spark.jvm.failure import JavaGoneError
from odfbuild.executors.engine.spark.settings import StepSize

asks = {
    "parallelism": lambda rows: rows.sparkSession.sparkContext.defaultParallelism,
    "parallelize": lambda rows: rows.sparkSession.sparkContext.parallelize([1, 2], 2).collect(),
    "executors": lambda rows: executor_ids(rows.sparkSession),
    "rows": lambda rows: rows.collect(),
}
with SparkEngine(Path(sys.argv[1]), resident=sys.argv[2]) as engine:
    sessions = engine._sessions
    old = sessions.session(StepSize.SMALL).range(3)
    jvm = sessions._host.jvm
    print(type(jvm).__name__)
    java = jvm.process.pid if len(sys.argv) < 4 else int(sys.argv[3])
    os.kill(java, signal.SIGKILL)
    def lives():
        status = Path(f"/proc/{java}/status")
        return status.exists() and "State:\tZ" not in status.read_text()

    while lives():
        time.sleep(0.05)
    new = []
    def again():
        while not new:  # a step that comes too early fails, too
            try:
                with spark_errors("try", log=None):
                    new.append(sessions.session(StepSize.SMALL).range(5).count())
            except JavaGoneError:
                time.sleep(0.2)

    other = threading.Thread(target=again)
    other.start()
    other.join()
    print(new)
    for name, ask in asks.items():
        try:
            with noticing_end(old.sparkSession, "try"):
                print(name, ask(old))
        except JavaGoneError:
            print(name, "Java is gone")
    print(is_stopped(old.sparkSession))
"""


@pytest.mark.parametrize("place", ["its own", "resident"])
def test_a_step_that_runs_while_another_starts_java_anew_is_told_that_java_ended(
    tmp_path: Path, place: str
) -> None:
    shop = lay_out(tmp_path, {"odfbuild.yaml": "odfbuild: 1\nname: shop\n"})
    cache = shop / ".odfbuild" / "cache"
    given, kind = [str(cache), "off"], "Jvm"
    if place == "resident":
        assert program("engine", "start", "--idle", "5m", cwd=shop).code == 0
        given, kind = [str(cache), "existing", str(_java_below(cache))], "Attached"
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _TWO_STEPS, *given],
            cwd=shop,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    finally:
        program("engine", "stop", "--now", cwd=shop)
    gone = [f"{name} Java is gone" for name in ("parallelism", "parallelize", "executors", "rows")]
    assert done.stdout.splitlines() == [kind, "[5]", *gone, "True"], done.stderr


def _java_below(cache: Path) -> int:
    """Return the process of Java whose files are below a folder."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_java = (process / "exe").readlink().name == "java"
            if is_java and str(cache).encode() in (process / "cmdline").read_bytes():
                return int(process.name)
        except OSError:
            continue
    raise AssertionError("no Java of this folder")
