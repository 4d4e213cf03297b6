"""The JVM from outside: quiet, in its own folder, shared, interruptible, gone with its parent."""

import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from odfbuild.executors.engine.protocol import engine_version
from odfbuild.executors.engine.spark.cluster.setting_check import (
    RefusedSettingError,
    check_settings,
)
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.jvm.launch import JvmFailedError
from odfbuild.executors.engine.spark.session import InterruptedStepError, Views
from odfbuild.executors.engine.spark.settings import GUARDED, PINNED, StepSize
from odfbuild.odf.events import MergeStrategyAppend
from tests.executors.engine.spark.tables import ingest_request, rows_of


def test_java_is_started_before_what_only_steps_need_is_loaded() -> None:
    code = (
        "import sys, odfbuild.executors.engine.spark.session; "
        "late = {'pyarrow', 'pyspark', 'obstore', 'odfbuild.state.remote.store.bucket'}; "
        "print(late & {*sys.modules})"
    )
    run = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout == "set()\n"


def test_the_version_of_an_engine_is_known_without_importing_it() -> None:
    code = (
        "import sys; from odfbuild.executors.engine.protocol import engine_version;"
        "print(engine_version('spark'), 'pyspark' in sys.modules, engine_version('flink'))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split()[1:] == ["False", "None"]
    assert engine_version("spark") == run.stdout.split()[0]
    assert run.stdout.split()[0].partition("+")[2] == "odfbuild.5"


def test_a_java_that_cannot_start_is_reported_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odfbuild.executors.engine.spark.jvm.java import find_java
    from odfbuild.executors.engine.spark.jvm.launch import launch

    jvm = launch(find_java(), ["-XX:NoSuchOption"], {}, tmp_path / "jvm")
    with pytest.raises(JvmFailedError, match="while starting") as caught:
        jvm.connect()
    assert str(jvm.log) in caught.value.fix
    assert "Program will exit" in caught.value.why
    jvm.stop()
    assert not jvm.folder.exists()


@pytest.mark.spark
def test_every_pinned_setting_is_in_force_whatever_the_size(engine: SparkEngine) -> None:
    for size in StepSize:
        session = engine._sessions.session(size)
        assert {key: session.conf.get(key) for key in PINNED} == dict(PINNED)


@pytest.mark.spark
def test_engines_of_one_process_share_the_jvm(engine: SparkEngine, tmp_path: Path) -> None:
    with SparkEngine(tmp_path) as other:
        source = pa.table({"a": [1]})
        request = ingest_request(tmp_path, source, MergeStrategyAppend())
        assert rows_of(other.ingest(request)) == rows_of(engine.ingest(request))
    assert rows_of(engine.ingest(request)) == [{"op": 0, "a": 1}]
    with pytest.raises(InterruptedStepError):
        other.ingest(request)


@pytest.mark.spark
def test_an_engine_that_wants_another_jvm_is_refused(engine: SparkEngine, tmp_path: Path) -> None:
    engine._sessions.session(StepSize.SMALL)
    with (
        SparkEngine(tmp_path, memory="1g") as other,
        pytest.raises(JvmFailedError, match="already"),
    ):
        other.ingest(ingest_request(tmp_path, pa.table({"a": [1]}), MergeStrategyAppend()))


@pytest.mark.spark
def test_a_name_shows_the_frame_that_it_was_given_last_until_the_step_is_over(
    engine: SparkEngine,
) -> None:
    from pyspark.errors import AnalysisException

    session, lent = engine._sessions.session(StepSize.SMALL), engine._sessions.lent(StepSize.SMALL)
    given = (
        pa.table({"n": [1]}),
        pa.table({"s": ["x"], "n": [3]}),
        pa.table({"n": ["another type"]}),
    )
    text = "SELECT `a ``b.C`.*, t.n AS m FROM `a ``b.C` JOIN `a ``b.C` AS t ON t.n <=> `a ``b.C`.n"
    for table in (*given, *given):
        with Views(session, lent) as views:
            for each in (given[0], table):
                views.add("a `b.C", session.createDataFrame(each))
            found = session.sql(text).toArrow()
            assert found.drop_columns("m").equals(table)
            assert found.column("m").equals(table.column("n"))
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            session.sql(text)


def test_threads_do_not_see_the_views_of_each_other(engine: SparkEngine, tmp_path: Path) -> None:
    found: dict[int, list[int]] = {}

    def step(number: int) -> None:
        source = pa.table({"a": [number] * 50})
        query = "SELECT a FROM input"
        for _ in range(3):
            request = ingest_request(tmp_path, source, MergeStrategyAppend(), preprocess=query)
            found.setdefault(number, []).extend(
                {row["a"] for row in rows_of(engine.ingest(request))}
            )

    threads = [threading.Thread(target=step, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [number] * 3 for number in range(4)}


@pytest.mark.spark
def test_a_running_step_can_be_interrupted(engine: SparkEngine, tmp_path: Path) -> None:
    """A query that would take hours ends at once, in an engine that then takes no more steps."""
    query = "SELECT count(*) AS n FROM range(1000000) AS a, range(1000000) AS b, input"
    raised: list[BaseException] = []
    other = SparkEngine(tmp_path)
    request = ingest_request(
        tmp_path, pa.table({"x": [1]}), MergeStrategyAppend(), preprocess=query
    )

    def step() -> None:
        try:
            other.ingest(request)
        except InterruptedStepError as error:
            raised.append(error)

    thread = threading.Thread(target=step)
    thread.start()
    tracker = engine._sessions.session(StepSize.SMALL).sparkContext.statusTracker()
    while not tracker.getActiveJobsIds():
        time.sleep(0.01)
    other.cancel()
    thread.join(60)
    assert len(raised) == 1
    other.close()


@pytest.mark.spark
def test_a_jvm_that_ends_is_named_and_the_next_step_starts_another(tmp_path: Path) -> None:
    """In a process of its own, because it kills the JVM that all tests share.

    It is killed between steps, which the next one does not feel; in the middle of one; and runs out
    of memory.  A step after it goes on each time.
    """
    script = textwrap.dedent(
        """
        import os, sys, threading, time
        from pathlib import Path
        import pyarrow as pa
        from odfbuild.errors import EngineFailedError
        from odfbuild.executors.engine.spark.engine import SparkEngine
        from odfbuild.executors.engine.spark.settings import StepSize
        from odfbuild.odf.events import MergeStrategyAppend
        from tests.executors.engine.spark.tables import ingest_request, rows_of
        folder = Path(sys.argv[1])
        rows = pa.table({"a": [1]})

        def step(query=None):
            since = time.monotonic()
            try:
                request = ingest_request(folder, rows, MergeStrategyAppend(), preprocess=query)
                print(rows_of(engine.ingest(request)))
            except EngineFailedError as error:
                log = Path(error.fix.rpartition("see ")[2])
                print(error.code, error.what, log.exists(), "memory" in error.fix)
            if time.monotonic() - since > 240:
                print("late")

        def process():
            return engine._sessions._host.jvm.process

        def kill_amid():
            tracker = engine._sessions.session(StepSize.SMALL).sparkContext.statusTracker()
            while not tracker.getActiveJobsIds():
                time.sleep(0.01)
            os.kill(process().pid, 9)

        long = "SELECT count(*) AS a FROM range(1000000) AS a, range(1000000) AS b, input"
        big = (
            "SELECT length(array_join(transform(sequence(1, 20000000 + a),"
            " x -> repeat('abcdefgh', 12)), '')) AS a FROM input"
        )
        with SparkEngine(folder / "first", memory="480m", cores=1) as engine:
            step()
            os.kill(process().pid, 9)
            process().wait()
            step()
            step()
            killer = threading.Thread(target=kill_amid)
            killer.start()
            step(long)
            killer.join()
            step(big)
            step()
        print(len(list((folder / "first" / "spark").iterdir())))
        """
    )
    run = in_a_process(script, tmp_path, tmp_path)
    row = "[{'op': 0, 'a': 1}]"
    lines = run.stdout.replace("to run the query:", "to merge the source rows:").splitlines()
    assert lines == [  # Spark may run the query as a part of merging its rows
        row,
        row,
        row,
        "engine-failed Spark failed to merge the source rows: its Java process was killed "
        "True True",
        "engine-memory Spark failed to merge the source rows: Java ran out of memory (480m) "
        "True True",
        row,
        "3",
    ]
    assert run.stderr == ""


@pytest.mark.spark
@pytest.mark.parametrize("memory", ["300m"])
def test_a_heap_that_is_too_small_to_start_with_is_named(tmp_path: Path, memory: str) -> None:
    script = textwrap.dedent(
        f"""
        import sys
        from pathlib import Path
        from odfbuild.executors.engine.spark.engine import SparkEngine
        from odfbuild.executors.engine.spark.jvm.launch import JvmFailedError
        from odfbuild.executors.engine.spark.settings import StepSize
        with SparkEngine(Path(sys.argv[1]), memory="{memory}") as engine:
            try:
                engine._sessions.session(StepSize.SMALL)
            except JvmFailedError as error:
                print(error.fix.partition(";")[0])
        """
    )
    run = in_a_process(script, tmp_path, tmp_path)
    assert run.stdout == "raise `memory` in odfbuild.yaml: Spark needs 480m at least\n"


def in_a_process(script: str, folder: Path, here: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[5])},
    )


