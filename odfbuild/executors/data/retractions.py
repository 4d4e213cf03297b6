"""Rows of changelogs matched in bounded memory: each -R and -C with the row that it takes back.

A row is taken back by a record that equals it in all columns but offset, op and system time, where
equal means what it means in GROUP BY.  Each record becomes a 64-bit keyed hash of these columns,
its offset, and +1 or -1; no running sum of one hash may fall below zero.  Up to
`HASHES_IN_MEMORY` records stay in memory (17 bytes each), more go to
temporary files, parted by hash and summed up part by part.
Two different rows of one hash, which 30 million rows have with a chance of 1 to 40,000, could hide
a fault between them, and never make one up: the key is drawn again each time.

The current rows of two changelogs are compared in the same way: those of one with +1, those of the
other with -1.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.data.changelog import COMES, retracted_in_vain
from odfbuild.executors.data.checks.verified_files import all_files
from odfbuild.executors.data.lookup import KeyTable, look_up
from odfbuild.executors.data.parquet import scan_slices
from odfbuild.executors.data.rows import row_keys
from odfbuild.executors.data.seal import Sealed
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import DataSchema, DatasetVocabulary
from odfbuild.odf.hashing import storage
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.state.chain.dataset import Dataset
from odfbuild.values import dataclass

HASHES_IN_MEMORY: Final = 1 << 21
PARTS: Final = 64
_MOST: Final = 64 << 20  # bytes of old rows that may be equal to those taken back
_MOST_KEYS: Final = 200_000
_SCHEMA: Final = pa.schema([("key", pa.int64()), ("at", pa.int64()), ("sign", pa.int8())])


def rows_in_vain(
    paths: Sequence[Path], schema: DataSchema, vocab: DatasetVocabulary
) -> tuple[int, ...]:
    """Return the offsets of records that take back what is not there, the first of each row.

    `paths` are all slices of a dataset, oldest first, read with the schema in force last.
    """
    op, offset = vocab.operation_type_column, vocab.offset_column
    system = (offset, op, vocab.system_time_column)
    columns = [field.name for field in schema.fields if field.name not in system]
    with Retractions() as retractions:
        for batch in scan_slices(paths, [*columns, op, offset], schema=schema):
            rows = pa.Table.from_batches([batch])
            retractions.add(rows.select(columns), batch.column(op), batch.column(offset))
        return retractions.in_vain()


@dataclass(frozen=True, slots=True)
class UnequalRows:
    """How many current rows of two changelogs only one of them has, and an offset of the first."""

    only_first: int = 0
    only_second: int = 0
    first: int | None = None
    second: int | None = None


def unequal_rows(
    first: Sequence[Path],
    second: Sequence[Path],
    schema: DataSchema,
    vocab: DatasetVocabulary,
    held: int = HASHES_IN_MEMORY,
) -> UnequalRows:
    """Compare the current rows of two changelogs, whatever their order.

    The offsets of the second have to come after those of the first.  Up to `held` hashes are in
    memory.
    """
    op, offset = vocab.operation_type_column, vocab.offset_column
    system = (offset, op, vocab.system_time_column)
    columns = [field.name for field in schema.fields if field.name not in system]
    found = UnequalRows()
    with Retractions(held) as rows:
        for paths, sign in ((first, 1), (second, -1)):
            for batch in scan_slices(paths, [*columns, op, offset], schema=schema):
                data = pa.Table.from_batches([batch]).select(columns)
                rows.add(data, batch.column(op), batch.column(offset), sign=sign)
        for sums in rows.sums():
            more = sums.filter(pc.greater(sums.column("sum"), 0))
            less = sums.filter(pc.less(sums.column("sum"), 0))
            found = UnequalRows(
                found.only_first + (pc.sum(more.column("sum")).as_py() or 0),
                found.only_second - (pc.sum(less.column("sum")).as_py() or 0),
                _least(found.first, pc.min(more.column("first")).as_py()),
                _least(found.second, pc.min(less.column("last")).as_py()),
            )
    return found


def _least(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


def check_retractions(dataset: Dataset, state: ChainState, sealed: Sealed) -> None:
    """Refuse new rows that take back what is not there; `state` is the dataset before them.

    Of the rows before, only those are read that may be equal, by the statistics of the files; all,
    if these are too many for memory.  Raises InvalidChangelogError.
    """
    if not sealed.takes_back:
        return
    old = all_files(dataset, state.head)
    new = [each.path for each in sealed.slices]
    vocab = state.vocab
    system = (vocab.offset_column, vocab.operation_type_column, vocab.system_time_column)
    columns = [field.name for field in sealed.schema.fields if field.name not in system]
    found = _may_be_equal(old, new, columns, sealed.schema, vocab)
    if found is None:
        in_vain = rows_in_vain([*old, *new], sealed.schema, vocab)
    else:
        with Retractions() as retractions:
            for rows in (found, *_batches(new, [*columns, *system[:2]], sealed.schema)):
                op, offset = (rows.column(name).combine_chunks() for name in system[1::-1])
                retractions.add(rows.select(columns), op, offset)
            in_vain = retractions.in_vain()
    for offset in in_vain:
        raise retracted_in_vain(offset)


def _may_be_equal(
    old: Sequence[Path],
    new: Sequence[Path],
    columns: Sequence[str],
    schema: DataSchema,
    vocab: DatasetVocabulary,
) -> pa.Table | None:
    """Return old rows, among them all that new ones may take back; None if they are too many."""
    op, offset = vocab.operation_type_column, vocab.offset_column
    types = to_arrow(schema)
    plain = [
        name for name in columns if KeyTable.of(types.empty_table().select([name])) is not None
    ]
    taken: list[pa.Table] = []
    for rows in _batches(new, [*plain, op], schema):
        comes = pc.is_in(rows.column(op), value_set=pa.array(COMES, types.field(op).type))
        taken.append(rows.filter(pc.invert(comes)).select(plain))
        if sum(each.num_rows for each in taken) > _MOST_KEYS:
            return None
    keys = pa.concat_tables(taken).group_by(plain).aggregate([]) if plain and taken else None
    wanted = pa.schema([types.field(name) for name in (*columns, op, offset)])
    found = look_up(old, wanted, None if keys is None else KeyTable.of(keys), most=_MOST)
    return None if found is None else found.rows


def _batches(
    paths: Sequence[Path], columns: Sequence[str], schema: DataSchema
) -> Iterator[pa.Table]:
    for batch in scan_slices(paths, columns, schema=schema):
        yield pa.Table.from_batches([batch])


class Retractions:
    """Records of a changelog in order, and which of them take back what is not there."""

    def __init__(self, held: int = HASHES_IN_MEMORY) -> None:
        """Keep up to so many records in memory."""
        self._most = held
        self._held: list[pa.Table] = []
        self._rows = 0
        self._hash = _RowHash()
        self._files: list[Any] = []
        self._folder: Path | None = None
        self._open = ExitStack()

    def __enter__(self) -> "Retractions":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def add(self, data: pa.Table, ops: pa.Array, offsets: pa.Array, *, sign: int = 1) -> None:
        """Take the next records: their columns but for the system's, operations and offsets.

        With a `sign` of -1 they count as taken back by what they are.
        """
        if not len(ops):
            return
        comes = pc.is_in(ops, value_set=pa.array(COMES, ops.type))
        signs = pc.if_else(comes, pa.scalar(sign, pa.int8()), pa.scalar(-sign, pa.int8()))
        keys = self._hash.of(data)
        self._held.append(pa.table([keys, offsets.cast(pa.int64()), signs], schema=_SCHEMA))
        self._rows += len(ops)
        if self._rows >= self._most:
            self._spill()

    def in_vain(self) -> tuple[int, ...]:
        """Return the offsets of those that take back what is not there, the first of each row."""
        found = [at for part in self._parts() for at in _below_zero(part)]
        return tuple(sorted(found))

    def sums(self) -> Iterator[pa.Table]:
        """Yield the `sum`, and `first` and `last` offset, of rows whose sum is not zero."""
        for part in self._parts():
            signs = part.set_column(2, "sign", part.column("sign").cast(pa.int64()))
            totals = signs.group_by("key").aggregate(
                [("sign", "sum"), ("at", "min"), ("at", "max")]
            )
            totals = totals.rename_columns({"sign_sum": "sum", "at_min": "first", "at_max": "last"})
            yield totals.filter(pc.not_equal(totals.column("sum"), 0))

    def _parts(self) -> Iterator[pa.Table]:
        if self._folder is not None:
            self._spill()
            for each in self._files:
                each.close()
        if self._folder is None:
            yield pa.concat_tables(self._held) if self._held else _SCHEMA.empty_table()
            return
        for number in range(PARTS):
            with pa.ipc.open_stream(str(self._folder / str(number))) as part:
                yield part.read_all()

    def _spill(self) -> None:
        if self._folder is None:
            name = self._open.enter_context(tempfile.TemporaryDirectory(prefix="odfbuild-verify-"))
            self._folder = Path(name)
            self._files = [
                self._open.enter_context(pa.ipc.new_stream(str(self._folder / str(n)), _SCHEMA))
                for n in range(PARTS)
            ]
        rows = pa.concat_tables(self._held) if self._held else _SCHEMA.empty_table()
        part = pc.bit_wise_and(rows.column("key"), PARTS - 1)
        for number, file in enumerate(self._files):
            file.write_table(rows.filter(pc.equal(part, number)))
        self._held, self._rows = [], 0


def _below_zero(rows: pa.Table) -> list[int]:
    """Return for each hash whose running sum falls below zero the offset where it first does."""
    if not rows.num_rows:
        return []
    rows = rows.take(pc.sort_indices(rows, [("key", "ascending"), ("at", "ascending")]))
    rows = rows.combine_chunks()
    key, sign = rows.column("key").chunk(0), rows.column("sign").chunk(0).cast(pa.int64())
    total = pc.cumulative_sum(sign)
    starts = pa.concat_arrays([pa.array([True]), pc.not_equal(key[1:], key[:-1])])
    none = pa.scalar(None, pa.int64())
    base = pc.fill_null_forward(pc.if_else(starts, pc.subtract(total, sign), none))
    below = rows.filter(pc.less(pc.subtract(total, base), 0))
    found: list[int] = below.group_by("key").aggregate([("at", "min")]).column("at_min").to_pylist()
    return found


class _RowHash:
    """A keyed hash of rows, equal for rows that are equal: multilinear over 32-bit halves.

    Two sums modulo 2**64, each with a random factor for every half of every column, give 32 good
    bits each (Lemire and Kaser, "Strongly universal string hashing is fast").
    """

    def __init__(self) -> None:
        self._factors: list[int] = []

    def of(self, data: pa.Table) -> pa.Array:
        """Return the hashes of the rows of a table; all tables have the same columns."""
        columns = (storage(each.combine_chunks()) for each in row_keys(data).columns)
        sums = [pa.repeat(pa.scalar(0, pa.int64()), data.num_rows)] * 2
        for number, half in enumerate(each for column in columns for each in _halves(column)):
            for at in range(2):
                factor = self._factor(2 * number + at)
                sums[at] = pc.add(sums[at], pc.multiply(half, factor))
        high, low = (_half(each, 32) for each in sums)
        return pc.bit_wise_or(pc.shift_left(high, 32), low)

    def _factor(self, number: int) -> pa.Scalar:
        while len(self._factors) <= number:
            self._factors.append(int.from_bytes(os.urandom(8), "little", signed=True))
        return pa.scalar(self._factors[number], pa.int64())


def _halves(column: Any) -> Iterator[pa.Array]:
    """Yield numbers below 2**32 that stand for a column: two for its values, one for its nulls."""
    numbers = _numbers(column)
    if numbers.null_count:
        numbers = pc.fill_null(numbers, 0)
    yield _half(numbers, 32)
    yield _half(numbers, 0)
    yield column.is_null().cast(pa.int64())


def _half(numbers: pa.Array, shift: int) -> pa.Array:
    """Return 32 bits of 64-bit numbers."""
    mask = pa.scalar((1 << 32) - 1, pa.int64())
    return pc.bit_wise_and(pc.shift_right(numbers, shift) if shift else numbers, mask)


def _numbers(column: Any) -> pa.Array:
    """Return 64-bit numbers for the values of a column: different ones for all fixed widths."""
    kind = column.type
    width = 1 if pa.types.is_null(kind) else getattr(kind, "bit_width", 0) if _is_fixed(kind) else 0
    match width:
        case 64:
            return column.view(pa.int64())
        case 32:
            return column.view(pa.int32()).cast(pa.int64())
        case 1 | 8 | 16:
            return column.cast(pa.int64())
    distinct = column.dictionary_encode()
    words = pa.array(map(_hash, distinct.dictionary.to_pylist()), pa.int64())
    return words.take(distinct.indices)


def _is_fixed(kind: Any) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_temporal(kind)
    )


def _hash(value: object) -> int:
    """Return a keyed hash of text, bytes or a number; the key is that of the process."""
    return hash(value if isinstance(value, str | bytes) else str(value))
