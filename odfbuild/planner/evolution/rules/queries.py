"""ODF3xx: rules on how a query may change, and which of them a change meets.  Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from odfbuild.odf.chain.state import ChainState, plain_version
from odfbuild.odf.events import (
    AddPushSource,
    DataSchema,
    SetPollingSource,
    SetTransform,
    TransformSql,
)
from odfbuild.odf.opaque import is_opaque
from odfbuild.planner.evolution.columns.derive import Makes
from odfbuild.planner.evolution.rules.definitions import PREPROCESS_CHANGED
from odfbuild.planner.evolution.rules.rule import Rule, hit
from odfbuild.planner.evolution.rules.subject import Subject
from odfbuild.planner.plan.changes import ChangeClass, ColumnChange, Hit
from odfbuild.planner.plan.policy import Severity
from odfbuild.sql.query_class import CLASSES, QueryClass
from odfbuild.sql.text.steps import QueryStep

_PUBLISH = "publish the new form as {dataset}.v2"

QUERY_CHANGED = Rule(
    code="ODF301",
    name="query-changed",
    title="the columns stay, but their values are computed differently",
    change=ChangeClass.RESTATING,
    severity=Severity.WARN,
    explanation="Rows so far stay as they are unless the defaults in odfbuild.yaml say "
    "`on_query_change: restate`; new rows are made by the new query.",
    before="query: select id, price * 2 as price from trades",
    after="query: select id, price * 3 as price from trades",
    ways=("set on_query_change for {dataset}", _PUBLISH),
)
QUERY_EXTENDED = Rule(
    code="ODF302",
    name="query-extended",
    title="the query adds columns and leaves all others unchanged",
    change=ChangeClass.ADDITIVE,
    severity=Severity.OFF,
    explanation="The select list grew; its other columns and the rows did not change. Rows so far "
    "have null in the new columns.",
    before="query: select id from trades",
    after="query: select id, price from trades",
    ways=("nothing has to be done",),
)
ENGINE_CHANGED = Rule(
    code="ODF303",
    name="engine-changed",
    title="another engine runs the query",
    change=ChangeClass.RESTATING,
    severity=Severity.WARN,
    explanation="Engines differ in rounding, casts and the order of rows, so the same text can "
    "give other values.",
    before="transform: {kind: Sql, engine: datafusion, query: ...}",
    after="transform: {kind: Sql, engine: spark, query: ...}",
    ways=("keep the engine", _PUBLISH),
)
ENGINE_VERSION_CHANGED = Rule(
    code="ODF304",
    name="engine-version-changed",
    title="the query is recorded for another version of the engine",
    change=ChangeClass.DATA_ONLY,
    severity=Severity.OFF,
    explanation="Later steps run on that version, and so does their verification.",
    before="transform: {kind: Sql, engine: spark, version: 4.2.0+odfbuild.1, query: ...}",
    after="transform: {kind: Sql, engine: spark, version: 4.3.0+odfbuild.1, query: ...}",
    ways=("nothing has to be done",),
)
QUERY_CLASS_WORSENED = Rule(
    code="ODF310",
    name="query-class-worsened",
    title="each step of the query has to read more than new rows",
    change=ChangeClass.DATA_ONLY,
    severity=Severity.WARN,
    explanation="From least to most: linear, state, join, keyed, whole. The cost of a linear "
    "query is that of the new rows; a step of a whole query costs as much as the full "
    "history.",
    before="query: select id, price from trades",
    after="query: select id, price from trades order by price limit 10",
    ways=("leave that part to the readers of {dataset}", _PUBLISH),
)
ROWS_RESHAPED = Rule(
    code="ODF311",
    name="rows-reshaped",
    title="filters, joins or groups changed: the columns stay, but not the rows",
    change=ChangeClass.RESTATING,
    severity=Severity.WARN,
    explanation="The select list is the same, but the result has other rows, or rows of another "
    "meaning. Rows so far stay unless `on_query_change: restate` is set.",
    before="query: select id, price from trades where price > 0",
    after="query: select id, price from trades where price > 10",
    ways=("set on_query_change for {dataset}", _PUBLISH),
)
QUERY_UNREADABLE = Rule(
    code="ODF312",
    name="query-unreadable",
    title="the query cannot be read, so its effect is unknown",
    change=ChangeClass.BREAKING,
    severity=Severity.ERROR,
    explanation="Unknown counts as breaking. Columns and rows of the result cannot be determined.",
    before="query: select id from trades",
    after="query: select id form trades",
    ways=("correct the query; put names that are SQL words in backticks",),
)
TEMPORAL_TABLES_CHANGED = Rule(
    code="ODF313",
    name="temporal-tables-changed",
    title="the key of a temporal table changed",
    change=ChangeClass.RESTATING,
    severity=Severity.WARN,
    explanation="The key determines which versions of a row replace each other, and so which "
    "version the query reads.",
    before="temporalTables: [{name: rates, primaryKey: [pair]}]",
    after="temporalTables: [{name: rates, primaryKey: [pair, market]}]",
    ways=(_PUBLISH,),
)
QUERY_REFORMATTED = Rule(
    code="ODF314",
    name="query-reformatted",
    title="only spaces, comments or the case of keywords changed",
    change=ChangeClass.METADATA,
    severity=Severity.OFF,
    explanation="The tokens of the query are the same, and so is its result.",
    before="query: select id from trades",
    after="query: |\n  SELECT id  -- the key\n  FROM trades",
    ways=("nothing has to be done",),
)
RULES = (
    QUERY_CHANGED,
    QUERY_EXTENDED,
    ENGINE_CHANGED,
    ENGINE_VERSION_CHANGED,
    QUERY_CLASS_WORSENED,
    ROWS_RESHAPED,
    QUERY_UNREADABLE,
    TEMPORAL_TABLES_CHANGED,
    QUERY_REFORMATTED,
)

_BY_COST = tuple(CLASSES)


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
        yield hit(TEMPORAL_TABLES_CHANGED, subject.alias, "its temporal tables change", span=span)
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
        yield hit(ENGINE_CHANGED, subject.alias, message, span=span)
        return
    versions = [plain_version(each.version or "") for each in (old, new)]
    if all(versions) and versions[0] != versions[1]:
        message = f"the version of {new.engine}: {versions[0]} -> {versions[1]}"
        span = subject.query_key_span("version", "engine")
        yield hit(ENGINE_VERSION_CHANGED, subject.alias, message, span=span)


def _text(subject: Subject, columns: Sequence[ColumnChange] | None) -> Iterator[Hit]:
    rewrite = subject.rewrite
    steps = subject.makes().steps
    span = subject.query_span(steps)
    if rewrite.unreadable is not None:
        yield _unreadable(subject, steps)
    elif rewrite.form:
        if not subject.renames_inputs:
            yield hit(
                QUERY_REFORMATTED, subject.alias, "only the layout of its query changes", span=span
            )
    elif rewrite.same:
        grown = [each.path for each in columns or () if each.kind == "added"]
        if grown:
            message = f"its query also gives {', '.join(grown)}"
            yield hit(QUERY_EXTENDED, subject.alias, message, span=span)
        elif columns == ():
            yield hit(
                QUERY_REFORMATTED, subject.alias, "only the layout of its query changes", span=span
            )
    elif subject.makes().source is not None:
        yield hit(PREPROCESS_CHANGED, subject.alias, "its preprocess query changes", span=span)
    elif rewrite.values:
        message = "its values are computed differently" + _then(subject)
        yield _unset(subject, hit(QUERY_CHANGED, subject.alias, message, span=span))
    else:
        message = "its query selects or groups rows differently" + _then(subject)
        yield _unset(subject, hit(ROWS_RESHAPED, subject.alias, message, span=span))


def _unset(subject: Subject, found: Hit) -> Hit:
    """Leave out the way forward that the project has taken already."""
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
    return hit(QUERY_UNREADABLE, subject.alias, message, span=subject.query_span(steps, at))


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
    yield hit(QUERY_CLASS_WORSENED, subject.alias, message, span=span)


def _cost(query: QueryClass) -> int:
    return _BY_COST.index(query.name) if query.name in CLASSES else len(_BY_COST)
