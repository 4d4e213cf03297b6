"""The plan as a document: its published JSON form, both ways, and its hash.

The form is that of schemas/plan.schema.json.  Canonical JSON has sorted keys, no blanks and ASCII
only; the hash of a plan is that of its canonical JSON without `plan_hash`, `git` and `foreseen`,
so equal files and heads give an equal hash.  A minor version only adds keys.
"""

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from odfbuild.errors import Diagnostic, SourceSpan, bounded
from odfbuild.odf.events import DataField, DataSchema
from odfbuild.odf.identity import sha3_256
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.ddl import DdlError, to_ddl
from odfbuild.odf.schema.types import type_name
from odfbuild.planner.plan import (
    FORMAT,
    Append,
    Foreseen,
    Ingest,
    Move,
    OutsideUse,
    Plan,
    Planned,
    Step,
    Transform,
)
from odfbuild.planner.plan.changes import Affected, Assessment, Hit, SchemaChange
from odfbuild.planner.plan.policy import AS_USUAL, IngestOptions
from odfbuild.planner.plan.read import DamagedPlanError
from odfbuild.planner.plan.reasons import Reason
from odfbuild.redaction import redacted

_OUTSIDE_OF_HASH = frozenset({"plan_hash", "git"})


def to_json(plan: Plan) -> dict[str, Any]:
    """Return the plan in its published form, its own hash included."""
    body = _body(plan)
    return {**body, "plan_hash": _hash(body)}


def from_json(document: object) -> Plan:
    """Return the plan that a document holds: the exact inverse of `to_json`.

    Keys that a later minor version added are not looked at.  Raises NotAPlanError,
    PlanVersionError, or DamagedPlanError when something is missing, wrong or was altered.
    """
    from odfbuild.planner.plan.read import read_plan

    plan, said = read_plan(document)
    assert isinstance(document, Mapping)  # noqa: S101 - read_plan refuses anything else
    if _hash(document) != said:
        raise DamagedPlanError.at("plan_hash", "the plan does not hash to it")
    return plan


def plan_hash(plan: Plan) -> str:
    """Return the sha3-256 multihash of what makes a plan the one that it is."""
    return _hash(_body(plan))


def canonical(document: Mapping[str, Any]) -> str:
    """Return JSON text that is the same for equal documents: one line, without a line end."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def action_of(planned: Planned, steps: Sequence[Step]) -> str:
    """Say in one word what happens to a dataset."""
    works = [step.work for step in steps]
    if any(isinstance(work, Append) and work.creates is not None for work in works):
        return "create"
    if planned.place is None:
        return "retire"
    if any(isinstance(work, Append) for work in works):
        return "change"
    if any(isinstance(work, Move) for work in works):
        return "move"
    return "run" if works else "none"


def steps_by_target(plan: Plan) -> dict[DatasetAlias, list[Step]]:
    """Return the steps of each dataset that has some, in their order."""
    grouped: dict[DatasetAlias, list[Step]] = {}
    for step in plan.steps:
        grouped.setdefault(step.target, []).append(step)
    return grouped


def ddl_lines(schema: DataSchema) -> list[str]:
    """Return one readable line a column; where DDL has no word for a type, the type's own name."""
    return [_ddl_line(field) for field in schema.fields]


def diagnostic_json(found: Diagnostic) -> dict[str, Any]:
    """Return one finding as it stands among the notes of a plan."""
    return {
        "code": found.code,
        "level": found.level.value,
        "source": _place(found.span),
        "what": redacted(found.what),
        "why": redacted(found.why),
        "fix": redacted(found.fix),
    }


def summary_of(plan: Plan) -> dict[str, int]:
    """Count what the plan does, by action of the datasets and by work of the steps."""
    works = [step.work for step in plan.steps]
    created = sum(isinstance(work, Append) and work.creates is not None for work in works)
    return {
        "create": created,
        "change": sum(isinstance(work, Append) for work in works) - created,
        "move": sum(isinstance(work, Move) for work in works),
        "retire": sum(each.place is None for each in plan.datasets.values()),
        "ingest": sum(isinstance(work, Ingest) for work in works),
        "transform": sum(isinstance(work, Transform) for work in works),
        "unchanged": len(plan.unchanged),
    }


def _hash(document: Mapping[str, Any]) -> str:
    lasting = {key: value for key, value in document.items() if key not in _OUTSIDE_OF_HASH}
    lasting["datasets"] = [_without_estimate(each) for each in document["datasets"]]
    return str(sha3_256(canonical(lasting).encode()))


def _without_estimate(dataset: Mapping[str, Any]) -> dict[str, Any]:
    work = {key: value for key, value in dataset["work"].items() if key != "foreseen"}
    return {**dataset, "work": work}


