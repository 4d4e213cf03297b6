"""Changelogs: operations of rows, and the rows that remain after all of them.

A row that is taken back is one of those equal to it; it makes no difference which, so the first
of them goes.  So all that has to be kept in memory is what was taken back: rows that come by are
let through, but for as many equal ones.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.errors import EngineError
from odfbuild.executors.data.conformance import row_numbers
from odfbuild.executors.data.parquet import footer, scan_slices
from odfbuild.executors.data.rows import row_keys
from odfbuild.odf.events import DataSchema, DatasetVocabulary
from odfbuild.odf.timestamp import Timestamp

OPERATIONS: Final = ("+A", "-R", "-C", "+C")
"""What records do, by number: append, retract, correct from, correct to."""

COMES: Final = (0, 3)
"""The operations that add a row: append and correct-to; the others take one back."""


class InvalidChangelogError(EngineError):
    """Rows of a dataset, or rows to be added to one, are not a valid changelog."""

    code = "invalid-changelog"

    def of_source(self, key: Sequence[str]) -> "InvalidChangelogError":
        """Return the error for rows of a source of changes, which come in the order of a key."""
        return InvalidChangelogError(
            what=self.what,
            why="rows of a source of changes are recorded in the order of its primaryKey "
            f'({", ".join(key)}), and +C directly follows its -C (ODF 0.34.1, "Representation of '
            'Retractions and Corrections"): both have the same key',
            fix="give a row whose key changed as -R (1) with the old key and +A (0) with the new "
            "one, such as by `preprocess`; else give both rows of a correction, one right after "
            "the other",
        )


def taken_back_in_vain(offset: int | str) -> InvalidChangelogError:
    """Return the error for the record at an offset, which takes back what is not there."""
    return InvalidChangelogError(
        what=f"the record at offset {offset} retracts a row that does not exist",
        why="a retraction or correction repeats the retracted row, value by value",
        fix="check that record in the inputs of the dataset (odfbuild show NAME --log)",
    )


def unknown_operation(op: str) -> InvalidChangelogError:
    """Return the error for a record whose operation is none of those that there are."""
    return InvalidChangelogError(
        what=f"a record has the operation {op}, which is none of 0 to 3 (+A, -R, -C, +C)",
        why="the effect of such a record is not defined",
        fix="odfbuild verify names the record, and odfbuild show NAME --log shows it",
    )


_FIX: Final = (
    "a query that names `op` must pass it through unchanged, for both rows of a correction; "
    "without `op`, corrections are passed on automatically. A source of changes must repeat each "
    "retracted row as it was recorded, and -C and +C together; of newest values alone, "
    "UpsertStream makes such changes"
)


def against_rules(problem: str) -> InvalidChangelogError:
    """Return the refusal of new rows, none of which is committed; `problem` is about one of them.

    The offset in it is the one that the record would have had.
    """
    return InvalidChangelogError(
        what=problem,
        why="operations are 0 to 3 (+A, -R, -C, +C), and +C directly follows its -C (ODF 0.34.1, "
        '"Representation of Retractions and Corrections")',
        fix=_FIX,
    )


def retracted_in_vain(offset: int) -> InvalidChangelogError:
    """Return the refusal of new rows that take back what is not there; none is committed."""
    return InvalidChangelogError(
        what=f"the record at offset {offset} would retract a row that does not exist",
        why="a retraction or correction repeats the retracted row, value by value, with its event "
        "time; readers of the dataset could not continue after it",
        fix=_FIX,
    )


def only_appends(paths: Sequence[Path], op: str) -> bool:
    """Tell from the footers of slices whether no row of them takes another back."""
    return all(_highest(path, op) == 0 for path in paths)


def _highest(path: Path, op: str) -> int | None:
    """Return the greatest operation in a slice, None if its footer does not tell."""
    known = footer(path)
    names = [known.schema.column(at).path for at in range(known.num_columns)]
    if op not in names:
        return None
    found = [known.row_group(at).column(names.index(op)) for at in range(known.num_row_groups)]
    if any(each.statistics is None or not each.statistics.has_min_max for each in found):
        return None
    return max((int(each.statistics.max) for each in found), default=0)


_LEAST: Final = 1 << 17
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY: Final = 86_400 * 10**9


def current_rows(
    paths: Sequence[Path],
    schema: DataSchema,
    vocab: DatasetVocabulary,
    until: Timestamp | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that nothing took back, in the order in which they came.

    They have the event time and the data columns; `until` leaves out those of a later event time.
    Raises InvalidChangelogError, after the rows, when one is taken back that is not there.
    """
    system = (vocab.offset_column, vocab.operation_type_column, vocab.system_time_column)
    columns = [field.name for field in schema.fields if field.name not in system]
    op = vocab.operation_type_column
    if only_appends(paths, op):
        scanned = scan_slices(paths, columns, schema=schema)
        return up_to(scanned, vocab.event_time_column, until)
    return _replay(paths, schema, vocab, columns, until)


