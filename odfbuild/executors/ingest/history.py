"""History that a merge reads: a condensed one as of some block, then the slices since.

    cache/merge/<dataset id>/<number of the block>-<random>/note.json
                                                            rows/*.parquet

The note says of what block the history is, for which merges it serves, and the size and CRC-32 of
every file.  Its own CRC-32 is its second line.  All of it may be deleted.

A poll costs what is new and what it touches, not all that ever was: beyond some rows an engine
condenses the history.  `condensed` keeps the result, a cache that counts only if it is of the same
strategy and schema, of a block on the chain, and has the bytes that were written.  Anything else is
passed over; the history is then all slices, and is condensed again when they are many.
"""

import json
import logging
import os
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from odfbuild.errors import OdfBuildError, ProtocolError
from odfbuild.executors.data.checks.verified_files import ITSELF, data_files
from odfbuild.executors.engine.context import Site
from odfbuild.executors.engine.protocol import CondenseRequest, Engine, IngestRequest, looks_back
from odfbuild.host.files import open_regular, read_regular
from odfbuild.host.json_text import parse_json
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    AddData,
    DataSlice,
    ExecuteTransform,
    MergeStrategy,
)
from odfbuild.odf.identity import Multihash
from odfbuild.odf.merge_strategies import History, key_of, traits_of
from odfbuild.state.chain.dataset import Dataset, NotInChainError
from odfbuild.state.files.lock import open_locked
from odfbuild.values import dataclass

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

    def is_intact(self) -> bool:
        """Say whether all files have the bytes that were written; reads them."""
        try:
            return _file_marks(self.paths) == self.files
        except OSError:
            return False


def shape_of(state: ChainState, merge: MergeStrategy) -> Shape | None:
    """Return the shape that a merge of this strategy asks for; None if the columns lack the key."""
    from odfbuild.odf.schema.arrow import to_arrow

    in_force = schema_in_force(state)
    if in_force is None:
        return None
    vocab, key = state.vocab, key_of(merge)
    columns = {field.name: str(field.type) for field in to_arrow(in_force)}
    system = (vocab.offset_column, vocab.operation_type_column, vocab.event_time_column)
    if not columns.keys() >= {*key, *system}:
        return None
    holds = traits_of(merge).history.value
    return Shape(format=_FORMAT, holds=holds, key=key, system=system, columns=columns)


def stored_histories(folder: Path) -> Iterator[Condensed]:
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
    draft = folder / f"{_PENDING}{secrets.token_hex(8)}"
    draft.mkdir()
    lock = open_locked(draft)
    try:
        paths = make(draft / _ROWS)
        for each in set((draft / _ROWS).iterdir()) - set(paths):
            each.unlink()  # checksums of Spark's own, which would be believed unseen
        made = Condensed(
            folder=draft,
            shape=shape,
            block=state.head,
            sequence=state.sequence,
            rows=sum(pq.read_metadata(path).num_rows for path in paths),
            files=_file_marks(paths),
        )
        (draft / _NOTE).write_bytes(_note(made))
        _sweep(folder, draft.rename(folder / f"{state.sequence:012d}-{secrets.token_hex(4)}"))
    finally:
        shutil.rmtree(draft, ignore_errors=True)
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


def _file_marks(paths: tuple[Path, ...]) -> tuple[tuple[str, int, int], ...]:
    """Return name, size in bytes and CRC-32 of files, reading some of them at a time."""
    with ThreadPoolExecutor(min(len(paths), os.cpu_count() or 1) or 1) as pool:
        return tuple(pool.map(_check, paths))


def _check(path: Path) -> tuple[str, int, int]:
    size = crc = 0
    with open_regular(path) as file:
        while data := file.read(_CHUNK):
            crc, size = zlib.crc32(data, crc), size + len(data)
    return path.name, size, crc


