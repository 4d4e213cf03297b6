"""Columns used by the queries of a project, and the datasets that a change reaches.  Pure.

Queries are read when first asked for, each once.  What is not known counts as used: a reader
whose columns are unknown uses every column of its inputs, and passes on every one that it has.

A column is reached if its values are made of one that changed.  What decides on rows (filter, join,
grouping, order) reaches all columns.  A reader whose query is not understood is reached in a way
that is not known, and so is all that reads it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import DataSchema, SetTransform
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.evolution.columns.derive import DerivedColumns, makes_of_events
from odfbuild.planner.evolution.columns.resolve import Resolver
from odfbuild.planner.plan.changes import Affected, Usage
from odfbuild.sql.query_class import QueryClass
from odfbuild.sql.text.steps import steps_of
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.planner.evolution.columns.answers import EngineColumns
    from odfbuild.sql.columns import QueryColumns
    from odfbuild.sql.columns.output import ColumnRef


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
    made: Callable[[DatasetAlias], Sequence[DerivedColumns]],
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
            found = _reach_of_reader(made(dataset), incoming[dataset])
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


def _reach_of_reader(made: Sequence[DerivedColumns], incoming: Mapping[str, Reach]) -> _Reached:
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


@dataclass(frozen=True, slots=True)
class ColumnOrigins:
    """A column of a dataset and the columns of its inputs that its values come from."""

    name: str
    sources: tuple[tuple[DatasetAlias, str], ...]


class ColumnUse:
    """What the declared queries say of columns.

    Schemas of inputs are those of the chains in `current`, or of the definitions, or else those in
    `locked`; `engine` is asked about queries whose columns no text tells.
    """

    def __init__(
        self,
        declared: Iterable[Declared],
        current: Mapping[DatasetAlias, ChainState],
        locked: Mapping[DatasetAlias, DataSchema],
        engine: "EngineColumns | None" = None,
    ) -> None:
        self._declared = tuple(declared)
        self._resolver = Resolver(current, locked, engine=engine)
        self._inputs: dict[DatasetAlias, dict[str, DatasetAlias]] = {}
        self._readers: dict[DatasetAlias, list[DatasetAlias]] = {}
        self._transforms: dict[DatasetAlias, SetTransform] = {}
        for each in self._declared:
            makes = makes_of_events(each.snapshot.kind, each.snapshot.metadata)
            self._resolver.put(each.alias, makes)
            if makes.transform is not None:
                self._transforms[each.alias] = makes.transform
            self._inputs[each.alias] = self._named_inputs(makes.transform)
            for read in self._inputs[each.alias].values():
                self._readers.setdefault(read, []).append(each.alias)

    def made(self, dataset: DatasetAlias) -> tuple[ColumnOrigins, ...] | None:
        """Return the columns of a dataset; None if they cannot be determined."""
        found = self._resolver.columns_after(dataset)
        if found is None or found.columns is None:
            return None
        if dataset in self._transforms and (found.query is None or found.query.outputs is None):
            return None
        inputs = self._inputs.get(dataset, {})
        return tuple(
            ColumnOrigins(each.name, tuple(sorted(_columns_of_refs(each.sources, inputs))))
            for each in found.columns
        )

    def schema(self, dataset: DatasetAlias) -> DataSchema | None:
        """Return the data columns of a dataset as its readers see them; None if not known."""
        return self._resolver.seen(dataset)

    def shaping(self, dataset: DatasetAlias) -> tuple[tuple[DatasetAlias, str], ...] | None:
        """Return the columns of inputs that decide on the rows of a dataset; None if unknown."""
        known = self._query(dataset)
        if known is None:
            return None if dataset in self._transforms else ()
        if known.outputs is None:
            return None
        return tuple(sorted(_columns_of_refs(known.shaping, self._inputs.get(dataset, {}))))

    def affected(self, dataset: DatasetAlias, columns: Reach) -> tuple[Affected, ...]:
        """Return whom a change of some columns of a dataset, or of all, reaches; inputs first."""
        readers = readers_of(self._declared, self._resolver.by_id)
        order = {each.alias: number for number, each in enumerate(self._declared)}
        return affected(dataset, columns, readers, order, self._derived_columns)

    def _derived_columns(self, dataset: DatasetAlias) -> tuple[DerivedColumns, ...]:
        found = self._resolver.columns_after(dataset)
        return () if found is None else (found,)

    def query_class(self, dataset: DatasetAlias) -> QueryClass | None:
        """Return how a declared transform can be computed; None where there is none to read."""
        from odfbuild.sql.analysis.classes import class_run

        transform = self._transforms.get(dataset)
        if transform is None or is_opaque(transform.transform):
            return None
        steps, inputs = steps_of(transform.transform), self._resolver.inputs(transform)
        found = class_run(steps, {name: None for name, _ in inputs})
        if found.name == "linear":  # whatever the columns are
            return found
        seen = {
            name: None if alias is None else self._resolver.seen(alias) for name, alias in inputs
        }
        return class_run(steps, seen)

    def users(
        self, dataset: DatasetAlias, column: str, steps: int | None
    ) -> frozenset[DatasetAlias]:
        """Return the datasets that use a column so many steps away; None is any number.

        A query uses it for a value that it gives out, or to decide on its rows (filter, join,
        grouping); through the latter all of its columns depend on it.
        """
        seen: set[tuple[DatasetAlias, str | None]] = {(dataset, self._top(dataset, column))}
        waiting = deque((each, 0) for each in seen)
        found: set[DatasetAlias] = set()
        while waiting:
            (at, name), distance = waiting.popleft()
            if distance == steps:
                continue
            for reader in self._readers.get(at, ()):
                for each in self._dependent_columns(reader, at, name):
                    found.add(reader)
                    if (reader, each) not in seen:
                        seen.add((reader, each))
                        waiting.append(((reader, each), distance + 1))
        return frozenset(found)

    def _top(self, dataset: DatasetAlias, path: str) -> str:
        """Return the column that a path leads into; names of columns may have dots, too."""
        schema = self._resolver.seen(dataset)
        names = () if schema is None else (each.name.lower() for each in schema.fields)
        return path if path.lower() in names else path.partition(".")[0]

    def _dependent_columns(
        self, reader: DatasetAlias, read: DatasetAlias, column: str | None
    ) -> Iterator[str | None]:
        """Yield the columns of a reader that depend on a column (None: on some) of an input.

        None stands for all of them; nothing is yielded when the column is not used.
        """
        known = self._query(reader)
        names = {name for name, alias in self._inputs[reader].items() if alias == read}
        if known is None or known.outputs is None or column is None:
            yield None
            return
        if any(_is(each, names, column) for each in known.shaping):
            yield None
            return
        for each in known.outputs:
            if any(_is(source, names, column) for source in each.sources):
                yield each.name

    def _query(self, dataset: DatasetAlias) -> "QueryColumns | None":
        found = self._resolver.columns_after(dataset)
        return None if found is None else found.query

    def _named_inputs(self, transform: SetTransform | None) -> dict[str, DatasetAlias]:
        """Return the inputs of a transform by the names that its query gives them."""
        found = self._resolver.inputs(transform)
        return {name: alias for name, alias in found if alias is not None}


def _is(ref: "ColumnRef", names: set[str], column: str) -> bool:
    return ref.input in names and ref.column.lower() == column.lower()


def _columns_of_refs(
    refs: "frozenset[ColumnRef]", inputs: Mapping[str, DatasetAlias]
) -> Iterator[tuple[DatasetAlias, str]]:
    return ((inputs[ref.input], ref.column) for ref in refs if ref.input in inputs)
