"""Errors of queries that a plan finds before a step runs them.

First the texts alone, with the columns of their inputs: names that no input has, results without an
event time.  Then what engines say: those that start at once, those elsewhere, or all if asked.
It is one module, as both judge the same definitions in one pass, and an error of a text spares the
question to an engine.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from odfbuild.errors import Diagnostic, Level, OdfBuildError, ProjectErrors
from odfbuild.executors.engine.analysis import Analyser, QueryPlace
from odfbuild.executors.engine.columns import Asker, ColumnsOf, place_in_query, query_path
from odfbuild.executors.engine.contract.permission import check_permitted
from odfbuild.executors.engine.protocol import engine_version
from odfbuild.executors.engine.quick_columns import quick_asker, quick_engine_names
from odfbuild.executors.engine.registry import query_engines
from odfbuild.host.permissions import NotPermittedError
from odfbuild.host.reading_session import made_of
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState, input_name
from odfbuild.odf.events import (
    AddPushSource,
    DataField,
    DataSchema,
    DatasetKind,
    DatasetVocabulary,
    DataTypeDate,
    DataTypeNull,
    DataTypeOption,
    DataTypeTimestamp,
    SetPollingSource,
    SetTransform,
    SetVocab,
)
from odfbuild.odf.merge_strategies import (
    compared_columns,
    key_of,
    name_of,
    reads_operations,
    records_operations,
)
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.columns import EVENT_TIME
from odfbuild.odf.schema.types import inner, repeated, type_name, unhashable
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff.asked_version import asked_version_problems
from odfbuild.planner.evolution.columns.derive import DerivedColumns, makes_of_events
from odfbuild.planner.plan import Append, Plan
from odfbuild.planner.plan.changes import Assessment, Judgement
from odfbuild.project.config.engines import DEFAULT_ENGINE, ENGINES
from odfbuild.project.load import Project
from odfbuild.project.lock import Lock, read_lock
from odfbuild.project.lock.state import Definitions
from odfbuild.project.opened import Opened
from odfbuild.sql.analysis.facts import names_operation
from odfbuild.sql.findings import QueryFinding, words
from odfbuild.sql.reserved_names import reserved_columns
from odfbuild.sql.text import types
from odfbuild.sql.text.parse import read, skeleton
from odfbuild.sql.text.shape import Call, Cast, Literal, Select, TextPlace, walk
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.steps import is_foreign, is_of_spark
from odfbuild.state.memory.engine_answers import Answers
from odfbuild.texts.patterns import late_pattern
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.sql.columns import OutputColumn, QueryColumns
    from odfbuild.sql.columns.expressions import UnknownColumn, UnknownFunction


_TIMES = (DataTypeDate, DataTypeTimestamp, DataTypeNull)
_WHOLE = (types.BYTE, types.SHORT, types.INT, types.BIGINT)
_JUDGED = ("no-event-time", "event-time-column")
_TYPED = late_pattern(r"\b(?:sum|avg|mean)\s*\(|\bsystem_time\b", re.IGNORECASE)
"""Words of queries that are right or wrong with the types of columns."""
_OPAQUE = late_pattern(r"\barray\s*\(\s*(?:null\b|\))|parse_json|variant", re.IGNORECASE)
_VARIANTS = ("parse_json", "try_parse_json", "to_variant_object")
_MAY_BE_VARIANTS = ("variant_get", "try_variant_get")  # without the name of a type
_NOT_NULL = late_pattern(r"\bis\s+not\s+null\b", re.IGNORECASE)
_CLAUSES = late_pattern(r"\b(?:group\s+by|having)\b", re.IGNORECASE)
_DECIDING = (SetPollingSource, AddPushSource, SetTransform, SetVocab)


def column_findings(
    declared: Sequence[Declared],
    states: Mapping[DatasetAlias, ChainState],
    lock: Lock | None,
    wanted: Collection[DatasetAlias],
    *,
    broken: Collection[DatasetAlias] = (),
    has_columns: Callable[[DatasetAlias], bool] = lambda _: False,
    asker: Asker | None = None,
) -> Iterator[tuple[DatasetAlias, Diagnostic]]:
    """Yield columns that queries name and their inputs do not have, and results without a time.

    Columns come from the texts, the lock file or chains; an input of none may have any column.
    `has_columns` tells of a dataset that its chain alone has its columns.  An `asker` is asked for
    each query, or for one that passes of those that differ in compared numbers and strings only;
    what its engine refuses is yielded too.
    """
    definitions = Definitions(declared, {state.dataset: a for a, state in states.items()})
    columns = ColumnsOf(
        definitions,
        asker,
        known=None if lock is None else partial(_locked_schema, lock, definitions),
        existing=states.get,
        broken=broken,
        static=True,
        has_columns=has_columns,
    )
    times = {each.alias: _vocab(each).event_time_column for each in declared}
    times |= {alias: state.vocab.event_time_column for alias, state in states.items()}
    judged = _Judged(columns, states, times, asker)
    engines = {name: engine_version(name) or "" for name in ENGINES}
    for each in declared:
        if each.alias in wanted and each.alias not in broken:
            columns(each.alias)
            problems: list[Diagnostic] = made_of(
                ("column findings", each.alias, asker and asker.scope),
                columns.grounds(each.alias),
                [times.get(source) for _, source in definitions.inputs(each.alias) if source],
                partial(judged.problems, each),
                _is_empty,  # others may depend on the queries that passed before
            )
            problems = [*problems, *asked_version_problems(each, states.get(each.alias), engines)]
            yield from ((each.alias, found) for found in problems)


def _is_empty(problems: Sequence[Diagnostic]) -> bool:
    return not problems


class _Judged:
    """Judges queries one after the other; those that differ in little from one that passed pass."""

    def __init__(
        self,
        columns: ColumnsOf,
        states: Mapping[DatasetAlias, ChainState],
        times: Mapping[DatasetAlias, str],
        asker: Asker | None,
    ) -> None:
        self._columns = columns
        self._states = states
        self._times = times
        self._asker = asker
        self._sound: set[object] = set()  # queries of which one that is alike passed
        self._typed: set[object] = set()  # the same, of their types

    def problems(self, each: Declared) -> list[Diagnostic]:
        """Return what is wrong with the query of a dataset whose inputs were looked at."""
        made = self._columns.read(each.alias)
        if made is None or not made.steps:
            return []
        state = self._states.get(each.alias)
        problems = _untyped_errors(each, made, state)
        if problems and (placed := self._columns.placed(each.alias)) is not None:
            problems = _untyped_errors(each, placed, state)
        key = _alike(each, made), self._columns.vocabularies(each.alias)
        if not problems and key not in self._typed and _is_typed(each, made):
            problems += _by_types(each, made, self._times)
            self._typed |= set() if problems else {key}
        if self._asker is not None and not problems and key not in self._sound:
            problems += self._columns.answered(each.alias).found
            self._sound |= set() if problems else {key}
        return problems


def _untyped_errors(
    each: Declared, made: DerivedColumns, state: ChainState | None
) -> list[Diagnostic]:
    """Return what is wrong with a query, but for what the types of columns decide."""
    nulls = () if _in_force(each, state) else _null_time(each, made)
    return [*_text_problems(each, made), *nulls]


def _is_typed(each: Declared, made: DerivedColumns) -> bool:
    """Tell whether types decide about a query, and are known."""
    known = _is_derived(each) and all(schema is not None for schema in made.inputs.values())
    return known and any(_TYPED.search(step.text) for step in made.steps)


def _by_types(
    each: Declared, made: DerivedColumns, times: Mapping[DatasetAlias, str]
) -> Iterator[Diagnostic]:
    """Yield what the types of the inputs' columns make certain."""
    from odfbuild.sql.analysis.typed_findings import typed_findings

    (transform,) = (e for e in each.snapshot.metadata if isinstance(e, SetTransform))
    named = {input_name(e): e.dataset_ref for e in transform.inputs}
    inputs = {alias: schema for alias, schema in made.inputs.items() if schema is not None}
    seen = {
        alias: times[ref]
        for alias, ref in named.items()
        if isinstance(ref, DatasetAlias) and ref in times
    }
    for found in typed_findings(made.steps, inputs, seen):
        yield _diagnostic(each, found)


