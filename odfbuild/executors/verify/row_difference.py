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
    import numpy as np
    import pyarrow as pa

PART_ROWS: Final = 1_000_000
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
                rows = rows.filter(pa.array(_spread(rows.select(self._key)) % parts == part))
            found.append(rows)
        every = pa.concat_tables(found)
        comes = pc.is_in(every.column(self._op), pa.array(sorted(_COMES), pa.int32()))
        weights = pc.if_else(comes, self._sign, -self._sign).combine_chunks().cast(pa.int64())
        return every.select(list(self.columns)), weights


def _spread(rows: "pa.Table") -> "np.ndarray[Any, np.dtype[np.uint64]]":
    """Return a number for each row, the same for equal ones."""
    import numpy as np

    from odfbuild.executors.data.rows import row_keys

    found = np.zeros(len(rows), np.uint64)
    for column in row_keys(rows).columns:
        found = (found ^ _numbers(column)) * np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(32)
    return found


def _numbers(column: "pa.ChunkedArray") -> "np.ndarray[Any, np.dtype[np.uint64]]":
    """Return a number for each value of a flat column, the same for equal ones."""
    import numpy as np
    import pyarrow as pa

    from odfbuild.executors.data.python_values import python_values

    kind = column.type
    if pa.types.is_floating(kind):
        kind = {32: pa.int32(), 64: pa.int64()}[kind.bit_width]
        column = pa.chunked_array([each.view(kind) for each in column.chunks], kind)
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    if pa.types.is_integer(column.type):
        numbers: np.ndarray[Any, Any] = column.fill_null(0).to_numpy()
        return numbers.astype(np.uint64)
    texts = (str(each).encode("utf-8", "surrogatepass") for each in python_values(column))
    return np.fromiter(map(crc32, texts), np.uint64, len(column))


@dataclass(frozen=True, slots=True)
class _Changes:
    """Changes of some rows, sorted: the rows of `rows` that went and came, or -1, and how often."""

    rows: "pa.Table"
    gone: "np.ndarray[Any, np.dtype[np.int64]]"
    came: "np.ndarray[Any, np.dtype[np.int64]]"
    times: "np.ndarray[Any, np.dtype[np.int64]]"

    @property
    def places(self) -> "np.ndarray[Any, np.dtype[np.int64]]":
        """The row that each change is sorted by: the one that came, or went."""
        import numpy as np

        return np.where(self.came < 0, self.gone, self.came)

    def first(self, key: Sequence[str], limit: int) -> "_Changes":
        """Return the first changes by key, or by all columns, and only their rows.

        Several changes of one key are sorted by all columns, so the parts do not show.
        """
        import numpy as np

        if not limit or not len(self.times):
            nothing = np.zeros(0, np.int64)
            return _Changes(self.rows.slice(0, 0), nothing, nothing, nothing)
        by_key = self.rows.select(list(key)) if key else self.rows
        order = _first(_sort_keys(by_key.take(self.places)), limit)
        if key:
            others = [name for name in self.rows.column_names if name not in key]
            rows = self.rows.select([*key, *others]).take(self.places[order])
            order = order[_first(_sort_keys(rows), limit)]
        order = order[:limit]
        gone, came = self.gone[order], self.came[order]
        kept = np.unique(np.concatenate([gone, came]))
        kept = kept[kept >= 0]
        return _Changes(
            self.rows.take(kept),
            np.where(gone < 0, -1, np.searchsorted(kept, gone)),
            np.where(came < 0, -1, np.searchsorted(kept, came)),
            self.times[order],
        )

    def and_of(self, other: "_Changes") -> "_Changes":
        """Return these changes and others, not sorted."""
        import numpy as np
        import pyarrow as pa

        gone, came = (
            np.where(each < 0, -1, each + len(self.rows)) for each in (other.gone, other.came)
        )
        return _Changes(
            pa.concat_tables([self.rows, other.rows]),
            np.concatenate([self.gone, gone]),
            np.concatenate([self.came, came]),
            np.concatenate([self.times, other.times]),
        )


def _sort_keys(rows: "pa.Table") -> "pa.Table":
    """Return columns by whose ascending order rows are sorted."""
    import pyarrow as pa

    from odfbuild.executors.data.rows import row_keys, sort_columns

    columns = sort_columns(row_keys(rows))
    return pa.table(columns, names=[str(number) for number in range(len(columns))])


def _first(keys: "pa.Table", limit: int) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Return the first rows in order, and all that have the key of the last of them."""
    import numpy as np
    import pyarrow.compute as pc

    order = pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names]).to_numpy()
    first, others = order[:limit], order[limit:]
    same = np.ones(len(others), bool)
    for column in keys.columns:
        last, rest = column[int(first[-1])], column.take(others)
        alike = pc.equal(rest, last).fill_null(False) if last.is_valid else rest.is_null()
        same &= alike.to_numpy()
    return np.concatenate([first, others[same]]).astype(np.int64)


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

        left, sums = net_of(rows, weights)
        found = self._changes(left, sums.to_numpy()).first(self.key, self.limit)
        both = found if self.first is None else self.first.and_of(found)
        self.first = both.first(self.key, self.limit)

    def shown(self) -> Iterator[RowChange]:
        """Yield the first changes."""
        from odfbuild.executors.data.python_values import python_rows

        if self.first is None:
            return
        rows = python_rows(self.first.rows)
        for gone, came, times in zip(
            self.first.gone, self.first.came, self.first.times, strict=True
        ):
            before, after = (None if at < 0 else rows[at] for at in (gone, came))
            yield RowChange(before, after, int(times))

    def _changes(self, rows: "pa.Table", sums: "np.ndarray[Any, Any]") -> _Changes:
        """Return all changes: pairs of one key, and rows that went or came without the other."""
        import numpy as np

        gone, came = self._pairs(rows, sums) if self.key else (np.zeros(0, np.int64),) * 2
        alone = np.ones(len(sums), bool)
        alone[gone] = alone[came] = False
        places = np.flatnonzero(alone)
        left = sums[places]
        self.changed += len(gone)
        self.removed -= int(left[left < 0].sum())
        self.added += int(left[left > 0].sum())
        return _Changes(
            rows,
            np.concatenate([gone, np.where(left < 0, places, -1)]),
            np.concatenate([came, np.where(left > 0, places, -1)]),
            np.concatenate([np.ones(len(gone), np.int64), np.abs(left)]),
        )

    def _pairs(
        self, rows: "pa.Table", sums: "np.ndarray[Any, Any]"
    ) -> tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]:
        """Return the rows of keys that have one that went, once, and one that came, once."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        from odfbuild.executors.data.rows import row_keys

        keys = row_keys(rows.select(list(self.key)))
        names, places = keys.column_names, np.arange(len(sums))
        table = keys.append_column("gone", pa.array(places, mask=sums > 0))
        table = table.append_column("came", pa.array(places, mask=sums < 0))
        table = table.append_column("weight", pa.array(np.abs(sums)))
        asked = [("gone", "count"), ("gone", "min"), ("came", "count"), ("came", "min")]
        found = table.group_by(names, use_threads=False).aggregate([*asked, ("weight", "sum")])
        one = pc.and_(pc.equal(found["gone_count"], 1), pc.equal(found["came_count"], 1))
        found = found.filter(pc.and_(one, pc.equal(found["weight_sum"], 2)))
        return found["gone_min"].to_numpy(), found["came_min"].to_numpy()
