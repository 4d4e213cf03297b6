"""Saved plans of every kind as documents: written, read, and whether they still fit.  Pure.

Canonical JSON has sorted keys, no blanks and ASCII only; the hash of what is saved is that of its
canonical JSON without `plan_hash`, `git` and `foreseen`, so equal files and heads give an equal
hash.  A plan has the form of schemas/plan.schema.json.  A minor version only adds keys.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias, assert_never

from odfbuild.odf.events import MetadataEvent
from odfbuild.odf.identity import DatasetId, Multihash, sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.maintenance.batch import HousekeepingPlan
from odfbuild.planner.maintenance.rewrite import MODES, RESET, Housekeeping, Stranded
from odfbuild.planner.maintenance.undo import Undo
from odfbuild.planner.plan import (
    Append,
    Plan,
    Planned,
    Step,
    action_of,
    steps_by_target,
    summary_of,
)
from odfbuild.planner.saved.codec import (
    TEXT,
    DamagedPlanError,
    Form,
    Member,
    NotAPlanError,
    PlanVersionError,
    UnfitValueError,
    pair,
    read_at,
    require,
    tuple_of,
)
from odfbuild.planner.saved.forms import published
from odfbuild.values import dataclass

SavedPlan: TypeAlias = Plan | Undo | HousekeepingPlan

_SEVERAL = "several"
_VERSIONS = {"format_version": "1.0", "undo_version": "1.0", "housekeeping_version": "1.0"}
_SEVERAL_VERSION = "1.1"
_KEYS = (
    *("format_version", "odf_version", "project", "target", "against", "git", "selected"),
    *("datasets", "steps", "notes", "gate", "summary"),
)
_DATASET_KEYS = (
    *("name", "did", "kind", "source", "definition", "moved_from", "action", "base_head"),
    *("blocks", "class", "rules", "schema", "affected", "query_class", "work", "unchanged"),
)
_OUTSIDE_OF_HASH = frozenset({"plan_hash", "git"})


def to_json(saved: SavedPlan) -> dict[str, Any]:
    """Return what is saved in its published form, its own hash included."""
    body = _body(saved)
    return {**body, "plan_hash": document_hash(body)}


def from_json(document: object) -> SavedPlan:
    """Return what a document holds: the exact inverse of `to_json`.

    Keys that a later minor version added are not looked at.  Raises NotAPlanError,
    PlanVersionError, or DamagedPlanError when something is missing, wrong or was altered.
    """
    key = _version_key(document)
    try:
        found: SavedPlan
        match key:
            case "format_version":
                found = _read_plan(document)
            case "undo_version":
                found = published().of(Undo).read(document)
            case _:
                found = _read_housekeeping(document)
        said = read_at(document, "plan_hash", TEXT)
    except UnfitValueError as error:
        raise DamagedPlanError.at(error.path, error.what) from error
    if document_hash(require(document)) != said:
        raise DamagedPlanError.at("plan_hash", "the plan does not hash to it")
    return found


def plan_from_json(document: object) -> Plan:
    """Return the plan in a document that is no undo or housekeeping.  Raises as `from_json`."""
    found = from_json(document)
    if not isinstance(found, Plan):
        raise _no_plan()
    return found


def plan_hash(saved: SavedPlan) -> str:
    """Return the sha3-256 multihash of what makes a plan the one that it is."""
    return document_hash(_body(saved))


def canonical(document: Mapping[str, Any]) -> str:
    """Return JSON text that is the same for equal documents: one line, without a line end."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def moved_datasets(saved: SavedPlan, heads: Mapping[Any, Multihash]) -> tuple[DatasetAlias, ...]:
    """Return the datasets that are not where a saved plan found them, in its order.

    `heads` has all that there are, by name and by id.
    """
    return tuple(alias for alias, at, head in _touched_heads(saved) if heads.get(at) != head)


