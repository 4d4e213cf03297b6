"""The graph of declared datasets: the meaning of each input, and a build order.  Pure.

Inputs are declared, never discovered, so the whole graph is known before anything runs.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, TypeAlias

from odfbuild.errors import Diagnostic, ProjectErrors
from odfbuild.odf.events import SetTransform
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.texts.suggest import Suggestions
from odfbuild.values import dataclass

if TYPE_CHECKING:
    import networkx as nx


_Graph: TypeAlias = "nx.DiGraph[DatasetAlias]"
_Place: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class DagInput:
    """What an input refers to; `id` is None of a dataset that is not created yet."""

    alias: DatasetAlias
    id: DatasetId | None
    path: _Place


@dataclass(frozen=True, slots=True)
class Dag:
    """The declared datasets in topological order, by (depth, name), and the inputs of each.

    `wrong` has the datasets that have no place in it: those in a circle have one error in common.
    """

    order: tuple[Declared, ...]
    inputs: Mapping[DatasetAlias, tuple[DagInput, ...]]
    wrong: Mapping[DatasetAlias, Sequence[Diagnostic]] = field(default_factory=dict)


_NONE_MOVED: Mapping[DatasetAlias, DatasetAlias] = {}


def make_dag(
    declared: Sequence[Declared],
    existing: Mapping[DatasetAlias, DatasetId],
    moved: Mapping[DatasetAlias, DatasetAlias] = _NONE_MOVED,
) -> Dag:
    """Return the graph of datasets over those that are in the workspace already.

    `moved` has new names by old ones: an input with an old one is told how to follow.

    Raises ProjectErrors with every name that is declared twice, every input that is not known, and
    one finding for each group of datasets that read each other.
    """
    dag = sound_dag(declared, existing, moved)
    if dag.wrong:
        found = dict.fromkeys(each for problems in dag.wrong.values() for each in problems)
        raise ProjectErrors(sorted(found, key=_place_order))
    return dag


def sound_dag(
    declared: Sequence[Declared],
    existing: Mapping[DatasetAlias, DatasetId],
    moved: Mapping[DatasetAlias, DatasetAlias] = _NONE_MOVED,
) -> Dag:
    """Return the graph as `make_dag` does; what is wrong with datasets is said in it.

    The order is that of all datasets, once each; those in a circle are no inputs of each other.
    """
    wrong: dict[DatasetAlias, list[Diagnostic]] = {}
    for alias, problem in (*_duplicates(declared), *_ambiguous(declared)):
        wrong.setdefault(alias, []).append(problem)
    by_alias = {each.alias: each for each in reversed(declared)}
    resolver = _Resolver(by_alias, existing, moved, wrong)
    inputs = {each.alias: resolver.inputs(each) for each in by_alias.values()}
    try:
        order = _order(inputs, by_alias)
    except CycleError:
        sound = dict(inputs)
        for members, problem in _cycles(by_alias, inputs):
            for alias in members:
                wrong.setdefault(alias, []).append(problem)
                sound[alias] = tuple(each for each in inputs[alias] if each.alias not in members)
        order = _order(sound, by_alias)
    return Dag(order, inputs, wrong)


def _duplicates(declared: Iterable[Declared]) -> Iterable[tuple[DatasetAlias, Diagnostic]]:
    first: dict[DatasetAlias, Declared] = {}
    for each in declared:
        before = first.setdefault(each.alias, each)
        if before is each:
            continue
        same = str(before.alias) == str(each.alias)
        case = "" if same else f" as '{before.alias}'"
        problem = Diagnostic(
            code="duplicate-name",
            what=f"the dataset '{each.alias}' is already declared{case} at {_where(before)}",
            why="names are compared without regard to case, and one name is one chain"
            if not same
            else "one name is one chain, and it can have one definition only",
            fix="rename one of the two, or remove it",
            span=each.span(),
        )
        yield before.alias, problem


def _ambiguous(declared: Sequence[Declared]) -> Iterable[tuple[DatasetAlias, Diagnostic]]:
    names = {each.alias: each for each in declared}
    for reader in declared:
        for given in reader.remote:
            mine = names.get(given.alias)
            if mine is not None:
                yield (
                    reader.alias,
                    Diagnostic(
                        code="ambiguous-input",
                        what=f"'{given.ref}' is a dataset of a repository, and '{mine.alias}' is "
                        f"declared at {_where(mine)}",
                        why="a dataset of a repository has the name of its reference in the "
                        "workspace, and one name is one chain",
                        fix="rename the dataset here, or give the repository another name",
                        span=reader.span(given.path),
                    ),
                )


def _where(declared: Declared) -> str:
    instance = "" if declared.instance is None else f" [{declared.instance}]"
    return f"{declared.span()}{instance}"


class _Resolver:
    """Finds what inputs refer to; what cannot be found is put to what is wrong with readers."""

    def __init__(
        self,
        declared: Mapping[DatasetAlias, Declared],
        existing: Mapping[DatasetAlias, DatasetId],
        moved: Mapping[DatasetAlias, DatasetAlias],
        wrong: dict[DatasetAlias, list[Diagnostic]],
    ) -> None:
        self.moved = moved
        self.declared = declared
        self.existing = existing
        self.by_id = {dataset: alias for alias, dataset in existing.items()}
        self.wrong = wrong
        self.suggestions = Suggestions(str(alias) for alias in {**declared, **existing})

    def inputs(self, reader: Declared) -> tuple[DagInput, ...]:
        """Return the inputs of one dataset that are known."""
        known: dict[DatasetAlias, DagInput] = {}
        for at, event in enumerate(reader.snapshot.metadata):
            if not isinstance(event, SetTransform):
                continue
            for number, given in enumerate(event.inputs):
                path = ("metadata", at, "inputs", number, "datasetRef")
                found = self._input(reader, given.dataset_ref, path)
                if found is None:
                    continue
                if found.alias in known:
                    self._refuse(reader, _read_twice(reader, found))
                known.setdefault(found.alias, found)
        return tuple(known.values())

    def _input(
        self, reader: Declared, ref: DatasetAlias | DatasetId, path: _Place
    ) -> DagInput | None:
        if isinstance(ref, DatasetAlias):
            if ref in self.declared:
                return DagInput(self.declared[ref].alias, self.existing.get(ref), path)
            if ref in self.existing:
                return DagInput(ref, self.existing[ref], path)
            self._refuse(reader, self._unknown_name(reader, ref, path))
            return None
        alias = self.by_id.get(ref)
        if alias is None:
            self._refuse(reader, _unknown_id(reader, ref, path))
            return None
        return DagInput(alias, ref, path)

    def _refuse(self, reader: Declared, problem: Diagnostic) -> None:
        self.wrong.setdefault(reader.alias, []).append(problem)

    def _unknown_name(self, reader: Declared, ref: DatasetAlias, path: _Place) -> Diagnostic:
        guess = self.suggestions.nearest(str(ref), without=str(reader.alias))
        fix = "declare it in this project"
        if ref in self.moved:
            fix = f"it is moved: odfbuild mv {ref} {self.moved[ref]} finishes that"
        elif guess is not None:
            fix = f"did you mean '{guess}'? Otherwise {fix}"
        return Diagnostic(
            code="unknown-input",
            what=f"no dataset named '{ref}'",
            why="an input must be declared here, or be in the workspace already "
            '(ODF 0.34.1, "SetTransform")',
            fix=fix,
            span=reader.span(path),
        )


def _read_twice(reader: Declared, given: DagInput) -> Diagnostic:
    return Diagnostic(
        code="duplicate-input",
        what=f"the dataset '{given.alias}' is an input already",
        why='progress is kept once for each input (ODF 0.34.1, "ExecuteTransformInput")',
        fix="remove this one; a query may use one input several times",
        span=reader.span(given.path),
    )


def _unknown_id(reader: Declared, ref: DatasetId, path: _Place) -> Diagnostic:
    return Diagnostic(
        code="unknown-input",
        what=f"no dataset with the id {ref} in the workspace",
        why="a dataset that is only declared has no id yet, so an id names an existing one",
        fix="refer to it by its name, and declare it in this project",
        span=reader.span(path),
    )


def _order(
    inputs: Mapping[DatasetAlias, Sequence[DagInput]], declared: Mapping[DatasetAlias, Declared]
) -> tuple[Declared, ...]:
    """Return the datasets generation by generation, each in the order of the names.

    Raises CycleError.
    """
    sorter = TopologicalSorter(
        {reader: [each.alias for each in read] for reader, read in inputs.items()}
    )
    sorter.prepare()
    order: list[Declared] = []
    while sorter.is_active():
        generation = sorter.get_ready()
        order += [declared[alias] for alias in sorted(generation) if alias in declared]
        sorter.done(*generation)
    return tuple(order)


def _cycles(
    declared: Mapping[DatasetAlias, Declared],
    inputs: Mapping[DatasetAlias, Sequence[DagInput]],
) -> Iterable[tuple[set[DatasetAlias], Diagnostic]]:
    """Yield one finding for each group of datasets that read each other, and their names.

    A project that has none does not pay for networkx, which takes 0.1 s to import.
    """
    import networkx as nx

    graph: _Graph = nx.DiGraph()
    graph.add_nodes_from(inputs)
    graph.add_edges_from((each.alias, reader) for reader in inputs for each in inputs[reader])
    for members in nx.strongly_connected_components(graph):
        start = min(members)
        if len(members) == 1 and not graph.has_edge(start, start):
            continue
        yield members, _cycle(_shortest_cycle(inputs, members, start), declared, inputs)


def _shortest_cycle(
    inputs: Mapping[DatasetAlias, Sequence[DagInput]],
    members: set[DatasetAlias],
    start: DatasetAlias,
) -> list[DatasetAlias]:
    """Return the members that lead from one of them along what they read back to it."""
    came_from: dict[DatasetAlias, DatasetAlias] = {}
    waiting = deque([start])
    while start not in came_from:
        reader = waiting.popleft()
        for alias in sorted({each.alias for each in inputs[reader]} & members):
            if alias not in came_from:
                came_from[alias] = reader
                waiting.append(alias)
    cycle = [start]
    while (before := came_from[cycle[-1]]) != start:
        cycle.append(before)
    return [start, *reversed(cycle[1:])]


def _cycle(
    cycle: Sequence[DatasetAlias],
    declared: Mapping[DatasetAlias, Declared],
    inputs: Mapping[DatasetAlias, Sequence[DagInput]],
) -> Diagnostic:
    spans = []
    for reader, read in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
        place = next(each.path for each in inputs[reader] if each.alias == read)
        spans.append(declared[reader].span(place))
    names = " -> ".join(str(declared[alias].alias) for alias in (*cycle, cycle[0]))
    if len(cycle) == 1:
        what = f"the dataset '{cycle[0]}' reads itself: {names}"
        why = "it would have to be there before it is made"
        fix = "remove this input"
    else:
        what = f"these datasets read each other in a circle: {names}"
        why = "none of them could be made first; the other inputs: "
        why += ", ".join(str(span) for span in spans[1:])
        fix = "remove one of these inputs"
    return Diagnostic(code="cycle", what=what, why=why, fix=fix, span=spans[0])


def _place_order(found: Diagnostic) -> tuple[str, int, int, str]:
    span = found.span
    return (span.file, span.line, span.column, found.what) if span else ("", 0, 0, found.what)
