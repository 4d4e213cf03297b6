"""Checks of the rules on definitions: ODF101 to ODF121.  Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from odfbuild.odf.chain.state import ChainState, vocabulary
from odfbuild.odf.events import (
    AddPushSource,
    DisablePollingSource,
    DisablePushSource,
    MergeStrategy,
    ReadStep,
    SetAttachments,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    TransformInput,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import Change
from odfbuild.planner.evolution.rules.hits import hit
from odfbuild.planner.evolution.rules.renames import Renamed, find_renames
from odfbuild.planner.evolution.rules.subject import Subject
from odfbuild.planner.plan.changes import Affected, Assessment, ChangeClass, Hit, Usage
from odfbuild.planner.plan.policy import Severity


def retired_hits(
    declared: Sequence[Declared], current: Mapping[DatasetAlias, ChainState], *, against: bool
) -> dict[DatasetAlias, Assessment]:
    """Return the assessments of datasets that are no longer declared.

    Between revisions a definition was removed.  In a workspace a chain may just as well have been
    copied there: that is worth a word only if a declared dataset reads it, or if a new one looks
    like it.
    """
    names = {each.alias for each in declared}
    gone = sorted(alias for alias in current if alias not in names)
    if not gone:
        return {}
    renamed = {each.old: each for each in find_renames(declared, current)}
    by_alias = {each.alias: each for each in declared}
    readers = _readers(declared, {current[alias].dataset: alias for alias in gone}, set(gone))
    return {
        alias: _retired(alias, renamed.get(alias), readers.get(alias, []), by_alias, against)
        for alias in gone
    }


def _retired(
    alias: DatasetAlias,
    renamed: Renamed | None,
    readers: Sequence[DatasetAlias],
    declared: Mapping[DatasetAlias, Declared],
    against: bool,
) -> Assessment:
    severity = None if against else Severity.WARN
    if renamed is not None:
        message = f"{renamed.new} looks like {alias} under another name"
        span = declared[renamed.new].span()
        found = hit("ODF116", alias, message, other=renamed.new, span=span, severity=severity)
    else:
        read = f", and {_listed(readers)} it" if readers else ""
        message = f"it is no longer declared{read}"
        if not readers and not against:
            severity = Severity.OFF
        found = hit("ODF115", alias, message, severity=severity)
    return Assessment(
        change=ChangeClass.RETIRE,
        hits=(found,),
        affected=tuple(Affected(each, (), (Usage.VALUE, Usage.SHAPE), True) for each in readers),
    )


def _listed(readers: Sequence[DatasetAlias]) -> str:
    more = f" and {len(readers) - 1} more read" if len(readers) > 1 else " reads"
    return f"{readers[0]}{more}"


def _readers(
    declared: Sequence[Declared],
    by_id: Mapping[DatasetId, DatasetAlias],
    gone: set[DatasetAlias],
) -> dict[DatasetAlias, list[DatasetAlias]]:
    found: dict[DatasetAlias, list[DatasetAlias]] = {}
    for each in declared:
        for event in each.snapshot.metadata:
            if isinstance(event, SetTransform):
                for source in event.inputs:
                    ref = source.dataset_ref
                    alias = by_id.get(ref) if isinstance(ref, DatasetId) else ref
                    if alias is not None and alias in gone:
                        found.setdefault(alias, []).append(each.alias)
    return found


_TAKEN_BACK = (
    "Rows made from it are taken back by the next step, as on_query_change: restate asks for."
)


def definition_hits(subject: Subject, state: ChainState) -> Iterator[Hit]:
    """Yield what the events to append say of a dataset that is there already."""
    yield from _kind(subject, state)
    yield from _vocab(subject, state)
    for change in subject.changes:
        yield from _of_event(subject, state, change)
    yield from _licence_removed(subject, state)


def _kind(subject: Subject, state: ChainState) -> Iterator[Hit]:
    kind = subject.declared.snapshot.kind
    if kind is not state.kind:
        message = f"was a {state.kind.value}, is declared as a {kind.value}"
        yield hit("ODF101", subject.alias, message, span=subject.span("kind"))


def _vocab(subject: Subject, state: ChainState) -> Iterator[Hit]:
    """Yield the first name that becomes another one, once a chain has columns."""
    found = [
        (event, index)
        for index, event in enumerate(subject.declared.snapshot.metadata)
        if isinstance(event, SetVocab)
    ]
    undone = any(
        isinstance(each.event, SetVocab) and each.index is None for each in subject.changes
    )
    if not found and not undone and not subject.against:
        return
    if state.schema is None and not subject.against:  # nothing was ever read by these names
        return
    event, path = (found[0][0], ("metadata", found[0][1])) if found else (SetVocab(), ())
    now, was = vocabulary(event), state.vocab
    for name in now.__slots__:
        if getattr(now, name) != getattr(was, name):
            message = f"the column {getattr(was, name)!r} is to be called {getattr(now, name)!r}"
            yield hit("ODF102", subject.alias, message, span=subject.span(*path))
            return


def _of_event(subject: Subject, state: ChainState, change: Change) -> Iterator[Hit]:
    alias, at = subject.alias, () if change.index is None else ("metadata", change.index)
    span = subject.span(*at)
    match change.event:
        case SetInfo():
            yield hit("ODF113", alias, "its description or keywords change", span=span)
        case SetAttachments():
            yield hit("ODF114", alias, "its attachments change", span=span)
        case SetLicense() as new:
            was = "none" if state.license is None else state.license.short_name
            yield hit("ODF111", alias, f"the licence: {was} -> {new.short_name}", span=span)
        case DisablePollingSource():
            yield hit("ODF106", alias, "it is no longer polled", span=span)
        case DisablePushSource(source_name=name):
            yield hit("ODF106", alias, f"the push source {name!r} ends", span=span)
        case SetPollingSource() as source:
            yield from _source(subject, state.polling, source, change.index)
        case AddPushSource() as source:
            yield from _source(subject, state.push.get(source.source_name), source, change.index)
        case SetTransform() if state.transform is None:
            yield hit("ODF121", alias, "it gets a transform", span=span)
        case _:
            pass


def _source(
    subject: Subject,
    old: SetPollingSource | AddPushSource | None,
    new: SetPollingSource | AddPushSource,
    index: int | None,
) -> Iterator[Hit]:
    at = ("metadata", index or 0)
    if old is None:
        yield hit("ODF121", subject.alias, "it gets one more source", span=subject.span(*at))
        return
    if isinstance(new, SetPollingSource) and isinstance(old, SetPollingSource):
        yield from _fetched(subject, old, new, at)
    if _unshaped(old.read) != _unshaped(new.read):
        message = _read_change(old.read, new.read)
        yield hit("ODF108", subject.alias, message, span=subject.span(*at, "read"))
    if (old.preprocess is None) != (new.preprocess is None):
        gains = "is" if old.preprocess is None else "is no longer"
        message = f"a preprocess query {gains} between reading and merging"
        place = at if new.preprocess is None else (*at, "preprocess")
        yield hit("ODF110", subject.alias, message, span=subject.span(*place))
    if subject.has_columns:
        yield from _merge(subject, old.merge, new.merge, at)


def _fetched(
    subject: Subject, old: SetPollingSource, new: SetPollingSource, at: tuple[str | int, ...]
) -> Iterator[Hit]:
    if old.fetch != new.fetch:
        kinds = [type(e.fetch).__name__.removeprefix("FetchStep") for e in (old, new)]
        message = "it is fetched from elsewhere"
        if kinds[0] != kinds[1]:
            message = f"it is fetched in another way: {kinds[0]} -> {kinds[1]}"
        yield hit("ODF107", subject.alias, message, span=subject.span(*at, "fetch"))
    if (old.prepare or ()) != (new.prepare or ()):
        place = at if new.prepare is None else (*at, "prepare")
        message = "what is fetched is prepared in another way"
        yield hit("ODF109", subject.alias, message, span=subject.span(*place))


def _unshaped(read: ReadStep) -> object:
    """Return a read step without its schema, on which there are rules of their own."""
    return read if is_opaque(read) else replace(read, ddl_schema=None, schema=None)


def _read_change(old: ReadStep, new: ReadStep) -> str:
    names = [type(each).__name__.removeprefix("ReadStep") for each in (old, new)]
    if names[0] != names[1]:
        return f"it is read as {names[1]}, no longer as {names[0]}"
    changed = [
        name
        for name in getattr(new, "__slots__", ())
        if name not in ("ddl_schema", "schema") and getattr(old, name) != getattr(new, name)
    ]
    return f"options of the read step change: {', '.join(map(_key, changed))}"


def _key(name: str) -> str:
    """Return a field's name as manifests have it: null_value is nullValue."""
    first, *rest = name.split("_")
    return first + "".join(each.title() for each in rest)


