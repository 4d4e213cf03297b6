"""The folder of a workspace: names, heads, creating, staging."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from odfbuild.errors import StateError
from odfbuild.odf.events import AddData, DatasetKind, SetInfo
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import CorruptHeadError
from odfbuild.state.chain.objects import MissingObjectError
from odfbuild.state.files.lock import LockedError, locked, open_locked
from odfbuild.state.workspace import (
    AliasTakenError,
    CorruptNameError,
    MissingHeadError,
    UnusableNameError,
    Workspace,
)
from tests.support.data.chains import NOON, checkpoint_of, later
from tests.support.data.disks import verified

FOO, BAR = DatasetAlias.parse("foo"), DatasetAlias.parse("Acc.One/B-ar.X")
INFO = CommitRequest((SetInfo(description="x"),), NOON)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "work")


def make(workspace: Workspace, alias: DatasetAlias = FOO) -> Dataset:
    return workspace.create(alias, DatasetKind.ROOT, INFO)


def test_a_workspace_that_is_not_there_is_empty_and_stays_away(workspace: Workspace) -> None:
    assert workspace.names() == {}
    assert workspace.heads() == {}
    assert workspace.named_heads() == {}
    assert workspace.states() == {}
    assert workspace.open(FOO) is None
    assert workspace.open(DatasetId(b"\x01" * 32)) is None
    assert not workspace.root.exists()


def test_a_name_that_leads_nowhere_is_damage_and_not_a_name_that_is_taken(
    workspace: Workspace,
) -> None:
    made = make(workspace)
    path = workspace.root / "names" / "foo"
    path.write_text(path.read_text().replace(str(made.id), str(DatasetId(b"\x01" * 32))))
    with pytest.raises(MissingHeadError, match="foo"):
        make(workspace)


def test_states_of_many_are_those_of_their_heads_whatever_the_index_says(
    workspace: Workspace,
) -> None:
    made = make(workspace)
    right = workspace.states()[FOO]
    assert right.info is not None
    workspace.index.put(replace(right, info=None, sequence=7))
    assert workspace.states() == {FOO: right}
    assert Workspace(workspace.root).states() == {FOO: right}
    assert made.state() == right


def test_a_new_dataset_is_found_by_name_and_by_id(workspace: Workspace) -> None:
    made = make(workspace, BAR)
    for ref in (BAR, DatasetAlias.parse("acc.one/b-AR.x"), made.id):
        found = Workspace(workspace.root).open(ref)
        assert found is not None
        assert found.id == made.id
        assert verified(found).info == SetInfo(description="x")
    assert workspace.names() == {BAR: made.id}
    assert [str(alias) for alias in workspace.names()] == ["Acc.One/B-ar.X"]
    assert workspace.heads() == {made.id: made.head()}
    assert workspace.named_heads() == {BAR: made.head()}
    assert workspace.states() == {BAR: made.state()}
    assert workspace.keys.has(made.id)


def test_the_layout_is_the_documented_one(workspace: Workspace) -> None:
    made = make(workspace, BAR)
    folder = workspace.root / "datasets" / made.id.multibase
    assert {each.name for each in folder.iterdir()} == {"refs", "blocks", "data", "checkpoints"}
    assert made.id.multibase.startswith("fed01")
    name = workspace.root / "names" / "acc.one%2Fb-ar.x"
    assert name.read_text() == f"{made.id}\nAcc.One/B-ar.X\n"
    assert {each.name for each in (folder / "blocks").iterdir()} == {
        str(hash) for hash, _ in made.blocks()
    }


def test_a_given_id_is_used_and_gets_no_key(workspace: Workspace) -> None:
    id = DatasetId(b"\x05" * 32)
    made = workspace.create(FOO, DatasetKind.DERIVATIVE, CommitRequest((), NOON), id=id)
    assert verified(made).dataset == id
    assert verified(made).kind is DatasetKind.DERIVATIVE
    assert not workspace.keys.has(id)


def test_a_taken_name_is_refused_in_any_spelling(workspace: Workspace) -> None:
    made = make(workspace)
    with pytest.raises(AliasTakenError, match=str(made.id)):
        make(workspace, DatasetAlias.parse("FOO"))
    assert workspace.names() == {FOO: made.id}
    assert len(workspace.heads()) == 1


def test_a_name_that_is_taken_while_creating_is_not_overwritten(workspace: Workspace) -> None:
    made = make(workspace)
    nameless = workspace.make_room(DatasetId(b"\x05" * 32))
    with pytest.raises(AliasTakenError):
        workspace.name(FOO, nameless.id)
    assert workspace.names() == {FOO: made.id}
    assert [each.name for each in (workspace.root / "names").iterdir()] == ["foo"]


@pytest.mark.parametrize(
    "alias",
    [
        DatasetAlias(None, ".."),
        DatasetAlias("..", "x"),
        DatasetAlias(None, "../../etc/passwd"),
        DatasetAlias(None, "a%2Fb"),
        DatasetAlias(None, "a\x00b"),
        DatasetAlias(None, "a\n"),
        DatasetAlias(None, ""),
        DatasetAlias("a/b", "c"),
        DatasetAlias(None, "x" * 300),
    ],
    ids=repr,
)
def test_a_name_that_could_leave_the_folder_is_refused(
    alias: DatasetAlias, workspace: Workspace
) -> None:
    with pytest.raises(UnusableNameError):
        make(workspace, alias)
    with pytest.raises(UnusableNameError):
        workspace.open(alias)
    assert not workspace.root.exists()


@pytest.mark.parametrize(
    "text",
    [b"", b"foo", b"did:odf:fed01\nfoo\n", b"{id}\nbar\n", b"{id}\nfoo", b"{id}\nfoo\n\n", b"\xff"],
)
def test_a_damaged_name_is_an_error_and_no_missing_dataset(
    text: bytes, workspace: Workspace
) -> None:
    made = make(workspace)
    text = text.replace(b"{id}", str(made.id).encode())
    (workspace.root / "names" / "foo").write_bytes(text)
    with pytest.raises(CorruptNameError, match="is damaged"):
        workspace.open(FOO)
    assert FOO not in workspace.names()
    assert isinstance(workspace.damage()[FOO], CorruptNameError)


def test_a_damaged_head_is_an_error_and_no_missing_dataset(workspace: Workspace) -> None:
    made = make(workspace)
    head = workspace.root / "datasets" / made.id.multibase / "refs" / "head"
    head.write_bytes(b"f1620")
    assert workspace.heads() == {}
    assert isinstance(workspace.damage()[FOO], CorruptHeadError)
    with pytest.raises(CorruptHeadError):
        workspace.open(FOO)


def test_what_is_no_dataset_is_not_counted_as_one(workspace: Workspace) -> None:
    made = make(workspace)
    workspace.make_room(DatasetId(b"\x05" * 32))  # an interrupted creation: no head
    for name in ("README", "fed01", "FED01" + "0" * 64, "fed01" + "g" * 64):
        (workspace.root / "datasets" / name / "refs").mkdir(parents=True)
        (workspace.root / "datasets" / name / "refs" / "head").write_text("f1620")
    (workspace.root / "datasets" / ("fed01" + "1" * 64)).write_text("a file")
    assert workspace.heads() == {made.id: made.head()}


def test_a_dataset_without_a_name_is_not_among_the_states(workspace: Workspace) -> None:
    make(workspace)
    made = make(workspace, BAR)
    (workspace.root / "names" / "acc.one%2Fb-ar.x").unlink()
    assert set(workspace.states()) == set(workspace.named_heads()) == {FOO}
    assert made.id in workspace.heads()


def test_a_name_without_a_dataset_is_not_among_the_states(workspace: Workspace) -> None:
    make(workspace)
    made = make(workspace, BAR)
    shutil.rmtree(workspace.root / "datasets" / made.id.multibase)
    assert set(workspace.states()) == set(workspace.named_heads()) == {FOO}
    assert workspace.open(BAR) is None


def test_states_are_right_with_a_fresh_a_stale_and_no_index(workspace: Workspace) -> None:
    made = {make(workspace), make(workspace, BAR)}
    expected = {each.id: verified(each) for each in made}
    assert {state.dataset: state for state in workspace.states().values()} == expected
    workspace.index.close()
    one = Workspace(workspace.root).open(FOO)
    assert one is not None
    one.commit(CommitRequest((SetInfo(description="new"),), later(1)), on=one.state())
    assert workspace.states()[FOO].info == SetInfo(description="new")
    workspace.index.close()
    for file in workspace.root.glob("index.sqlite*"):
        file.unlink()
    states = Workspace(workspace.root).states()
    assert states == {FOO: verified(one), BAR: expected[workspace.names()[BAR]]}


def test_a_refused_creation_leaves_no_name(workspace: Workspace) -> None:
    missing = CommitRequest((AddData(new_checkpoint=checkpoint_of("x")),), NOON)
    with pytest.raises(MissingObjectError):
        workspace.create(FOO, DatasetKind.ROOT, missing)
    assert workspace.names() == {}
    assert workspace.heads() == {}
    assert workspace.named_heads() == {}
    make(workspace)
    assert list(workspace.names()) == [FOO]


def test_a_locked_dataset_cannot_be_committed_to(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, lock_timeout=0)
    made = make(workspace)
    other = Workspace(tmp_path).dataset(made.id)
    with other.stores.heads.lock(), pytest.raises(LockedError) as caught:
        made.commit(INFO, on=made.state())
    assert caught.value.holder is not None
    assert caught.value.holder.pid == os.getpid()
    made.commit(INFO, on=made.state())


# staging


def test_a_staging_folder_is_there_while_it_is_used(workspace: Workspace) -> None:
    with workspace.staging() as one, workspace.staging() as other:
        assert one != other
        assert one.is_dir()
        (one / "file").write_text("x")
    assert list((workspace.root / "staging").iterdir()) == []


def test_a_folder_that_its_own_step_deletes_during_the_sweep_is_no_error(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    going = workspace.root / "staging" / "going"
    going.mkdir(parents=True)

    def too_late(folder: Path) -> int | None:
        if folder == going:
            going.rmdir()
        return open_locked(folder)

    monkeypatch.setattr("odfbuild.state.workspace.open_locked", too_late)
    with workspace.staging() as folder:
        assert folder.is_dir()


def test_a_staging_folder_goes_when_its_step_fails(workspace: Workspace) -> None:
    with pytest.raises(StateError), workspace.staging():
        raise StateError("x", "y", "z")
    assert list((workspace.root / "staging").iterdir()) == []


def test_what_a_killed_process_staged_is_swept_but_not_what_a_living_one_does(
    workspace: Workspace,
) -> None:
    command = [sys.executable, "-m", "tests.state.test_workspace", str(workspace.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as staging:
        assert staging.stdout is not None
        theirs = Path(staging.stdout.readline().strip())
        (workspace.root / "staging" / "file").write_text("not ours")
        with Workspace(workspace.root).staging() as mine:
            assert theirs.is_dir()
            staging.send_signal(signal.SIGKILL)
            staging.wait()
            with workspace.staging():
                assert not theirs.exists()
                assert mine.is_dir()


def test_staging_waits_for_who_is_sweeping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odfbuild.state.workspace._SWEEPING", 0.1)
    workspace = Workspace(tmp_path, lock_timeout=0)
    (tmp_path / "staging").mkdir()
    with (
        locked(tmp_path / "staging", timeout=0),
        pytest.raises(LockedError),
        workspace.staging(),
    ):
        pass


def test_naming_waits_for_another_step_whatever_the_lock_timeout(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, lock_timeout=0)
    made = make(workspace)
    with locked(tmp_path / "names", timeout=0):
        moving = threading.Thread(target=workspace.rename, args=(FOO, BAR))
        moving.start()
        time.sleep(0.05)
        assert moving.is_alive()
    moving.join(30)
    assert workspace.names() == {BAR: made.id}


def test_the_cache_folder_is_made_when_asked_for(workspace: Workspace) -> None:
    assert workspace.cache.is_dir()
    assert workspace.cache == workspace.root / "cache"


if __name__ == "__main__":
    with Workspace(Path(sys.argv[1])).staging() as folder:
        print(folder, flush=True)
        time.sleep(600)
