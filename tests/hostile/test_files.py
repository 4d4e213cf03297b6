"""Files of a project that are none: FIFOs, devices, sockets, and files without end."""

import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hostile.test_looked_at import GENERATED, SETTINGS, WHOLE
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.process.within import Within

FILES = {
    **WHOLE,
    "odfbuild.yaml": SETTINGS + "packages: [{path: shared}]\nmacros: {python: true}\n" + GENERATED,
    "odfbuild.lock": "odfbuild: 1\n",
    "profiles.yaml": "targets: {}\n",
    "macros/p.py": "def f(): return 'x'\n",
    "tests/unit/reader.yaml": "dataset: reader\nbatches:\n  - inputs: {plain: {file: rows.csv}}\n"
    + "    adds: [{day: 2031-01-01}]\n",
    "tests/unit/rows.csv": "day,price\n2031-01-01,1\n",
    "tests/data/plain.yaml": "dataset: plain\nchecks: [{not_null: [day]}]\n",
    "known.yaml": "[]\n",
}
NO_FILES = {
    "odfbuild.yaml": (("plan",), ("mv", "plain", "other"), ("accept", "ODF201", "plain")),
    "odfbuild.lock": (("plan",), ("lock",)),
    "profiles.yaml": (("plan",),),
    "datasets/plain.yaml": (("plan",), ("fmt",), ("mv", "plain", "other")),
    "rows.csv": (("plan",), ("render",)),
    "shared/macros/m.j2": (("plan",),),
    "tests/unit/reader.yaml": (("test",), ("mv", "plain", "other")),
    "tests/unit/rows.csv": (("test",),),
    "tests/data/plain.yaml": (("test",), ("mv", "plain", "other")),
    "known.yaml": (("drift", "--ignore-file", "known.yaml"),),
    "data/one.csv": (("plan",), ("status",)),
}


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def terminal(path: Path) -> None:
    path.symlink_to("/dev/tty")


def endless(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 42)


def unix_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    def give_up(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    project = lay_out(tmp_path / "project", FILES)
    monkeypatch.chdir(project)
    return Inside(project, capsys, monkeypatch, FakeEngine())


def test_the_project_is_well_with_all_its_files(ours: Inside) -> None:
    assert ours("check").code == 0
    assert ours("apply", "--yes").code == 0
    assert ours("test").code == 0


@pytest.mark.holds("project-no-file")
@pytest.mark.parametrize("kind", [fifo, endless], ids=lambda it: it.__name__)
@pytest.mark.parametrize("name", FILES)
def test_no_command_waits_for_what_is_no_file(
    name: str, kind: Callable[[Path], None], ours: Inside
) -> None:
    (ours.project / name).unlink()
    kind(ours.project / name)
    for command in (("check",), *NO_FILES.get(name, ())):
        done = ours(*command)
        assert "error[internal]" not in done.err, (command, done.err)
        assert len(done.out) + len(done.err) < 100_000
        if command == ("test",):
            assert done.code == 1
            assert re.search(r"\[(unreadable-file|too-large|no-file)\]", done.out + done.err)


@pytest.mark.holds("project-no-file")
@pytest.mark.parametrize("kind", [device, terminal, unix_socket], ids=lambda it: it.__name__)
@pytest.mark.parametrize("name", ["odfbuild.yaml", "datasets/plain.yaml", "tests/unit/rows.csv"])
def test_devices_and_sockets_are_no_files_either(
    name: str, kind: Callable[[Path], None], ours: Inside
) -> None:
    (ours.project / name).unlink()
    kind(ours.project / name)
    done = ours("test")
    assert done.code == 1
    assert "error[internal]" not in done.err


@pytest.mark.holds("project-no-file")
@pytest.mark.parametrize("name", ["odfbuild.yaml", "datasets/plain.yaml"])
def test_names_are_completed_without_waiting(
    name: str, ours: Inside, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (ours.project / name).unlink()
    fifo(ours.project / name)
    done = Within(ours.project, capsys, monkeypatch)(
        _ODFBUILD_COMPLETE="complete_bash", COMP_WORDS="odfbuild status p", COMP_CWORD="2"
    )
    assert (done.out.strip(), done.err) == ("", "")
