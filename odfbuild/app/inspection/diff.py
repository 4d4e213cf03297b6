"""Sides of a comparison of definitions: a block, what is declared, or a revision of git."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from odfbuild import app
from odfbuild.app.load_project import locked_columns
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState, vocabulary
from odfbuild.odf.events import (
    AddPushSource,
    AttachmentsEmbedded,
    DataSchema,
    MetadataEvent,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetVocab,
)
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared, NotDeclaredError
from odfbuild.planner.diff import diff, vocabulary_event
from odfbuild.planner.select.facts import selection_graph
from odfbuild.planner.select.parse import parse_selector
from odfbuild.planner.select.select import SelectionGraph, select
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.planner.evolution.columns.resolve import Resolved


Names = Callable[[DatasetAlias | DatasetId], DatasetAlias | DatasetId]

DECLARED = "declared"
_GIT = "git:"
_EMPTY = (SetInfo(), SetAttachments(AttachmentsEmbedded(())))


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
