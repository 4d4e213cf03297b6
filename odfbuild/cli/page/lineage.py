"""Lineage as one page: facts of chains, notes and definitions, put together for it.  Pure."""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from odfbuild.cli.page.graph import Box, DatasetOrigin, Edge, Graph, GraphColumn, Ref
from odfbuild.cli.render.lineage import LineageView
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import DatasetKind, SetTransform
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.evolution.columns.use import ColumnUse
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """What is known of a dataset beside its relations; `made` is None if nobody asked for it."""

    kind: DatasetKind
    transform: SetTransform | None = None
    made: DatasetOrigin | None = None


def chain_facts(state: ChainState, use: ColumnUse, alias: DatasetAlias) -> DatasetFacts:
    """Return what a chain tells of a dataset that is not defined."""
    return DatasetFacts(state.kind, state.transform, _origin(use, alias))


def definition_facts(declared: Declared, use: ColumnUse) -> DatasetFacts:
    """Return what a definition tells of a dataset, and the definitions together of its columns."""
    return DatasetFacts(declared.snapshot.kind, _transform(declared), _origin(use, declared.alias))


def _origin(use: ColumnUse, dataset: DatasetAlias) -> DatasetOrigin:
    made, rows = use.made(dataset), use.shaping(dataset)
    columns = None
    if made is not None:
        columns = tuple(GraphColumn(each.name, _refs(each.sources)) for each in made)
    return DatasetOrigin(columns, None if rows is None else _refs(rows))


def _refs(sources: Iterable[tuple[DatasetAlias, str]]) -> tuple[Ref, ...]:
    return tuple((str(dataset), column) for dataset, column in sources)


def _transform(declared: Declared) -> SetTransform | None:
    events = declared.snapshot.metadata
    return next((each for each in events if isinstance(each, SetTransform)), None)


def chain_graph(shown: LineageView, known_facts: Mapping[UUID, DatasetFacts], about: str) -> Graph:
    """Return the page of relations that chains and notes tell."""
    datasets, open_ended = shown.datasets(), shown.open_ended()
    numbers = {dataset: number for number, dataset in enumerate(datasets)}
    boxes = []
    for dataset in datasets:
        known = shown.known.get(dataset)
        facts = [] if known is None else [("DID", str(known.did))]
        boxes.append(
            _box(
                shown.name(dataset),
                known_facts.get(dataset),
                (*facts, ("UUID", str(dataset))),
                home=shown.homes.get(dataset),
                asked_for=dataset == shown.root,
                more=dataset in open_ended,
            )
        )
    edges = [
        Edge(numbers[each.source_id], numbers[each.derived_id], each.classifier)
        for each in shown.relations()
    ]
    name = shown.name(shown.root)
    return Graph(
        title=f"Lineage of {name}",
        about=about,
        boxes=boxes,
        edges=edges,
    )


def definition_graph(
    subject: DatasetAlias,
    shown: Sequence[Declared],
    use: ColumnUse,
    chains: Mapping[DatasetAlias, ChainState],
    neighbours: Iterable[DatasetAlias],
    readers: Mapping[DatasetAlias, Iterable[DatasetAlias]],
) -> Graph:
    """Return the page of what definitions say, and chains of inputs that are not defined.

    `chains` are those of the workspace, `neighbours` what is shown, defined or not.
    """
    within = set(neighbours)
    by_id = {state.dataset: alias for alias, state in chains.items()}
    reads = {each.alias: _reads(each, by_id) for each in shown}
    outside = [name for of in reads.values() for name in of if name in within and name not in reads]
    names = [*reads, *dict.fromkeys(outside)]
    numbers = {alias: number for number, alias in enumerate(names)}
    known_facts = {
        alias: chain_facts(chains[alias], use, alias) for alias in outside if alias in chains
    }
    known_facts |= {each.alias: definition_facts(each, use) for each in shown}
    boxes = [
        _box(
            str(alias),
            known_facts.get(alias),
            [("DID", str(chains[alias].dataset))] if alias in chains else (),
            asked_for=alias == subject,
            more=not within.issuperset({*reads.get(alias, ()), *readers.get(alias, ())}),
        )
        for alias in names
    ]
    edges = [
        Edge(numbers[name], numbers[alias], ", ".join(classifiers))
        for alias, of in reads.items()
        for name, classifiers in of.items()
        if name in numbers
    ]
    return Graph(
        title=f"Lineage of {subject}",
        about="as the definitions say",
        boxes=boxes,
        edges=edges,
    )


def _reads(
    declared: Declared, by_id: Mapping[DatasetId, DatasetAlias]
) -> dict[DatasetAlias, list[str]]:
    """Return the inputs of a definition, each with the names that its query gives it."""
    transform = _transform(declared)
    found: dict[DatasetAlias, list[str]] = {}
    for each in () if transform is None else transform.inputs:
        ref = each.dataset_ref
        alias = by_id.get(ref) if isinstance(ref, DatasetId) else ref
        if alias is not None:
            found.setdefault(alias, []).append(each.alias or str(ref))
    return found


def _box(
    name: str,
    known_facts: DatasetFacts | None,
    facts: Iterable[tuple[str, str]],
    *,
    home: str | None = None,
    asked_for: bool,
    more: bool,
) -> Box:
    query, clauses = (None, ()) if known_facts is None else _query(known_facts.transform)
    return Box(
        name=name,
        kind=None if known_facts is None else known_facts.kind.value.lower(),
        home=home,
        facts=tuple(facts),
        query=query,
        clauses=clauses,
        made=None if known_facts is None else known_facts.made,
        asked_for=asked_for,
        more=more,
    )


def _query(transform: SetTransform | None) -> tuple[str | None, tuple[str, ...]]:
    """Return the text of a query, and which clauses of it decide on rows."""
    from odfbuild.sql.analysis.facts import shaping_clauses
    from odfbuild.sql.text.steps import steps_of

    if transform is None or is_opaque(transform.transform):
        return None, ()
    steps = steps_of(transform.transform)
    texts = (f"-- {each.alias}\n{each.text}" if each.alias else each.text for each in steps)
    return "\n\n".join(texts), shaping_clauses(steps) or ()
