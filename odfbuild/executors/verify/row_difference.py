"""Differences of the rows of a dataset between two of its blocks.

Only slices between the two are read, since history only grows: an append or the new half of a
correction adds a row, a retraction or the old half takes one away, and what is left of both is the
difference.  Rows are counted in parts by a number made of their key, so that memory is bounded by
one part.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from zlib import crc32

from odfbuild.errors import StateError
from odfbuild.executors.data.checks.verified_files import data_files
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import AddData, DataSlice, ExecuteTransform
from odfbuild.odf.identity import Multihash
from odfbuild.odf.merge_strategies import key_of
from odfbuild.state.chain.dataset import Dataset, NotInChainError
from odfbuild.state.chain.refs import ancestry
from odfbuild.values import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

PART_ROWS: Final = 1_000_000
_FACTOR: Final = 0x9E3779B97F4A7C15  # of Fibonacci hashing: 2^64 by the golden ratio, odd
_COMES: Final = frozenset({0, 3})  # append, and the new half of a correction ("Operation Types")

_Row: TypeAlias = Mapping[str, Any]


class UnrelatedBlocksError(StateError):
    """Two blocks do not belong to the same history."""

    code = "unrelated-blocks"


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row that went, one that came, or both of one key; `times` counts equal ones."""

    before: _Row | None
    after: _Row | None
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDifference:
    """The rows that differ: how many of each kind, and the first of them by key or by value.

    `key` is the primary key, empty if there is none: then no row is the changed form of another.
    `columns` are those of the rows.
    """

    key: tuple[str, ...]
    columns: tuple[str, ...]
    slices: int
    added: int = 0
    removed: int = 0
    changed: int = 0
    shown: tuple[RowChange, ...] = ()


def before_last(dataset: Dataset, block: Multihash) -> Multihash:
    """Return the block before the last one, at or before `block`, that brought rows."""
    for _, each in ancestry(dataset, block):
        if _slice_of(each.event) is not None and each.prev_block_hash is not None:
            return each.prev_block_hash
    return block


def row_difference(dataset: Dataset, start: Multihash, end: Multihash, limit: int) -> RowDifference:
    """Return how the rows at `end` differ from those at `start`, the first `limit` of them whole.

    A start that comes after the end gives what goes away on the way back.  Raises
    UnrelatedBlocksError when neither comes before the other.
    """
    first, last, sign = _oldest_first(dataset, start, end)
    state = dataset.state(last)
    assert state is not None  # noqa: S101 - there is a block
    slices = _slices(dataset, first, last)
    key = _primary_key(state)
    paths = data_files(dataset, slices, f"the dataset {dataset.id}")
    reading, counting = _SliceRows(paths, state, sign, key), _RowCounter(key, limit)
    rows = sum(s.offset_interval.end - s.offset_interval.start + 1 for s in slices)
    parts = math.ceil(rows / PART_ROWS)
    for part in range(parts):
        counting.count(*reading.part(part, parts))
    return RowDifference(
        key=counting.key,
        columns=reading.columns,
        slices=len(slices),
        added=counting.added,
        removed=counting.removed,
        changed=counting.changed,
        shown=tuple(counting.shown()),
    )


def _oldest_first(
    dataset: Dataset, start: Multihash, end: Multihash
) -> tuple[Multihash, Multihash, int]:
    """Return both blocks, the earlier one first, and -1 if they had to be turned round."""
    for first, last, sign in ((start, end, 1), (end, start, -1)):
        try:
            dataset.blocks(first, last)
        except NotInChainError:
            continue
        return first, last, sign
    raise UnrelatedBlocksError(
        what=f"neither {start.short()} nor {end.short()} comes before the other",
        why="only blocks of one chain can be compared",
        fix="compare each with a block that comes before both; odfbuild log shows them",
    )


def _slices(dataset: Dataset, first: Multihash, last: Multihash) -> tuple[DataSlice, ...]:
    found = (_slice_of(block.event) for _, block in dataset.blocks(first, last))
    return tuple(each for each in found if each)


def _slice_of(event: object) -> DataSlice | None:
    return event.new_data if isinstance(event, AddData | ExecuteTransform) else None


def _primary_key(state: ChainState) -> tuple[str, ...]:
    """Return the key by which the sources of a dataset merge, if they agree on one."""
    keys = {key_of(each.merge) for each in state.sources}
    return keys.pop() if len(keys) == 1 else ()


