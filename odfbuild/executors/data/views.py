"""Views of a dataset: its changelog or its current rows, as of some block."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.errors import StateError
from odfbuild.executors.data.changelog import current_rows, only_appends
from odfbuild.executors.data.parquet import footer, scan_slices
from odfbuild.executors.data.versions import in_force
from odfbuild.odf.events import DataSchema, DatasetVocabulary, DataSlice
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.schema.value_paths import ValuePath
from odfbuild.odf.timestamp import Timestamp
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_OF_SCANS: Final = frozenset(
    {"__fragment_index", "__batch_index", "__last_in_fragment", "__filename"}
)
_FIX: Final = (
    "odfbuild verify lists all problems; restore the dataset from a copy, or, of a derivative "
    "dataset, rebuild the rows: odfbuild rebuild NAME"
)


class FaultyRowsError(StateError):
    """The rows of a dataset differ from what its chain records, and cannot be read."""

    code = "faulty-rows"


class DeletedDataError(StateError):
    """A data file was there when a read of its dataset began, and was deleted before it ended."""

    code = "deleted-data"


@contextmanager
def deletions_named() -> Iterator[None]:
    """Turn what Python says of a data file that is no longer there into DeletedDataError."""
    try:
        yield
    except FileNotFoundError as error:
        text = excerpt(" ".join(str(error).split()), 300)
        raise DeletedDataError(
            what=f"a data file was deleted while the dataset was read: {text}",
            why="such as by a compaction, or by gc after a reset, of another process",
            fix="read again; if files are missing then, odfbuild verify lists them",
        ) from error


@contextmanager
def faults_named() -> Iterator[None]:
    """Turn what Arrow says of rows that cannot be read into FaultyRowsError.

    Also raises DeletedDataError.
    """
    try:
        with deletions_named():
            yield
    except (pa.ArrowException, KeyError, OverflowError, TypeError, ValueError) as error:
        text = excerpt(" ".join(str(error).split()), 300)
        raise FaultyRowsError(
            what=f"rows of the dataset cannot be read: {text}",
            why="a slice does not have the columns or values that its chain records",
            fix=_FIX,
        ) from error


def check_counts(slices: Sequence[DataSlice], paths: Sequence[Path]) -> None:
    """Check that the footers count the rows that blocks record.  Raises FaultyRowsError."""
    with faults_named():
        footers = [footer(path) for path in paths]
    for each, path, known in zip(slices, paths, footers, strict=True):
        interval = each.offset_interval
        recorded = interval.end - interval.start + 1
        groups = (known.row_group(number).num_rows for number in range(known.num_row_groups))
        for counted in (known.num_rows, sum(groups)):
            if counted != recorded:
                raise FaultyRowsError(
                    what=f"the slice {interval.start}..{interval.end} has {recorded} rows in its "
                    f"block, and the footer of {path} counts {counted}",
                    why="the chain and the file disagree about its rows",
                    fix=_FIX,
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetView:
    """The slices up to a block, oldest first, and the schema and vocabulary in force there.

    With `log` its rows are the changelog, all columns by offset; else those that nothing took
    back, without offset, op and system time.  With `until` these are the rows that were in force at
    that event time: of each `key` the latest version by then, without one all rows up to it.
    `uuids` are where bytes are UUIDs.
    """

    paths: tuple[Path, ...]
    schema: DataSchema
    vocab: DatasetVocabulary
    log: bool = False
    until: Timestamp | None = None
    key: tuple[str, ...] = ()
    uuids: frozenset[ValuePath] = frozenset()

    def columns(self) -> pa.Schema:
        """Return the columns of the rows."""
        whole, vocab = to_arrow(self.schema), self.vocab
        hidden = {vocab.offset_column, vocab.operation_type_column, vocab.system_time_column}
        return pa.schema([each for each in whole if self.log or each.name not in hidden])

    def files(self) -> "ds.Dataset | None":
        """Return the slices, if their rows and columns are those of the view as they are.

        They can be read in part: some columns, and the row groups that a condition may hold for.
        None also if a column has a name that Arrow gives to one of its own in each scan.
        """
        import pyarrow.dataset as ds
        from pyarrow.fs import LocalFileSystem

        if self.until is not None or not self.paths:
            return None
        if not _OF_SCANS.isdisjoint(self.columns().names):
            return None
        with faults_named():
            if not self.log and not only_appends(self.paths, self.vocab.operation_type_column):
                return None
            wanted = self.columns()
            for path in self.paths:
                found = pq.read_schema(path)
                shared = [name for name in wanted.names if name in found.names]
                if any(found.field(name).type != wanted.field(name).type for name in shared):
                    return None
        return ds.FileSystemDataset.from_paths(
            list(map(str, self.paths)), wanted, ds.ParquetFileFormat(), LocalFileSystem()
        )

    def reader(
        self,
        columns: Sequence[str] | None = None,
        where: "ds.Expression | None" = None,
    ) -> pa.RecordBatchReader:
        """Return the rows in order, a batch at a time: some columns, those that a condition keeps.

        Columns that are not asked for are not read, unless rows have to be replayed.  Nor are row
        groups for which a condition cannot hold, unless there are floating-point numbers: the
        statistics of files know nothing of NaN.  Raises as `batches` does, while it is read.
        """
        files, whole = self.files(), self.columns()
        names = whole.names if columns is None else list(columns)
        kept = pa.schema([whole.field(name) for name in names])
        if files is not None and where is None:
            return pa.RecordBatchReader.from_batches(kept, _scan(files, names))
        if files is not None and not any(map(_has_floats, whole.types)):
            return pa.RecordBatchReader.from_batches(kept, _filtered(files, names, where))
        rows = self.batches() if files is None else _scan(files, whole.names)
        return pa.RecordBatchReader.from_batches(kept, _selected(rows, names, where))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the order in which they came.

        Raises InvalidChangelogError when a row is taken back that is not there, FaultyRowsError,
        and DeletedDataError when a file is deleted meanwhile.
        """
        with faults_named():
            yield from self._read()

    def _read(self) -> Iterator[pa.RecordBatch]:
        if self.log:
            return scan_slices(self.paths, schema=self.schema)
        if self.is_versioned:
            assert self.until is not None  # noqa: S101 - of the property
            return in_force(self.paths, self.schema, self.vocab, self.key, self.until)
        return current_rows(self.paths, self.schema, self.vocab, self.until)

    @property
    def is_versioned(self) -> bool:
        """Tell whether one row of each key is asked for."""
        return not self.log and self.until is not None and bool(self.key)

    def last(self, rows: int) -> pa.Table:
        """Return the last rows in order, from as few slices as do."""
        with faults_named():
            return self._last(rows)

    def _last(self, rows: int) -> pa.Table:
        replays = not self.log and not only_appends(self.paths, self.vocab.operation_type_column)
        if replays or self.is_versioned:
            return pa.Table.from_batches(_last(self.batches(), rows), self.columns())
        found: list[pa.RecordBatch] = []
        for path in reversed(self.paths):
            if rows <= 0:
                break
            newer = _last(replace(self, paths=(path,)).batches(), rows)
            rows -= sum(batch.num_rows for batch in newer)
            found = [*newer, *found]
        return pa.Table.from_batches(found, self.columns())


def _selected(
    rows: Iterable[pa.RecordBatch], columns: list[str], where: "ds.Expression | None"
) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        yield (batch if where is None else batch.filter(where)).select(columns)


def _scan(files: "ds.Dataset", columns: list[str]) -> Iterator[pa.RecordBatch]:
    with faults_named():
        yield from files.scanner(columns).to_reader()


def _filtered(
    files: "ds.Dataset", columns: list[str], where: "ds.Expression | None"
) -> Iterator[pa.RecordBatch]:
    with deletions_named():
        yield from files.scanner(columns, filter=where).to_reader()


def _has_floats(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_floats(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_floating(kind))


def _last(batches: Iterable[pa.RecordBatch], rows: int) -> list[pa.RecordBatch]:
    """Return the last rows; no more batches are held than it takes."""
    held: deque[pa.RecordBatch] = deque()
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        while held and count - held[0].num_rows >= rows:
            count -= held.popleft().num_rows
    if count > rows:
        held[0] = held[0].slice(count - rows)
    return list(held)
