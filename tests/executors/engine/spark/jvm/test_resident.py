"""A JVM that stays: shared, left as it was, and done without when it dies."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odfbuild.executors.engine.spark.jvm import attach as attached
from odfbuild.executors.engine.spark.session import Sessions, Start
from odfbuild.executors.engine.spark.settings import StepSize
from tests.support.process.inside import lay_out
from tests.support.projects import Done, environment, program, run

pytestmark = pytest.mark.spark

_ROOT = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {{kind: FilesGlob, path: "data/*.csv"}}
      read: {{kind: Csv, header: true, schema: [event_time TIMESTAMP, a BIGINT]}}
      merge: {{kind: Append}}
"""
_MADE = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}.made
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{{datasetRef: {name}, alias: source}}]
      transform:
        kind: Sql
        engine: spark
        query: select event_time, a * {factor} as b from source
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a project whose resident engine was started where there is no Java and no home."""
    folder = lay_out(
        tmp_path_factory.mktemp("resident") / "project",
        {
            "data/1.csv": "event_time,a\n2031-01-01T00:00:00Z,1\n2031-01-02T00:00:00Z,2\n",
            **{f"datasets/{name}.yaml": _ROOT.format(name=name) for name in "xy"},
            **{
                f"datasets/{name}-made.yaml": _MADE.format(name=name, factor=factor)
                for name, factor in (("x", 10), ("y", 100))
            },
        },
    )
    started = command(folder, "engine", "start", "--idle", "10m")
    assert (started.code, started.err) == (0, "")
    yield folder
    stopped = command(folder, "engine", "stop", "--now")
    assert stopped.code == 0


def bare(folder: Path) -> dict[str, str]:
    """Return settings of a machine without a home and without a Java on its PATH."""
    tools = folder.parent / "bin"
    tools.mkdir(exist_ok=True)
    for name in ("bash", "chmod", "id", "ls", "sh", "stat", "uname"):
        found = shutil.which(name)
        if found is not None and not (tools / name).exists():
            (tools / name).symlink_to(found)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{tools}"
    return {
        "HOME": str(folder.parent / "home"), "PATH": programs, "JAVA_HOME": "",
        "ODFBUILD_CLASS_ARCHIVE": "off",
    }  # fmt: skip


def command(folder: Path, *arguments: str, **more: str) -> Done:
    return program(*arguments, cwd=folder, **{**bare(folder), **more})


def status(folder: Path, **more: str) -> dict[str, object]:
    found = json.loads(command(folder, "engine", "status", "-o", "json", **more).out)
    assert isinstance(found, dict)
    return found


def test_commands_at_the_same_time_use_the_one_that_is_there(project: Path) -> None:
    before = status(project)
    assert (before["state"], before["users"], before["served"]) == ("ready", [], 0)
    program = str(Path(sys.executable).parent / "odfbuild")
    running = [
        subprocess.Popen(
            [program, "apply", "--yes", f"+{name}.made"],
            cwd=project, env=environment(**bare(project)), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for name in "xy"
    ]  # fmt: skip
    said = [each.communicate() for each in running]
    assert [each.returncode for each in running] == [0, 0], said
    assert not any("not used" in err for _, err in said)
    for name, factor in (("x", 10), ("y", 100)):
        shown = command(project, "sql", f"select b from `{name}.made` order by b", "-o", "json")
        assert [row["b"] for row in json.loads(shown.out)] == [factor, 2 * factor], shown.err
    after = status(project)
    assert (after["served"], after["users"], after["pid"]) == (4, [], before["pid"])
    assert command(project, "engine", "start").out.startswith("It is running already.")


def test_it_is_left_alone_where_it_is_switched_off_or_does_not_fit(project: Path) -> None:
    off = status(project, ODFBUILD_ENGINE="off")
    assert (off["state"], off["why"]) == ("unfit", ["it is switched off here"])
    settings = (project / "odfbuild.yaml").read_text()
    more = settings + "engine: {spark: {memory: 1g}}\n"
    (project / "odfbuild.yaml").write_text(more)
    try:
        unfit = status(project)
        assert unfit["state"] == "unfit"
        assert "memory is 2g, not 1g" in str(unfit["why"])
        refused = command(project, "engine", "start")
        assert refused.code == 1
        assert "odfbuild engine stop" in refused.err
    finally:
        (project / "odfbuild.yaml").write_text(settings)


def test_what_a_command_took_is_given_back_when_it_ends(project: Path) -> None:
    """In a process of its own, which has no JVM yet."""
    done = within(project, f"connect_often(Path({str(project)!r}))")
    assert done.code == 0, done.err


def within(project: Path, call: str) -> Done:
    """Call something of this module in a process of its own."""
    names = "import os\nfrom pathlib import Path\n"
    module = f"from {__name__} import {call.partition('(')[0]}\n"
    command = [sys.executable, "-c", f"{names}{module}{call}"]
    return run(command, Path(__file__).parents[5], bare(project))


def connect_often(project: Path) -> None:
    """Connect many times in turn, killing some: nothing of it stays in the JVM."""
    connect(project)
    before = inside(project)
    for _ in range(12):
        connect(project)
    kill = "lambda: os.kill(os.getpid(), 9)"
    ended = within(project, f"connect(Path({str(project)!r}), end={kill})")
    assert ended.code == -signal.SIGKILL, ended.err
    until = time.monotonic() + 120
    while status(project)["users"]:
        assert time.monotonic() < until
        time.sleep(0.05)
    until = time.monotonic() + 60
    while grown := more_than(before, inside(project)):
        assert time.monotonic() < until, grown


def more_than(before: dict[str, int], after: dict[str, int]) -> dict[str, tuple[int, int]]:
    return {name: (before[name], count) for name, count in after.items() if count > before[name]}


def connect(project: Path, end: Callable[[], None] | None = None) -> None:
    """Be a command that runs a query over a view that it caches."""
    sessions = sessions_of(project)
    session = sessions.session(StepSize.SMALL)
    assert sessions.log == project / ".odfbuild/cache/engine/jvm/jvm.log"
    session.range(1000).cache().createOrReplaceTempView("numbers")
    assert session.sql("select count(*) as n from numbers").toArrow().to_pylist() == [{"n": 1000}]
    if end is not None:
        end()
    sessions.close()


def sessions_of(project: Path) -> Sessions:
    return Sessions(project / ".odfbuild" / "cache", Start(resident="existing"), lambda _: None)


def inside(project: Path) -> dict[str, int]:
    """Count connections, sessions, entrances and cached data of the JVM, once it has tidied up."""
    sessions = sessions_of(project)
    view = sessions.session(StepSize.SMALL)._jvm
    assert view is not None
    java = view.java.lang
    for _ in range(3):
        java.System.gc()
        time.sleep(0.2)
    gateway = sessions.session(StepSize.SMALL).sparkContext._gateway
    assert gateway is not None
    kinds = gateway.new_array(java.String, 1)
    kinds[0] = "[Ljava.lang.String;"
    given = gateway.new_array(java.Object, 1)
    given[0] = gateway.new_array(java.String, 0)
    asked = gateway.new_array(java.Object, 4)
    asked[0] = view.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    asked[1], asked[2], asked[3] = "gcClassHistogram", given, kinds
    methods = java.Class.forName("javax.management.MBeanServer").getMethods()
    method = next(each for each in methods if each.getName() == "invoke")
    server = view.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    table = str(method.invoke(server, asked))
    counts = {line.split()[3]: int(line.split()[1]) for line in table.splitlines()[3:-1]}
    sessions.close()
    wanted = (
        "org.apache.spark.sql.classic.SparkSession",
        "org.apache.spark.sql.execution.QueryExecution",
        "org.apache.spark.sql.execution.CachedData",
        "py4j.Gateway",
        "py4j.ClientServer",
        "py4j.ClientServerConnection",
    )
    return {each: counts.get(each, 0) for each in wanted}


def test_one_that_answers_no_more_is_done_without(project: Path) -> None:
    """It stops after it was lent, before it is connected to."""
    done = within(project, f"connect_to_a_stopped_one(Path({str(project)!r}))")
    assert done.code == 0, done.err
    said = "warning[resident-engine]: the resident engine is not used: TimeoutError while"
    assert done.err.startswith(said)
    assert "\n  fix: `odfbuild engine status`" in done.err
    assert status(project)["state"] == "ready"


def connect_to_a_stopped_one(project: Path) -> None:
    attached._PATIENCE = 1.0
    kept = json.loads((project / ".odfbuild/cache/engine/engine.json").read_text())
    sessions = sessions_of(project)
    sessions.start()
    os.kill(kept["java_pid"], signal.SIGSTOP)
    try:
        found = sessions.session(StepSize.SMALL).sql("select 1 as a").toArrow().to_pylist()
    finally:
        os.kill(kept["java_pid"], signal.SIGCONT)
    assert found == [{"a": 1}]
    assert sessions.log != project / ".odfbuild/cache/engine/jvm/jvm.log"
    sessions.close()


ENDLESS = (
    "select count(*) as c from x cross join (select explode(sequence(1, 200000)) as k) "
    "cross join (select explode(sequence(1, 90000)) as j) where hash(k, j, a) = 7"
)


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_a_question_ends_by_a_signal_and_its_jobs_with_it(
    by: signal.Signals, project: Path, tmp_path: Path
) -> None:
    assert command(project, "apply", "--yes", "x").code == 0
    program = str(Path(sys.executable).parent / "odfbuild")
    said = tmp_path / "said"
    with said.open("wb") as file:
        asking = subprocess.Popen(
            [program, "sql", ENDLESS],
            cwd=project, env=environment(**bare(project)), stdout=file, stderr=file,
        )  # fmt: skip
    until = time.monotonic() + 120
    while asking.pid not in status(project)["users"]:  # type: ignore[operator]
        assert time.monotonic() < until
    time.sleep(8)
    asking.send_signal(by)
    try:
        assert asking.wait(60) == 128 + by
    finally:
        asking.kill()
    assert "no step is left half done" in said.read_text()
    until = time.monotonic() + 60
    while status(project)["users"]:
        assert time.monotonic() < until
    shown = command(project, "sql", "select count(*) as n from x", "-o", "json")
    assert shown.code == 0, shown.err


def runs(pid: object) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split()
    except FileNotFoundError:
        return False


def test_a_killed_one_is_done_without_and_its_files_do_no_harm(project: Path) -> None:
    """The last test of this file: it ends the engine that the others use."""
    there = status(project)
    (project / "data/2.csv").write_text("event_time,a\n2031-01-03T00:00:00Z,3\n")
    os.kill(int(str(there["pid"])), signal.SIGKILL)
    until = time.monotonic() + 120
    while runs(there["java_pid"]):
        assert time.monotonic() < until, "the JVM outlives its keeper"
        time.sleep(0.05)
    assert status(project)["state"] == "none"
    applied = command(project, "apply", "--yes", "+x.made")
    assert applied.code == 0, applied.err
    assert command(project, "engine", "start", "--idle", "1s").out.startswith("Started.")
    until = time.monotonic() + 60
    while status(project)["state"] != "none":
        assert time.monotonic() < until, "it does not end by itself"
        time.sleep(0.1)
    assert sorted(each.name for each in (project / ".odfbuild/cache/engine").iterdir()) == [
        "keeper.lock",
        "keeper.log",
        "start.lock",
    ]
