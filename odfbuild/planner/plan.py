"""The plan: a value that says which blocks to append, what to run, and why.

It is made from the project and the heads alone, so equal input gives an equal plan, byte for byte.
What cannot be known is symbolic: an input that does not exist yet stands as its alias.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from odfbuild.errors import Diagnostic, SourceSpan
from odfbuild.odf.events import DatasetKind, MetadataEvent
from odfbuild.odf.identity import DatasetId, Multihash, sha3_256
from odfbuild.odf.manifest import to_mapping
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.changes import Assessment, Verdict
from odfbuild.planner.reasons import InputMayAdvance, Reason, SourceToAsk

__all__ = [
    "FORMAT",
    "Append",
    "Based",
    "Foreseen",
    "GitState",
    "Ingest",
    "Move",
    "Plan",
    "Planned",
    "Step",
    "Transform",
    "Work",
    "plan_hash",
    "to_json",
]

FORMAT = "1.0"
_NOTHING_TO_JUDGE = Verdict("default", 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Append:
    """Append events to the chain; `creates` is the kind of a dataset that does not exist yet."""

    creates: DatasetKind | None
    events: tuple[MetadataEvent, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """Give a dataset another name; its id and chain stay."""

    old: DatasetAlias


@dataclass(frozen=True, slots=True)
class Ingest:
    """Poll the source of a root dataset until it has nothing new."""


@dataclass(frozen=True, slots=True)
class Transform:
    """Run the transform of a derivative dataset over what its inputs gained."""

    inputs: tuple[DatasetAlias | DatasetId, ...]


Work: TypeAlias = Append | Move | Ingest | Transform


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One piece of work on one dataset, the steps it waits for, and why it is there."""

    id: str
    target: DatasetAlias
    work: Work
    after: tuple[str, ...]
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Based:
    """Where a dataset stood when the plan was made."""

    id: DatasetId
    head: Multihash


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What a step may bring, as the chain's own last slices say: the mean rows and bytes of one."""

    slices: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A dataset of the plan: its kind, where it is declared, where it stood (None: nowhere yet).

    `place` is None of a dataset that is retired: in the chains it was compared with, not declared.
    `assessment` is None where nothing changes.  `moved_from` is the name that it had.
    """

    kind: DatasetKind
    place: SourceSpan | None
    based_on: Based | None
    assessment: Assessment | None = None
    moved_from: DatasetAlias | None = None
    foreseen: Foreseen | None = None
    definition: str | None = None  # hash of the manifest as rendered


@dataclass(frozen=True, slots=True)
class GitState:
    """The commit that a saved plan was made from, and whether files differed from it."""

    commit: str
    dirty: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What apply would do; `datasets` names every dataset of the project in topological order.

    `against` names what was compared with if not the chains: such a plan cannot be applied.
    `git` and what is foreseen are no part of the plan's hash.  `selected` is None for everything.
    """

    odf_version: str
    project_hash: str
    datasets: Mapping[DatasetAlias, Planned]
    steps: tuple[Step, ...]
    unchanged: tuple[DatasetAlias, ...]
    notes: tuple[Diagnostic, ...]
    verdict: Verdict = _NOTHING_TO_JUDGE
    project: str = ""
    target: str = "dev"
    workspace: str = ""
    against: str | None = None
    git: GitState | None = None
    selected: tuple[DatasetAlias, ...] | None = None

    @property
    def checks(self) -> frozenset[str]:
        """Return the ids of the steps that only ask a source, or follow nothing but such steps."""
        found: set[str] = set()
        moving: set[DatasetAlias] = set()
        for step in self.steps:
            if all(_is_check(reason, moving) for reason in step.reasons):
                found.add(step.id)
            elif not isinstance(step.work, Append):
                moving.add(step.target)
        return frozenset(found)

    @property
    def is_empty(self) -> bool:
        """Say whether there is nothing to do but, perhaps, to ask sources for news."""
        return len(self.checks) == len(self.steps)


def _is_check(reason: Reason, moving: Collection[DatasetAlias]) -> bool:
    match reason:
        case SourceToAsk():
            return True
        case InputMayAdvance():
            return reason.dataset not in moving
        case _:
            return False


def to_json(plan: Plan) -> dict[str, Any]:
    """Return the plan in its published form (schemas/plan.schema.json), its own hash included."""
    body = _body(plan)
    return {**body, "plan_hash": _hash(body)}


def plan_hash(plan: Plan) -> str:
    """Return the sha3-256 multihash of the plan's canonical JSON."""
    return _hash(_body(plan))


def _hash(body: Mapping[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return str(sha3_256(text.encode()))


def _body(plan: Plan) -> dict[str, Any]:
    return {
        "format_version": FORMAT,
        "odf_version": plan.odf_version,
        "project": plan.project_hash,
        "datasets": [_dataset(plan, alias, each) for alias, each in plan.datasets.items()],
        "steps": [_step(step) for step in plan.steps],
        "notes": [_note(note) for note in plan.notes],
        "summary": _summary(plan),
    }


def _dataset(plan: Plan, alias: DatasetAlias, planned: Planned) -> dict[str, Any]:
    based = planned.based_on
    steps = [step for step in plan.steps if step.target == alias]
    appends = [step.work for step in steps if isinstance(step.work, Append)]
    return {
        "name": str(alias),
        "kind": planned.kind.value,
        "source": str(planned.place),
        "did": None if based is None else str(based.id),
        "base_head": None if based is None else str(based.head),
        "action": _action(based, steps),
        "blocks": [to_mapping(event) for work in appends for event in work.events],
    }


def _action(based: Based | None, steps: list[Step]) -> str:
    if based is None:
        return "create"
    if any(isinstance(step.work, Append) for step in steps):
        return "change"
    return "run" if steps else "none"


def _step(step: Step) -> dict[str, Any]:
    return {
        "id": step.id,
        "target": str(step.target),
        "work": type(step.work).__name__.lower(),
        "after": list(step.after),
        "reasons": [_reason(reason) for reason in step.reasons],
    }


def _reason(reason: Reason) -> dict[str, Any]:
    fields = {
        name: list(value) if isinstance(value := getattr(reason, name), tuple) else _plain(value)
        for name in reason.__slots__
    }
    return {"kind": type(reason).__name__, **fields}


def _plain(value: object) -> str | int | None:
    return value if value is None or isinstance(value, int) else str(value)


def _note(note: Diagnostic) -> dict[str, Any]:
    return {
        "code": note.code,
        "level": note.level.value,
        "source": None if note.span is None else str(note.span),
        "what": note.what,
        "why": note.why,
        "fix": note.fix,
    }


def _summary(plan: Plan) -> dict[str, int]:
    created = sum(each.based_on is None for each in plan.datasets.values())
    appended = sum(isinstance(step.work, Append) for step in plan.steps)
    return {
        "create": created,
        "change": appended - created,
        "ingest": sum(isinstance(step.work, Ingest) for step in plan.steps),
        "transform": sum(isinstance(step.work, Transform) for step in plan.steps),
        "unchanged": len(plan.unchanged),
    }