def _diagnostic(each: Declared, found: QueryFinding) -> Diagnostic:
    what, why, fix = words(found)
    at = QueryPlace(found.step, found.place.start, found.place.length)
    span = place_in_query(each, query_path(each), at)
    return Diagnostic(code=found.reason.value, what=what, why=why, fix=fix, span=span)


def _alike(each: Declared, made: DerivedColumns) -> object:
    """Return what definitions have in common that no types and no engine's analyser tell apart."""
    makes = makes_of_events(each.snapshot.kind, each.snapshot.metadata)
    source = None if makes.source is None else (makes.source.read, makes.source.merge)
    steps = (
        (step.alias, step.engine, step.text)
        if not is_of_spark((step,))
        else (step.alias, skeleton(step.text, compared=True))
        for step in made.steps
    )
    return makes.vocab, source, tuple(steps), tuple(made.inputs.items())


def refused_by_engine(
    project: Opened,
    declared: Sequence[Declared],
    plan: Plan,
    engine: Analyser,
    current: Mapping[DatasetAlias, ChainState],
) -> Mapping[DatasetAlias, ProjectErrors]:
    """Return what an engine refuses of the definitions that a plan would append, by dataset.

    Nothing is asked twice in the life of the workspace.  Raises EngineFailedError.
    """
    changed = _changed_datasets(plan)
    if not changed or not declared:
        return {}
    version = engine_version(DEFAULT_ENGINE) or ""
    answers = Answers(project.workspace.root / "cache" / "answers.sqlite")
    with closing(answers):
        asker = Asker(lambda: engine, version, answers)
        return _refusals(project.root, declared, plan, current, asker)


