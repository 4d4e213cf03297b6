"""Queries that a plan would put into chains, and the columns they keep as UUIDs.  Pure.

Only what is about to be appended is looked at: a query in force was checked when it came.

Chains and slices have 16 bytes for them: the data schema of ODF has no such type, and Spark, which
is an engine of the reference, refuses Parquet files that do (up to 4.0 at least).  So it is told by
the definitions in force: a column that a source declares as UUID, and one that a query takes from
such a column as it is.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from odfbuild.errors import Diagnostic, SourceSpan
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState, input_name, vocabulary
from odfbuild.odf.events import (
    AddPushSource,
    DataSchema,
    DatasetVocabulary,
    DataTypeBinary,
    SetPollingSource,
    SetTransform,
    SetVocab,
    TransformSql,
)
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetRef
from odfbuild.odf.schema.ddl import DdlError, uuid_paths
from odfbuild.odf.schema.value_paths import ValuePath, below, leaves
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import EventChange
from odfbuild.sql.analysis.facts import QueryFacts, diagnostics, examine, examine_alike
from odfbuild.sql.findings import QueryFinding, Reason
from odfbuild.sql.text.shape import TextPlace
from odfbuild.sql.text.steps import QueryStep, is_of_spark, steps_of

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
    and each not in {Reason.ORDER, Reason.LOOSE_WINDOW, Reason.RESERVED}
)


def check_queries(
    declared: Declared,
    changes: Sequence[EventChange],
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
    aliases = tuple(input_name(source) for source in transform.inputs)
    return steps_of(transform.transform), aliases


def check_definitions(declared: Sequence[Declared]) -> Iterator[tuple[Declared, Diagnostic]]:
    """Yield what is wrong with the queries of whole definitions, in force or not."""
    op_columns = {"op", *(_vocabulary(each).operation_type_column for each in declared)}
    for each in declared:
        changes = [EventChange(event, at) for at, event in enumerate(each.snapshot.metadata)]
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
        yield _at_position(declared, place, transform, each, finding)


def _at_position(
    declared: Declared,
    place: _Place,
    transform: TransformSql,
    diagnostic: Diagnostic,
    finding: QueryFinding,
) -> Diagnostic:
    steps = steps_of(transform)
    if finding.step >= len(steps):
        table = (*place, "temporalTables", finding.step - len(steps), "name")
        spot = table if finding.reason is Reason.TEMPORAL else place
        return replace(diagnostic, span=declared.span(spot))
    return replace(
        diagnostic,
        span=_span(declared, place, steps[finding.step].text, finding.step, finding.place),
    )


def text_span(declared: Declared, transform: TransformSql, step: int, at: TextPlace) -> SourceSpan:
    """Return where a part of a declared transform is written."""
    events = enumerate(declared.snapshot.metadata)
    index = next(number for number, event in events if isinstance(event, SetTransform))
    text = steps_of(transform)[step].text
    return _span(declared, ("metadata", index, "transform"), text, step, at)


def _span(declared: Declared, place: _Place, text: str, step: int, at: TextPlace) -> SourceSpan:
    single = _written(declared, place).query is not None
    path = (*place, "query") if single else (*place, "queries", step, "query")
    return declared.span_inside(path, text, at.start, at.length)


def _written(declared: Declared, place: _Place) -> TransformSql:
    index, key = place[1:]
    written: TransformSql = getattr(declared.written.metadata[index], key)
    return written


Lookup = Callable[[DatasetRef], ChainState | None]
Columns = Mapping[str, tuple[DataSchema | None, frozenset[ValuePath]]]
_STORED = frozenset({DataTypeBinary(), DataTypeBinary(16)})


def uuid_columns(state: ChainState, lookup: Lookup) -> frozenset[ValuePath]:
    """Return where a dataset has UUIDs; `lookup` gives the states of its inputs."""
    schema = schema_in_force(state)
    fields = () if schema is None else schema.fields
    stored = {path for path, kind in leaves(fields) if kind in _STORED}
    if not stored:
        return frozenset()
    if state.transform is not None:
        return _of_transform(state, lookup) & stored
    found = [_of_source(each) for each in state.sources if not is_opaque(each)]
    return frozenset.intersection(*found) & stored if found else frozenset()


def copied_uuids(steps: Sequence[QueryStep], inputs: Columns) -> frozenset[ValuePath]:
    """Return where a result has UUIDs of the inputs, in columns that are copied as they are."""
    if not is_of_spark(steps) or not any(uuids for _, uuids in inputs.values()):
        return frozenset()
    from odfbuild.sql.columns import columns_of

    outputs = columns_of(steps, {name: schema for name, (schema, _) in inputs.items()}).outputs
    return frozenset(
        (each.name, *path)
        for each in outputs or ()
        if each.copied and each.sources
        for path in frozenset.intersection(
            *(below(inputs[source.input][1], source.column) for source in each.sources)
        )
    )


def _of_source(source: SetPollingSource | AddPushSource) -> frozenset[ValuePath]:
    try:
        declared = uuid_paths(source.read.ddl_schema or ())
    except (AttributeError, DdlError):  # a kind of source, or a type, of a newer version
        return frozenset()
    if source.preprocess is None or not declared:
        return declared
    from odfbuild.odf.schema.ddl import parse_ddl

    read = parse_ddl(source.read.ddl_schema or ())
    return copied_uuids(steps_of(source.preprocess), {PREPROCESS_INPUT: (read, declared)})


def _of_transform(state: ChainState, lookup: Lookup) -> frozenset[ValuePath]:
    if state.transform is None or is_opaque(state.transform.transform):
        return frozenset()
    inputs: dict[str, tuple[DataSchema | None, frozenset[ValuePath]]] = {}
    for each in state.transform.inputs:
        found = lookup(each.dataset_ref)
        uuids = frozenset[ValuePath]() if found is None else uuid_columns(found, lookup)
        schema = None if found is None else schema_in_force(found)
        inputs[input_name(each)] = (schema, uuids)
    return copied_uuids(steps_of(state.transform.transform), inputs)
