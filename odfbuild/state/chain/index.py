"""A cache of chain states in SQLite, so that reading 5,000 datasets is not reading their chains.

Beside the states stand the ids of pushes, by dataset, up to some block of its chain.  They are in
buckets by a checksum of source and id.  The row that says up to which block they are known has the
sum of the hashes of the rows of each bucket, so a row that is damaged or gone is noticed: that an
id is not there counts only if the rows of its bucket are those that were written.

It may be deleted, damaged or out of date: a row counts only if it was made by this version for the
very head just read, and its checksum fits; whatever else is found is thrown away and folded again.
The checksum shows that a row is as it was written, not that it was written of this head: `agrees`
compares its state with the blocks there.
"""

import sqlite3
import threading
import weakref
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

from odfbuild import __version__
from odfbuild.odf.chain.snapshot import UnreadableStateError, from_bytes, to_bytes
from odfbuild.odf.chain.state import ChainState, fold
from odfbuild.odf.events import AddData, ExecuteTransform, MetadataBlock, Seed, SetTransform
from odfbuild.odf.identity import DatasetId, InvalidDatasetIdError, InvalidMultihashError, Multihash
from odfbuild.odf.wire.blocks import decode_block
from odfbuild.state.chain.objects import ObjectStore
from odfbuild.values import dataclass

_FORMAT = f"3:{__version__}"
_STATES = """
create table states (
    dataset text primary key, head text not null, check_sum integer not null, state blob not null
) without rowid
"""
_PUSHES = """
create table pushes (
    dataset text, bucket integer, source text, id text, block text not null,
    primary key (dataset, bucket, source, id, block)
) without rowid
"""
_PUSHED = """
create table pushed (
    dataset text primary key, upto text not null, sums blob not null, check_sum integer not null
) without rowid
"""
_TABLES = {"states": _STATES, "pushes": _PUSHES, "pushed": _PUSHED}
_IN_USE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
    }
)
_BUCKETS: Final = 256
_SUM_BYTES: Final = 8  # of the sum of the hashes of a bucket's rows
_Row = tuple[str, str, int, bytes]


@dataclass(frozen=True, slots=True)
class PushId:
    """The id that a push was given, by the source that it came through, and the block it made."""

    source: str
    id: str
    block: Multihash


class KnownPush(NamedTuple):
    """What is known of an id for certain: the block that its push made, None if there is none."""

    block: Multihash | None


class _Pushed(NamedTuple):
    """Up to which block the pushes of a dataset are known, and the sums of its buckets."""

    upto: Multihash
    sums: list[int]