def _changed_datasets(plan: Plan) -> set[DatasetAlias]:
    """Return the datasets whose columns may be others after a plan."""
    return {
        step.target
        for step in plan.steps
        if isinstance(step.work, Append)
        and any(isinstance(event, _DECIDING) for event in step.work.events)
    }


def _refusals(
    root: Path,
    declared: Sequence[Declared],
    plan: Plan,
    current: Mapping[DatasetAlias, ChainState],
    asker: Asker | None = None,
) -> Mapping[DatasetAlias, ProjectErrors]:
    changed = _changed_datasets(plan)

    def has_columns(alias: DatasetAlias) -> bool:
        state = None if alias in changed else current.get(alias)
        return state is not None and schema_in_force(state) is not None

    found: dict[DatasetAlias, list[Diagnostic]] = {}
    planned = [each for each in declared if each.alias in plan.datasets]
    wanted = changed - plan.refused.keys()
    problems = column_findings(
        planned, current, read_lock(root), wanted, has_columns=has_columns, asker=asker
    )
    for alias, problem in problems:
        refused = _is_refused(plan.datasets[alias].assessment)
        if not (refused and problem.code in _JUDGED):
            found.setdefault(alias, []).append(problem)
    return {alias: ProjectErrors(each) for alias, each in found.items()}


def _locked_schema(
    lock: Lock, definitions: Definitions, alias: DatasetAlias, inputs: str
) -> DataSchema | None:
    return lock.schema_of(alias, definitions.definition(alias), inputs)


@dataclass(frozen=True, slots=True)
class JudgedDefinitions:
    """What is wrong with definitions, by dataset; warnings of engines that did not check some."""

    refused: Mapping[DatasetAlias, OdfBuildError]
    unchecked: tuple[Diagnostic, ...] = ()


def judged_definitions(
    project: Opened,
    loaded: Project,
    plan: Plan,
    current: Mapping[DatasetAlias, ChainState],
    *,
    elsewhere: bool,
) -> JudgedDefinitions:
    """Return what is certainly wrong with the definitions that a plan would append.

    Beside what the planner refused itself, it is columns that are not there, and what engines say
    that start at once; with `elsewhere` also engines elsewhere.  Of an event time that is lost the
    gate says more, where it refuses that.
    """
    found = {alias: ProjectErrors(problems) for alias, problems in plan.refused.items()}
    changed = _changed_datasets(plan)
    if not changed:
        return JudgedDefinitions(found)
    declared = [each for each in loaded.declared if each.alias in changed]
    with quick_engines(project, declared, elsewhere=elsewhere) as asker:
        refused = {**_refusals(loaded.root, loaded.declared, plan, current, asker), **found}
        failed = {} if asker is None else asker.unchecked
    return JudgedDefinitions(refused, tuple(_unchecked(project, failed)))


def _unchecked(project: Opened, failed: Mapping[str, OdfBuildError]) -> Iterator[Diagnostic]:
    """Yield a warning for each engine that did not check its queries."""
    for name, error in failed.items():
        yield Diagnostic(
            code=error.diagnostics()[0].code,
            what=f"queries for the engine {name} were not checked: {error.what}",
            why="a plan asks an engine about new queries; errors in these are found by apply only",
            fix=error.fix,
            span=project.config.engines[name].span,
            level=Level.WARNING,
        )


