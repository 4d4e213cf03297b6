"""The plan: a value that says which blocks to append, what to run, and why.

It is made from the project and the heads alone, so equal input gives an equal plan, byte for byte.
What cannot be known is symbolic: an input that does not exist yet stands as its alias.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from odfbuild.errors import Diagnostic, SourceSpan
from odfbuild.odf.events import DatasetKind, MetadataEvent
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.plan.changes import Assessment, ChangeClass, Verdict
from odfbuild.planner.plan.places import EnginePlace
from odfbuild.planner.plan.policy import AS_USUAL, IngestOptions
from odfbuild.planner.plan.reasons import (
    InputMayAdvance,
    Reason,
    RepositoryToAsk,
    SourceHasNews,
    SourceToAsk,
)
from odfbuild.values import dataclass

_NOTHING_TO_JUDGE = Verdict("default", 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Append:
    """Append events to the chain; `creates` is the kind of a dataset that does not exist yet."""

    creates: DatasetKind | None
    events: tuple[MetadataEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class Move:
    """Give a dataset another name; its id and chain stay."""

    old: DatasetAlias


@dataclass(frozen=True, slots=True)
class Ingest:
    """Poll the source of a root until it has nothing new, then move the watermark to a time."""

    options: IngestOptions = AS_USUAL
    watermark: Timestamp | None = None


@dataclass(frozen=True, slots=True)
class Transform:
    """Run the transform of a derivative dataset over what its inputs gained."""

    inputs: tuple[DatasetAlias | DatasetId, ...]


@dataclass(frozen=True, slots=True)
class Pull:
    """Bring a dataset of a repository up to a head there.

    That takes so many blocks, records and bytes of files.  `origin` is the reference by which it is
    read, `repository` the one to ask if that does not say
    so.  Without a `head` the repository has to be checked first.
    """

    id: DatasetId
    origin: str
    repository: str | None = None
    head: Multihash | None = None
    blocks: int = 0
    records: int = 0
    bytes: int = 0


Work: TypeAlias = Append | Move | Ingest | Transform | Pull


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One piece of work on one dataset, the steps it waits for, and why it is there."""

    id: str
    target: DatasetAlias
    work: Work
    after: tuple[str, ...]
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class BaseHead:
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

    `place` is None of a dataset that is retired: in the chains it was compared with, not declared;
    and of one of a repository, which has its reference as `origin`.
    `assessment` is None where nothing changes.  `moved_from` is the name that it had.
    """

    kind: DatasetKind
    place: SourceSpan | None
    based_on: BaseHead | None
    assessment: Assessment | None = None
    moved_from: DatasetAlias | None = None
    foreseen: Foreseen | None = None
    definition: str | None = None  # hash of the manifest as rendered
    origin: str | None = None

    @property
    def is_retired(self) -> bool:
        """Say whether the project declared it before and no longer does."""
        return self.place is None and self.origin is None


@dataclass(frozen=True, slots=True)
class GitState:
    """The commit that a saved plan was made from, and whether files differed from it."""

    commit: str
    dirty: bool


@dataclass(frozen=True, slots=True)
class OutsideUse:
    """Something outside of the project that it asks for, and the datasets that do.

    `kind` is env, path, host, pipe, container, engine, python, master, store, workspace,
    repository or unknown; without datasets it is the project file that asks.
    """

    kind: str
    name: str
    datasets: tuple[DatasetAlias, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What apply would do; `datasets` names every dataset of the project in topological order.

    `against` names what was compared with if not the chains: such a plan cannot be applied.
    `git` and what is foreseen are no part of the plan's hash.  `selected` is None for everything.
    `outside` is what the project asks for that lies outside of it, `places` the engines
    elsewhere that carry out steps.  `refused` are datasets whose definitions could not be carried
    out: a plan with such is not applied.
    """

    odf_version: str
    project_hash: str
    datasets: Mapping[DatasetAlias, Planned] = field(default_factory=dict)
    steps: tuple[Step, ...]
    unchanged: Sequence[DatasetAlias] = ()
    notes: tuple[Diagnostic, ...]
    verdict: Verdict = _NOTHING_TO_JUDGE
    project: str = ""
    target: str = "dev"
    workspace: str = ""
    against: str | None = None
    git: GitState | None = None
    selected: tuple[DatasetAlias, ...] | None = None
    outside: tuple[OutsideUse, ...] = ()
    places: tuple[EnginePlace, ...] = ()
    refused: Mapping[DatasetAlias, tuple[Diagnostic, ...]] = field(default_factory=dict)

    @property
    def checks(self) -> frozenset[str]:
        """Return the ids of the steps that only ask a source, or follow nothing but such steps.

        That a first file came is asked, too, but of a dataset that is yet to be made.
        """
        found: set[str] = set()
        moving: set[DatasetAlias] = set()
        for step in self.steps:
            if self._waits(step) or all(_is_check(reason, moving) for reason in step.reasons):
                found.add(step.id)
            elif not isinstance(step.work, Append):
                moving.add(step.target)
        return frozenset(found)

    def _waits(self, step: Step) -> bool:
        """Tell whether a dataset that is there waits for the first file of its source."""
        absent = any(isinstance(e, SourceHasNews) and e.is_absent for e in step.reasons)
        return absent and self.datasets[step.target].based_on is not None

    @property
    def is_empty(self) -> bool:
        """Say whether there is nothing to do but, perhaps, to ask sources for news."""
        return len(self.checks) == len(self.steps)

    @property
    def has_changes(self) -> bool:
        """Say whether anything changes, be it that a dataset is retired and nothing is done."""
        return not self.is_empty or any(
            each.assessment is not None and each.assessment.change is ChangeClass.RETIRE
            for each in self.datasets.values()
        )


def _is_check(reason: Reason, moving: Collection[DatasetAlias]) -> bool:
    match reason:
        case SourceToAsk() | RepositoryToAsk():
            return True
        case InputMayAdvance():
            return reason.dataset not in moving
        case _:
            return False


def action_of(planned: Planned, steps: Sequence[Step]) -> str:
    """Say in one word what happens to a dataset."""
    works = [step.work for step in steps]
    if any(isinstance(work, Append) and work.creates is not None for work in works):
        return "create"
    if planned.is_retired:
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


def summary_of(plan: Plan) -> dict[str, int]:
    """Count what the plan does, by action of the datasets and by work of the steps."""
    works = [step.work for step in plan.steps]
    pulled = sum(isinstance(work, Pull) for work in works)
    created = sum(isinstance(work, Append) and work.creates is not None for work in works)
    return {
        "create": created,
        "change": sum(isinstance(work, Append) for work in works) - created,
        "move": sum(isinstance(work, Move) for work in works),
        "retire": sum(each.is_retired for each in plan.datasets.values()),
        "ingest": sum(isinstance(work, Ingest) for work in works),
        "transform": sum(isinstance(work, Transform) for work in works),
        "unchanged": len(plan.unchanged),
        **({"pull": pulled} if pulled else {}),
    }