def came_and_stand(
    paths: Sequence[Path],
    schema: DataSchema,
    vocab: DatasetVocabulary,
    columns: Sequence[str],
    *,
    whole: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Yield these columns, after the offset, of the rows that came with slices and stand then.

    Of equal rows one of which was taken back, the later ones stand.  Without `whole` the slices are
    the last ones of a changelog, and what they take back may have come before them.  Raises
    InvalidChangelogError, after the rows, when one is taken back that is not there.
    """
    op, offset = vocab.operation_type_column, vocab.offset_column
    shown = [offset, *(name for name in columns if name != offset)]
    if only_appends(paths, op):
        yield from scan_slices(paths, shown, schema=schema)
        return
    system = (offset, op, vocab.system_time_column)
    keys = [field.name for field in schema.fields if field.name not in system]
    taking = [path for path in paths if not only_appends([path], op)]
    scanned = scan_slices(taking, [*keys, op, offset], schema=schema)
    gone = RetractedKeys(where_comes(scanned, op, comes=False), keys, offset)
    came = where_comes(scan_slices(paths, schema=schema), op, comes=True)
    for rows in in_chunks(came, max(_LEAST, gone.rows)):
        yield from gone.left_of(rows, keys).select(shown).to_batches()
    if whole:
        gone.check()


def current_table(
    rows: pa.Table,
    columns: Sequence[str],
    vocab: DatasetVocabulary,
    beside: Sequence[str] = (),
) -> pa.Table:
    """Return these columns of the rows of a changelog that nothing in it took back.

    `beside` are columns to return that say nothing of which row is meant.  Raises
    InvalidChangelogError when one is taken back that is not there.
    """
    op, offset, wanted = vocab.operation_type_column, vocab.offset_column, [*columns, *beside]
    gone = RetractedKeys(where_comes(rows.to_batches(), op, comes=False), columns, offset)
    if not gone.rows:
        return rows.select(wanted)
    came = rows.filter(pc.is_in(rows.column(op), value_set=pa.array(COMES, rows.field(op).type)))
    left = gone.left_of(came.select(wanted), columns)
    gone.check()
    return left


def _replay(
    paths: Sequence[Path],
    schema: DataSchema,
    vocab: DatasetVocabulary,
    columns: Sequence[str],
    until: Timestamp | None,
) -> Iterator[pa.RecordBatch]:
    op, offset, time = (
        vocab.operation_type_column,
        vocab.offset_column,
        vocab.event_time_column,
    )
    taking = [path for path in paths if not only_appends([path], op)]
    scanned = scan_slices(taking, [*columns, op, offset], schema=schema)
    gone = RetractedKeys(where_comes(up_to(scanned, time, until), op, comes=False), columns, offset)
    scanned = scan_slices(paths, [*columns, op], schema=schema)
    came = where_comes(up_to(scanned, time, until), op, comes=True)
    for rows in in_chunks(came, max(_LEAST, gone.rows)):
        yield from gone.left_of(rows.select(list(columns))).to_batches()
    gone.check()


class RetractedKeys:
    """The rows that were taken back and were not met yet: a table of their keys.

    Beside the key, `n` says how many there are of it, and `at` the last offset.
    """

    def __init__(
        self, batches: Iterable[pa.RecordBatch], columns: Sequence[str], offset: str
    ) -> None:
        parts = [_with_counts(batch, columns, offset) for batch in batches]
        self._table = _sums_by_key(pa.concat_tables(parts)) if parts else None

    @property
    def rows(self) -> int:
        """Count the different ones."""
        return 0 if self._table is None else int(self._table.num_rows)

    def left_of(self, rows: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows without those that were taken back, which count as met from now on.

        `columns` are those that make rows equal, by default all.
        """
        table = self._table
        if table is None or not table.num_rows or not rows.num_rows:
            return rows
        keys = row_keys(rows if columns is None else rows.select(list(columns)))
        names = keys.column_names
        known = table.num_rows
        both = pa.concat_tables([table.select(names), keys])
        numbered = both.append_column("i", row_numbers(len(both)))
        groups = numbered.group_by(names, use_threads=False).aggregate([("i", "list")])
        lists = groups.column("i_list").combine_chunks()
        # a group that begins with a row of `table` is its key, all others of it are of `rows`
        lists = lists.filter(pc.less(pc.list_element(lists, 0), known))
        first = pc.list_element(lists, 0)
        wanted = table.column("n").combine_chunks().take(first)
        met = pc.min_element_wise(wanted, pc.subtract(_lengths(lists), 1))
        dropped = pc.subtract(_second_to(lists, met), known)
        left = table.take(first)
        left = left.set_column(left.column_names.index("n"), "n", pc.subtract(wanted, met))
        self._table = left.filter(pc.greater(left.column("n"), 0))
        if not len(dropped):
            return rows
        return rows.filter(pc.invert(pc.is_in(row_numbers(len(rows)), value_set=dropped)))

    def check(self) -> None:
        """Refuse what was taken back and never came."""
        if self.rows:
            assert self._table is not None  # noqa: S101 - it has rows
            raise taken_back_in_vain(pc.min(self._table.column("at")).as_py())


def _with_counts(batch: pa.RecordBatch, columns: Sequence[str], offset: str) -> pa.Table:
    rows = pa.Table.from_batches([batch])
    keys = row_keys(rows.select(list(columns)))
    ones = pa.repeat(pa.scalar(1, pa.int64()), len(rows))
    return keys.append_column("n", ones).append_column("at", rows.column(offset))


def _sums_by_key(rows: pa.Table) -> pa.Table:
    keys = [name for name in rows.column_names if name not in {"n", "at"}]
    found = rows.group_by(keys, use_threads=False).aggregate([("n", "sum"), ("at", "max")])
    return found.rename_columns({"n_sum": "n", "at_max": "at"})


def _second_to(lists: Any, counts: pa.Array) -> pa.Array:
    """Return what the lists have after their first item, so many of each."""
    parents = pc.list_parent_indices(lists)
    starts = pc.subtract(pc.cumulative_sum(_lengths(lists)), _lengths(lists))
    places = pc.subtract(row_numbers(len(parents)), starts.take(parents))
    wanted = pc.and_(
        pc.greater(places, 0), pc.less_equal(places, counts.take(parents).cast(pa.int64()))
    )
    return lists.flatten().filter(wanted)


def _lengths(lists: Any) -> pa.Array:
    return pc.list_value_length(lists).cast(pa.int64())


def in_chunks(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Yield the rows as tables of at least so many, but for the last."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield pa.Table.from_batches(held)
            held, count = [], 0
    if held:
        yield pa.Table.from_batches(held)


def where_comes(
    batches: Iterable[pa.RecordBatch], op: str, *, comes: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that come, or those that are taken back."""
    for batch in batches:
        column = batch.column(op)
        span = pc.min_max(column).as_py()
        if column.null_count:
            raise unknown_operation("none")
        for value in filter(None, span.values()):
            if not 0 <= value < len(OPERATIONS):
                raise unknown_operation(str(value))
        adds = pc.is_in(column, value_set=pa.array(COMES, column.type))
        yield batch.filter(adds if comes else pc.invert(adds))


def up_to(
    batches: Iterable[pa.RecordBatch], time: str, until: Timestamp | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an event time that is no later."""
    for batch in batches:
        if until is None:
            yield batch
        else:
            yield batch.filter(not_after(batch.column(time), until))


def not_after(times: Any, until: Timestamp) -> Any:
    """Tell which event times are no later; null of those that are null."""
    return pc.less_equal(times, _scalar(until, times.type))


def _scalar(at: Timestamp, kind: Any) -> pa.Scalar:
    if pa.types.is_date(kind):
        return pa.scalar(at.nanos // _DAY, pa.int32()).cast(kind)
    return pa.scalar(at.nanos * _PER_SECOND[kind.unit] // 10**9, kind)
