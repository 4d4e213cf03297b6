"""A creation that was cut off is cleared away whole, with its key; nothing else is."""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from odfbuild.errors import OdfBuildError
from odfbuild.odf.events import DatasetKind, SetInfo
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.files.disk import Disk
from odfbuild.state.gc import Kind, Leftover, find_leftovers, remove_leftover
from odfbuild.state.workspace import Workspace
from tests.support.data.chains import NOON
from tests.support.data.disks import Crash, StoppingDisk

FOO = DatasetAlias.parse("foo")
PREPARED = CommitRequest((SetInfo(description="x"),), NOON)


def cleared(root: Path) -> list[Kind]:
    """Clear what was left by now; return what it was."""
    now = time.time()
    found = find_leftovers(root, Workspace(root).names().values(), before=now)
    return [each.kind for each in found if remove_leftover(root, each, before=now)]


def files(root: Path) -> list[str]:
    parts = ("names", "keys", "datasets")
    return [str(each) for part in parts for each in (root / part).rglob("*")]


@pytest.mark.parametrize("n", range(28))
def test_nothing_is_left_of_a_creation_that_was_cut_off(n: int, tmp_path: Path) -> None:
    with suppress(Crash):
        Workspace(tmp_path, disk=StoppingDisk(n)).create(FOO, DatasetKind.ROOT, PREPARED)
    cleared(tmp_path)
    workspace = Workspace(tmp_path)
    if not workspace.names():
        assert files(tmp_path) == []
        workspace.create(FOO, DatasetKind.ROOT, PREPARED)
    found = workspace.open(FOO)
    assert found is not None
    assert workspace.keys.has(found.id)
    assert cleared(tmp_path) == []
    assert len(workspace.keys.kept()) == len(workspace.heads()) == 1


def test_what_has_a_head_is_kept_while_a_name_cannot_be_read(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    made = workspace.create(FOO, DatasetKind.ROOT, PREPARED)
    (tmp_path / "names" / "foo").write_text("nonsense")
    assert cleared(tmp_path) == []
    assert workspace.dataset(made.id).head() is not None


def test_a_key_without_a_dataset_is_kept(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    imported = workspace.keys.new_dataset_key()
    assert cleared(tmp_path) == []
    assert workspace.keys.has(imported)


def test_what_is_a_dataset_by_now_is_kept(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    made = workspace.create(FOO, DatasetKind.ROOT, PREPARED)
    place = tmp_path / "datasets" / made.id.multibase
    before = files(tmp_path)
    assert not remove_leftover(tmp_path, Leftover(Kind.CREATION, place, 1), before=math.inf)
    near = tmp_path / "names" / ".pending-0123456789abcdef"
    near.write_text("half")
    young = Leftover(Kind.UNFINISHED, near, 4)
    assert not remove_leftover(tmp_path, young, before=near.lstat().st_mtime - 10)
    near.unlink()
    assert files(tmp_path) == before


class _Meeting(Disk):
    """Lets something happen before its n-th step."""

    def __init__(self, at: int, then: Callable[[], object]) -> None:
        self._left, self._then = at, then

    def write(self, path: Path, data: bytes, mode: int = 0o666) -> None:
        self._step()
        super().write(path, data, mode)
        self._step()

    def sync(self, path: Path) -> None:
        self._step()
        super().sync(path)

    def rename(self, old: Path, new: Path) -> None:
        self._step()
        super().rename(old, new)

    def link(self, old: Path, new: Path) -> None:
        self._step()
        super().link(old, new)

    def _step(self) -> None:
        self._left -= 1
        if self._left == -1:
            self._then()


@pytest.mark.parametrize("n", range(36))
def test_what_is_being_made_is_made_or_refused_while_all_is_cleared(n: int, tmp_path: Path) -> None:
    disk = _Meeting(n, lambda: cleared(tmp_path))
    with suppress(OdfBuildError):  # and no OSError
        Workspace(tmp_path, disk=disk).create(FOO, DatasetKind.ROOT, PREPARED)
    workspace = Workspace(tmp_path)
    assert {*workspace.names().values()} == {*workspace.heads()}
    cleared(tmp_path)
    assert {*workspace.names().values()} == {*workspace.heads()}
    assert {each.dataset for each in workspace.keys.kept()} == {*workspace.heads()}


@pytest.mark.parametrize("n", range(8))
def test_a_name_is_changed_while_all_is_cleared(n: int, tmp_path: Path) -> None:
    made = Workspace(tmp_path).create(FOO, DatasetKind.ROOT, PREPARED)
    bar = DatasetAlias.parse("bar")
    Workspace(tmp_path, disk=_Meeting(n, lambda: cleared(tmp_path))).rename(FOO, bar)
    assert Workspace(tmp_path).names() == {bar: made.id}
