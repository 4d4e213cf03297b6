"""The rules that the rows of a slice keep: types, offsets, operations, system times, nulls, texts.

Offsets go on without gaps from the start of the slice's interval; an operation is one of +A, -R,
-C, +C, and every +C directly follows its -C (ODF 0.34.1, "Representation of Retractions and
Corrections").  A record is as old as its block: a compaction keeps the records of a root and writes
their blocks again, so there system time may lie before that of the block, but never goes back.

Whoever writes a slice, and whoever verifies one, goes by `RowRules`.  Whether the row is there that
a -R or -C takes back is for `retractions` to say.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.errors import OdfBuildError
from odfbuild.executors.data.checks.leaves import (
    first_of_other_length,
    first_without_member,
    first_without_utf8,
)
from odfbuild.odf.events import DatasetVocabulary
from odfbuild.odf.hashing import storage, storage_type
from odfbuild.odf.timestamp import Timestamp
from odfbuild.values import dataclass

CORRECT_FROM: Final = 2
CORRECT_TO: Final = 3


@dataclass(frozen=True, slots=True)
class Tail:
    """The last record before some others: its operation, and its system time in milliseconds.

    None where that is not known.
    """

    op: int | None = None
    time: int | None = None


START: Final = Tail(op=0)
"""Before the first record of a dataset: nothing there waits for a +C."""


def lone_from(offset: int) -> str:
    """Return what is wrong with a -C that has no +C."""
    return f"the record at offset {offset} is a -C, and no +C follows it"


def lone_to(offset: int) -> str:
    """Return what is wrong with a +C that has no -C."""
    return f"the record at offset {offset} is a +C, and no -C comes before it"


def schema_problems(
    found: pa.Schema, recorded: pa.Schema, vocab: DatasetVocabulary
) -> Iterator[str]:
    """Yield how the columns of a slice differ from those that the chain records.

    Encodings of one type are equal.  Whether a column may be null is for its rows to say, and so is
    how long lists are, which Parquet does not record.
    """
    columns = {field.name: field.type for field in found}
    for field in recorded:
        kind = columns.pop(field.name, None)
        if kind is None:
            yield f"it has no column {field.name!r}, which SetDataSchema names"
        elif _plain(kind) not in (_plain(field.type), _plain(field.type, lists=True)):
            yield f"its column {field.name!r} is {kind}, and {field.type} by SetDataSchema"
    for name in columns:
        yield f"it has a column {name!r}, which SetDataSchema does not name"
    if not columns and found.names != recorded.names:
        yield f"its columns are in the order {', '.join(found.names)}, not as in SetDataSchema"
    yield from _system_problems(recorded, vocab)


def _system_problems(schema: pa.Schema, vocab: DatasetVocabulary) -> Iterator[str]:
    known = {field.name: _plain(field.type) for field in schema}
    for name, accepts, expected in (
        (vocab.offset_column, _is_offset, "int64 or uint64"),
        (vocab.operation_type_column, _is_operation, "int32 or uint8"),
        (vocab.system_time_column, _is_instant, "a timestamp in UTC"),
        (vocab.event_time_column, _is_event_time, "a timestamp in UTC or a date"),
    ):
        if name not in known:
            yield f"it has no system column {name!r}"
        elif not accepts(known[name]):
            yield f"the system column {name!r} is {known[name]}, but must be {expected}"


def _is_offset(kind: pa.DataType) -> bool:
    return kind in (pa.int64(), pa.uint64())


def _is_operation(kind: pa.DataType) -> bool:
    return kind in (pa.int32(), pa.uint8())


def _is_instant(kind: Any) -> bool:
    return bool(pa.types.is_timestamp(kind)) and kind.tz == "UTC"


def _is_event_time(kind: Any) -> bool:
    return _is_instant(kind) or bool(pa.types.is_date32(kind))


def _plain(kind: Any, *, lists: bool = False) -> Any:
    """Return a type without what says nothing of its values: encodings, names of list items.

    With `lists` those of a fixed length are lists like others.
    """
    kind = storage_type(kind)
    plain = partial(_plain, lists=lists)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, plain(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(plain(kind.key_type), plain(kind.item_type))
    if pa.types.is_fixed_size_list(kind) and not lists:
        return pa.list_(pa.field("item", plain(kind.value_type)), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.field("item", plain(kind.value_type)))
    return _SAME.get(kind, kind)


_SAME: Final = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceTerms:
    """What the rows of one slice have to go by; times in milliseconds.

    `start` is the first offset, `before` the record before it.  No record is older than `earliest`
    or younger than `latest`, the time of the block; with `exact` all are as old as the block.
    """

    vocab: DatasetVocabulary
    start: int
    latest: int
    earliest: int | None = None
    exact: bool = False
    before: Tail = Tail()


class RowRules:
    """Checks the batches of one slice, in order; memory does not grow with them.

    `problems` are the first of each kind; `tail` is the last record so far, `takes_back` tells
    whether any record is a -R or -C.
    """

    def __init__(self, terms: SliceTerms, schema: pa.Schema) -> None:
        """Check rows of the columns `schema`, those of the schema in force."""
        self.tail = terms.before
        self.takes_back = False
        self.first_op: int | None = None
        self._terms = terms
        self._schema = schema
        self._next = terms.start
        self._required = tuple(field.name for field in schema if not field.nullable)
        self._nested = tuple(field for field in schema if pa.types.is_nested(field.type))
        self._problems: dict[str, str] = {}

    @property
    def problems(self) -> tuple[str, ...]:
        """Return what does not hold, the first of each kind."""
        return tuple(self._problems.values())

    def of_columns(self, found: pa.Schema) -> Iterator[str]:
        """Yield how the columns of the slice differ from those of the schema in force."""
        return schema_problems(found, self._schema, self._terms.vocab)

    def update(self, batch: pa.RecordBatch) -> None:
        """Check the next rows."""
        if batch.num_rows == 0:
            return
        vocab = self._terms.vocab
        self._nulls(batch)
        self._texts(batch)
        self._members(batch)
        self._offsets(self._column(batch, vocab.offset_column, pa.int64()))
        ops = self._column(batch, vocab.operation_type_column, pa.int64())
        times = self._column(batch, vocab.system_time_column, pa.timestamp("ms", "UTC"))
        op = None if ops is None else self._operations(ops)
        time = None if times is None else self._times(times.cast(pa.int64()))
        self.tail = Tail(op, time)
        self._next += batch.num_rows

    def _column(self, batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array | None:
        """Return a system column; None if it cannot be looked at, which `schema_problems` says."""
        at = batch.schema.get_field_index(name)
        if at < 0:
            return None
        column = storage(batch.column(at))
        if column.null_count:
            self._say("null " + name, pc.index(column.is_null(), True).as_py(), f"has no {name!r}")
            return None
        try:
            return column.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None

    def _say(self, kind: str, row: int, what: str) -> None:
        """Keep the first problem of a kind; `row` is its place in the batch."""
        self._problems.setdefault(kind, f"the record at offset {self._next + row} {what}")

    def _nulls(self, batch: pa.RecordBatch) -> None:
        system = (self._terms.vocab.offset_column, self._terms.vocab.operation_type_column)
        for name in self._required:
            at = batch.schema.get_field_index(name)
            if at >= 0 and name not in system and batch.column(at).null_count:
                row = pc.index(batch.column(at).is_null(), True).as_py()
                self._say("null " + name, row, f"has no {name!r}, which SetDataSchema requires")

    def _texts(self, batch: pa.RecordBatch) -> None:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            row = first_without_utf8(column)
            if row is not None:
                self._say("text " + name, row, f"has a text in {name!r} that is not UTF-8")

    def _members(self, batch: pa.RecordBatch) -> None:
        """Check what is inside of columns, where they have the recorded types."""
        for field in self._nested:
            at = batch.schema.get_field_index(field.name)
            if at < 0:
                continue
            column, lists = batch.column(at), _plain(field.type, lists=True)
            if _plain(column.type) not in (_plain(field.type), lists):
                continue
            row = first_of_other_length(column, field.type)
            if row is not None:
                what = f"has a list of another length in {field.name!r} than SetDataSchema records"
                self._say("length " + field.name, row, what)
            row = first_without_member(column, field)
            if row is not None:
                what = f"has a null inside of {field.name!r} where SetDataSchema requires a value"
                self._say("member " + field.name, row, what)

    def _offsets(self, found: pa.Array | None) -> None:
        if found is None:
            return
        expected = pc.cumulative_sum(
            pa.repeat(pa.scalar(1, pa.int64()), len(found)), start=self._next - 1
        )
        if not found.equals(expected):
            row = pc.index(pc.equal(found, expected), False).as_py()
            self._say("offset", row, f"has offset {found[row].as_py()}")

    def _operations(self, ops: pa.Array) -> int:
        """Check operations, and return the last one."""
        last: int = ops[-1].as_py()
        span = pc.min_max(ops).as_py()
        if self.first_op is None:
            self.first_op = ops[0].as_py()
        if span == {"min": 0, "max": 0} and self.tail.op != CORRECT_FROM:
            return last
        if span["min"] < 0 or span["max"] > CORRECT_TO:
            bad = pc.or_(pc.less(ops, 0), pc.greater(ops, CORRECT_TO))
            row = pc.index(bad, True).as_py()
            self._say(
                "op", row, f"has the operation {ops[row]}, which is not one of 0 to {CORRECT_TO}"
            )
        takes = pc.is_in(ops, value_set=pa.array([1, CORRECT_FROM], pa.int64()))
        self.takes_back |= bool(pc.any(takes).as_py())
        self._pairs(ops)
        return last

    def _pairs(self, ops: pa.Array) -> None:
        """Check that a +C comes directly after each -C, and nowhere else."""
        first = ops[0].as_py() if self.tail.op is None else self.tail.op
        if self.tail.op is None:  # nothing is known of the record before
            first = CORRECT_FROM if first == CORRECT_TO else 0
        before = pa.concat_arrays([pa.array([first], pa.int64()), ops[:-1]])
        lone = pc.and_(pc.equal(ops, CORRECT_TO), pc.not_equal(before, CORRECT_FROM))
        if pc.any(lone).as_py():
            row = pc.index(lone, True).as_py()
            self._problems.setdefault("+C", lone_to(self._next + row))
        left = pc.and_(pc.not_equal(ops, CORRECT_TO), pc.equal(before, CORRECT_FROM))
        if pc.any(left).as_py():
            row = pc.index(left, True).as_py() - 1
            self._problems.setdefault("-C", lone_from(self._next + row))

    def _times(self, times: pa.Array) -> int:
        """Check system times, in milliseconds, and return the last one."""
        terms, last = self._terms, times[-1].as_py()
        span = pc.min_max(times).as_py()
        own = span["min"] == span["max"] == terms.latest
        if own and (self.tail.time is None or self.tail.time <= terms.latest):
            return int(last)
        low = terms.earliest if self.tail.time is None else self.tail.time
        if terms.exact or span["max"] > terms.latest:
            bad = pc.not_equal(times, terms.latest)
            bad = bad if terms.exact else pc.greater(times, terms.latest)
            if pc.any(bad).as_py():
                row = pc.index(bad, True).as_py()
                of = Timestamp.from_millis(terms.latest)
                self._say("time", row, f"has the system time {_at(times[row])}, its block {of}")
        before = pa.concat_arrays(
            [pa.array([times[0].as_py() if low is None else low]), times[:-1]]
        )
        back = pc.less(times, before)
        if pc.any(back).as_py():
            row = pc.index(back, True).as_py()
            what = f"has the system time {_at(times[row])}, before {_at(before[row])}"
            self._say("time back", row, f"{what} of what is before it")
        return int(last)


def _at(millis: pa.Scalar) -> str:
    try:
        return str(Timestamp.from_millis(millis.as_py()))
    except OdfBuildError:
        return f"{millis.as_py()} ms since 1970"
