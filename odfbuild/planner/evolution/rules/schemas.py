"""ODF2xx: rules on columns, which of them a change meets, and limits of a chain.  Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from odfbuild.errors import Diagnostic, SourceSpan
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    DatasetVocabulary,
)
from odfbuild.odf.merge_strategies import traits_of
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.schema.ddl import DdlError, parse_ddl
from odfbuild.odf.schema.types import is_optional
from odfbuild.planner.evolution.columns.derive import DerivedColumns, Makes
from odfbuild.planner.evolution.rules.rule import Rule, hit
from odfbuild.planner.evolution.rules.subject import Subject
from odfbuild.planner.plan.changes import ChangeClass, ColumnChange, Hit, SchemaChange
from odfbuild.planner.plan.policy import Severity
from odfbuild.values import dataclass

_BESIDE = "add the new form as another column"
_PUBLISH = "publish the new form as {dataset}.v2"
_ANEW = "begin a new chain: odfbuild rebuild {dataset} --full --downstream"

COLUMN_REMOVED = Rule(
    code="ODF201",
    name="column-removed",
    title="a column is no longer produced",
    change=ChangeClass.BREAKING,
    severity=Severity.ERROR,
    explanation="Queries that name it fail, or read null from then on: a chain keeps an optional "
    "column, in which new rows have no value. A required column cannot be removed "
    "from a chain.",
    before="query: select id, fee from trades",
    after="query: select id from trades",
    ways=("keep the column {column}", _PUBLISH),
)
COLUMN_RENAMED = Rule(
    code="ODF202",
    name="column-renamed",
    title="a column has another name",
    change=ChangeClass.BREAKING,
    severity=Severity.ERROR,
    explanation="One column is removed and another of the same type and origin is added. For "
    "queries, which name columns, the old one is removed.",
    before="query: select id, fee from trades",
    after="query: select id, fee as commission from trades",
    ways=("produce both names: {column} and {other}", _PUBLISH),
)
COLUMN_RETYPED = Rule(
    code="ODF203",
    name="column-retyped",
    title="a column has another type",
    change=ChangeClass.BREAKING,
    severity=Severity.ERROR,
    explanation="Rows so far keep the old type, and readers were built for it. Columns of a chain "
    "never change their type, so this needs another name.",
    before="schema: [id BIGINT, price STRING]",
    after="schema: [id BIGINT, price DOUBLE]",
    ways=("keep the type of {column}: cast it in the query", _BESIDE, _PUBLISH, _ANEW),
)
COLUMN_WIDENED = Rule(
    code="ODF204",
    name="column-widened",
    title="a column has a wider type, which old readers can handle",
    change=ChangeClass.ADDITIVE,
    severity=Severity.WARN,
    explanation="Every old value has the same meaning in the new type: a longer integer, a "
    "decimal with more digits, a finer unit. Columns of a chain keep their type "
    "nevertheless, so this needs a new dataset.",
    before="schema: [id INT]",
    after="schema: [id BIGINT]",
    ways=("keep the type of {column}: cast it in the query", _BESIDE, _PUBLISH),
)
COLUMN_MADE_REQUIRED = Rule(
    code="ODF205",
    name="column-made-required",
    title="a column that could be null no longer can",
    change=ChangeClass.BREAKING,
    severity=Severity.ERROR,
    explanation="Rows so far may hold null there, and history is permanent, so NOT NULL would be "
    "wrong for it. New rows without a value would be refused.",
    before="schema: [id BIGINT]",
    after="schema: [id BIGINT NOT NULL]",
    ways=("leave {column} optional", _PUBLISH),
)
COLUMN_MADE_OPTIONAL = Rule(
    code="ODF206",
    name="column-made-optional",
    title="a column that was never null now can be",
    change=ChangeClass.BREAKING,
    severity=Severity.ERROR,
    explanation="Readers that rely on a value may read null. The chain keeps the column required.",
    before="schema: [id BIGINT NOT NULL]",
    after="schema: [id BIGINT]",
    ways=("leave {column} required", "fill it: coalesce({column}, ...)", _PUBLISH),
)
COLUMNS_REORDERED = Rule(
    code="ODF207",
    name="columns-reordered",
    title="the columns are in another order",
    change=ChangeClass.RESTATING,
    severity=Severity.WARN,
    explanation="Columns are identified by name, and a chain keeps its order. But files without "
    "header and UNION ALL assign columns by position: there, values move to other "
    "columns.",
    before="schema: [id BIGINT, price DOUBLE]",
    after="schema: [price DOUBLE, id BIGINT]",
    ways=("put new columns at the end",),
)
COLUMN_ADDED = Rule(
    code="ODF208",
    name="column-added",
    title="there is a new optional column",
    change=ChangeClass.ADDITIVE,
    severity=Severity.OFF,
    explanation="Rows so far have null in it; no correct query becomes wrong.",
    before="schema: [id BIGINT]",
    after="schema: [id BIGINT, price DOUBLE]",
    ways=("nothing has to be done",),
)
COLUMN_ADDED_REQUIRED = Rule(
    code="ODF209",
    name="column-added-required",
    title="there is a new column that may not be null",
    change=ChangeClass.BREAKING,
    severity=Severity.ERROR,
    explanation="Rows so far have no value for it, and files without it can no longer be "
    "read. A schema may only gain optional columns.",
    before="schema: [id BIGINT]",
    after="schema: [id BIGINT, price DOUBLE NOT NULL]",
    ways=("make {column} optional: leave out NOT NULL", _PUBLISH),
)
EVENT_TIME_RETYPED = Rule(
    code="ODF210",
    name="event-time-retyped",
    title="the event time column has another type",
    change=ChangeClass.BREAKING,
    severity=Severity.ERROR,
    explanation="Windows and watermarks depend on event time: a DATE and a TIMESTAMP fall into "
    "different windows. A chain keeps the type.",
    before="schema: [event_time DATE, id BIGINT]",
    after="schema: [event_time TIMESTAMP, id BIGINT]",
    ways=("cast {column} back in the query", _PUBLISH),
)
EVENT_TIME_LOST = Rule(
    code="ODF211",
    name="event-time-lost",
    title="the event time is no longer among the columns that are read or selected",
    change=ChangeClass.BREAKING,
    severity=Severity.ERROR,
    explanation="A root then uses the time of the fetch as the event time of each row; a "
    "derivative cannot run at all, as every record needs an event time.",
    before="query: select event_time, id from trades",
    after="query: select id from trades",
    ways=("keep {column}",),
)
SCHEMA_UNKNOWN = Rule(
    code="ODF212",
    name="schema-unknown",
    title="the new columns cannot be determined",
    change=ChangeClass.BREAKING,
    severity=Severity.ERROR,
    explanation="The effect of the change cannot be determined without the engine or the data. "
    "Unknown counts as breaking, as it may be.",
    before="read: {kind: Csv, header: true, schema: [id BIGINT]}",
    after="read: {kind: Csv, header: true, inferSchema: true}",
    ways=("declare the columns", "odfbuild lock +{dataset}, which determines it with the engine"),
)
COLUMN_TYPE_UNKNOWN = Rule(
    code="ODF213",
    name="column-type-unknown",
    title="the type of a changed column cannot be determined",
    change=ChangeClass.BREAKING,
    severity=Severity.ERROR,
    explanation="The column still exists, but its expression changed to one whose type only the "
    "engine can determine.",
    before="query: select price from trades",
    after="query: select schema_of_json(price) as price from trades",
    ways=(
        "write the type: cast(... as ...) as {column}",
        "odfbuild lock +{dataset}, which determines it with the engine",
    ),
)
RULES = (
    COLUMN_REMOVED,
    COLUMN_RENAMED,
    COLUMN_RETYPED,
    COLUMN_WIDENED,
    COLUMN_MADE_REQUIRED,
    COLUMN_MADE_OPTIONAL,
    COLUMNS_REORDERED,
    COLUMN_ADDED,
    COLUMN_ADDED_REQUIRED,
    EVENT_TIME_RETYPED,
    EVENT_TIME_LOST,
    SCHEMA_UNKNOWN,
    COLUMN_TYPE_UNKNOWN,
)

_BY_KIND = {
    "removed": COLUMN_REMOVED,
    "renamed": COLUMN_RENAMED,
    "retyped": COLUMN_RETYPED,
    "widened": COLUMN_WIDENED,
    "required": COLUMN_MADE_REQUIRED,
    "optional": COLUMN_MADE_OPTIONAL,
    "reordered": COLUMNS_REORDERED,
    "added": COLUMN_ADDED,
}
_TABLE_ORDER = ("reordered", "")
_STAYS = frozenset({"retyped", "widened", "required", "optional"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AssessedColumns:
    """The columns of a dataset under assessment: how they change and what makes them."""

    change: SchemaChange
    untyped: tuple[str, ...] = ()
    was: DerivedColumns | None = None
    now: DerivedColumns | None = None


def schema_hits(
    subject: Subject, columns: AssessedColumns, changes: Sequence[ColumnChange]
) -> Iterator[Hit]:
    """Yield what changes of columns say, those that come from inputs set apart by the caller."""
    time = subject.makes().vocab.event_time_column
    for change in changes:
        yield _column(subject, columns, change, time)
    if _loses_time(columns):
        message = f"no column {time!r} is read or selected any more"
        yield hit(EVENT_TIME_LOST, subject.alias, message, column=time, span=_columns_span(subject))
    for name in () if _is_silent(columns) else columns.untyped:
        message = f"the type of {name} cannot be determined"
        yield hit(
            COLUMN_TYPE_UNKNOWN,
            subject.alias,
            message,
            column=name,
            span=_span(subject, columns, name),
        )


def without_times(
    columns: AssessedColumns,
    changes: Sequence[ColumnChange],
    old: DatasetVocabulary,
    new: DatasetVocabulary,
) -> tuple[AssessedColumns, list[ColumnChange]]:
    """Leave out what follows from other names of system columns, on which there is a rule."""
    names = {getattr(vocab, name) for vocab in (old, new) for name in vocab.__slots__}
    kept = [
        each
        for each in changes
        if each.path not in names and (each.kind, each.path) != _TABLE_ORDER
    ]
    return replace(columns, was=None), kept


def unknown_hits(subject: Subject, columns: AssessedColumns) -> Iterator[Hit]:
    """Yield ODF212 if the columns cannot be determined, before or after."""
    if columns.change.unknown is not None:
        message = f"its columns cannot be determined: {columns.change.unknown}"
        yield hit(SCHEMA_UNKNOWN, subject.alias, message, span=_columns_span(subject))


def _loses_time(columns: AssessedColumns) -> bool:
    was, now = columns.was, columns.now
    if was is None or now is None or was.columns is None or now.columns is None:
        return False
    return now.lost_time and not was.lost_time


def _is_silent(columns: AssessedColumns) -> bool:
    """Tell whether an engine says nothing of a query because that has no event time."""
    now = columns.now
    made = () if now is None else now.columns or ()
    return _loses_time(columns) and all(each.type is None for each in made)


def _column(subject: Subject, columns: AssessedColumns, change: ColumnChange, time: str) -> Hit:
    rule = _BY_KIND[change.kind]
    if change.path == time and change.kind in ("retyped", "widened"):
        rule = EVENT_TIME_RETYPED
    if change.kind == "added" and (change.after or "").endswith(" NOT NULL"):
        rule = COLUMN_ADDED_REQUIRED
    renamed = change.kind == "renamed"
    now = str(change.after) if renamed and not change.is_nested else change.column
    return hit(
        rule,
        subject.alias,
        _message(change),
        column=change.path or None,
        other=change.after if renamed else None,
        span=_span(subject, columns, now),
    )


def _message(change: ColumnChange) -> str:
    match change.kind:
        case "removed":
            return f"{change.path} ({change.before}) is no longer produced"
        case "renamed":
            return f"{change.before} is renamed to {change.after}"
        case "added":
            return f"{change.path} ({change.after}) is new"
        case "required":
            return f"{change.path} may no longer be null"
        case "optional":
            return f"{change.path} may be null"
        case "reordered":
            where = f" of {change.path}" if change.path else ""
            return f"the order{where}: {change.before} -> {change.after}"
        case _:
            return f"{change.path}: {change.before} -> {change.after}"


def _span(subject: Subject, columns: AssessedColumns, name: str) -> SourceSpan:
    """Return the place that makes a column, or should."""
    if columns.now is not None and columns.now.query is not None:
        made = columns.now.column(name)
        place = None if made is None else made.place
        return subject.query_span(columns.now.steps, place)
    return _in_read_schema(subject, name)


def _columns_span(subject: Subject) -> SourceSpan:
    """Return the place of what makes all columns."""
    if subject.query_path() is not None:
        return subject.query_span(subject.makes().steps)
    path = subject.read_path()
    return subject.span() if path is None else subject.declared.key_span(path)


def _in_read_schema(subject: Subject, name: str) -> SourceSpan:
    path = subject.read_path()
    if path is None:
        return subject.span()
    read = getattr(subject.declared.snapshot.metadata[int(path[1])], "read", None)
    if read is None or is_opaque(read):
        return subject.span(*path)
    if read.schema is not None:
        names = [each.name for each in read.schema.fields]
        if name in names:
            return subject.span(*path, "schema", "fields", names.index(name))
        return subject.declared.key_span((*path, "schema"))
    for number, text in enumerate(read.ddl_schema or ()):
        if name in _field_names(text):
            return subject.span(*path, "schema", number)
    return subject.declared.key_span((*path, "schema"))


def _field_names(text: str) -> set[str]:
    try:
        return {each.name for each in parse_ddl(text).fields}
    except DdlError:
        return set()


def refusals(subject: Subject, state: ChainState, columns: AssessedColumns) -> Iterator[Diagnostic]:
    """Yield what no acceptance can make possible: a chain only gains optional columns."""
    if schema_in_force(state) is None or columns.change.before is None:
        return
    makes = subject.makes()
    optional = {each.name: is_optional(each.type) for each in columns.change.before.fields}
    for change in columns.change.columns:
        why = _impossible(change, makes, optional)
        if why is not None:
            yield _refusal(subject, columns, change, why)


def _impossible(change: ColumnChange, makes: Makes, optional: dict[str, bool]) -> str | None:
    if change.kind in _STAYS:
        return "the columns of a chain keep their type, and whether they may be null"
    if change.kind == "added" and (change.after or "").endswith(" NOT NULL"):
        return "rows so far have no value there, so a new column has to be optional"
    if change.kind not in ("removed", "renamed") or change.path == makes.vocab.event_time_column:
        return None
    if change.is_nested:
        return "the fields of a column cannot be removed"
    if not optional.get(change.path, True):
        return "the column is required, so new rows must have it"
    return None if makes.source is None else traits_of(makes.source.merge).no_column


def _refusal(
    subject: Subject, columns: AssessedColumns, change: ColumnChange, why: str
) -> Diagnostic:
    name = change.after if change.kind == "renamed" else change.path
    return Diagnostic(
        code="schema-evolution",
        what=f"{_message(change)}, which its chain cannot do",
        why=f'{why} (ODF 0.34.1, "Schema Evolution")',
        fix="keep the column as it is (cast it in the query) and add the new form as another "
        f"column, or publish it under another name, such as {subject.alias}.v2; to begin a "
        f"new chain under this name: odfbuild rebuild {subject.alias} --full --downstream",
        span=_span(subject, columns, str(name)),
    )
