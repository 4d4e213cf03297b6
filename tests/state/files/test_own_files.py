"""Whatever is in a file of our own, its reader takes it for missing or raises a named error."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.errors import OdfBuildError
from odfbuild.executors.data.checkpoints import read_groups
from odfbuild.executors.engine.messages.state import read_state
from odfbuild.executors.engine.spark.jvm.resident import ResidentFolder, read_kept
from odfbuild.executors.ingest import history as condensed
from odfbuild.executors.ingest.fetch.download import stored_version
from odfbuild.odf.chain.snapshot import from_bytes
from odfbuild.odf.hashing import physical_hash
from odfbuild.odf.identity import DatasetId
from odfbuild.state.files.checksum import (
    check_sum,
    checked_object,
    object_with_check_sum,
    with_check_sum,
)
from odfbuild.state.files.lock import read_note
from odfbuild.state.memory import plans as settled
from odfbuild.state.memory.drift import known_drift
from odfbuild.state.memory.read_files import recall_clear, recall_readings, recall_seen
from odfbuild.state.runs import list_runs, read_plan

DEEP = b"[" * 100_000
GARBAGE = {
    "nothing": b"",
    "bytes": bytes(range(256)),
    "deep": DEEP,
    "deep object": b'{"a":' * 100_000,
    "deep and whole": b"[" * 900 + b"]" * 900,
    "null": b"null",
    "number": b"-1e999",
    "text": b'"\\ud800"',
    "list": b"[[1]]",
    "object": b"{}",
    "other fields": b'{"format": [], "source": {}, "version": 7, "size": "x", "pid": {}, "id": []}',
}


def _mark(path: Path) -> Any:
    data = path.read_bytes()
    table = pa.table({"a": [1]}).replace_schema_metadata({b"odfbuild.checkpoint": data})
    pq.write_table(table, path)
    return read_groups(path, "x")


def _kept(path: Path) -> Any:
    place = ResidentFolder(path.parent)
    place.make()
    path.rename(place.kept)
    place.kept.chmod(0o600)
    return read_kept(place)


def _drift(path: Path) -> None:
    """Read what somebody made up, which may be any texts."""
    assert all(isinstance(each, str) for each in known_drift(path))


def _as(name: str, read: Callable[[Path], Any]) -> Callable[[Path], Any]:
    def renamed(path: Path) -> Any:
        there = path.parent / name
        there.parent.mkdir(parents=True, exist_ok=True)
        path.rename(there)
        return read(path.parent)

    return renamed


def _checked(of: str, read: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """Give a file the checksum of its text first: it is then what somebody made up."""

    def with_sum(path: Path) -> Any:
        if path.is_file():
            text = path.read_bytes().decode("utf-8", "replace")
            path.write_text(with_check_sum(text, of), "utf-8")
        return read(path)

    return with_sum


def _lines(of: str, read: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """Give each line of a file the checksum of its text."""

    def with_sums(path: Path) -> Any:
        if path.is_file():
            lines = path.read_bytes().decode("utf-8", "replace").split("\n")
            path.write_text("\n".join(f"{check_sum(each, of)} {each}" for each in lines), "utf-8")
        return read(path)

    return with_sums


_ID = DatasetId(bytes(32))

READERS: dict[str, Callable[[Path], Any]] = {
    "settled": _as("settled", settled.recall),
    "settled, checked": _checked("settled", _as("settled", settled.recall)),
    "version": _as("version.json", lambda at: stored_version(at, "u").etag),
    "version, checked": _checked("u", _as("version.json", lambda at: stored_version(at, "u").etag)),
    "drift": lambda path: known_drift(path) or None,
    "drift, checked": _checked("x", _drift),
    "sources": _as(f"sources/{_ID.multibase}", lambda at: recall_readings(at, _ID) or None),
    "sources, checked": _lines(
        _ID.multibase,
        _as(f"sources/{_ID.multibase}", lambda at: recall_readings(at, _ID) or None),
    ),
    "files": _as(f"cache/files/{_ID.multibase}", lambda at: recall_seen(at, _ID).head),
    "files, checked": _checked(
        _ID.multibase, _as(f"cache/files/{_ID.multibase}", lambda at: recall_seen(at, _ID).head)
    ),
    "clear files": _as("cache/clear-files.json", lambda at: recall_clear(at) or None),
    "summary": _as("runs/r1/summary.json", lambda at: list_runs(at).runs or None),
    "lock": read_note,
    "resident": _kept,
    "condensed": _as("1/note.json", lambda at: list(condensed.stored_histories(at)) or None),
    "checkpoint": _mark,
    "protocol": lambda path: read_state(path, path.parent),
    "state": lambda path: from_bytes(path.read_bytes()),
}


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    def give_up(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("reader", READERS)
def test_garbage_is_missing_or_a_named_error(reader: str, tmp_path: Path) -> None:
    for number, (name, data) in enumerate(GARBAGE.items()):
        path = tmp_path / str(number) / "x"
        path.parent.mkdir()
        path.write_bytes(data)
        try:
            assert READERS[reader](path) is None, name
        except OdfBuildError:
            assert reader in {"protocol", "state"}


@pytest.mark.parametrize("reader", [r for r in READERS if r not in {"checkpoint", "state"}])
def test_a_pipe_is_not_waited_for(reader: str, tmp_path: Path) -> None:
    path = tmp_path / "a" / "x"
    path.parent.mkdir()
    os.mkfifo(path)
    try:
        assert READERS[reader](path) is None
    except (OSError, OdfBuildError) as error:
        assert "regular" in str(error) or "regular" in getattr(error, "what", "")


def test_a_pipe_has_no_hash(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")
    with pytest.raises(OSError, match="regular"):
        physical_hash(tmp_path / "x")


def test_a_plan_of_a_run_that_is_nested_too_deeply_is_none(tmp_path: Path) -> None:
    (tmp_path / "runs/r1").mkdir(parents=True)
    (tmp_path / "runs/r1/plan.json").write_bytes(DEEP)
    assert read_plan(tmp_path, "r1") is None


def test_an_object_without_a_checksum_is_none() -> None:
    assert checked_object(b'{"a": 1}', "x") is None
    data = object_with_check_sum({"a": 1}, "x")
    assert checked_object(data, "x") == {"a": 1}
    assert checked_object(data, "y") is None
    assert checked_object(data.replace(b"1", b"2", 1), "x") is None