@contextmanager
def quick_engines(
    project: Opened, declared: Sequence[Declared], *, elsewhere: bool = False
) -> Iterator[Asker | None]:
    """Yield what asks engines that start at once; None if no query of some datasets is for one.

    With `elsewhere` it asks engines elsewhere, too.
    """
    queries = [event for each in declared for event in each.snapshot.metadata]
    quick = quick_engine_names() & {name.lower() for name in query_engines(*queries)}
    there = _asked_elsewhere(project, queries) if elsewhere else {}
    if not quick and not there:
        yield None
        return
    with quick_asker(project, quick, there) as asker:
        yield asker


def _asked_elsewhere(project: Opened, queries: Sequence[object]) -> Mapping[str, str]:
    """Return the engines elsewhere that some transforms name, each with what it is.

    Images and commands are not run at a plan, and engines that may not be used are not asked: of
    these the plan warns.
    """
    transforms = [each for each in queries if isinstance(each, SetTransform)]
    found = {}
    for name in sorted(query_engines(*transforms) & project.config.engines.keys()):
        engine = project.config.engines[name]
        if engine.command or engine.image is not None:
            continue
        with suppress(NotPermittedError):
            check_permitted(project, name)
            found[name] = f"{engine.address} {engine.engine}"
    return found


def _is_refused(assessment: Assessment | None) -> bool:
    hits = () if assessment is None else assessment.hits
    return any(hit.judged in (Judgement.REFUSED, Judgement.EXPIRED) for hit in hits)


def _text_problems(each: Declared, made: DerivedColumns) -> tuple[Diagnostic, ...]:
    return made_of(
        ("problems", each.alias), (each, made), None, lambda: tuple(_problems(each, made))
    )


def _problems(each: Declared, made: DerivedColumns) -> Iterator[Diagnostic]:
    path = query_path(each)
    unknown = () if made.query is None else made.query.unknown_columns
    outputs = () if made.query is None else made.query.outputs or ()
    for column in unknown:
        own = (column.step, column.place)
        yield _unknown(each, path, column, [o.name for o in outputs if o.place != own])
    for function in () if made.query is None else made.query.unknown_functions:
        yield _no_function(each, path, function)
    for found in _misuses(made):
        yield _diagnostic(each, found)
    for wrong in () if made.query is None else made.query.wrong_constants:
        at = None if wrong.place is None else _query_place(wrong.step, wrong.place)
        yield Diagnostic(
            code="wrong-type" if wrong.typed else "wrong-constant",
            what=wrong.what,
            why="the engine does not support values of these types here"
            if wrong.typed
            else "a step with rows would fail",
            fix=wrong.fix,
            span=place_in_query(each, path, at),
        )
    yield from _reserved(each, made)
    yield from _unstorable(each, path, made)
    yield from _misnamed_columns(each, path, made)
    time = _vocab(each).event_time_column
    meant = any(column.closest == time for column in unknown)
    if made.columns is not None and made.lost_time and not meant and _is_derived(each):
        yield Diagnostic(
            code="no-event-time",
            what="the query has no result column that is the event time of the dataset",
            why="every record of a derivative dataset has an event time",
            fix="select it, too, or name the column in SetVocab.eventTimeColumn",
            span=place_in_query(each, path, None),
        )


def _reserved(each: Declared, made: DerivedColumns) -> Iterator[Diagnostic]:
    """Yield columns of inputs that a step of a transform could not tell from its own."""
    if not _is_derived(each) or is_foreign(made.steps):
        return
    for alias, schema in made.inputs.items():
        for found in reserved_columns(alias, () if schema is None else schema.fields):
            yield _diagnostic(each, found)