class _SliceRows:
    """The rows of some slices, and whether each comes or goes."""

    def __init__(
        self, paths: Sequence[Path], state: ChainState, sign: int, key: tuple[str, ...]
    ) -> None:
        vocab = state.vocab
        self._paths = paths
        self._schema = schema_in_force(state)
        self._op = vocab.operation_type_column
        system = {vocab.offset_column, vocab.system_time_column, self._op}
        fields = () if self._schema is None else self._schema.fields
        self.columns = tuple(each.name for each in fields if each.name not in system)
        self._sign = sign
        self._key = list(key or self.columns)

    def part(self, part: int, parts: int) -> tuple["pa.Table", "pa.Array"]:
        """Return the rows of one of several parts, which has all rows that are equal or have one
        key, and for each 1 if it comes and -1 if it goes.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        from odfbuild.executors.data.parquet import scan_slices

        assert self._schema is not None  # noqa: S101 - a slice follows a schema
        found = []
        for batch in scan_slices(self._paths, schema=self._schema):
            rows = pa.Table.from_batches([batch])
            if parts > 1:
                rows = rows.filter(pc.equal(_spread(rows.select(self._key), parts), part))
            found.append(rows)
        every = pa.concat_tables(found)
        comes = pc.is_in(every.column(self._op), pa.array(sorted(_COMES), pa.int32()))
        weights = pc.if_else(comes, self._sign, -self._sign).combine_chunks().cast(pa.int64())
        return every.select(list(self.columns)), weights


def _spread(rows: "pa.Table", parts: int) -> "pa.ChunkedArray":
    """Return the part that each row is in, the same for equal ones."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from odfbuild.executors.data.rows import row_keys

    factor, half, count = (pa.scalar(each, pa.uint64()) for each in (_FACTOR, 32, parts))
    found = pa.chunked_array([pa.repeat(pa.scalar(0, pa.uint64()), len(rows))])
    for column in row_keys(rows).columns:
        found = pc.multiply(pc.bit_wise_xor(found, _numbers(column)), factor)
        found = pc.bit_wise_xor(found, pc.shift_right(found, half))
    return pc.subtract(found, pc.multiply(pc.divide(found, count), count))


