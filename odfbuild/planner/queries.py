"""Check the queries that a plan would put into chains, and place what is wrong with them.  Pure.

Only what is about to be appended is looked at: a query in force was checked when it came.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from odfbuild.errors import Diagnostic
from odfbuild.odf.chain import vocabulary
from odfbuild.odf.events import (
    AddPushSource,
    DatasetVocabulary,
    SetPollingSource,
    SetTransform,
    SetVocab,
    TransformSql,
)
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import Change
from odfbuild.planner.query import Finding, Reason, diagnostics, examine, steps_of

__all__ = ["check_definitions", "check_queries"]

_Place: TypeAlias = tuple[Literal["metadata"], int, str]  # of a transform within the snapshot

PREPROCESS_INPUT = "input"
_INGESTED_ONCE = frozenset({Reason.NOT_LINEAR, Reason.NOT_DETERMINISTIC})


def check_queries(
    declared: Declared, changes: Sequence[Change], op_columns: Collection[str]
) -> Iterator[Diagnostic]:
    """Yield what is wrong with the queries of the events to append, at their places.

    A preprocess query sees one source frame and is never replayed, so it may aggregate and ask the
    clock; a transform may not.  `op_columns` are the inputs' names of the operation column.
    """
    for change in changes:
        event, index = change.event, change.index
        if isinstance(event, SetTransform):
            aliases = [source.alias or str(source.dataset_ref) for source in event.inputs]
            place: _Place = ("metadata", index or 0, "transform")
            yield from _check(declared, place, event.transform, aliases, op_columns, frozenset())
        elif isinstance(event, SetPollingSource | AddPushSource) and event.preprocess is not None:
            place = ("metadata", index or 0, "preprocess")
            inputs = [PREPROCESS_INPUT]
            yield from _check(declared, place, event.preprocess, inputs, (), _INGESTED_ONCE)


def check_definitions(declared: Sequence[Declared]) -> Iterator[tuple[Declared, Diagnostic]]:
    """Yield what is wrong with the queries of whole definitions, in force or not."""
    op_columns = {"op", *(_vocabulary(each).operation_type_column for each in declared)}
    for each in declared:
        changes = [Change(event, at) for at, event in enumerate(each.snapshot.metadata)]
        for found in check_queries(each, changes, op_columns):
            yield each, found


def _vocabulary(declared: Declared) -> DatasetVocabulary:
    given = (event for event in declared.snapshot.metadata if isinstance(event, SetVocab))
    return vocabulary(next(given, SetVocab()))


def _check(
    declared: Declared,
    place: _Place,
    transform: TransformSql,
    inputs: Sequence[str],
    op_columns: Collection[str],
    allowed: frozenset[Reason],
) -> Iterator[Diagnostic]:
    facts = examine(steps_of(transform), inputs, op_columns)
    reasons = [reason for reason in Reason if reason not in allowed]
    found = facts.about(*reasons)
    for each, finding in zip(diagnostics(facts, reasons), found, strict=True):
        yield _placed(declared, place, transform, each, finding)


def _placed(
    declared: Declared,
    place: _Place,
    transform: TransformSql,
    diagnostic: Diagnostic,
    finding: Finding,
) -> Diagnostic:
    steps = steps_of(transform)
    if finding.step >= len(steps):
        return replace(diagnostic, span=declared.span(place))
    single = _written(declared, place).query is not None
    path = (*place, "query") if single else (*place, "queries", finding.step, "query")
    text = steps[finding.step].text
    at = finding.place
    return replace(diagnostic, span=declared.span_inside(path, text, at.start, at.length))


def _written(declared: Declared, place: _Place) -> TransformSql:
    index, key = place[1:]
    written: TransformSql = getattr(declared.written.metadata[index], key)
    return written
