"""Which rules on schemas a change meets: ODF201 to ODF213, and what a chain cannot do.  Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from odfbuild.errors import Diagnostic, SourceSpan
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    DatasetVocabulary,
    MergeStrategy,
    MergeStrategyChangelogStream,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.schema.ddl import DdlError, parse_ddl
from odfbuild.odf.schema.types import is_optional
from odfbuild.planner.evolution.columns.compare import is_nested, top_column
from odfbuild.planner.evolution.columns.derive import Made, Makes
from odfbuild.planner.evolution.rules.hits import hit
from odfbuild.planner.evolution.rules.subject import Subject
from odfbuild.planner.plan.changes import ColumnChange, Hit, SchemaChange

_CODES = {
    "removed": "ODF201",
    "renamed": "ODF202",
    "retyped": "ODF203",
    "widened": "ODF204",
    "required": "ODF205",
    "optional": "ODF206",
    "reordered": "ODF207",
    "added": "ODF208",
}
_TABLE_ORDER = ("reordered", "")
_STAYS = frozenset({"retyped", "widened", "required", "optional"})
_WHOLE: Mapping[type[MergeStrategy], str] = {
    MergeStrategySnapshot: "a snapshot is compared with all columns of its history",
    MergeStrategyUpsertStream: "newest values are compared with all columns of the history",
    MergeStrategyChangelogStream: "a row that is taken back is repeated with all its columns",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns of a dataset under assessment: how they change and what makes them."""

    change: SchemaChange
    untyped: tuple[str, ...] = ()
    was: Made | None = None
    now: Made | None = None


def schema_hits(
    subject: Subject, columns: Columns, changes: Sequence[ColumnChange]
) -> Iterator[Hit]:
    """Yield what changes of columns say, those that come from inputs set apart by the caller."""
    time = subject.makes().vocab.event_time_column
    for change in changes:
        yield _column(subject, columns, change, time)
    if _loses_time(columns):
        message = f"no column {time!r} is read or selected any more"
        yield hit("ODF211", subject.alias, message, column=time, span=_whole(subject))
    for name in columns.untyped:
        message = f"the type of {name} cannot be told"
        yield hit("ODF213", subject.alias, message, column=name, span=_span(subject, columns, name))


def without_times(
    columns: Columns,
    changes: Sequence[ColumnChange],
    old: DatasetVocabulary,
    new: DatasetVocabulary,
) -> tuple[Columns, list[ColumnChange]]:
    """Leave out what follows from other names of system columns, on which there is a rule."""
    names = {getattr(vocab, name) for vocab in (old, new) for name in vocab.__slots__}
    kept = [
        each
        for each in changes
        if each.path not in names and (each.kind, each.path) != _TABLE_ORDER
    ]
    return replace(columns, was=None), kept


def unknown_hits(subject: Subject, columns: Columns) -> Iterator[Hit]:
    """Yield ODF212 if the columns cannot be told, before or after."""
    if columns.change.unknown is not None:
        message = f"its columns cannot be told: {columns.change.unknown}"
        yield hit("ODF212", subject.alias, message, span=_whole(subject))


def _loses_time(columns: Columns) -> bool:
    was, now = columns.was, columns.now
    if was is None or now is None or was.columns is None or now.columns is None:
        return False
    return now.lost_time and not was.lost_time


def _column(subject: Subject, columns: Columns, change: ColumnChange, time: str) -> Hit:
    code = _CODES[change.kind]
    if change.path == time and change.kind in ("retyped", "widened"):
        code = "ODF210"
    if change.kind == "added" and (change.after or "").endswith(" NOT NULL"):
        code = "ODF209"
    renamed = change.kind == "renamed"
    return hit(
        code,
        subject.alias,
        _message(change),
        column=change.path or None,
        other=change.after if renamed else None,
        span=_span(subject, columns, str(change.after) if renamed else change.path),
    )


def _message(change: ColumnChange) -> str:
    match change.kind:
        case "removed":
            return f"{change.path} ({change.before}) is no longer produced"
        case "renamed":
            return f"{change.before} is to be called {change.after}"
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


def _span(subject: Subject, columns: Columns, path: str) -> SourceSpan:
    """Return the place that makes a column, or should."""
    name = top_column(path)
    if columns.now is not None and columns.now.query is not None:
        made = columns.now.column(name)
        place = None if made is None else made.place
        return subject.query_span(columns.now.steps, place)
    return _in_read_schema(subject, name)


def _whole(subject: Subject) -> SourceSpan:
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
        if name in _named(text):
            return subject.span(*path, "schema", number)
    return subject.declared.key_span((*path, "schema"))


def _named(text: str) -> set[str]:
    try:
        return {each.name for each in parse_ddl(text).fields}
    except DdlError:
        return set()


def refusals(subject: Subject, state: ChainState, columns: Columns) -> Iterator[Diagnostic]:
    """Yield what no acceptance can make possible: a chain only gains optional columns."""
    if schema_in_force(state) is None or columns.change.before is None:
        return
    makes = subject.makes()
    optional = {each.name: is_optional(each.type) for each in columns.change.before.fields}
    for change in columns.change.columns:
        why = _impossible(change, makes, optional)
        if why is not None:
            yield _refused(subject, columns, change, why)


def _impossible(change: ColumnChange, makes: Makes, optional: dict[str, bool]) -> str | None:
    if change.kind in _STAYS:
        return "the columns of a chain keep their type, and whether they may be null"
    if change.kind == "added" and (change.after or "").endswith(" NOT NULL"):
        return "rows so far have no value there, so a new column has to be optional"
    if change.kind not in ("removed", "renamed") or change.path == makes.vocab.event_time_column:
        return None
    if is_nested(change.path):
        return "the parts of a column stay as long as it does"
    if not optional.get(change.path, True):
        return "the column is required, so rows to come cannot do without it"
    return None if makes.source is None else _WHOLE.get(type(makes.source.merge))


def _refused(subject: Subject, columns: Columns, change: ColumnChange, why: str) -> Diagnostic:
    name = change.after if change.kind == "renamed" else change.path
    return Diagnostic(
        code="schema-evolution",
        what=f"{subject.alias}: {_message(change)}, which its chain cannot do",
        why=f'{why} (ODF 0.34.1, "Schema Evolution")',
        fix="keep the column as it is (cast it in the query) and put the new form beside it, or "
        f"publish it under another name, such as {subject.alias}.v2; to begin a new chain under "
        f"this name: odfbuild rebuild {subject.alias} --full --downstream",
        span=_span(subject, columns, str(name)),
    )
