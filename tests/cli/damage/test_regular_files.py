"""What is no regular file is refused at once, wherever a workspace or a project has it."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odfbuild.host.files import open_regular
from odfbuild.state.chain.objects import hash_file
from odfbuild.state.files.disk import read_file
from tests.cli.commands.check.test_verify import dataset
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside

_SECONDS = 20


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    def give_up(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("read", [open_regular, read_file, hash_file])
def test_pipes_and_devices_are_refused(read: Callable[[Path], object], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(OSError, match="is not a regular file"):
            read(path)


@pytest.mark.parametrize(
    "place", ["block", "slice", "head", "ref", "name", "checked", "seen", "yaml", "project"]
)
def test_no_command_waits_for_a_pipe(
    place: str,
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask = Inside(project, capsys, monkeypatch, FakeEngine())
    if place == "seen":
        assert ask("verify", "src").code == 0
    src = dataset(project, "src")
    folder, state = src.slices()[0][1].parents[1], project / ".odfbuild"
    path = {
        "block": folder / "blocks" / str(src.head()),
        "slice": src.slices()[0][1],
        "head": folder / "refs/head",
        "ref": folder / "refs/other",
        "name": state / "names/src",
        "checked": state / "cache/checked" / src.id.multibase,
        "seen": Path(os.environ["XDG_STATE_HOME"]) / "odfbuild/heads" / src.id.multibase,
        "yaml": next(project.rglob("src*.yaml"), project / "odfbuild.yaml"),
        "project": project / "odfbuild.yaml",
    }[place]
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    shutil.rmtree(state / "index.sqlite", ignore_errors=True)
    for command in (("plan",), ("verify", "src"), ("ref", "list", "src")):
        done = ask(*command)
        assert done.code != 70, (command, done)
        assert "error[internal]" not in done.err, (command, done)
