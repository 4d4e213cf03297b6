"""A resident engine that cannot start: a command says why, starts its own, and leaves nothing."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from odfbuild.executors.engine.spark.jvm.log_folder import CRASH, LOG
from tests.executors.engine.spark.jvm.test_residence import (
    LEFT,
    at_rest,
    at_terminal,
    command,
    status,
)
from tests.support.process.inside import lay_out
from tests.support.projects.texts import GOOD, root

pytestmark = pytest.mark.spark


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """Give a project whose resident engine, if there is any, ends with the test."""
    folder = lay_out(tmp_path / "project", {"datasets/a.yaml": root("a"), "data/1.csv": GOOD})
    yield folder
    assert command(folder, "engine", "stop", "--now").code == 0
    await_true(lambda: not processes_in(folder))


def processes_in(folder: Path) -> dict[int, str]:
    """Return the processes that work in a folder or below, with their names."""
    found = {}
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if each.joinpath("cwd").readlink().is_relative_to(folder):
                found[int(each.name)] = each.joinpath("comm").read_text().strip()
    return found


def await_true(is_so: Callable[[], object], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def java_of_the_start(project: Path) -> int | None:
    """Return the Java of a resident engine, which works in a folder of its own."""
    place = project / ".odfbuild/cache/engine/jvm"
    return next((pid for pid, name in processes_in(place).items() if name == "java"), None)


def nothing_is_left(project: Path) -> None:
    """Check that no process works in the project any more, and no engine has files but logs."""
    await_true(lambda: not processes_in(project))
    cache = project / ".odfbuild/cache"
    assert {each.name for each in (cache / "engine/jvm").glob("*")} <= {LOG, CRASH}
    assert not (cache / "engine/engine.json").exists()
    assert not list((cache / "spark").glob("*"))
    assert status(project)["state"] == "none"


@pytest.mark.parametrize("waits_for", ["nothing", "connection"])
def test_a_java_that_is_killed_while_it_starts_is_done_without(
    waits_for: str, project: Path
) -> None:
    with ExitStack() as stack:
        begun = at_terminal(stack, project, "apply", "--yes")
        await_true(lambda: java_of_the_start(project))
        if waits_for == "connection":
            await_true((project / ".odfbuild/cache/engine/jvm/connection").exists)
        java = java_of_the_start(project)
        assert java is not None
        os.kill(java, signal.SIGKILL)
        assert begun.end() == 0, begun.said
    said = " ".join(begun.said.split())
    assert "the resident engine is not used: it did not start: " in said
    assert "this command starts its own engine" in said
    assert "Traceback" not in said
    nothing_is_left(project)


def homes(home: Path) -> dict[str, str]:
    """Return what makes a folder the home of a user, with everything that is kept there."""
    return {"HOME": str(home), **dict.fromkeys(("XDG_CACHE_HOME", "XDG_CONFIG_HOME"), ""),
            "XDG_STATE_HOME": "", "ODFBUILD_CLASS_ARCHIVE": "auto"}  # fmt: skip


def test_a_home_that_cannot_be_written_hinders_nothing(project: Path) -> None:
    with ExitStack() as stack:
        begun = at_terminal(stack, project, "apply", "--yes", **homes(Path("/proc")))
        assert begun.end() == 0, begun.said
    assert "Traceback" not in begun.said
    assert LEFT in " ".join(begun.said.split())
    at_rest(project)
    assert command(project, "engine", "stop", **homes(Path("/proc"))).code == 0
    nothing_is_left(project)


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """Have a folder on a disk of one megabyte, of which nothing is free."""
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if mount is None or umount is None or os.geteuid() != 0:
        pytest.skip("only root can mount a disk")
    folder.mkdir(parents=True)
    subprocess.run([mount, "-t", "tmpfs", "-o", "size=1m", "none", folder], check=True)
    try:
        with suppress(OSError), (folder / "filler").open("wb", buffering=0) as filler:
            while filler.write(bytes(4096)):
                pass
        yield
        await_true(lambda: not processes_in(folder))
    finally:
        subprocess.run([umount, "--lazy", folder], check=True)


def test_a_home_on_a_full_disk_hinders_nothing(project: Path, tmp_path: Path) -> None:
    home = tmp_path / "small"
    with full_disk(home):
        with ExitStack() as stack:
            begun = at_terminal(stack, project, "apply", "--yes", **homes(home))
            assert begun.end() == 0, begun.said
        said = " ".join(begun.said.split())
        assert "Traceback" not in said
        assert LEFT in said
        at_rest(project)
        assert command(project, "engine", "stop", **homes(home)).code == 0
        nothing_is_left(project)