def _unstorable(
    each: Declared, path: tuple[str | int, ...], made: DerivedColumns
) -> Iterator[Diagnostic]:
    """Yield columns of a query that no slice can hold, and those of one name."""
    for name, kind, place in _opaque_outputs(made):
        last = QueryPlace(len(made.steps) - 1, place.start, place.length)
        yield Diagnostic(
            code="unstorable-type",
            what=f"{name}() returns {kind}, which cannot be stored",
            why="a slice can store numbers, texts, bytes, dates, times, timestamps and nested "
            "types of them",
            fix="cast it, as in CAST(... AS STRING), or omit it",
            span=place_in_query(each, path, last),
        )
    seen: set[str] = set()
    for output in () if made.query is None else made.query.outputs or ():
        if output.unstorable is not None:
            at = None if output.place is None else _query_place(*output.place)
            yield Diagnostic(
                code="unstorable-type",
                what=f"the column '{output.name}' cannot be stored: it is of type "
                f"{output.unstorable}",
                why="a slice can store numbers, texts, bytes, dates, times, timestamps and nested "
                "types of them",
                fix=f"cast it: CAST(... AS STRING) AS `{output.name}`, or omit it",
                span=place_in_query(each, path, at),
            )
    for output in () if made.query is None else made.query.outputs or ():
        if output.name and output.name in seen:
            at = None if output.place is None else _query_place(*output.place)
            yield Diagnostic(
                code="duplicate-column",
                what=f"the query has two result columns named '{output.name}'",
                why="column names of a dataset must be unique",
                fix="rename one of them with AS",
                span=place_in_query(each, path, at),
            )
        seen.add(output.name)
    for column in made.columns or ():
        if column.type is None:
            continue
        part, twice = unhashable(column.type), repeated(column.type)
        at = None if column.place is None else _query_place(*column.place)
        if twice is not None:
            yield Diagnostic(
                code="duplicate-column",
                what=f"the column '{column.name}' has two fields named '{twice}'",
                why="the fields of a struct have different names",
                fix="rename one of them: struct(... AS a, ... AS b)",
                span=place_in_query(each, path, at),
            )
        if part is not None:
            yield Diagnostic(
                code="unhashable-type",
                what=f"the column '{column.name}' cannot be stored: {type_name(part)} has no "
                "logical hash",
                why="arrow0-sha3-256 does not support maps, durations or structs inside of lists",
                fix=f"convert it to text, to_json(...) AS {column.name}, or omit it",
                span=place_in_query(each, path, at),
            )


def _opaque_outputs(made: DerivedColumns) -> Iterator[tuple[str, str, TextPlace]]:
    """Yield the calls that are columns of the result and of a type without a form in slices."""
    text = made.steps[-1].text if made.steps else ""
    if not _OPAQUE.search(text):
        return
    shape = read(text).shape
    for output in shape.outputs if isinstance(shape, Select) else ():
        call = output.value
        if not isinstance(call, Call) or call.place is None:
            continue
        if call.name == "array" and all(
            isinstance(arg, Literal) and arg.kind == "null" for arg in call.args
        ):
            yield call.name, "list of NULL without a type", call.place
        elif call.name in _VARIANTS or (call.name in _MAY_BE_VARIANTS and len(call.args) == 2):
            yield call.name, "VARIANT", call.place


def _misnamed_columns(
    each: Declared, path: tuple[str | int, ...], made: DerivedColumns
) -> Iterator[Diagnostic]:
    """Yield columns of a query that are the system's, and event times that are none."""
    makes = makes_of_events(each.snapshot.kind, each.snapshot.metadata)
    vocab, source = makes.vocab, makes.source
    op = vocab.operation_type_column
    reserved = {vocab.offset_column, vocab.system_time_column}
    names_op = source is None and names_operation(made.steps, made.inputs, op)
    if not (names_op if source is None else reads_operations(source.merge)):
        reserved.add(op)
    outputs = () if made.query is None else made.query.outputs or ()
    for output in outputs:
        at = None if output.place is None else _query_place(*output.place)
        if output.name in reserved:
            yield Diagnostic(
                code="system-column",
                what=f"the query has a result column named '{output.name}'",
                why='every record gets that column (ODF 0.34.1, "Common Data Schema")',
                fix="omit it, rename it with AS, or rename the system column by SetVocab",
                span=place_in_query(each, path, at),
            )
        kind = None if output.type is None else inner(output.type)
        if names_op and output.name == op and kind is not None and kind not in _WHOLE:
            yield Diagnostic(
                code="invalid-changelog",
                what=f"the query returns {op} as {type_name(kind)}",
                why="operations are numbers: 0 append, 1 retract, 2 correct from, 3 correct to",
                fix=f"pass {op} of the input through unchanged, or cast it: CAST(... AS INT)",
                span=place_in_query(each, path, at),
            )
    if names_op:
        yield from _constant_operation(each, path, made, op)
    if source is not None:
        yield from _without_key(each, path, made, source)
    if source is not None and records_operations(source.merge):
        yield from _without_operation(each, path, made, op, name_of(type(source.merge)))
    time = made.column(vocab.event_time_column)
    if time is not None and time.type is not None and not isinstance(inner(time.type), _TIMES):
        at = None if time.place is None else _query_place(*time.place)
        yield Diagnostic(
            code="event-time-column",
            what=f"the event time column '{time.name}' is neither a DATE nor a TIMESTAMP",
            why="watermarks and windows depend on event times",
            fix=f"cast it, to_timestamp(...) AS {time.name}",
            span=place_in_query(each, path, at),
        )