@pytest.mark.spark
def test_the_jvm_writes_nothing_into_the_folder_it_was_started_from_and_ends_with_us(
    tmp_path: Path,
) -> None:
    """Kill the process that uses Spark, as hard as can be: its JVM must not stay behind."""
    script = textwrap.dedent(
        """
        import os, sys
        from pathlib import Path
        from odfbuild.executors.engine.spark.engine import SparkEngine
        from odfbuild.executors.engine.spark.settings import StepSize
        engine = SparkEngine(Path(sys.argv[1]))
        engine._sessions.session(StepSize.SMALL).sql("select 1").collect()
        print(engine._sessions._host.jvm.process.pid, flush=True)
        os.kill(os.getpid(), 9)
        """
    )
    here = tmp_path / "here"
    here.mkdir()
    run = in_a_process(script, tmp_path / "cache", here)
    assert run.returncode == -9
    pid = int(run.stdout)
    until = time.monotonic() + 60
    while (
        Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split()
    ):
        assert time.monotonic() < until, "the JVM lives on"
        time.sleep(0.05)
    assert list(here.iterdir()) == []
    assert run.stderr == ""


@pytest.mark.spark
@pytest.mark.parametrize("name", ["spark.sql.ansi.enabled", "spark.sql.runSQLOnFiles"])
def test_a_setting_that_spark_does_not_run_with_is_refused_by_its_name(
    engine: SparkEngine, name: str
) -> None:
    wanted = {**PINNED, **GUARDED}
    session = engine._sessions.session(StepSize.SMALL).newSession()
    check_settings(session, wanted)
    session.conf.set(name, "true" if wanted[name] == "false" else "false")
    with pytest.raises(RefusedSettingError, match=name) as caught:
        check_settings(session, wanted)
    assert caught.value.code == "spark-setting"
