"""What a killed Java leaves: its logs, once another one starts, and never less of a living one."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from odfbuild.executors.engine.spark.jvm.java import find_java
from odfbuild.executors.engine.spark.jvm.log_folder import clear_left, opened_log
from tests.executors.engine.spark.jvm.test_signals import javas
from tests.support.process.inside import lay_out
from tests.support.projects import environment, program
from tests.support.projects.texts import GOOD, root

FULL = {"blockmgr", "jvm.log", "machine", "spark.properties"}


def java_home(folder: Path, then: str) -> str:
    """Return a home of Java whose program writes files, and then does something."""
    home = folder / f"java-{len(list(folder.iterdir()))}"
    (home / "bin").mkdir(parents=True)
    shutil.copy(find_java().home / "release", home)
    java = home / "bin" / "java"
    java.write_text(
        f"#!{sys.executable}\nimport os, sys, time\n"
        "os.mkdir('blockmgr')\nopen('blockmgr/rows', 'w').close()\n"
        f"open('spark.properties', 'w').close()\n{then}\n"
    )
    java.chmod(0o755)
    return str(home)


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def test_what_a_killed_java_left_is_removed_but_its_log_and_that_of_a_living_one_is_kept(
    tmp_path: Path,
) -> None:
    project = lay_out(tmp_path / "p", {"datasets/a.yaml": root("a"), "data/1.csv": GOOD})
    lay_out(project, {"odfbuild.yaml": "odfbuild: 1\nengine: {ingest: spark}\n"})
    spark, more = project / ".odfbuild/cache/spark", {"ODFBUILD_ENGINE": "off"}
    process = subprocess.Popen(
        [str(Path(sys.executable).parent / "odfbuild"), "apply", "--yes"],
        cwd=project,
        env=environment(**more, JAVA_HOME=java_home(tmp_path, "time.sleep(600)")),
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    until = time.monotonic() + 60
    while not any(names(each) >= FULL for each in spark.glob("*")):
        assert time.monotonic() < until
        time.sleep(0.05)
    (first,) = spark.iterdir()
    process.kill()
    process.wait()
    more["JAVA_HOME"] = java_home(tmp_path, "sys.exit('no')")
    (java,) = javas(project)
    failed = program("apply", "--yes", cwd=project, **more)
    assert (failed.code, "Java ended with code 1 while starting" in failed.err) == (4, True)
    assert names(first) == FULL
    second = next(each for each in spark.iterdir() if each != first)
    assert names(second) == {"jvm.log"}
    os.kill(java, signal.SIGKILL)
    while javas(project):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert program("apply", "--yes", cwd=project, **more).code != 0
    assert names(first) == {"jvm.log"}


def test_folders_of_other_machines_and_of_nobody_are_left(tmp_path: Path) -> None:
    for name in ("1-0123abcd", "2-0123abcd", "other"):
        folder = tmp_path / "spark" / name
        folder.mkdir(parents=True)
        with opened_log(folder):
            (folder / "rows").touch()
    (tmp_path / "spark/1-0123abcd/machine").write_text("another")
    clear_left(tmp_path)
    assert names(tmp_path / "spark/1-0123abcd") == {"jvm.log", "machine", "rows"}
    assert names(tmp_path / "spark/2-0123abcd") == {"jvm.log"}
    assert names(tmp_path / "spark/other") == {"jvm.log", "machine", "rows"}
    clear_left(tmp_path / "none")
