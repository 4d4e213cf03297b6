"""Heads and the lock that guards them."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from odfbuild.errors import StateError
from odfbuild.odf.identity import sha3_256
from odfbuild.state.chain.heads import (
    CorruptHeadError,
    HeadMovedError,
    HeadStore,
    LocalHeads,
    MemoryHeads,
)
from odfbuild.state.files.lock import LockedError, locked, open_locked
from odfbuild.state.remote.client import ObjectClient
from odfbuild.state.remote.heads import BucketHeads, HeadTags
from tests.state.conftest import SERVERS
from tests.support.servers.memory_store import MemoryClient

ONE, TWO = sha3_256(b"1"), sha3_256(b"2")
MAKERS: dict[str, Callable[[Path], HeadStore]] = {
    "local": LocalHeads,
    "memory": lambda _: MemoryHeads(),
    "bucket": lambda _: BucketHeads(MemoryClient(), "dataset/", HeadTags()),
}


@pytest.fixture(params=[*MAKERS, *SERVERS])
def heads(
    request: pytest.FixtureRequest, tmp_path: Path, client_of: Callable[[str], ObjectClient]
) -> HeadStore:
    if request.param in SERVERS:
        return BucketHeads(client_of(request.param), "dataset/", HeadTags())
    return MAKERS[request.param](tmp_path / "dataset")


def test_a_head_is_swapped_only_for_the_expected_one(heads: HeadStore) -> None:
    assert heads.read() is None
    with pytest.raises(HeadMovedError):
        heads.swap("head", expected=ONE, new=TWO)
    assert heads.read() is None
    heads.swap("head", expected=None, new=ONE)
    for wrong in (None, TWO):
        with pytest.raises(HeadMovedError) as caught:
            heads.swap("head", expected=wrong, new=TWO)
        assert (caught.value.expected, caught.value.actual) == (wrong, ONE)
    assert heads.read() == ONE
    heads.swap("head", expected=ONE, new=TWO)
    assert heads.read("head") == TWO


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "Head", ".pending-1", "head\n"])
def test_a_name_that_could_leave_the_folder_is_refused(heads: HeadStore, name: str) -> None:
    with pytest.raises(StateError, match="cannot be the name of a reference"):
        heads.read(name)
    with pytest.raises(StateError, match="cannot be the name of a reference"):
        heads.swap(name, expected=None, new=ONE)


def test_a_head_file_is_the_text_of_the_hash_and_nothing_else(tmp_path: Path) -> None:
    LocalHeads(tmp_path).swap("head", expected=None, new=ONE)
    assert (tmp_path / "refs" / "head").read_bytes() == str(ONE).encode()
    assert [each.name for each in (tmp_path / "refs").iterdir()] == ["head"]


@pytest.mark.parametrize("text", [b"", b"f1620", str(ONE).encode() + b"\n", b"\xff" * 69])
def test_a_damaged_head_is_an_error_and_not_a_new_dataset(text: bytes, tmp_path: Path) -> None:
    heads = LocalHeads(tmp_path)
    heads.swap("head", expected=None, new=ONE)
    (tmp_path / "refs" / "head").write_bytes(text)
    with pytest.raises(CorruptHeadError, match="does not hold the hash"):
        heads.read()
    with pytest.raises(CorruptHeadError):
        heads.swap("head", expected=None, new=TWO)


def test_what_is_no_file_in_the_place_of_a_head_is_damage(tmp_path: Path) -> None:
    heads = LocalHeads(tmp_path)
    place = tmp_path / "refs" / "head"
    place.mkdir(parents=True)
    with pytest.raises(CorruptHeadError, match="cannot be read as a file"):
        heads.read()
    place.rmdir()
    place.symlink_to("head")
    with pytest.raises(CorruptHeadError, match="cannot be read as a file"):
        heads.read()


def test_who_holds_the_lock_can_swap_and_others_cannot(tmp_path: Path) -> None:
    mine, yours = LocalHeads(tmp_path), LocalHeads(tmp_path, timeout=0)
    with mine.lock():
        with pytest.raises(LockedError):
            yours.swap("head", expected=None, new=TWO)
        with mine.lock():
            mine.swap("head", expected=None, new=ONE)
        assert yours.read() == ONE
        with pytest.raises(LockedError), yours.lock(timeout=0):
            pass
    yours.swap("head", expected=ONE, new=TWO)


def test_the_lock_in_memory_can_be_held_while_swapping() -> None:
    heads = MemoryHeads()
    with heads.lock():
        heads.swap("head", expected=None, new=ONE)
    assert heads.read() == ONE


def test_a_lock_is_refused_with_the_name_of_its_holder(tmp_path: Path) -> None:
    folder, note = tmp_path / "fed01", tmp_path / "cache" / "fed01"
    folder.mkdir()
    with locked(folder, timeout=0, note=note):
        with pytest.raises(LockedError) as caught, locked(folder, timeout=0, note=note):
            pass
        holder = caught.value.holder
        assert holder is not None
        assert holder.pid == os.getpid()
        assert f"fed01 is locked by process {os.getpid()} on {holder.host} since 20" in str(
            caught.value
        )
    assert not note.exists()


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"pid": "x"}', json.dumps({"pid": 1})])
def test_the_note_about_the_holder_is_only_for_the_message(
    text: str | None, tmp_path: Path
) -> None:
    folder, note = tmp_path / "fed01", tmp_path / "note"
    folder.mkdir()
    if text is not None:
        note.write_text(text)
    opened = open_locked(folder)
    assert opened is not None
    with (
        pytest.raises(LockedError, match=rf"\(process {os.getpid()}\) since") as caught,
        locked(folder, timeout=0, note=note),
    ):
        pass
    assert caught.value.holder is None
    os.close(opened)
    with locked(folder, timeout=0, note=note):  # a stale note keeps nobody out
        pass


def test_a_lock_without_a_note_names_whom_the_kernel_knows(tmp_path: Path) -> None:
    with (
        locked(tmp_path, timeout=0),
        pytest.raises(LockedError, match=rf"\(process {os.getpid()}\) since"),
        locked(tmp_path, timeout=0),
    ):
        pass


def test_a_note_that_cannot_be_written_does_not_matter(tmp_path: Path) -> None:
    folder = tmp_path / "fed01"
    folder.mkdir()
    (tmp_path / "file").write_text("")
    with locked(folder, timeout=0, note=tmp_path / "file" / "note"):
        assert open_locked(folder) is None


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    got = threading.Event()

    def wait() -> None:
        with locked(tmp_path, timeout=60):
            got.set()

    waiting = threading.Thread(target=wait)
    with locked(tmp_path, timeout=0):
        waiting.start()
        assert not got.wait(0.05)
    waiting.join()
    assert got.is_set()


def test_a_folder_that_was_replaced_while_locking_is_not_taken_for_locked(tmp_path: Path) -> None:
    folder, other = tmp_path / "a", tmp_path / "b"
    folder.mkdir()
    other.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", lambda _path, flags, real=os.open: real(other, flags))
        assert open_locked(folder) is None
    opened = open_locked(folder)
    assert opened is not None
    os.close(opened)


def test_a_folder_that_was_deleted_while_locking_is_not_taken_for_locked(tmp_path: Path) -> None:
    gone, other = tmp_path / "a", tmp_path / "b"
    other.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", lambda _path, flags, real=os.open: real(other, flags))
        assert open_locked(gone) is None


def test_a_folder_that_is_gone_cannot_be_locked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_locked(tmp_path / "gone")


def test_the_kernel_frees_the_lock_of_a_process_that_was_killed(tmp_path: Path) -> None:
    held = tmp_path / "held"
    held.mkdir()
    command = [sys.executable, "-m", "tests.state.chain.test_heads", str(held)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockedError) as caught, locked(held, timeout=0, note=tmp_path / "note"):
            pass
        assert caught.value.holder is not None
        assert caught.value.holder.pid == holder.pid
        holder.send_signal(signal.SIGKILL)
    with locked(held, timeout=0, note=tmp_path / "note"):
        pass


if __name__ == "__main__":
    with locked(Path(sys.argv[1]), timeout=0, note=Path(sys.argv[1]).parent / "note"):
        print("held", flush=True)
        time.sleep(600)
