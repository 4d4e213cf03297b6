"""Signals while Java starts: the run ends at once, in its own words, and leaves no Java."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from odfbuild.executors.engine.spark.jvm.java import find_java
from tests.support.process.inside import lay_out
from tests.support.process.terminals import terminal
from tests.support.projects import await_said, environment, program
from tests.support.projects.texts import GOOD, derivative, root


def javas(project: Path) -> list[int]:
    """Return the processes that have the folder of a project's JVM among their arguments."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if f"{project}/.odfbuild/cache/spark".encode() in each.read_bytes():
                found.append(int(each.parent.name))
    return found


def begun(project: Path, step: str) -> bool:
    """Tell whether the record of the run says that a step was begun."""
    found = (project / ".odfbuild/runs").glob("*/events.ndjson")
    return any(f'"step":"{step}"' in path.read_text() for path in found)


def java_that_starts_for_ever(folder: Path) -> Path:
    """Return a home of Java whose program is begun and never ready, however fast the machine is."""
    home = folder / "java"
    (home / "bin").mkdir(parents=True)
    shutil.copy(find_java().home / "release", home)
    program = home / "bin" / "java"
    program.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(600)\n")
    program.chmod(0o755)
    return home


@pytest.mark.spark
@pytest.mark.parametrize("times", [2, 3])
def test_signals_while_java_starts_break_the_step_off(tmp_path: Path, times: int) -> None:
    project = lay_out(tmp_path / "p", {"datasets/a.yaml": root("a"), "data/1.csv": GOOD})
    process = subprocess.Popen(
        [str(Path(sys.executable).parent / "odfbuild"), "apply", "--yes"],
        cwd=project,
        env={**environment(), "JAVA_HOME": str(java_that_starts_for_ever(tmp_path))},
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 60
    while not (javas(project) and begun(project, "ingest:a")) and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    said = await_said(process, "ends after the open slices")
    for _ in range(times - 1):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
    said += process.communicate(timeout=60)[1]
    assert process.returncode == 128 + signal.SIGTERM, said
    assert "Traceback" not in said
    assert "FAILED" not in said
    (record,) = (project / ".odfbuild/runs").iterdir()
    lines = map(json.loads, (record / "events.ndjson").read_text().splitlines())
    ends = {each["step"]: each["outcome"] for each in lines if "outcome" in each and "step" in each}
    assert ends == {"append:a": "done", "ingest:a": "interrupted"}
    while javas(project):
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("hangs", "times"), [(False, 2), (True, 3)], ids=["Java starts", "Java hangs"]
)
def test_an_interrupt_does_not_wait_for_what_spark_says_of_definitions(
    tmp_path: Path, times: int, *, hangs: bool
) -> None:
    project = lay_out(tmp_path / "p", {"datasets/src.yaml": root(), "data/1.csv": GOOD})
    applied = program("apply", "--yes", cwd=project)
    assert applied.code == 0, applied.err
    more_rows = derivative("more", query="select t, k, v + 1 as v from src")
    lay_out(project, {"datasets/more.yaml": more_rows})
    more = {"ODFBUILD_ENGINE": "off"}
    if not hangs:
        more["JAVA_HOME"] = str(java_that_starts_for_ever(tmp_path))
    words = [str(Path(sys.executable).parent / "odfbuild"), "apply", "--yes"]
    with terminal(words, project, environment(**more)) as shown:
        until = time.monotonic() + 60
        spark = project / ".odfbuild/cache/spark"
        while not (any(spark.glob("*/connection")) if hangs else javas(project)):
            assert time.monotonic() < until
            time.sleep(0.01)
        (java,) = javas(project)
        if hangs:
            os.kill(java, signal.SIGSTOP)
        shown.interrupt()
        shown.expect("ends after the open slices")
        began = time.monotonic()
        for _ in range(times - 1):
            shown.interrupt()
            time.sleep(0.5)
        assert shown.end() == 128 + signal.SIGINT, shown.said
        assert time.monotonic() - began < 20
    assert "Traceback" not in shown.text
    record = sorted((project / ".odfbuild/runs").iterdir())[-1]
    assert json.loads((record / "summary.json").read_text())["outcome"] == "stopped"
    lines = map(json.loads, (record / "events.ndjson").read_text().splitlines())
    assert {each.get("outcome") for each in lines if "step" in each} == {"not-begun"}
    while javas(project):
        assert time.monotonic() < until
        time.sleep(0.05)
