"""Check the queries that a plan would put into chains, and place what is wrong with them.  Pure.

Only what is about to be appended is looked at: a query in force was checked when it came.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
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
from odfbuild.planner.sql.alike import examine_alike
from odfbuild.planner.sql.query import (
    Finding,
    QueryFacts,
    QueryStep,
    Reason,
    diagnostics,
    examine,
    steps_of,
)

__all__ = [
    "PREPROCESS_INPUT",
    "Examined",
    "Question",
    "check_definitions",
    "check_queries",
    "question",
]

_Place: TypeAlias = tuple[Literal["metadata"], int, str]  # of a transform within the snapshot

Question: TypeAlias = tuple[tuple[QueryStep, ...], tuple[str, ...]]
Examined: TypeAlias = Mapping[Question, QueryFacts]

PREPROCESS_INPUT = "input"
"""The name under which a preprocess query reads the source."""
_NONE: Examined = {}
_OF_INGEST = tuple(
    each
    for each in Reason
    if each not in {Reason.NOT_LINEAR, Reason.NOT_DETERMINISTIC}
    and each not in {Reason.ORDER, Reason.LOOSE_WINDOW}
)


def check_queries(
    declared: Declared,
    changes: Sequence[Change],
    op_columns: Collection[str],
    examined: Examined = _NONE,
) -> Iterator[Diagnostic]:
    """Yield what is wrong with the queries of the events to append, at their places.

    A preprocess query sees one source frame and is never replayed, so it may aggregate and ask the
    clock; a transform may not.  `op_columns` are the inputs' names of the operation column,
    `examined` the facts of transforms that were worked out before.
    """
    for change in changes:
        event, index = change.event, change.index
        if isinstance(event, SetTransform):
            _, aliases = question(event)
            place: _Place = ("metadata", index or 0, "transform")
            facts = examined.get(question(event)) or examine_alike(
                steps_of(event.transform), aliases, op_columns
            )
            yield from _check(declared, place, event.transform, facts, facts.refused)
        elif isinstance(event, SetPollingSource | AddPushSource) and event.preprocess is not None:
            place = ("metadata", index or 0, "preprocess")
            facts = examine(steps_of(event.preprocess), [PREPROCESS_INPUT], ())
            yield from _check(declared, place, event.preprocess, facts, _OF_INGEST)


def question(transform: SetTransform) -> Question:
    """Return what the facts of a transform depend on, beside the names of operation columns."""
    aliases = tuple(source.alias or str(source.dataset_ref) for source in transform.inputs)
    return steps_of(transform.transform), aliases


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
    facts: QueryFacts,
    reasons: Collection[Reason],
) -> Iterator[Diagnostic]:
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
        table = (*place, "temporalTables", finding.step - len(steps), "name")
        spot = table if finding.reason is Reason.TEMPORAL else place
        return replace(diagnostic, span=declared.span(spot))
    single = _written(declared, place).query is not None
    path = (*place, "query") if single else (*place, "queries", finding.step, "query")
    text = steps[finding.step].text
    at = finding.place
    return replace(diagnostic, span=declared.span_inside(path, text, at.start, at.length))


def _written(declared: Declared, place: _Place) -> TransformSql:
    index, key = place[1:]
    written: TransformSql = getattr(declared.written.metadata[index], key)
    return written
