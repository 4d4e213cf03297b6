"""Condensed histories as files of the cache: written at once or not at all, used only if whole.

    cache/merge/<dataset id>/<number of the block>-<random>/note.json
                                                            rows/*.parquet

The note says of what block the history is, for which merges it serves, and the size and CRC-32 of
every file.  Its own CRC-32 is its second line.  All of it may be deleted.
"""

import json
import os
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from odfbuild.errors import ProtocolError
from odfbuild.json_text import parse_json
from odfbuild.odf.chain import ChainState
from odfbuild.odf.chain_schema import schema_in_force
from odfbuild.odf.events import (
    MergeStrategy,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
)
from odfbuild.odf.identity import Multihash
from odfbuild.regular_files import open_regular, read_regular
from odfbuild.state.lock import open_locked

__all__ = ["Condensed", "Shape", "found", "keep", "shape_of"]

_FORMAT: Final = 1
_NOTE: Final = "note.json"
_ROWS: Final = "rows"
_PENDING: Final = ".pending-"
_CHUNK: Final = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Which merges a condensed history serves: `holds` is `keys`, `times` or whole `rows`.

    `system` are the names of the system columns, `columns` the types of all, as text, by name.
    """

    format: int
    holds: str
    key: tuple[str, ...]
    system: tuple[str, ...]
    columns: Mapping[str, str]

    def serves(self, asked: "Shape") -> bool:
        """Say whether it can be read for another shape: columns that came since are null in it."""
        mine = (self.format, self.holds, self.key, self.system)
        return mine == (asked.format, asked.holds, asked.key, asked.system) and all(
            asked.columns.get(name) == kind for name, kind in self.columns.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Condensed:
    """A condensed history: up to which block it goes, its rows, its files with size and CRC-32."""

    folder: Path
    shape: Shape
    block: Multihash
    sequence: int
    rows: int
    files: tuple[tuple[str, int, int], ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(self.folder / _ROWS / name for name, _, _ in self.files)

    def is_whole(self) -> bool:
        """Say whether all files have the bytes that were written; reads them."""
        try:
            return _checked(self.paths) == self.files
        except OSError:
            return False


def shape_of(state: ChainState, merge: MergeStrategy) -> Shape | None:
    """Return the shape that a merge of this strategy asks for; None if the columns lack the key."""
    from odfbuild.odf.arrow import to_arrow

    in_force = schema_in_force(state)
    if in_force is None:
        return None
    vocab, key = state.vocab, tuple(getattr(merge, "primary_key", ()))
    columns = {field.name: str(field.type) for field in to_arrow(in_force)}
    system = (vocab.offset_column, vocab.operation_type_column, vocab.event_time_column)
    if not columns.keys() >= {*key, *system}:
        return None
    return Shape(format=_FORMAT, holds=_holds(merge), key=key, system=system, columns=columns)


def _holds(merge: MergeStrategy) -> str:
    match merge:
        case MergeStrategyLedger():
            return "keys"
        case MergeStrategyChangelogStream():
            return "times"
        case _:
            return "rows"


def found(folder: Path) -> Iterator[Condensed]:
    """Yield what is kept in a folder, the newest first, as far as its notes can be read."""
    with suppress(OSError):
        for each in sorted(folder.iterdir(), reverse=True):
            if not each.name.startswith(".") and (kept := _read(each)) is not None:
                yield kept


def keep(
    folder: Path, state: ChainState, shape: Shape, make: Callable[[Path], tuple[Path, ...]]
) -> None:
    """Have `make` write files into a new folder, note them, and delete what was kept before.

    Raises OSError, and what `make` raises; what was kept before is still there then.
    """
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    near = folder / f"{_PENDING}{secrets.token_hex(8)}"
    near.mkdir()
    lock = open_locked(near)
    try:
        paths = make(near / _ROWS)
        for each in set((near / _ROWS).iterdir()) - set(paths):
            each.unlink()  # checksums of Spark's own, which would be believed unseen
        made = Condensed(
            folder=near,
            shape=shape,
            block=state.head,
            sequence=state.sequence,
            rows=sum(pq.read_metadata(path).num_rows for path in paths),
            files=_checked(paths),
        )
        (near / _NOTE).write_bytes(_note(made))
        _sweep(folder, near.rename(folder / f"{state.sequence:012d}-{secrets.token_hex(4)}"))
    finally:
        shutil.rmtree(near, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _sweep(folder: Path, kept: Path) -> None:
    """Delete all but one, and but those that somebody is writing."""
    for each in folder.iterdir():
        if each == kept:
            continue
        with suppress(OSError):  # somebody else may be deleting it just now
            lock = open_locked(each)
            if lock is not None:
                shutil.rmtree(each, ignore_errors=True)
                os.close(lock)


def _note(made: Condensed) -> bytes:
    fields = {
        "shape": asdict(made.shape),
        "block": str(made.block),
        "sequence": made.sequence,
        "rows": made.rows,
        "files": made.files,
    }
    text = json.dumps(fields).encode()
    return b"%s\n%d\n" % (text, zlib.crc32(text))


def _read(folder: Path) -> Condensed | None:
    """Return what a note says; None if there is none, or it is not as it was written."""
    with suppress(OSError, ValueError, LookupError, TypeError, ProtocolError):
        text, check, _ = read_regular(folder / _NOTE).split(b"\n")
        if int(check) != zlib.crc32(text):
            return None
        note: dict[str, Any] = parse_json(text)
        shape = note["shape"]
        return Condensed(
            folder=folder,
            shape=Shape(
                format=shape["format"],
                holds=shape["holds"],
                key=tuple(shape["key"]),
                system=tuple(shape["system"]),
                columns=shape["columns"],
            ),
            block=Multihash.parse(note["block"]),
            sequence=note["sequence"],
            rows=note["rows"],
            files=tuple((name, size, crc) for name, size, crc in note["files"]),
        )
    return None


def _checked(paths: tuple[Path, ...]) -> tuple[tuple[str, int, int], ...]:
    """Return name, size in bytes and CRC-32 of files, reading some of them at a time."""
    with ThreadPoolExecutor(min(len(paths), os.cpu_count() or 1) or 1) as pool:
        return tuple(pool.map(_check, paths))


def _check(path: Path) -> tuple[str, int, int]:
    size = crc = 0
    with open_regular(path) as file:
        while data := file.read(_CHUNK):
            crc, size = zlib.crc32(data, crc), size + len(data)
    return path.name, size, crc
