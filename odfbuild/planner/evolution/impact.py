"""Which datasets a change reaches, and which of their columns.  Pure.

A column is reached if its values are made of one that changed.  What decides on rows (filter, join,
grouping, order) reaches all columns.  A reader whose query is not understood is reached in a way
that is not known, and so is all that reads it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odfbuild.odf.events import SetTransform
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.changes import Affected, Usage
from odfbuild.planner.declared import Declared
from odfbuild.planner.evolution.derive import Made

if TYPE_CHECKING:
    from odfbuild.planner.sql.columns import ColumnRef

__all__ = ["ALL", "Reach", "Reader", "Readers", "affected", "readers_of"]

ALL = None  # every column: the rows themselves are others
Reach = frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Reader:
    """A dataset that reads another, and the name that its query uses for that."""

    dataset: DatasetAlias
    name: str


Readers = Mapping[DatasetAlias, Sequence[Reader]]


def readers_of(
    declared: Sequence[Declared], by_id: Mapping[DatasetId, DatasetAlias]
) -> dict[DatasetAlias, list[Reader]]:
    """Return who reads each dataset, in the order of the declared ones."""
    found: dict[DatasetAlias, list[Reader]] = {}
    for each in declared:
        for event in each.snapshot.metadata:
            if isinstance(event, SetTransform):
                for source in event.inputs:
                    ref = source.dataset_ref
                    alias = by_id.get(ref) if isinstance(ref, DatasetId) else ref
                    if alias is not None:
                        name = source.alias or str(ref)
                        found.setdefault(alias, []).append(Reader(each.alias, name))
    return found


def affected(
    changed: DatasetAlias,
    columns: Reach,
    readers: Readers,
    order: Mapping[DatasetAlias, int],
    made: Callable[[DatasetAlias], Sequence[Made]],
) -> tuple[Affected, ...]:
    """Return whom a change of some columns reaches, in topological order.

    `order` gives each declared dataset its place; `made` what its query makes, before and after.
    """
    import heapq

    reached: dict[DatasetAlias, _Reached] = {}
    incoming: dict[DatasetAlias, dict[str, Reach]] = {}
    doubtful: set[DatasetAlias] = set()
    waiting: list[tuple[int, DatasetAlias]] = []

    def pass_on(source: DatasetAlias, what: Reach) -> None:
        for reader in readers.get(source, ()):
            if reader.dataset not in incoming:
                incoming[reader.dataset] = {}
                heapq.heappush(waiting, (order[reader.dataset], reader.dataset))
            incoming[reader.dataset][reader.name] = what

    pass_on(changed, columns)
    while waiting:
        _, dataset = heapq.heappop(waiting)
        found = _UNKNOWN
        if dataset not in doubtful:
            found = _reached(made(dataset), incoming[dataset])
        if found.is_reached:
            reached[dataset] = found
            pass_on(dataset, ALL if found.all_rows else frozenset(found.columns))
        if found.unknown:
            doubtful |= {each.dataset for each in readers.get(dataset, ())}
    return tuple(
        Affected(dataset, found.columns, found.usage, found.unknown)
        for dataset, found in reached.items()
    )


@dataclass(frozen=True, slots=True)
class _Reached:
    columns: tuple[str, ...]
    usage: tuple[Usage, ...]
    unknown: bool = False
    all_rows: bool = False

    @property
    def is_reached(self) -> bool:
        return bool(self.usage)


_UNKNOWN = _Reached((), (Usage.VALUE, Usage.SHAPE), unknown=True, all_rows=True)


def _reached(made: Sequence[Made], incoming: Mapping[str, Reach]) -> _Reached:
    """Return what of one reader is reached by what comes in under the names of its inputs."""
    columns: dict[str, None] = {}
    names: dict[str, None] = {}
    value = shape = False
    for each in made:
        if each.query is None or each.columns is None:
            return _UNKNOWN
        names |= dict.fromkeys(column.name for column in each.columns)
        for column in each.columns:
            if any(_holds(ref, incoming) for ref in column.sources):
                columns[column.name] = None
                value = True
        shape = shape or any(_holds(ref, incoming) for ref in each.query.shaping)
    rows = any(what is ALL for what in incoming.values())
    if shape or rows:
        columns = names
    usage = tuple(_usage(value=value, shape=shape or rows))
    return _Reached(tuple(columns), usage, all_rows=shape or rows)


def _usage(*, value: bool, shape: bool) -> Iterator[Usage]:
    if value:
        yield Usage.VALUE
    if shape:
        yield Usage.SHAPE


def _holds(ref: "ColumnRef", incoming: Mapping[str, Reach]) -> bool:
    if ref.input not in incoming:
        return False
    what = incoming[ref.input]
    return what is ALL or ref.column in what
