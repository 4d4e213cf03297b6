"""Saved plans, read strictly from their published JSON form.

Keys that nobody asks for are not looked at, so a plan of a later minor version can be read.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

from odfbuild.errors import Diagnostic, Level, OdfBuildError, PlanError, SourceSpan
from odfbuild.odf.events import DataSchema, DatasetKind, MetadataEvent
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.manifest import from_mapping
from odfbuild.odf.refs import DatasetAlias, parse_dataset_ref
from odfbuild.odf.timestamp import Timestamp
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
from odfbuild.planner.plan.changes import (
    Affected,
    Assessment,
    ChangeClass,
    ColumnChange,
    Hit,
    Judged,
    SchemaChange,
    Usage,
    Verdict,
)
from odfbuild.planner.plan.policy import (
    AS_USUAL,
    BadRows,
    Columns,
    IngestOptions,
    RepeatedKeys,
    Reread,
    Severity,
)
from odfbuild.planner.plan.reasons import Reason
from odfbuild.sql.query_class import QueryClass

_T = TypeVar("_T")
_E = TypeVar("_E", bound=Enum)


class NotAPlanError(PlanError):
    """A file or document is not a saved plan."""

    code = "not-a-plan"


class PlanVersionError(PlanError):
    """A plan was saved by a version of the program whose plans this one cannot read."""

    code = "plan-version"


class DamagedPlanError(PlanError):
    """A saved plan lacks something, or is not as it was written; `path` says where."""

    code = "damaged-plan"

    def __init__(self, what: str, why: str, fix: str, *, path: str = "") -> None:
        super().__init__(what, why, fix)
        self.path = path

    @classmethod
    def at(cls, path: str, what: str) -> "DamagedPlanError":
        """Return the error about the value at a path."""
        return cls(
            what=f"the plan is damaged: {path}: {what}",
            why="a saved plan is carried out exactly as it was written, or not at all",
            fix="plan again: odfbuild plan --out FILE",
            path=path,
        )


class PlanObject:
    """A mapping of a saved plan, and where it stands."""

    __slots__ = ("_path", "_values")

    def __init__(self, value: object, path: str = "") -> None:
        if not isinstance(value, Mapping):
            raise DamagedPlanError.at(path, "expected an object")
        self._values: Mapping[str, Any] = value
        self._path = path

    def require(self, *keys: str) -> None:
        """Refuse an object that lacks keys, naming all of them."""
        missing = [key for key in keys if key not in self._values]
        if missing:
            raise DamagedPlanError.at(self._path or "the plan", f"it lacks {', '.join(missing)}")

    def path(self, key: str) -> str:
        """Return where the value of a key stands."""
        return f"{self._path}.{key}" if self._path else key

    def has(self, key: str) -> bool:
        """Tell whether a key is there; only for keys that a plan may leave out."""
        return key in self._values

    def raw(self, key: str) -> Any:
        """Return the value of a key as it is."""
        self.require(key)
        return self._values[key]

    def text(self, key: str) -> str:
        """Return the text of a key."""
        return self._typed(key, str, "a text")

    def maybe_text(self, key: str) -> str | None:
        """Return the text of a key, or None for null."""
        return self._unless_null(key, lambda: self.text(key))

    def number(self, key: str) -> int:
        """Return the whole number of a key."""
        found = self._typed(key, int, "a whole number")
        if isinstance(found, bool):
            raise DamagedPlanError.at(self.path(key), "expected a whole number")
        return found

    def flag(self, key: str) -> bool:
        """Return the truth value of a key."""
        return self._typed(key, bool, "true or false")

    def member(self, key: str, of: type[_E]) -> _E:
        """Return the value of a key as a member of an enumeration."""
        return self.parsed(key, of)

    def parsed(self, key: str, parse: Callable[[str], _T]) -> _T:
        """Return what a parser makes of the text of a key."""
        return self._made(self.path(key), parse, self.text(key))

    def maybe_parsed(self, key: str, parse: Callable[[str], _T]) -> _T | None:
        """Return what a parser makes of the text of a key, or None for null."""
        return self._unless_null(key, lambda: self.parsed(key, parse))

    def made(self, key: str, make: Callable[[Any], _T]) -> _T:
        """Return what a reader makes of the value of a key, whatever its type."""
        return self._made(self.path(key), make, self.raw(key))

    def child(self, key: str) -> "PlanObject":
        """Return the object of a key."""
        return PlanObject(self.raw(key), self.path(key))

    def maybe_child(self, key: str) -> "PlanObject | None":
        """Return the object of a key, or None for null."""
        return self._unless_null(key, lambda: self.child(key))

    def items(self, key: str) -> list[Any]:
        """Return the list of a key."""
        return self._typed(key, list, "a list")

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the list of texts of a key."""
        return self.each_parsed(key, str)

    def each_parsed(self, key: str, parse: Callable[[str], _T]) -> tuple[_T, ...]:
        """Return what a parser makes of each text in the list of a key."""
        found: list[_T] = []
        for index, item in enumerate(self.items(key)):
            path = f"{self.path(key)}[{index}]"
            if not isinstance(item, str):
                raise DamagedPlanError.at(path, "expected a text")
            found.append(self._made(path, parse, item))
        return tuple(found)

    def each_made(self, key: str, make: Callable[[Any], _T]) -> tuple[_T, ...]:
        """Return what a reader makes of each value in the list of a key."""
        return tuple(
            self._made(f"{self.path(key)}[{index}]", make, item)
            for index, item in enumerate(self.items(key))
        )

    def children(self, key: str) -> Iterator["PlanObject"]:
        """Yield the objects in the list of a key."""
        for index, item in enumerate(self.items(key)):
            yield PlanObject(item, f"{self.path(key)}[{index}]")

    def _typed(self, key: str, of: type[_T], called: str) -> _T:
        found = self.raw(key)
        if not isinstance(found, of):
            raise DamagedPlanError.at(self.path(key), f"expected {called}")
        return found

    def _unless_null(self, key: str, read: Callable[[], _T]) -> _T | None:
        return None if self.raw(key) is None else read()

    @staticmethod
    def _made(path: str, make: Callable[[Any], _T], given: object) -> _T:
        try:
            return make(given)
        except OdfBuildError as error:
            raise DamagedPlanError.at(path, error.what) from error
        except ValueError as error:
            raise DamagedPlanError.at(path, str(error)) from error


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