def _merge(
    subject: Subject, old: MergeStrategy, new: MergeStrategy, at: tuple[str | int, ...]
) -> Iterator[Hit]:
    alias, span = subject.alias, subject.span(*at, "merge")
    if type(old) is not type(new):
        names = [type(each).__name__.removeprefix("MergeStrategy") for each in (old, new)]
        yield hit("ODF103", alias, f"the merge strategy: {names[0]} -> {names[1]}", span=span)
        return
    keys = [getattr(each, "primary_key", ()) for each in (old, new)]
    if keys[0] != keys[1]:
        was, now = (", ".join(each) or "none" for each in keys)
        yield hit("ODF104", alias, f"the primary key: {was} -> {now}", span=span)
    compared = [getattr(each, "compare_columns", None) for each in (old, new)]
    if compared[0] != compared[1]:
        was, now = ("all" if each is None else ", ".join(each) for each in compared)
        yield hit("ODF105", alias, f"the columns compared: {was} -> {now}", span=span)


def _licence_removed(subject: Subject, state: ChainState) -> Iterator[Hit]:
    declared = any(isinstance(e, SetLicense) for e in subject.declared.snapshot.metadata)
    if subject.against and state.license is not None and not declared:
        message = f"the licence {state.license.short_name} is no longer declared"
        yield hit("ODF112", subject.alias, message, span=subject.span())


