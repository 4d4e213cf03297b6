"""The values of a saved plan, from its published JSON form.  Whether it was altered, others say."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_args, get_type_hints

from odfbuild.errors import Diagnostic, Level, SourceSpan
from odfbuild.odf.events import DataSchema, DatasetKind, MetadataEvent
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.manifest import from_mapping
from odfbuild.odf.refs import DatasetAlias, parse_dataset_ref
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.changes import (
    Affected,
    Assessment,
    ChangeClass,
    ColumnChange,
    Hit,
    Judged,
    QueryClass,
    SchemaChange,
    Usage,
    Verdict,
)
from odfbuild.planner.plan import (
    FORMAT,
    Append,
    Based,
    Foreseen,
    GitState,
    Ingest,
    Move,
    OutsideUse,
    Plan,
    Planned,
    Step,
    Transform,
    Work,
)
from odfbuild.planner.plan_object import (
    DamagedPlanError,
    NotAPlanError,
    PlanObject,
    PlanVersionError,
)
from odfbuild.planner.policy import (
    AS_USUAL,
    BadRows,
    Columns,
    IngestOptions,
    RepeatedKeys,
    Reread,
    Severity,
)
from odfbuild.planner.reasons import Reason

__all__ = ["read_plan"]

_KEYS = (
    "odf_version",
    "project",
    "target",
    "against",
    "git",
    "selected",
    "datasets",
    "steps",
    "notes",
    "gate",
    "summary",
    "plan_hash",
)
_Events = Mapping[DatasetAlias, tuple[MetadataEvent, ...]]


def read_plan(document: object) -> tuple[Plan, str]:
    """Return the plan of a document, and the hash that it says it has.

    Raises NotAPlanError, PlanVersionError, DamagedPlanError.
    """
    _check_version(document)
    top = PlanObject(document)
    top.require(*_KEYS)
    project, target, git = top.child("project"), top.child("target"), top.maybe_child("git")
    datasets, events = _datasets(top)
    plan = Plan(
        odf_version=top.text("odf_version"),
        project_hash=project.text("hash"),
        datasets=datasets,
        steps=_steps(top, events),
        unchanged=tuple(
            each.parsed("name", DatasetAlias.parse)
            for each in top.children("datasets")
            if each.flag("unchanged")
        ),
        notes=tuple(_note(each) for each in top.children("notes")),
        verdict=_verdict(top.child("gate")),
        project=project.text("name"),
        target=target.text("name"),
        workspace=target.text("workspace"),
        against=top.maybe_text("against"),
        git=None if git is None else GitState(git.text("commit"), git.flag("dirty")),
        selected=None
        if top.raw("selected") is None
        else top.each_parsed("selected", DatasetAlias.parse),
        outside=tuple(map(_outside, top.children("outside") if top.has("outside") else ())),
    )
    return plan, top.text("plan_hash")


def _outside(each: PlanObject) -> OutsideUse:
    return OutsideUse(
        each.text("kind"),
        each.text("name"),
        each.each_parsed("datasets", DatasetAlias.parse),
    )


def _check_version(document: object) -> None:
    version = document.get("format_version") if isinstance(document, Mapping) else None
    if not isinstance(version, str):
        raise NotAPlanError(
            what="this is not a saved plan",
            why="a plan is a JSON object with a format_version",
            fix="name a file that `odfbuild plan --out FILE` wrote",
        )
    if version.partition(".")[0] != FORMAT.partition(".")[0]:
        raise PlanVersionError(
            what=f"the plan has the format {version}",
            why=f"this version reads {FORMAT} and what later versions add to it",
            fix="plan again with this version, or use the version that made the plan",
        )


def _datasets(top: PlanObject) -> tuple[dict[DatasetAlias, Planned], _Events]:
    datasets: dict[DatasetAlias, Planned] = {}
    events: dict[DatasetAlias, tuple[MetadataEvent, ...]] = {}
    for each in top.children("datasets"):
        alias = each.parsed("name", DatasetAlias.parse)
        if alias in datasets:
            raise DamagedPlanError.at(each.path("name"), f"{alias} is there twice")
        datasets[alias] = _planned(each)
        events[alias] = each.each_made("blocks", lambda item: from_mapping(MetadataEvent, item))
    return datasets, events


def _planned(each: PlanObject) -> Planned:
    return Planned(
        kind=each.member("kind", DatasetKind),
        place=_place(each, "source"),
        based_on=_based(each),
        assessment=_assessment(each),
        moved_from=each.maybe_parsed("moved_from", DatasetAlias.parse),
        foreseen=_foreseen(each.child("work").maybe_child("foreseen")),
        definition=each.maybe_text("definition"),
    )


def _based(each: PlanObject) -> Based | None:
    id = each.maybe_parsed("did", DatasetId.parse)
    head = each.maybe_parsed("base_head", Multihash.parse)
    if id is None and head is None:
        return None
    if id is None or head is None:
        raise DamagedPlanError.at(each.path("base_head"), "one of did and base_head is missing")
    return Based(id, head)


def _place(each: PlanObject, key: str) -> SourceSpan | None:
    place = each.maybe_child(key)
    if place is None:
        return None
    return SourceSpan(
        file=place.text("file"),
        line=place.number("line"),
        column=place.number("column"),
        length=place.number("length"),
        excerpt=place.maybe_text("excerpt"),
        instance=place.maybe_text("instance"),
    )


def _foreseen(found: PlanObject | None) -> Foreseen | None:
    if found is None:
        return None
    return Foreseen(found.number("slices"), found.number("rows"), found.number("bytes"))


def _assessment(each: PlanObject) -> Assessment | None:
    each.require("class", "rules", "schema", "affected", "query_class")
    if each.raw("class") is None:
        return None
    schema, query = each.maybe_child("schema"), each.maybe_child("query_class")
    return Assessment(
        change=each.member("class", ChangeClass),
        schema=None if schema is None else _schema_change(schema),
        hits=tuple(_hit(hit) for hit in each.children("rules")),
        affected=tuple(_affected(reader) for reader in each.children("affected")),
        query=None
        if query is None
        else QueryClass(query.text("name"), query.maybe_text("because")),
    )


def _hit(hit: PlanObject) -> Hit:
    return Hit(
        code=hit.text("code"),
        name=hit.text("name"),
        dataset=hit.parsed("dataset", DatasetAlias.parse),
        column=hit.maybe_text("column"),
        change=hit.member("class", ChangeClass),
        severity=hit.member("severity", Severity),
        judged=hit.member("judged", Judged),
        message=hit.text("message"),
        why=hit.text("why"),
        ways=hit.texts("ways"),
        span=_place(hit, "span"),
        accepted=hit.maybe_text("accepted"),
    )


def _schema_change(change: PlanObject) -> SchemaChange:
    return SchemaChange(
        before=_schema(change.maybe_child("before")),
        after=_schema(change.maybe_child("after")),
        columns=tuple(
            ColumnChange(
                path=each.text("path"),
                kind=each.text("kind"),
                before=each.maybe_text("before"),
                after=each.maybe_text("after"),
            )
            for each in change.children("diff")
        ),
        unknown=change.maybe_text("unknown"),
    )


def _schema(form: PlanObject | None) -> DataSchema | None:
    if form is None:
        return None
    return form.made("odf", lambda item: from_mapping(DataSchema, item))


def _affected(each: PlanObject) -> Affected:
    return Affected(
        dataset=each.parsed("dataset", DatasetAlias.parse),
        columns=each.texts("columns"),
        usage=each.each_parsed("usage", Usage),
        unknown=each.flag("unknown"),
    )


def _steps(top: PlanObject, events: _Events) -> tuple[Step, ...]:
    steps: dict[str, Step] = {}
    for each in top.children("steps"):
        step = _step(each, events)
        unknown = [id for id in step.after if id not in steps]
        if step.id in steps or unknown:
            what = f"it waits for {unknown[0]}, which is not before it" if unknown else "twice"
            raise DamagedPlanError.at(each.path("after" if unknown else "id"), what)
        steps[step.id] = step
    return tuple(steps.values())


def _step(each: PlanObject, events: _Events) -> Step:
    target = each.parsed("target", DatasetAlias.parse)
    if target not in events:
        raise DamagedPlanError.at(each.path("target"), f"{target} is not among the datasets")
    return Step(
        id=each.text("id"),
        target=target,
        work=_work(each, events[target]),
        after=each.texts("after"),
        reasons=tuple(_reason(reason) for reason in each.children("reasons")),
    )


def _work(each: PlanObject, events: tuple[MetadataEvent, ...]) -> Work:
    match each.text("work"):
        case "append":
            return Append(each.maybe_parsed("creates", DatasetKind), events)
        case "move":
            return Move(each.parsed("old", DatasetAlias.parse))
        case "ingest":
            return Ingest(_options(each))
        case "transform":
            return Transform(each.each_parsed("inputs", parse_dataset_ref))
        case other:
            raise DamagedPlanError.at(each.path("work"), f"there is no work {other!r}")


def _options(each: PlanObject) -> IngestOptions:
    """Return the options of an ingest; what is as usual is left out of a plan."""
    if not each.has("options"):
        return AS_USUAL
    given = each.child("options")
    numbers = ("watermark_lag", "max_bad_rows", "max_bad_percent")
    found: dict[str, Any] = {name: given.number(name) for name in numbers if given.has(name)}
    if given.has("bad_rows"):
        found["bad_rows"] = given.member("bad_rows", BadRows)
    if given.has("repeated_keys"):
        found["repeated_keys"] = given.member("repeated_keys", RepeatedKeys)
    if given.has("reread"):
        found["reread"] = given.member("reread", Reread)
    if given.has("columns"):
        found["columns"] = given.member("columns", Columns)
    return IngestOptions(**found)


_REASONS: Mapping[str, type[Any]] = {each.__name__: each for each in get_args(Reason)}
_FIELDS: Mapping[Any, Callable[[PlanObject, str], Any]] = {
    str: PlanObject.text,
    str | None: PlanObject.maybe_text,
    int: PlanObject.number,
    int | None: lambda at, key: None if at.raw(key) is None else at.number(key),
    bool: PlanObject.flag,
    tuple[str, ...]: PlanObject.texts,
    DatasetId: lambda at, key: at.parsed(key, DatasetId.parse),
    DatasetAlias: lambda at, key: at.parsed(key, DatasetAlias.parse),
    DatasetAlias | None: lambda at, key: at.maybe_parsed(key, DatasetAlias.parse),
    DatasetAlias | DatasetId: lambda at, key: at.parsed(key, parse_dataset_ref),
    Timestamp | None: lambda at, key: at.maybe_parsed(key, Timestamp.parse),
}
"""How a field of a reason is read, by its declared type."""


def _reason(each: PlanObject) -> Reason:
    kind = each.text("kind")
    if kind not in _REASONS:
        raise DamagedPlanError.at(each.path("kind"), f"there is no reason {kind!r}")
    fields = {name: read(each, name) for name, read in _readers(kind).items()}
    reason: Reason = _REASONS[kind](**fields)
    return reason


@cache
def _readers(kind: str) -> Mapping[str, Callable[[PlanObject, str], Any]]:
    return {name: _FIELDS[of] for name, of in get_type_hints(_REASONS[kind]).items()}


def _note(note: PlanObject) -> Diagnostic:
    return Diagnostic(
        code=note.text("code"),
        what=note.text("what"),
        why=note.text("why"),
        fix=note.text("fix"),
        span=_place(note, "source"),
        level=note.member("level", Level),
    )


def _verdict(gate: PlanObject) -> Verdict:
    return Verdict(
        gate.text("name"),
        gate.number("refused"),
        gate.number("warned"),
        gate.number("accepted"),
        gate.number("errors") if gate.has("errors") else 0,
    )