def _misuses(made: DerivedColumns) -> Iterator[QueryFinding]:
    """Yield what Spark refuses of a query, whatever its types are; of none nothing is loaded."""
    if made.query is not None:
        from odfbuild.sql.analysis.spark_refusals import misuses

        yield from misuses(made.steps)


def _constant_operation(
    each: Declared, path: tuple[str | int, ...], made: DerivedColumns, column: str
) -> Iterator[Diagnostic]:
    """Yield that every row of a derivative would take back another one, or stand for one."""
    try:
        shape = made.steps[-1].statement.shape if made.steps else None
    except SqlTextError:
        return
    if not isinstance(shape, Select):
        return
    from odfbuild.sql.columns.expressions import integer

    for output in shape.outputs:
        value = output.value
        number = integer(value.value if isinstance(value, Cast) else value)
        if column in output.aliases and number not in {None, 0}:
            at = None if output.place is None else _query_place(len(made.steps) - 1, output.place)
            yield Diagnostic(
                code="invalid-changelog",
                what=f"the query returns {number} as {column} in every row",
                why="a retraction or correction needs an existing row, and there is none for the "
                "first row",
                fix=f"pass {column} of the input through unchanged, or omit it: corrections are "
                "then passed on automatically",
                span=place_in_query(each, path, at),
            )


def _without_key(
    each: Declared,
    path: tuple[str | int, ...],
    made: DerivedColumns,
    source: SetPollingSource | AddPushSource,
) -> Iterator[Diagnostic]:
    """Yield columns that a merge strategy names and the preprocess query does not give."""
    outputs = () if made.query is None else made.query.outputs or ()
    if made.columns is None or any(not output.name for output in outputs):
        return
    names = [each.name for each in made.columns] + [output.name for output in outputs]
    given = list(dict.fromkeys(names))
    named = {"primaryKey": key_of(source.merge), "compareColumns": compared_columns(source.merge)}
    for key, columns in named.items():
        for number, name in enumerate(columns):
            if name not in given:
                yield Diagnostic(
                    code="unknown-column",
                    what=f"the query has no result column '{name}'",
                    why=f"{key} of the merge strategy names it",
                    fix=did_you_mean(name, given) or "select it, or name another column",
                    span=each.span((*path[:2], "merge", key, number)),
                )


def _without_operation(
    each: Declared, path: tuple[str | int, ...], made: DerivedColumns, column: str, merge: str
) -> Iterator[Diagnostic]:
    """Yield that a preprocess query does not give the operations that are recorded."""
    outputs = None if made.query is None else made.query.outputs
    if outputs is not None and all(output.name not in {column, ""} for output in outputs):
        yield Diagnostic(
            code="unknown-column",
            what=f"the query has no result column '{column}'",
            why=f"an input of a {merge} has the operation of each record (ODF 0.34.1, "
            f'"MergeStrategy{merge}")',
            fix=f"add {column} to it, an INT: 0 append, 1 retract, 2 correct from, 3 correct to",
            span=place_in_query(each, path, None),
        )


def _null_time(each: Declared, made: DerivedColumns) -> Iterator[Diagnostic]:
    """Yield an event time that the columns of the inputs allow to be null."""
    if not _is_derived(each) or made.query is None:
        return
    name = _vocab(each).event_time_column
    for output in _certain(made, made.query, name):
        if output.name != name or not isinstance(output.type, DataTypeOption):
            continue
        if output.copied and not any(_NOT_NULL.search(step.text) for step in made.steps):
            because = (
                "it is a nullable column, or one of the other side of an outer join"
                if output.sources
                else "it is NULL"
            )
            fix = (
                f"replace nulls, coalesce(..., ...) AS {name}, or exclude such rows: WHERE ... IS "
                "NOT NULL"
            )
        elif _is_total(made.steps[-1].text):
            because = "an aggregate without GROUP BY returns a row even without input rows"
            fix = "exclude that row: HAVING count(*) > 0"
        else:
            continue
        at = None if output.place is None else _query_place(*output.place)
        yield Diagnostic(
            code="null-event-time",
            what=f"the event time '{name}' may be null: {because}",
            why="every record of a derivative dataset needs an event time; a row without it fails "
            "the step",
            fix=fix,
            span=place_in_query(each, query_path(each), at),
        )