def _body(plan: Plan) -> dict[str, Any]:
    steps, unchanged = steps_by_target(plan), set(plan.unchanged)
    return {
        "format_version": FORMAT,
        "odf_version": plan.odf_version,
        "project": {"name": plan.project, "hash": plan.project_hash},
        "target": {"name": plan.target, "workspace": plan.workspace},
        "against": plan.against,
        "git": None if plan.git is None else {"commit": plan.git.commit, "dirty": plan.git.dirty},
        "selected": None if plan.selected is None else [str(each) for each in plan.selected],
        "datasets": [
            {**_dataset(alias, planned, steps.get(alias, ())), "unchanged": alias in unchanged}
            for alias, planned in plan.datasets.items()
        ],
        "steps": [_step(step) for step in plan.steps],
        "notes": [diagnostic_json(note) for note in plan.notes],
        "gate": {
            "name": plan.verdict.gate,
            "passed": plan.verdict.passed,
            "refused": plan.verdict.refused,
            "warned": plan.verdict.warned,
            "accepted": plan.verdict.accepted,
            **({"errors": plan.verdict.errors} if plan.verdict.errors else {}),
        },
        "summary": summary_of(plan),
        **({"outside": [_outside(each) for each in plan.outside]} if plan.outside else {}),
    }


def _outside(each: OutsideUse) -> dict[str, Any]:
    return {"kind": each.kind, "name": each.name, "datasets": [str(at) for at in each.datasets]}


def _dataset(alias: DatasetAlias, planned: Planned, steps: Sequence[Step]) -> dict[str, Any]:
    based = planned.based_on
    appends = [step.work for step in steps if isinstance(step.work, Append)]
    return {
        "name": str(alias),
        "did": None if based is None else str(based.id),
        "kind": planned.kind.value,
        "source": _place(planned.place),
        "definition": planned.definition,
        "moved_from": None if planned.moved_from is None else str(planned.moved_from),
        "action": action_of(planned, steps),
        "base_head": None if based is None else str(based.head),
        "blocks": [to_mapping(event) for work in appends for event in work.events],
        **_assessment(planned.assessment),
        "work": {"steps": [step.id for step in steps], "foreseen": _foreseen(planned.foreseen)},
    }


def _assessment(found: Assessment | None) -> dict[str, Any]:
    if found is None:
        return {"class": None, "rules": [], "schema": None, "affected": [], "query_class": None}
    query = found.query
    return {
        "class": found.change.value,
        "rules": [_hit(hit) for hit in found.hits],
        "schema": None if found.schema is None else _schema_change(found.schema),
        "affected": [_affected(each) for each in found.affected],
        "query_class": None if query is None else {"name": query.name, "because": query.because},
    }


def _hit(hit: Hit) -> dict[str, Any]:
    return {
        "code": hit.code,
        "name": hit.name,
        "dataset": str(hit.dataset),
        "column": hit.column,
        "class": hit.change.value,
        "severity": hit.severity.value,
        "judged": hit.judged.value,
        "message": hit.message,
        "why": hit.why,
        "ways": list(hit.ways),
        "span": _place(hit.span),
        "accepted": hit.accepted,
    }


def _schema_change(change: SchemaChange) -> dict[str, Any]:
    return {
        "before": _schema(change.before),
        "after": _schema(change.after),
        "unknown": change.unknown,
        "diff": [
            {"path": each.path, "kind": each.kind, "before": each.before, "after": each.after}
            for each in change.columns
        ],
    }


def _schema(schema: DataSchema | None) -> dict[str, Any] | None:
    return None if schema is None else {"ddl": ddl_lines(schema), "odf": to_mapping(schema)}


def _ddl_line(field: DataField) -> str:
    try:
        return to_ddl(DataSchema((field,)))[0]
    except DdlError:
        return f"{field.name} {type_name(field.type)}"


def _affected(each: Affected) -> dict[str, Any]:
    return {
        "dataset": str(each.dataset),
        "columns": list(each.columns),
        "usage": [usage.value for usage in each.usage],
        "unknown": each.unknown,
    }


def _foreseen(found: Foreseen | None) -> dict[str, int] | None:
    if found is None:
        return None
    return {"slices": found.slices, "rows": found.rows, "bytes": found.bytes}


def _place(span: SourceSpan | None) -> dict[str, Any] | None:
    if span is None:
        return None
    return {
        "file": span.file,
        "line": span.line,
        "column": span.column,
        "length": span.length,
        "excerpt": None if span.excerpt is None else bounded(redacted(span.excerpt)),
        "instance": None if span.instance is None else bounded(span.instance),
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "id": step.id,
        "target": str(step.target),
        "work": type(step.work).__name__.lower(),
        **_details(step),
        "after": list(step.after),
        "reasons": [_reason(reason) for reason in step.reasons],
    }


def _details(step: Step) -> dict[str, Any]:
    match step.work:
        case Append(creates=creates):
            return {"creates": None if creates is None else creates.value}
        case Move(old=old):
            return {"old": str(old)}
        case Transform(inputs=inputs):
            return {"inputs": [str(each) for each in inputs]}
        case Ingest(options=options):
            given = _options(options)
            return {"options": given} if given else {}


def _options(options: IngestOptions) -> dict[str, Any]:
    """Return the options that are not the ordinary ones."""
    fields = {name: getattr(options, name) for name in options.__slots__}
    return {
        name: value.value if isinstance(value, Enum) else value
        for name, value in fields.items()
        if value != getattr(AS_USUAL, name)
    }


def _reason(reason: Reason) -> dict[str, Any]:
    fields = {
        name: list(value) if isinstance(value := getattr(reason, name), tuple) else _plain(value)
        for name in reason.__slots__
    }
    return {"kind": type(reason).__name__, **fields}


def _plain(value: object) -> str | int | None:
    return value if value is None or isinstance(value, int) else str(value)