def _touched_heads(
    saved: SavedPlan,
) -> Iterator[tuple[DatasetAlias, DatasetAlias | DatasetId, Multihash | None]]:
    """Yield the datasets, what each is looked for by, and the head that it had."""
    match saved:
        case Plan():
            for alias, planned in saved.datasets.items():
                based = planned.based_on
                yield alias, planned.moved_from or alias, None if based is None else based.head
        case Undo():
            yield from ((step.alias, step.id, step.expected) for step in saved.steps)
        case HousekeepingPlan():
            yield from ((step.alias, step.id, step.based_on) for step in saved.steps)
        case _:
            assert_never(saved)


def _version_key(document: object) -> str:
    """Return the key of the version, which says what a document holds.

    Raises NotAPlanError, PlanVersionError.
    """
    found = document if isinstance(document, Mapping) else {}
    for key, known in _VERSIONS.items():
        version = found.get(key)
        if not isinstance(version, str):
            continue
        if version.partition(".")[0] != known.partition(".")[0]:
            raise PlanVersionError(
                what=f"the plan has the format {version}",
                why=f"this version reads {known} and what later versions add to it",
                fix="plan again with this version, or use the version that made the plan",
            )
        return key
    raise _no_plan()


def _no_plan() -> NotAPlanError:
    return NotAPlanError(
        what="this is not a saved plan",
        why="a plan is a JSON object with a format_version",
        fix="name a file that `odfbuild plan --out FILE` wrote",
    )


def document_hash(document: Mapping[str, Any]) -> str:
    """Return the hash that a document of the published form is to have as its `plan_hash`."""
    lasting = {key: value for key, value in document.items() if key not in _OUTSIDE_OF_HASH}
    if "datasets" in lasting:
        lasting["datasets"] = [_without_estimate(each) for each in document["datasets"]]
    return str(sha3_256(canonical(lasting).encode()))


def _without_estimate(dataset: Mapping[str, Any]) -> dict[str, Any]:
    work = {key: value for key, value in dataset["work"].items() if key != "foreseen"}
    return {**dataset, "work": work}


def _body(saved: SavedPlan) -> dict[str, Any]:
    match saved:
        case Plan():
            return _written_plan(saved)
        case Undo():
            written = published().of(Undo).write(saved)
            return {"undo_version": _VERSIONS["undo_version"], **written}
        case HousekeepingPlan():
            return _written_housekeeping(saved)
        case _:
            assert_never(saved)


# --- plans -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Entry:
    """A dataset as it is listed: with the events that its steps append."""

    name: DatasetAlias
    planned: Planned
    blocks: tuple[MetadataEvent, ...]
    unchanged: bool


@cache
def _entries() -> Form:
    return tuple_of(published().record(_Entry, planned=Member(None)))


def _written_plan(plan: Plan) -> dict[str, Any]:
    written = published().of(Plan).write(plan)
    gate = written["gate"]
    more = {
        "format_version": _VERSIONS["format_version"],
        "datasets": _written_datasets(plan),
        "gate": {"name": gate["name"], "passed": plan.verdict.passed, **gate},
        "summary": summary_of(plan),
    }
    return _with_keys_first({**written, **more}, _KEYS)


def _written_datasets(plan: Plan) -> list[dict[str, Any]]:
    steps, unchanged = steps_by_target(plan), set(plan.unchanged)
    events: dict[DatasetAlias, tuple[MetadataEvent, ...]] = {}
    for step in plan.steps:
        if isinstance(step.work, Append):
            events[step.target] = events.get(step.target, ()) + step.work.events
    entries = [
        _Entry(alias, planned, events.get(alias, ()), alias in unchanged)
        for alias, planned in plan.datasets.items()
    ]
    return [
        _with_keys_first(
            {
                **written,
                "action": action_of(entry.planned, steps.get(entry.name, ())),
                "work": {"steps": [s.id for s in steps.get(entry.name, ())], **written["work"]},
            },
            _DATASET_KEYS,
        )
        for entry, written in zip(entries, _entries().write(entries), strict=True)
    ]