def _numbers(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Return a number of 64 bits for each value of a flat column, the same for equal ones."""
    import pyarrow as pa

    from odfbuild.executors.data.python_values import python_values

    kind = column.type
    if pa.types.is_floating(kind):
        kind = {32: pa.int32(), 64: pa.int64()}[kind.bit_width]
        column = pa.chunked_array([each.view(kind) for each in column.chunks], kind)
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    if pa.types.is_integer(column.type):
        return column.fill_null(0).cast(pa.uint64(), safe=False)
    texts = (str(each).encode("utf-8", "surrogatepass") for each in python_values(column))
    return pa.chunked_array([pa.array(map(crc32, texts), pa.uint64())])


@dataclass(frozen=True, slots=True)
class _Changes:
    """Changes of some rows, sorted: the rows of `rows` that went and came, and how often.

    A change has no row that went, or none that came, where the number of the row is null.
    """

    rows: "pa.Table"
    gone: "pa.Array"
    came: "pa.Array"
    times: "pa.Array"

    @property
    def places(self) -> "pa.Array":
        """The row that each change is sorted by: the one that came, or went."""
        import pyarrow.compute as pc

        return pc.coalesce(self.came, self.gone)

    def first(self, key: Sequence[str], limit: int) -> "_Changes":
        """Return the first changes by key, or by all columns, and only their rows.

        Several changes of one key are sorted by all columns, so the parts do not show.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        if not limit or not len(self.times):
            nothing = pa.array([], pa.int64())
            return _Changes(self.rows.slice(0, 0), nothing, nothing, nothing)
        by_key = self.rows.select(list(key)) if key else self.rows
        order = _first(_sort_keys(by_key.take(self.places)), limit)
        if key:
            others = [name for name in self.rows.column_names if name not in key]
            rows = self.rows.select([*key, *others]).take(self.places.take(order))
            order = order.take(_first(_sort_keys(rows), limit))
        order = order[:limit]
        gone, came = self.gone.take(order), self.came.take(order)
        kept = pc.unique(pa.concat_arrays([gone, came])).drop_null()
        return _Changes(
            self.rows.take(kept),
            pc.index_in(gone, value_set=kept).cast(pa.int64()),
            pc.index_in(came, value_set=kept).cast(pa.int64()),
            self.times.take(order),
        )

    def and_of(self, other: "_Changes") -> "_Changes":
        """Return these changes and others, not sorted."""
        import pyarrow as pa
        import pyarrow.compute as pc

        gone, came = (pc.add(each, len(self.rows)) for each in (other.gone, other.came))
        return _Changes(
            pa.concat_tables([self.rows, other.rows]),
            pa.concat_arrays([self.gone, gone]),
            pa.concat_arrays([self.came, came]),
            pa.concat_arrays([self.times, other.times]),
        )


def _sort_keys(rows: "pa.Table") -> "pa.Table":
    """Return columns by whose ascending order rows are sorted."""
    import pyarrow as pa

    from odfbuild.executors.data.rows import row_keys, sort_columns

    columns = sort_columns(row_keys(rows))
    return pa.table(columns, names=[str(number) for number in range(len(columns))])


def _first(keys: "pa.Table", limit: int) -> "pa.Array":
    """Return the first rows in order, and all that have the key of the last of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    order = pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names])
    first, others = order[:limit], order[limit:]
    same = pa.chunked_array([pa.repeat(pa.scalar(True), len(others))])
    for column in keys.columns:
        last, rest = column[first[-1].as_py()], column.take(others)
        alike = pc.equal(rest, last).fill_null(False) if last.is_valid else rest.is_null()
        same = pc.and_(same, alike)
    return pa.concat_arrays([first, others.filter(same.combine_chunks())])


@dataclass(slots=True)
class _RowCounter:
    """What is left of the rows, part by part; `first` are the first changes in order."""

    key: tuple[str, ...]
    limit: int
    added: int = 0
    removed: int = 0
    changed: int = 0
    first: _Changes | None = None

    def count(self, rows: "pa.Table", weights: "pa.Array") -> None:
        """Take in the rows of one part, which has all rows that could cancel each other."""
        from odfbuild.executors.data.rows import net_of

        found = self._changes(*net_of(rows, weights)).first(self.key, self.limit)
        both = found if self.first is None else self.first.and_of(found)
        self.first = both.first(self.key, self.limit)

    def shown(self) -> Iterator[RowChange]:
        """Yield the first changes."""
        from odfbuild.executors.data.python_values import python_rows

        if self.first is None:
            return
        rows = python_rows(self.first.rows)
        places = (self.first.gone, self.first.came, self.first.times)
        for gone, came, times in zip(*(each.to_pylist() for each in places), strict=True):
            before, after = (None if at is None else rows[at] for at in (gone, came))
            yield RowChange(before, after, times)

    def _changes(self, rows: "pa.Table", sums: "pa.Array") -> _Changes:
        """Return all changes: pairs of one key, and rows that went or came without the other."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from odfbuild.executors.data.conformance import row_numbers

        nothing = pa.array([], pa.int64())
        gone, came = self._pairs(rows, sums) if self.key else (nothing, nothing)
        numbers = row_numbers(len(sums))
        alone = pc.invert(pc.is_in(numbers, value_set=pa.concat_arrays([gone, came])))
        places, left = numbers.filter(alone), sums.filter(alone)
        goes, comes = pc.less(left, 0), pc.greater(left, 0)
        none = pa.scalar(None, pa.int64())
        self.changed += len(gone)
        self.removed -= pc.sum(left.filter(goes), min_count=0).as_py()
        self.added += pc.sum(left.filter(comes), min_count=0).as_py()
        return _Changes(
            rows,
            pa.concat_arrays([gone, pc.if_else(goes, places, none)]),
            pa.concat_arrays([came, pc.if_else(comes, places, none)]),
            pa.concat_arrays([pa.repeat(pa.scalar(1, pa.int64()), len(gone)), pc.abs(left)]),
        )

    def _pairs(self, rows: "pa.Table", sums: "pa.Array") -> tuple["pa.Array", "pa.Array"]:
        """Return the rows of keys that have one that went, once, and one that came, once."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from odfbuild.executors.data.conformance import row_numbers
        from odfbuild.executors.data.rows import row_keys

        keys = row_keys(rows.select(list(self.key)))
        names, places, none = keys.column_names, row_numbers(len(sums)), pa.scalar(None, pa.int64())
        table = keys.append_column("gone", pc.if_else(pc.less(sums, 0), places, none))
        table = table.append_column("came", pc.if_else(pc.greater(sums, 0), places, none))
        table = table.append_column("weight", pc.abs(sums))
        asked = [("gone", "count"), ("gone", "min"), ("came", "count"), ("came", "min")]
        found = table.group_by(names, use_threads=False).aggregate([*asked, ("weight", "sum")])
        one = pc.and_(pc.equal(found["gone_count"], 1), pc.equal(found["came_count"], 1))
        found = found.filter(pc.and_(one, pc.equal(found["weight_sum"], 2)))
        return found["gone_min"].combine_chunks(), found["came_min"].combine_chunks()