class Index:
    """The latest known state of each dataset; `path` None keeps it in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._mine = threading.RLock()
        self._opened: sqlite3.Connection | None = None
        self._is_away = False

    def get(self, dataset: DatasetId) -> ChainState | None:
        """Return the state of a dataset at some head of its past or present, if one is known."""
        rows = self._read("select * from states where dataset = ?", (dataset.multibase,))
        return _state(rows[0]) if rows else None

    def get_many(self, heads: Mapping[DatasetId, Multihash]) -> dict[DatasetId, ChainState]:
        """Return the states of those datasets that are known at exactly these heads."""
        wanted = {each.multibase: (each, str(head)) for each, head in heads.items()}
        found: dict[DatasetId, ChainState] = {}
        for row in self._read("select * from states", ()):
            each, head = wanted.get(row[0], (None, None))
            if each is not None and row[1] == head and (state := _state(row)) is not None:
                found[each] = state
        return found

    def put(self, *states: ChainState) -> None:
        """Remember states, each replacing what was known of its dataset."""
        rows = [_row(each) for each in states]
        self._use(lambda opened: _write(opened, rows))

    def pushed_upto(self, dataset: DatasetId) -> Multihash | None:
        """Return up to which block the pushes of a dataset are known; None if they are not."""
        found = self._use(lambda opened: _pushed(opened, dataset.multibase))
        return found[0].upto if found else None

    def push(self, dataset: DatasetId, source: str, id: str, upto: Multihash) -> KnownPush | None:
        """Return what is known of the id of a push up to a block; None if that is not certain."""
        found = self._use(lambda opened: _push(opened, dataset.multibase, source, id, upto))
        return found[0] if found else None

    def put_pushes(
        self,
        dataset: DatasetId,
        found: Sequence[PushId],
        *,
        after: Multihash | None,
        upto: Multihash,
    ) -> None:
        """Remember the pushes in the blocks (after, upto]; with `after` None, those and no others.

        Nothing is remembered if what is known ends at another block by now.
        """
        self._use(lambda opened: _write_pushes(opened, dataset.multibase, found, after, upto))

    def close(self) -> None:
        """Let go of the file; the index can be used again."""
        with self._mine:
            if self._opened is not None:
                self._opened.close()
            self._opened = None

    def _read(self, query: str, values: tuple[str, ...]) -> list[Any]:
        return self._use(lambda opened: opened.execute(query, values).fetchall())

    def _use(self, work: Callable[[sqlite3.Connection], list[Any]]) -> list[Any]:
        """Return what the work finds, or nothing when the file cannot be used.

        A file that others keep busy is left alone; a damaged one is deleted, to be started over.
        """
        with self._mine:
            try:
                return work(self._connection())
            except (sqlite3.Error, UnicodeDecodeError) as error:
                if not _is_in_use(error):
                    self._start_anew()
                return []

    def _start_anew(self) -> None:
        self.close()
        if self._path is not None:
            _delete(self._path)

    def _connection(self) -> sqlite3.Connection:
        path = self._path if self._path is not None and self._path.parent.is_dir() else None
        if self._opened is not None and self._is_away and path is not None:
            self.close()
        if self._opened is None:
            self._opened, self._is_away = _open(path), path is None
            weakref.finalize(self, self._opened.close).atexit = False
        return self._opened


def _open(path: Path | None) -> sqlite3.Connection:
    if path is None:
        return _prepared(_connect(":memory:"))
    try:
        return _prepared(_connect(path))
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if _is_in_use(error):
            return _prepared(_connect(":memory:"))
        _delete(path)
        return _prepared(_connect(path))


def _is_in_use(error: Exception) -> bool:
    """Tell a file that cannot be used now from one that is damaged."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _IN_USE


def _connect(path: Path | str) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=1.0, check_same_thread=False)


def _prepared(opened: sqlite3.Connection) -> sqlite3.Connection:
    """Make the tables, dropping those of another version; close the file if that fails."""
    try:
        opened.execute("pragma journal_mode = wal")
        opened.execute("pragma synchronous = normal")
        with opened:
            _make_tables(opened)
    except (sqlite3.Error, UnicodeDecodeError):
        opened.close()
        raise
    return opened


def _write(opened: sqlite3.Connection, rows: list[_Row]) -> list[_Row]:
    with opened:
        opened.executemany("insert or replace into states values (?, ?, ?, ?)", rows)
    return []


def _write_pushes(
    opened: sqlite3.Connection,
    dataset: str,
    found: Sequence[PushId],
    after: Multihash | None,
    upto: Multihash,
) -> list[Any]:
    opened.execute("begin immediate")
    with opened:
        sums = [0] * _BUCKETS
        if after is None:
            opened.execute("delete from pushes where dataset = ?", (dataset,))
        else:
            known = _pushed(opened, dataset)
            if not known or known[0].upto != after:
                return []
            sums = known[0].sums
        for each in found:
            bucket, row = _bucket(each.source, each.id), (each.source, each.id, str(each.block))
            opened.execute(
                "insert or replace into pushes values (?, ?, ?, ?, ?)", (dataset, bucket, *row)
            )
            sums[bucket] = _added(sums[bucket], _sum(dataset, row))
        packed = b"".join(each.to_bytes(_SUM_BYTES, "big") for each in sums)
        values = (dataset, str(upto), packed, _check_sum(dataset, str(upto), packed))
        opened.execute("insert or replace into pushed values (?, ?, ?, ?)", values)
    return []