def _certain(made: DerivedColumns, query: "QueryColumns", name: str) -> "Sequence[OutputColumn]":
    """Return the columns of a query, with what of `name` may be null whatever the inputs are.

    An input that is not known is taken for one of instants that are never null.
    """
    outputs = query.outputs or ()
    if None not in made.inputs.values() or all(o.type or o.name != name for o in outputs):
        return outputs
    from odfbuild.sql.columns import columns_of

    named: dict[str, list[str]] = {}
    for ref in query.places:
        named.setdefault(ref.input, []).append(ref.column)
    guessed = {
        alias: DataSchema(tuple(DataField(c, EVENT_TIME) for c in named.get(alias, ())))
        for alias, schema in made.inputs.items()
        if schema is None
    }
    return columns_of(made.steps, {**made.inputs, **guessed}).outputs or ()


def _is_total(text: str) -> bool:
    """Tell whether a query makes one row of all rows, and of none."""
    if _CLAUSES.search(text):
        return False
    from odfbuild.sql.analysis.row_by_row import is_aggregate

    shape = read(text).shape
    return isinstance(shape, Select) and any(
        is_aggregate(each) for output in shape.outputs for each in walk(output.value)
    )


def _in_force(each: Declared, state: ChainState | None) -> bool:
    """Tell whether a chain has the very query of a definition: then its steps run."""
    known = None if state is None else state.transform
    declared = next((e for e in each.snapshot.metadata if isinstance(e, SetTransform)), None)
    if known is None or declared is None:
        return False
    both = (known.transform, declared.transform)
    return not any(map(is_opaque, both)) and both[0].queries == both[1].queries


def _query_place(step: int, place: TextPlace) -> QueryPlace:
    return QueryPlace(step, place.start, place.length)


def _unknown(
    each: Declared,
    path: tuple[str | int, ...],
    column: "UnknownColumn",
    aliases: Collection[str],
) -> Diagnostic:
    at = None
    if column.place is not None:
        at = _query_place(column.step, column.place)
    why = (
        "a query can use the columns of its inputs and of its earlier steps; names are "
        "case-sensitive"
    )
    if column.ambiguous:
        what = f"several inputs of the query have a column '{column.name}'"
        fix = f"qualify it: {column.closest}"
        if column.closest is None:
            what = f"several columns or fields are named '{column.name}'"
            why = "the name is ambiguous"
            fix = "give each its own name where it is computed: ... as other_name"
    else:
        what = f"no input of the query has a column '{column.name}'"
        fix = f"did you mean '{column.closest}'?" if column.closest else "correct the name"
        if column.name in aliases and not column.closest:
            fix = (
                f"'{column.name}' is an alias of the SELECT list: repeat its expression here, or "
                "filter in an outer query"
            )
    return Diagnostic(
        code="unknown-column",
        what=what,
        why=why,
        fix=fix,
        span=place_in_query(each, path, at),
    )


def _no_function(
    each: Declared, path: tuple[str | int, ...], function: "UnknownFunction"
) -> Diagnostic:
    from difflib import get_close_matches

    from odfbuild.sql.spark_functions import ALLOWED

    at = None if function.place is None else _query_place(function.step, function.place)
    closest = get_close_matches(function.name, sorted(ALLOWED), n=1, cutoff=0.75)
    why, fix = "a query can only call functions of Spark", "correct the name"
    if function.name.startswith("st_") and function.name not in ALLOWED:
        why += "; this is one of Apache Sedona, which is not available"
        fix = "keep the geometry of the source, or convert it in a prepare step"
    elif closest:
        fix = f"did you mean {closest[0]}()?"
    return Diagnostic(
        code="unknown-function",
        what=f"there is no function {function.name}()",
        why=why,
        fix=fix,
        span=place_in_query(each, path, at),
    )


def _vocab(each: Declared) -> DatasetVocabulary:
    return makes_of_events(each.snapshot.kind, each.snapshot.metadata).vocab


def _is_derived(each: Declared) -> bool:
    return each.snapshot.kind is DatasetKind.DERIVATIVE
