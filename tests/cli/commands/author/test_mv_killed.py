"""A killed `mv` is finished by the same command; until then nothing is built under either name."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from odfbuild.cli import files
from odfbuild.state.files.disk import Disk
from tests.support.process.inside import Inside, heads, lay_out
from tests.support.projects import Done
from tests.support.projects.market import FILES, workspace

SETTINGS = FILES["odfbuild.yaml"] + (
    "moved:\n  - {from: raw, to: rare}\naccept: [{code: ODF201, dataset: src, until: 2031-01-01}]\n"
)
READER = FILES["datasets/out.yaml"].replace("alias: src", "alias: src  # as in the query")


class Killed(BaseException):
    """The process is gone: nothing that it would do from here on is done."""


class DyingDisk(Disk):
    """A disk of a process that is killed before it replaces the n-th file."""

    left = 0

    def _call(self) -> None:
        type(self).left -= 1
        if type(self).left < 0:
            raise Killed

    def rename(self, old: Path, new: Path) -> None:
        self._call()
        super().rename(old, new)


def names(project: Path) -> dict[str, str]:
    return {str(alias): id.multibase for alias, id in workspace(project).names().items()}


def killed(ask: Inside, at: int, *command: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run mv until its n-th call of the disk; say whether it came to its end."""
    with monkeypatch.context() as patch:
        patch.setattr(files, "Disk", DyingDisk)
        DyingDisk.left = at
        try:
            assert ask(*command).code == 0
        except Killed:
            return False
    return True


def applied(ask: Inside) -> None:
    assert ask("apply", "--yes").code == 0


def moved_and_applied(ask: Inside) -> None:
    assert ask("mv", "src", "base").code == 0
    applied(ask)


def moved_after_apply(ask: Inside) -> None:
    applied(ask)
    assert ask("mv", "src", "base").code == 0


def moved_twice(ask: Inside) -> None:
    moved_after_apply(ask)
    assert ask("mv", "base", "ground").code == 0


CASES: dict[str, tuple[Callable[[Inside], None], str, str]] = {
    "new project": (lambda _: None, "src", "base"),
    "built": (applied, "src", "base"),
    "back, never applied": (moved_after_apply, "base", "src"),
    "back, applied": (moved_and_applied, "base", "src"),
    "on": (moved_after_apply, "base", "ground"),
    "back two moves": (moved_twice, "ground", "src"),
}


@pytest.mark.parametrize("case", CASES)
def test_killed_at_any_call_no_dataset_is_begun_anew(
    case: str, tmp_path: Path, ask: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, old, new = CASES[case]
    start = lay_out(
        tmp_path / "start",
        {**FILES, "odfbuild.yaml": SETTINGS, "datasets/out.yaml": READER},
    )
    ask.project = start
    begin(ask)
    ids = {head.partition(":")[0] for head in heads(start)}
    whole, at = False, 0
    while not whole:
        project = shutil.copytree(start, tmp_path / f"killed-{at}")
        ask.project = project
        whole = killed(ask, at, "mv", old, new, monkeypatch=monkeypatch)
        at += 1
        fresh = not ids
        said = ask("apply", "--yes")  # what anybody would try
        if said.code == 0:
            assert fresh or set(heads(project)) == ids
        else:
            assert "error[moved]" in said.err or "error[unknown-input]" in said.err
            assert f"odfbuild mv {old} {new}" in said.err or fresh
            assert fresh or set(heads(project)) == ids
        assert finished(ask, old, new).code == 0
        applied(ask)
        after = names(project)
        assert new in after
        assert old not in after
        assert len(after) == 4
        assert fresh or set(heads(project)) == ids
        assert "No changes." in ask("plan").out
    assert at > 3  # three files were replaced


def finished(ask: Inside, old: str, new: str) -> Done:
    """Give the same command again."""
    return ask("mv", old, new)


@pytest.mark.parametrize("failing", range(3))
def test_a_disk_that_fails_for_good_leaves_what_the_same_command_ends(
    failing: int, market: Path, ask: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FailingDisk(DyingDisk):
        def _call(self) -> None:
            FailingDisk.left -= 1
            if FailingDisk.left < 0:
                raise OSError(28, "No space left on device")

    before = set(heads(market))
    with monkeypatch.context() as patch:
        patch.setattr(files, "Disk", FailingDisk)
        FailingDisk.left = failing
        assert ask("mv", "src", "base").code == 1
    said = ask("apply", "--yes")
    assert said.code == 0 or "odfbuild mv src base" in said.err
    assert set(heads(market)) == before
    assert ask("mv", "src", "base").code == 0
    applied(ask)
    assert set(heads(market)) == before
    assert "base" in names(market)


def test_a_process_that_is_killed_leaves_the_same(
    market: Path, ask: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(heads(market))
    child = os.fork()
    if child == 0:  # it kills itself after the first of three files
        monkeypatch.setattr(Disk, "sync", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        ask("mv", "src", "base")
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    said = ask("apply", "--yes")
    assert (said.code, "fix: finish it: odfbuild mv src base" in said.err) == (1, True)
    assert ask("mv", "src", "base").code == 0
    applied(ask)
    assert set(heads(market)) == before