def input_hits(
    subject: Subject, state: ChainState, names: Mapping[DatasetId, DatasetAlias]
) -> Iterator[Hit]:
    """Yield what a changed transform says of its inputs; `names` are those of datasets by id."""
    found = subject.find(SetTransform)
    if found is None or state.transform is None:
        return
    new, index = found
    at = ("metadata", index, "inputs")
    was = {each.dataset_ref: each for each in state.transform.inputs}
    now = {each.dataset_ref: each for each in new.inputs}
    for number, ref in enumerate(now):
        if ref not in was:
            span = subject.span(*at, number, "datasetRef")
            yield hit("ODF117", subject.alias, f"it also reads {_called(ref, names)}", span=span)
    for ref in was:
        if ref not in now:
            name = _called(ref, names)
            span = subject.declared.key_span(at)
            message = f"it no longer reads {name}"
            why = _TAKEN_BACK if subject.restates else None
            yield hit("ODF118", subject.alias, message, why=why, other=name, span=span)
    kept = [[ref for ref in one if ref in other] for one, other in ((was, now), (now, was))]
    if kept[0] != kept[1]:
        span = subject.declared.key_span(at)
        yield hit("ODF119", subject.alias, "its inputs are reordered", span=span)
    yield from _aliases(subject, was, new, at)


def _aliases(
    subject: Subject,
    was: Mapping[DatasetId | DatasetAlias, TransformInput],
    new: SetTransform,
    at: tuple[str | int, ...],
) -> Iterator[Hit]:
    if not subject.rewrite.form:
        return
    for number, each in enumerate(new.inputs):
        old = was.get(each.dataset_ref)
        if old is not None and old.alias != each.alias:
            message = f"the query calls {old.alias} now {each.alias}"
            yield hit("ODF120", subject.alias, message, span=subject.span(*at, number))


def _called(
    ref: DatasetId | DatasetAlias, names: Mapping[DatasetId, DatasetAlias]
) -> DatasetId | DatasetAlias:
    return names.get(ref, ref) if isinstance(ref, DatasetId) else ref