def _with_keys_first(document: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """Return an object with some keys first: those that are not named there follow."""
    first = {key: document[key] for key in keys}
    return {**first, **{key: value for key, value in document.items() if key not in first}}


def _read_plan(document: object) -> Plan:
    top = require(document, *_KEYS, "plan_hash")
    entries: tuple[_Entry, ...] = read_at(top, "datasets", _entries())
    listed: dict[DatasetAlias, _Entry] = {}
    for n, entry in enumerate(entries):
        if entry.name in listed:
            raise UnfitValueError(f"{entry.name} is there twice", f"datasets[{n}].name")
        listed[entry.name] = entry
    plan: Plan = published().of(Plan).read(top)
    return replace(
        plan,
        datasets={name: entry.planned for name, entry in listed.items()},
        unchanged=tuple(name for name, entry in listed.items() if entry.unchanged),
        steps=tuple(_with_events(plan.steps, listed)),
    )


def _with_events(steps: Sequence[Step], listed: Mapping[DatasetAlias, _Entry]) -> Iterator[Step]:
    """Yield steps with the events that they append.  Raises UnfitValueError for a wrong order."""
    known: set[str] = set()
    for n, step in enumerate(steps):
        unknown = next((id for id in step.after if id not in known), None)
        if step.target not in listed:
            what = f"{step.target} is not among the datasets"
            raise UnfitValueError(what, f"steps[{n}].target")
        if unknown is not None:
            what = f"it waits for {unknown}, which is not before it"
            raise UnfitValueError(what, f"steps[{n}].after")
        if step.id in known:
            raise UnfitValueError("twice", f"steps[{n}].id")
        known.add(step.id)
        if isinstance(step.work, Append):
            work = replace(step.work, events=listed[step.target].blocks)
            yield replace(step, work=work)
        else:
            yield step


# --- housekeeping ----------------------------------------------------------------------------


def _written_housekeeping(plan: HousekeepingPlan) -> dict[str, Any]:
    steps = [_written_step(step) for step in plan.steps]
    if plan.alone:
        return steps[0]
    return {
        "housekeeping_version": _SEVERAL_VERSION,
        "work": _SEVERAL,
        "project": plan.project,
        "target": {"name": plan.target, "workspace": plan.workspace},
        "steps": [{**step, "plan_hash": document_hash(step)} for step in steps],
        "stranded": tuple_of(published().of(Stranded)).write(plan.stranded),
    }


def _written_step(step: Housekeeping) -> dict[str, Any]:
    written = published().of(Housekeeping).write(step)
    return {"housekeeping_version": _VERSIONS["housekeeping_version"], **written}


def _read_housekeeping(document: object) -> HousekeepingPlan:
    of = published().of(Housekeeping)
    top = require(document, "work")
    if top["work"] != _SEVERAL:
        return HousekeepingPlan((_possible(of.read(top)),), alone=True)
    steps = read_at(top, "steps", tuple_of(Form(of.write, lambda step: _possible(of.read(step)))))
    if not steps:
        raise UnfitValueError("there are none", "steps")
    read_at(top, "project", TEXT)  # which says of all steps what each step says, like these
    read_at(top, "target", pair(("name", "workspace"), TEXT))
    read_at(top, "stranded", tuple_of(published().of(Stranded)))
    return HousekeepingPlan(steps)


def _possible(step: Housekeeping) -> Housekeeping:
    """Return a step that says what is to be done.  Raises UnfitValueError."""
    if step.mode not in MODES[step.work]:
        raise UnfitValueError(f"there is no {step.work} of the mode {step.mode!r}", "mode")
    if step.work == RESET and step.head is None:
        raise UnfitValueError("a reset leads to one", "new_head")
    return step
