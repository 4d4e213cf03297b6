"""Differences of the rows of a dataset between two of its blocks.

Only slices between the two are read, since history only grows: an append or the new half of a
correction adds a row, a retraction or the old half takes one away, and what is left of both is the
difference.  Rows are counted in parts by their hash, so that memory is bounded by one part.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeAlias
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

PART_ROWS: Final = 500_000
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
        counting.count(reading.rows(), part, parts)
    return RowDifference(
        key=counting.key,
        columns=reading.columns,
        slices=len(slices),
        added=counting.added,
        removed=counting.removed,
        changed=counting.changed,
        shown=tuple(change for _, change in counting.shown),
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


@dataclass(frozen=True, slots=True)
class _Weighed:
    """A row without its system columns; what it has in common with equal rows, and with its key.

    `weight` is 1 if it comes and -1 if it goes, or the sum of those of equal rows.
    """

    row: _Row
    whole: tuple[Any, ...]
    place: tuple[Any, ...]
    weight: int


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
        self._key = key

    def rows(self) -> Iterator[_Weighed]:
        """Yield each row by itself."""
        import pyarrow as pa

        from odfbuild.executors.data.parquet import scan_slices
        from odfbuild.executors.data.python_values import python_rows
        from odfbuild.executors.data.rows import hashable_keys

        assert self._schema is not None  # noqa: S101 - a slice follows a schema
        for batch in scan_slices(self._paths, schema=self._schema):
            table = pa.Table.from_batches([batch])
            data = table.select(list(self.columns))
            wholes = list(hashable_keys(data))
            places = list(hashable_keys(data.select(list(self._key)))) if self._key else wholes
            operations = table.column(self._op).to_pylist()
            rows = zip(python_rows(data), wholes, places, operations, strict=True)
            for row, whole, place, operation in rows:
                weight = self._sign if operation in _COMES else -self._sign
                yield _Weighed(row, whole, place, weight)


@dataclass(slots=True)
class _RowCounter:
    """What is left of the rows, part by part; `shown` are the first changes in order."""

    key: tuple[str, ...]
    limit: int
    added: int = 0
    removed: int = 0
    changed: int = 0
    shown: list[tuple[tuple[Any, ...], RowChange]] = field(default_factory=list)

    def count(self, rows: Iterator[_Weighed], part: int, parts: int) -> None:
        """Take in the rows of one part, which has all rows that could cancel each other."""
        left: dict[Hashable, _Weighed] = {}
        for each in rows:
            if parts > 1 and crc32(repr(each.place).encode()) % parts != part:
                continue
            weight = each.weight + (left[each.whole].weight if each.whole in left else 0)
            if weight:
                left[each.whole] = replace(each, weight=weight)
            else:
                del left[each.whole]
        self._show_changes(left.values())

    def _show_changes(self, left: Collection[_Weighed]) -> None:
        grouped: dict[Hashable, list[tuple[int, _Row]]] = defaultdict(list)
        for number, each in enumerate(left):
            grouped[each.place if self.key else number].append((each.weight, each.row))
        found = [change for group in grouped.values() for change in self._changes(group)]
        ordered = sorted(((_order(self._sorted_by(each)), each) for each in found), key=_first)
        self.shown = sorted([*self.shown, *ordered[: self.limit]], key=_first)[: self.limit]

    def _sorted_by(self, change: RowChange) -> list[Any]:
        row = change.after if change.before is None else change.before
        assert row is not None  # noqa: S101 - one of the two is there
        return [row[name] for name in self.key or row]

    def _changes(self, group: list[tuple[int, _Row]]) -> Iterator[RowChange]:
        gone = [(weight, row) for weight, row in group if weight < 0]
        came = [(weight, row) for weight, row in group if weight > 0]
        if [weight for weight, _ in gone] == [-1] and [weight for weight, _ in came] == [1]:
            self.changed += 1
            yield RowChange(gone[0][1], came[0][1])
            return
        for weight, row in gone:
            self.removed -= weight
            yield RowChange(row, None, -weight)
        for weight, row in came:
            self.added += weight
            yield RowChange(None, row, weight)


def _first(entry: tuple[tuple[Any, ...], RowChange]) -> tuple[Any, ...]:
    return entry[0]


def _order(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(map(_rank, values))


def _rank(value: Any) -> tuple[float, Any]:
    """Return something that values of one column can be ordered by, nulls first."""
    from odfbuild.executors.data.python_values import FarTime

    match value:
        case None:
            return 0, 0
        case FarTime():
            side, number = value.rank
            return 1 + side / 2, number
        case float() if math.isnan(value):
            return 2, 0
        case bool() | int() | float() | Decimal():
            return 1, value
        case str() | bytes() | date() | time():
            return 1, value
        case _:
            return 3, repr(value)
