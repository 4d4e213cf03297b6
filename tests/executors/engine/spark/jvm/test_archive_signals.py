"""Signals while a class archive is built that is waited for: no Java is left, and no folder."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from odfbuild.executors.engine.spark.jvm.java import find_java
from tests.support.process.inside import lay_out
from tests.support.projects import environment
from tests.support.projects.texts import GOOD, root

_SLEEPS = """#!{python}
import sys, time
if {dumped} and "-Xshare:dump" in sys.argv:
    sys.exit()
time.sleep(600)
"""


def processes_of(folder: Path) -> list[int]:
    """Return the processes that have a folder among their arguments."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(folder).encode() in each.read_bytes():
                found.append(int(each.parent.name))
    return found


@pytest.fixture
def classes(tmp_path: Path) -> Iterator[Path]:
    """Return the folder of archives; whoever has it among its arguments ends with the test."""
    folder = tmp_path / "cache" / "odfbuild" / "classes"
    yield folder
    for each in processes_of(folder):
        os.kill(each, signal.SIGKILL)


def java_without_end(folder: Path, *, dumped: bool) -> Path:
    """Return a home of Java whose program never ends; with `dumped` it begins the training run."""
    home = folder / "java"
    (home / "bin").mkdir(parents=True)
    shutil.copy(find_java().home / "release", home)
    program = home / "bin" / "java"
    program.write_text(_SLEEPS.format(python=sys.executable, dumped=dumped))
    program.chmod(0o755)
    return home


def await_true(until: float, is_so: Callable[[], object]) -> None:
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.spark
@pytest.mark.parametrize("dumped", [False, True], ids=["base", "training"])
@pytest.mark.parametrize(
    "numbers",
    [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGINT), (signal.SIGKILL,)],
    ids=["SIGTERM", "SIGINT", "SIGKILL"],
)
def test_signals_while_an_archive_is_built_leave_nothing(
    tmp_path: Path, classes: Path, numbers: tuple[signal.Signals, ...], *, dumped: bool
) -> None:
    project = lay_out(tmp_path / "p", {"datasets/a.yaml": root("a"), "data/1.csv": GOOD})
    process = subprocess.Popen(
        [str(Path(sys.executable).parent / "odfbuild"), "apply", "--yes"],
        cwd=project,
        env={
            **environment(ODFBUILD_CLASS_ARCHIVE="build", ODFBUILD_ENGINE="off"),
            "JAVA_HOME": str(java_without_end(tmp_path, dumped=dumped)),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 120
    await_true(until, lambda: processes_of(classes))
    assert list(classes.glob("odfbuild-*"))
    for number in numbers:
        process.send_signal(number)
        time.sleep(0.2)
    said = process.communicate(timeout=60)[1]
    killed = numbers == (signal.SIGKILL,)
    assert process.returncode == (-numbers[0] if killed else 128 + numbers[0]), said
    assert "Traceback" not in said
    await_true(time.monotonic() + 20, lambda: not processes_of(classes))
    await_true(time.monotonic() + 20, lambda: not list(classes.glob("odfbuild-*")))
