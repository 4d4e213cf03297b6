"""What was checked is remembered until somebody writes: the memory is never believed too far."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from odfbuild.odf.identity import Multihash
from odfbuild.state.chain import checked_files
from odfbuild.state.chain.checked_files import (
    VERIFY_READS,
    CheckedFiles,
    FileMark,
    GrowingHash,
    HashedMark,
    hash_written,
    mark_of,
)
from odfbuild.state.chain.objects import hash_file


@pytest.fixture
def file(tmp_path: Path) -> tuple[Multihash, Path]:
    path = tmp_path / "slice"
    path.write_bytes(b"rows" * 1000)
    time.sleep(0.03)
    return hash_file(path), path


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "checked" / "fed01"


def test_a_file_that_was_checked_is_known_to_the_next_process(
    file: tuple[Multihash, Path], memory: Path
) -> None:
    checked = CheckedFiles(memory)
    assert checked.unknown([file]) == (file,)
    assert checked.unlike([file]) == ()
    assert checked.unknown([file]) == ()
    assert CheckedFiles(memory).unknown([file]) == ()


def test_a_file_that_was_written_to_is_not_known_though_its_size_and_mtime_are_as_before(
    file: tuple[Multihash, Path], memory: Path
) -> None:
    name, path = file
    checked = CheckedFiles(memory)
    checked.unlike([file])
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[17] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert checked.unknown([file]) == (file,)
    ((damaged, where, actual),) = checked.unlike([file])
    assert (damaged, where, actual) == (name, path, hash_file(path))
    assert checked.unknown([file]) == (file,)


def test_a_file_that_was_just_written_is_not_believed_to_stay(tmp_path: Path, memory: Path) -> None:
    path = tmp_path / "young"
    path.write_bytes(b"new")
    checked = CheckedFiles(memory)
    os.utime(path)
    assert checked.unlike([(hash_file(path), path)]) == ()
    if mark_of(path).ctime + 20_000_000 > time.time_ns():
        assert checked.unknown([(hash_file(path), path)]) != ()


def test_a_copy_is_another_file(file: tuple[Multihash, Path], memory: Path, tmp_path: Path) -> None:
    name, path = file
    checked = CheckedFiles(memory)
    checked.unlike([file])
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    os.utime(copy, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    assert checked.unknown([(name, copy)]) == ((name, copy),)


def test_with_always_each_process_hashes_once(
    file: tuple[Multihash, Path], memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    CheckedFiles(memory).unlike([file])
    monkeypatch.setenv(VERIFY_READS, "always")
    checked = CheckedFiles(memory)
    assert checked.unknown([file]) == (file,)
    checked.unlike([file])
    assert checked.unknown([file]) == ()


def test_no_bit_of_the_memory_makes_another_file_known(
    file: tuple[Multihash, Path], memory: Path
) -> None:
    CheckedFiles(memory)._add([("f1620aa", FileMark(1, 2, 3, 4))])
    data = memory.read_bytes()
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        memory.write_bytes(flipped)
        known = CheckedFiles(memory)
        known.knows("f1620aa", FileMark(1, 2, 3, 4))
        assert known._known in ({}, {"f1620aa": FileMark(1, 2, 3, 4)})


def test_lines_that_are_cut_off_spoil_no_others_and_many_are_written_anew(memory: Path) -> None:
    checked = CheckedFiles(memory)
    for number in range(400):
        checked._add([("f1620aa", FileMark(1, 2, 3, number))])
    with memory.open("ab") as file:
        file.write(b"f1620aa 1 2 3")
    checked._add([("f1620bb", FileMark(5, 6, 7, 8))])
    before = memory.stat().st_size
    again = CheckedFiles(memory)
    assert again.knows("f1620aa", FileMark(1, 2, 3, 399))
    assert again.knows("f1620bb", FileMark(5, 6, 7, 8))
    assert memory.stat().st_size < before / 10
    assert CheckedFiles(memory).knows("f1620bb", FileMark(5, 6, 7, 8))


def test_where_nothing_can_be_written_the_process_remembers(
    file: tuple[Multihash, Path], tmp_path: Path
) -> None:
    (tmp_path / "blocked").write_text("a file, no folder")
    checked = CheckedFiles(tmp_path / "blocked" / "fed01")
    checked.unlike([file])
    assert checked.unknown([file]) == ()


def _written(path: Path, monkeypatch: pytest.MonkeyPatch) -> HashedMark:
    """Write a file that counts as large, and return the mark of its hash."""
    monkeypatch.setattr(checked_files, "_WORTH_A_WAIT", 1)
    path.write_bytes(b"rows" * 1000)
    hash, mark = hash_written(path)
    assert hash == hash_file(path)
    assert mark is not None
    return mark


def test_a_file_that_was_written_and_hashed_here_is_known_until_somebody_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "slice"
    mark = _written(path, monkeypatch)
    assert mark.still_holds(path)
    before = path.stat()
    path.write_bytes(b"rowz" * 1000)  # at once, and as large as before
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not mark.still_holds(path)
    path.unlink()
    assert not mark.still_holds(path)


def test_a_mark_of_another_process_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "slice"
    mark = _written(path, monkeypatch)
    assert not replace(mark, process=os.getppid()).still_holds(path)


def test_a_file_that_changes_while_it_is_hashed_has_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changing(path: Path) -> Multihash:
        found = hash_file(path)
        path.write_bytes(b"rowz" * 1000)
        return found

    monkeypatch.setattr(checked_files, "_WORTH_A_WAIT", 1)
    monkeypatch.setattr(checked_files, "hash_file", changing)
    path = tmp_path / "slice"
    path.write_bytes(b"rows" * 1000)
    assert hash_written(path)[1] is None


def test_a_small_file_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "slice"
    path.write_bytes(b"rows")
    assert hash_written(path) == (hash_file(path), None)


def _added(path: Path, *pieces: bytes) -> GrowingHash:
    """Write pieces, each of which is hashed before the next one."""
    growing = GrowingHash(path)
    with path.open("wb") as file:
        for piece in pieces:
            file.write(piece)
            file.flush()
            growing.go_on(file.tell())
    return growing


def test_a_file_is_hashed_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "slice"
    growing = _added(path, b"rows" * 200_000, b"", b"more")
    with path.open("r+b") as file:
        file.seek(0, 2)
        file.write(b"footer")
    expected = hash_file(path)
    monkeypatch.setattr(checked_files, "hash_file", None)  # it is not read once more
    hash, mark = growing.finish()
    assert hash == expected
    assert mark is not None
    assert mark.still_holds(path)
    before = path.stat()
    path.write_bytes(b"z" * before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not mark.still_holds(path)


def test_a_file_that_was_cut_off_while_it_was_written_has_no_mark(tmp_path: Path) -> None:
    path = tmp_path / "slice"
    growing = _added(path, b"rows" * 1000)
    path.write_bytes(b"rows")
    hash, mark = growing.finish()
    assert mark is None
    assert hash != hash_file(path)


def test_a_file_that_was_not_hashed_while_it_was_written_is_hashed_then(tmp_path: Path) -> None:
    path = tmp_path / "slice"
    growing = _added(path)
    path.write_bytes(b"rows")
    assert growing.finish() == (hash_file(path), None)
