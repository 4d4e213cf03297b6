"""Differences of rows between two blocks, definitions or revisions.

Only slices between the two are read, since history only grows: an append or the new half of a
correction adds a row, a retraction or the old half takes one away, and what is left of both is the
difference.  Rows are counted in parts by their hash, so that memory is bounded by one part.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from zlib import crc32

from odfbuild import app
from odfbuild.app.load_project import locked_columns
from odfbuild.errors import StateError
from odfbuild.executors.data.checks.verified_files import data_files
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState, vocabulary
from odfbuild.odf.events import (
    AddData,
    AddPushSource,
    AttachmentsEmbedded,
    DataSchema,
    DataSlice,
    ExecuteTransform,
    MetadataEvent,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetVocab,
)
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.merge_strategies import key_of
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared, NotDeclaredError
from odfbuild.planner.diff import diff, vocabulary_event
from odfbuild.planner.select.facts import selection_graph
from odfbuild.planner.select.parse import parse_selector
from odfbuild.planner.select.select import SelectionGraph, select
from odfbuild.state.chain.dataset import Dataset, NotInChainError
from odfbuild.state.chain.refs import ancestry
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.planner.evolution.columns.resolve import Resolved


Names = Callable[[DatasetAlias | DatasetId], DatasetAlias | DatasetId]

DECLARED = "declared"
PART_ROWS = 500_000
_COMES = frozenset({0, 3})  # append, and the new half of a correction ("Operation Types")
_GIT = "git:"
_EMPTY = (SetInfo(), SetAttachments(AttachmentsEmbedded(())))

_Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What holds on one side: events by the place that they take, and the data columns.

    `unset` are places that a definition leaves out and that stay as they are then.  `schema` is
    None where there is none or it is not known; then `unknown` says why.
    """

    title: str
    events: Mapping[str, MetadataEvent]
    unset: frozenset[str] = frozenset()
    schema: DataSchema | None = None
    unknown: str | None = None


def names_of(project: app.Opened) -> Names:
    """Return the function that gives names to the ids of the workspace."""
    by_id = project.workspace.aliases()
    return lambda ref: by_id.get(ref, ref) if isinstance(ref, DatasetId) else ref


def both_sides(
    project: app.Opened,
    alias: DatasetAlias,
    before: str,
    after: str,
    definitions: Callable[[], Sequence[Declared]],
) -> tuple[Side, Side]:
    """Return the sides that two texts mean; the definitions are read if one of them asks for it."""
    first, second = (_side(project, alias, text, definitions) for text in (before, after))
    return first, second


def _side(
    project: app.Opened,
    alias: DatasetAlias,
    text: str,
    definitions: Callable[[], Sequence[Declared]],
) -> Side:
    if text == DECLARED:
        return _definition(project, alias, definitions(), "")
    if text.startswith(_GIT):
        return _in_git(project, alias, text.removeprefix(_GIT))
    return _block(project, alias, text)


def _block(project: app.Opened, alias: DatasetAlias, text: str) -> Side:
    from odfbuild.state.chain.refs import find_block

    dataset = app.find_dataset(project, str(alias))
    block = find_block(dataset, text)
    state = dataset.state(block)
    assert state is not None  # noqa: S101 - a block was found
    title = f"{_word(text, block)} (block {state.sequence})"
    return Side(title=title, events=_in_chain(state), schema=_data_columns(state))


def _word(text: str, block: Multihash) -> str:
    return block.short() if text in str(block) else f"{text} {block.short()}"


def _data_columns(state: ChainState) -> DataSchema | None:
    from odfbuild.planner.evolution.columns.derive import data_schema

    stored = schema_in_force(state)
    return None if stored is None else data_schema(stored, state.vocab)


def _in_chain(state: ChainState) -> Mapping[str, MetadataEvent]:
    events: tuple[MetadataEvent | None, ...] = (
        state.info,
        state.license,
        state.attachments,
        vocabulary_event(state),
        *state.sources,
        state.transform,
    )
    return {_slot(each): each for each in events if each is not None and each not in _EMPTY}


