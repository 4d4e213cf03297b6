"""Which rules on queries a change meets: ODF301 to ODF304, ODF310 to ODF314, ODF110.  Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    AddPushSource,
    DataSchema,
    SetPollingSource,
    SetTransform,
    TransformSql,
)
from odfbuild.odf.opaque import is_opaque
from odfbuild.planner.evolution.columns.derive import Makes
from odfbuild.planner.evolution.rules.hits import hit
from odfbuild.planner.evolution.rules.subject import Subject
from odfbuild.planner.plan.changes import ColumnChange, Hit
from odfbuild.sql.query_class import QueryClass
from odfbuild.sql.text.statement import QueryStep

_CLASSES = ("linear", "state", "join", "keyed", "whole")
_RESTATES = ".restate"


def query_hits(
    subject: Subject, state: ChainState, columns: Sequence[ColumnChange] | None
) -> Iterator[Hit]:
    """Yield what a changed query says; `columns` are the changes of the schema, None if unknown."""
    old, new = _queries(subject, state)
    if new is None or old is None:
        return
    yield from _engine(subject, old, new)
    if (old.temporal_tables or ()) != (new.temporal_tables or ()):
        span = subject.query_key_span("temporalTables")
        yield hit("ODF313", subject.alias, "its temporal tables change", span=span)
    if old.queries != new.queries:
        yield from _text(subject, columns)


def _queries(
    subject: Subject, state: ChainState
) -> tuple[TransformSql | None, TransformSql | None]:
    """Return the query in force and the one to come, if the changes are about it."""
    found = subject.find(SetTransform)
    if found is not None and state.transform is not None:
        return _sql(state.transform.transform), _sql(found[0].transform)
    polled = subject.find(SetPollingSource)
    if polled is not None and state.polling is not None:
        return _sql(state.polling.preprocess), _sql(polled[0].preprocess)
    pushed = subject.find(AddPushSource)
    if pushed is not None and pushed[0].source_name in state.push:
        return _sql(state.push[pushed[0].source_name].preprocess), _sql(pushed[0].preprocess)
    return None, None


def _sql(transform: TransformSql | None) -> TransformSql | None:
    return None if transform is None or is_opaque(transform) else transform


def _engine(subject: Subject, old: TransformSql, new: TransformSql) -> Iterator[Hit]:
    span = subject.query_key_span("engine")
    if old.engine != new.engine:
        message = f"the engine: {old.engine} -> {new.engine}"
        yield hit("ODF303", subject.alias, message, span=span)
        return
    versions = [(each.version or "").removesuffix(_RESTATES) for each in (old, new)]
    if all(versions) and versions[0] != versions[1]:
        message = f"the version of {new.engine}: {versions[0]} -> {versions[1]}"
        span = subject.query_key_span("version", "engine")
        yield hit("ODF304", subject.alias, message, span=span)


def _text(subject: Subject, columns: Sequence[ColumnChange] | None) -> Iterator[Hit]:
    rewrite = subject.rewrite
    steps = subject.makes().steps
    span = subject.query_span(steps)
    if rewrite.unreadable is not None:
        yield _unreadable(subject, steps)
    elif rewrite.form:
        if not subject.renames_inputs:
            yield hit("ODF314", subject.alias, "only the form of its query changes", span=span)
    elif rewrite.same:
        grown = [each.path for each in columns or () if each.kind == "added"]
        if grown:
            message = f"its query also gives {', '.join(grown)}"
            yield hit("ODF302", subject.alias, message, span=span)
        elif columns == ():
            yield hit("ODF314", subject.alias, "only the form of its query changes", span=span)
    elif subject.makes().source is not None:
        yield hit("ODF110", subject.alias, "its preprocess query changes", span=span)
    elif rewrite.values:
        message = "its values are computed in another way" + _then(subject)
        yield _unset(subject, hit("ODF301", subject.alias, message, span=span))
    else:
        message = "its query selects or groups rows in another way" + _then(subject)
        yield _unset(subject, hit("ODF311", subject.alias, message, span=span))


def _unset(subject: Subject, found: Hit) -> Hit:
    """Leave out the way on that the project has taken already."""
    if not subject.restates:
        return found
    taken = "set on_query_change"
    return replace(found, ways=tuple(way for way in found.ways if not way.startswith(taken)))


def _then(subject: Subject) -> str:
    if subject.restates:
        return "; rows so far will be corrected"
    return "; rows so far stay as they are"


def _unreadable(subject: Subject, steps: Sequence[QueryStep]) -> Hit:
    rewrite = subject.rewrite
    at = None if rewrite.place is None or not rewrite.now else (rewrite.step, rewrite.place)
    whose = "the query" if rewrite.now else "the query in force so far"
    message = f"{whose} cannot be read: {rewrite.unreadable}"
    return hit("ODF312", subject.alias, message, span=subject.query_span(steps, at))


def class_of_query(makes: Makes, inputs: Mapping[str, DataSchema | None]) -> QueryClass | None:
    """Return how a transform is computed; None if there is none that can be read."""
    if makes.transform is None or not makes.steps:
        return None
    from odfbuild.sql.analysis.classes import class_run

    return class_run(makes.steps, inputs)


def class_hits(
    subject: Subject, before: QueryClass | None, after: QueryClass | None
) -> Iterator[Hit]:
    """Yield ODF310 if a step has to look at more than it had to."""
    if before is None or after is None or _cost(after) <= _cost(before):
        return
    because = f", because of {after.because}" if after.because else ""
    message = f"its query was {before.name} and is {after.name}{because}"
    span = subject.query_span(subject.makes().steps)
    yield hit("ODF310", subject.alias, message, span=span)


def _cost(query: QueryClass) -> int:
    return _CLASSES.index(query.name) if query.name in _CLASSES else len(_CLASSES)