_LEAST_ROWS: Final = 20_000  # so many rows since are read as they are
_SHARE: Final = 4  # beyond, one row since for so many condensed ones
_SLICES: Final = 64  # so many slices since are read one by one, more if the condensed rows are many
_ROWS_A_SLICE: Final = 1_000_000
_BLOCKS: Final = 1_000  # so many blocks since are walked

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _RecordedHistory:
    """A history: a condensed one if there is, and what came since, in so many blocks."""

    dataset: Dataset
    condensed: Condensed | None
    since: tuple[DataSlice, ...]
    blocks: int

    def files(self) -> tuple[Path, ...]:
        """Return what is to be read.  Raises LostDataError, DamagedDataError."""
        first = () if self.condensed is None else self.condensed.paths
        return (*first, *data_files(self.dataset, self.since, ITSELF))

    @property
    def is_long(self) -> bool:
        """Say whether so much came since that condensing costs little beside it."""
        there = 0 if self.condensed is None else self.condensed.rows
        spans = [each.offset_interval for each in self.since]
        return (
            sum(span.end - span.start + 1 for span in spans) > max(_LEAST_ROWS, there // _SHARE)
            or len(spans) > _SLICES + there // _ROWS_A_SLICE
            or self.blocks > _BLOCKS
        )


def history(
    site: Site, dataset: Dataset, state: ChainState, merge: MergeStrategy
) -> tuple[Path, ...]:
    """Return the Parquet files that a merge of this strategy has to read, oldest first."""
    if traits_of(merge).history is History.NOTHING or not state.has_data:
        return ()
    return _recorded_history(_folder(site, dataset), dataset, state, merge).files()


def condense(site: Site, dataset: Dataset, state: ChainState, request: IngestRequest) -> None:
    """Condense the history up to a state, that after such a merge, if that is worth while.

    Failing is a warning at most: the rows of the merge are stored.
    """
    from pyarrow import ArrowException

    if not state.has_data or not looks_back(request):
        return
    folder = _folder(site, dataset)
    try:
        if _recorded_history(folder, dataset, state, request.merge, checked=False).is_long:
            _condense(folder, site.engine, dataset, state, request.merge)
    except (OdfBuildError, OSError, ArrowException) as error:
        said = error.what if isinstance(error, OdfBuildError) else error
        _log.warning("the history of %s was not condensed: %s", dataset.id, said)


def _condense(
    folder: Path, engine: Engine, dataset: Dataset, state: ChainState, merge: MergeStrategy
) -> None:
    in_force, shape = schema_in_force(state), shape_of(state, merge)
    if in_force is None or shape is None:
        return
    past = _recorded_history(folder, dataset, state, merge)

    def make(into: Path) -> tuple[Path, ...]:
        request = CondenseRequest(
            merge=merge, vocab=state.vocab, history=past.files(), in_force=in_force, into=into
        )
        return engine.condense(request)

    keep(folder, state, shape, make)


def _recorded_history(
    folder: Path,
    dataset: Dataset,
    state: ChainState,
    merge: MergeStrategy,
    *,
    checked: bool = True,
) -> _RecordedHistory:
    """Return the history up to the head of a state; `checked` reads all condensed bytes once."""
    shape = shape_of(state, merge)
    for each in stored_histories(folder):
        fits = shape is not None and each.shape.serves(shape)
        if fits and each.sequence <= state.sequence:
            try:
                past = _since(dataset, state, each)
            except NotInChainError:
                continue
            if not checked or each.is_intact():
                return past
    return _since(dataset, state, None)


def _since(dataset: Dataset, state: ChainState, condensed: Condensed | None) -> _RecordedHistory:
    after = None if condensed is None else condensed.block
    events = [block.event for _, block in dataset.blocks(after, state.head)]
    slices = [e.new_data for e in events if isinstance(e, AddData | ExecuteTransform)]
    return _RecordedHistory(
        dataset, condensed, tuple(s for s in slices if s is not None), len(events)
    )


def _folder(site: Site, dataset: Dataset) -> Path:
    return site.workspace.root / "cache" / "merge" / dataset.id.multibase