def _in_git(project: app.Opened, alias: DatasetAlias, revision: str) -> Side:
    from odfbuild.project.git.revision import at_revision

    with at_revision(project.root, revision) as found:
        there = app.load_at(project, found.root, f"{_GIT}{revision}")
        declared = () if there is None else there.declared
        return _definition(project, alias, declared, f"{_GIT}{revision} ")


def _definition(
    project: app.Opened, alias: DatasetAlias, declared: Sequence[Declared], where: str
) -> Side:
    known = {each.alias: each for each in declared}
    if alias not in known:
        raise NotDeclaredError(
            what=f"no dataset named '{alias}' is declared{where and f' in {where}'.rstrip()}",
            why="there is no definition to compare with",
            fix=did_you_mean(str(alias), map(str, known)) or "odfbuild list shows the datasets",
        )
    each = known[alias]
    resolved = _resolved_columns(project, known, alias)
    return Side(
        title=f"{where or DECLARED + ' '}({each.span(())})",
        events={
            _slot(event): event for event in map(_in_force_event, each.snapshot.metadata) if event
        },
        unset=frozenset({SetLicense.__name__, SetVocab.__name__}) - _event_names(each),
        schema=resolved.schema,
        unknown=resolved.unknown,
    )


def _event_names(each: Declared) -> frozenset[str]:
    return frozenset(type(event).__name__ for event in each.snapshot.metadata)


def _in_force_event(event: MetadataEvent) -> MetadataEvent | None:
    """Return an event as it would be in force; None of one that is shown as columns."""
    if isinstance(event, SetVocab):
        vocab = vocabulary(event)
        return SetVocab(**{name: getattr(vocab, name) for name in SetVocab.__slots__})
    return None if isinstance(event, SetDataSchema) else event


def _slot(event: MetadataEvent) -> str:
    """Return the name of the place that an event takes."""
    kind = type(event).__name__
    return f"{kind} '{event.source_name}'" if isinstance(event, AddPushSource) else kind


def _resolved_columns(
    project: app.Opened, known: Mapping[DatasetAlias, Declared], alias: DatasetAlias
) -> "Resolved":
    """Return the columns that a definition, with those of all that feeds it, would give."""
    from odfbuild.executors.engine.quick_columns import QuickColumns
    from odfbuild.planner.evolution.columns.derive import makes_of_events
    from odfbuild.planner.evolution.columns.resolve import Resolver

    current = project.workspace.states()
    ids = {each: state.dataset for each, state in current.items()}
    graph = selection_graph(tuple(known.values()), ids)
    above = select(parse_selector(f"+{alias}"), graph)
    order = [each for each in known.values() if each.alias in above]
    changed = _changed_datasets(order, current, graph)
    locked = locked_columns(project.root, tuple(known.values()))
    resolver = Resolver(current, locked, changed, QuickColumns(project))
    for each in order:
        if each.alias in changed:
            events = each.snapshot.metadata
            resolver.put(each.alias, makes_of_events(each.snapshot.kind, events))
    return resolver.after(alias)


def _changed_datasets(
    order: Sequence[Declared], current: Mapping[DatasetAlias, ChainState], graph: SelectionGraph
) -> frozenset[DatasetAlias]:
    """Return the datasets whose definition is not in force, and those that read such ones."""

    def resolve(ref: DatasetAlias | DatasetId) -> DatasetAlias | DatasetId:
        state = current.get(ref) if isinstance(ref, DatasetAlias) else None
        return ref if state is None else state.dataset

    changed: set[DatasetAlias] = set()
    for each in order:
        above = changed.intersection(graph.inputs[each.alias])
        if above or diff(each.snapshot, current.get(each.alias), resolve, {}):
            changed.add(each.alias)
    return frozenset(changed)


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
    """

    key: tuple[str, ...]
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
        self._system = {vocab.offset_column, vocab.system_time_column, self._op}
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
            data = table.select([name for name in table.column_names if name not in self._system])
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