def _push(
    opened: sqlite3.Connection, dataset: str, source: str, id: str, upto: Multihash
) -> list[KnownPush]:
    """Return what is known of an id; nothing if the rows of its bucket are not as written."""
    bucket = _bucket(source, id)
    opened.execute("begin")
    with opened:
        known = _pushed(opened, dataset)
        query = "select source, id, block from pushes where dataset = ? and bucket = ?"
        rows = opened.execute(query, (dataset, bucket)).fetchall()
    if not known or known[0].upto != upto:
        return []
    total = 0
    for row in rows:
        total = _added(total, _sum(dataset, row))
    if total != known[0].sums[bucket]:
        return []
    blocks = [block for *names, block in rows if names == [source, id]]
    return [KnownPush(Multihash.parse(blocks[0]) if blocks else None)]


def _pushed(opened: sqlite3.Connection, dataset: str) -> list[_Pushed]:
    """Return the row of a dataset; nothing if there is none, or it is damaged."""
    query = "select upto, sums, check_sum from pushed where dataset = ?"
    for upto, sums, check_sum in opened.execute(query, (dataset,)):
        whole = isinstance(sums, bytes) and len(sums) == _BUCKETS * _SUM_BYTES
        if whole and check_sum == _check_sum(dataset, str(upto), sums):
            parts = range(0, len(sums), _SUM_BYTES)
            numbers = [int.from_bytes(sums[at : at + _SUM_BYTES], "big") for at in parts]
            with suppress(InvalidMultihashError):
                return [_Pushed(Multihash.parse(str(upto)), numbers)]
    return []


def _bucket(source: str, id: str) -> int:
    return zlib.crc32(f"{source}\0{id}".encode()) % _BUCKETS


def _sum(dataset: str, row: tuple[object, ...]) -> int:
    hash = blake2b(repr((dataset, *row)).encode(), digest_size=_SUM_BYTES)
    return int.from_bytes(hash.digest(), "big")


def _added(total: int, sum: int) -> int:
    return (total + sum) % (1 << 8 * _SUM_BYTES)


def _check_sum(dataset: str, upto: str, sums: bytes) -> int:
    return zlib.crc32(sums, zlib.crc32(f"{dataset} {upto}".encode()))


def _make_tables(opened: sqlite3.Connection) -> None:
    opened.execute("create table if not exists about (format text)")
    if opened.execute("select * from about").fetchall() == [(_FORMAT,)]:
        return
    for name, statement in _TABLES.items():
        opened.execute(f"drop table if exists {name}")
        opened.execute(statement)
    opened.execute("delete from about")
    opened.execute("insert into about values (?)", (_FORMAT,))


def _delete(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _row(state: ChainState) -> _Row:
    data = to_bytes(state)
    return state.dataset.multibase, str(state.head), zlib.crc32(data), data


def _state(row: _Row) -> ChainState | None:
    """Return the state of a row, or None if the row is damaged."""
    dataset, head, check_sum, data = row
    if not isinstance(data, bytes) or zlib.crc32(data) != check_sum:
        return None
    with suppress(UnreadableStateError, InvalidDatasetIdError):
        state = from_bytes(data)
        if state.dataset.multibase == dataset and str(state.head) == head:
            return state
    return None


def agrees(state: ChainState, blocks: ObjectStore) -> bool:
    """Tell whether the blocks from the last one with data to the head give nothing but this state.

    Blocks set facts, all but one whatever was before, so folding the last ones on the state that
    they left changes nothing.  Raises MissingObjectError, CorruptObjectError.
    """
    last = _last_blocks(state.head, blocks)
    known = None if isinstance(last[-1][1].event, Seed) else state
    is_whole = known is None
    for hash, block in reversed(last):
        known = fold(known, block, hash)
    if is_whole or not any(isinstance(block.event, SetTransform) for _, block in last):
        return known == state
    # whether a query is new depends on the one before it, which may be far back
    return known is not None and replace(known, transform_is_new=state.transform_is_new) == state


def _last_blocks(head: Multihash, blocks: ObjectStore) -> list[tuple[Multihash, MetadataBlock]]:
    """Return the head and what comes before, up to the last block that speaks of data."""
    found = [(head, decode_block(blocks.get(head)))]
    while not isinstance(found[-1][1].event, AddData | ExecuteTransform):
        before = found[-1][1].prev_block_hash
        if before is None:
            break
        found.append((before, decode_block(blocks.get(before))))
    return found
