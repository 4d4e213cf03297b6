"""Resumption of a run that failed or was killed: what is done, what is left, what moved.

Heads decide.  A dataset that stands where the record left it, or one commit further where a step
was cut off between its commit and its line, is the run's own; any other was moved by somebody else.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from odfbuild.errors import StateError
from odfbuild.odf.events import (
    AddData,
    ExecuteTransform,
    MetadataEvent,
    Seed,
    SetDataSchema,
    SetTransform,
)
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Append, BaseHead, Ingest, Move, Plan, Pull, Step
from odfbuild.planner.plan.subset import remaining
from odfbuild.planner.saved import plan_from_json
from odfbuild.project.opened import Opened
from odfbuild.state.chain.dataset import NotInChainError
from odfbuild.state.runs import Ended, RunSummary, find_run, read_events, read_plan
from odfbuild.values import dataclass


class RunGoesOnError(StateError):
    """A run to resume or undo has not ended."""

    code = "run-goes-on"

    def __init__(self, run: RunSummary) -> None:
        super().__init__(
            what=f"the run {run.id} is still running: process {run.pid} on {run.host}",
            why="a run is worked on by one process",
            fix="wait until it is done, or end it with ^C",
        )


class NotResumableError(StateError):
    """A run left no plan to resume."""

    code = "not-resumable"


@dataclass(frozen=True, slots=True)
class Resumed:
    """What is left of a run; `stale` are the datasets that somebody else moved since."""

    run: RunSummary
    plan: Plan
    done: tuple[str, ...]
    stale: tuple[DatasetAlias, ...]


@dataclass(slots=True)
class RecordedProgress:
    """What the record of a run says: the last head of each dataset, and how far steps came.

    `commits` has, by dataset, the last block and the number of blocks of each commit.
    """

    heads: dict[str, str | None] = field(default_factory=dict)
    commits: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    committed: set[str] = field(default_factory=set)
    ended: dict[str, str] = field(default_factory=dict)

    def hear(self, event: Mapping[str, Any]) -> None:
        dataset, step = event.get("dataset"), event.get("step")
        if not isinstance(dataset, str) or not isinstance(step, str):
            return
        self.heads[dataset] = event.get("head")
        if event.get("event") == "dataset_started":
            self.begun.add(step)
        elif event.get("event") == "slice_committed":
            self.committed.add(step)
            if event.get("head") is not None and isinstance(event.get("blocks"), int):
                self.commits.setdefault(dataset, []).append((event["head"], event["blocks"]))
        elif event.get("event") == "dataset_finished" and not event.get("cut_off"):
            self.ended[step] = str(event.get("outcome"))


def resume(project: Opened, text: str) -> Resumed:
    """Return what is left of a run, named as `find_run` takes it.

    Raises UnknownRunError, RunGoesOnError, NotResumableError, and what `plan_from_json` raises.
    """
    run = ended_run(project, text)
    document = read_plan(project.workspace.root, run.id)
    if not isinstance(document, dict) or "format_version" not in document:
        raise NotResumableError(
            what=f"the run {run.id} cannot be continued",
            why=f"it was made by `odfbuild {run.command}`, or its plan is damaged",
            fix="run that command again",
        )
    return _remaining_steps(project, run, plan_from_json(document), recorded_progress(project, run))


def ended_run(project: Opened, text: str) -> RunSummary:
    """Return a run that is over.  Raises UnknownRunError, RunGoesOnError."""
    project.workspace.bring_runs()
    run = find_run(project.workspace.root, text)
    if run.outcome is Ended.RUNNING:
        raise RunGoesOnError(run)
    return run


def recorded_progress(project: Opened, run: RunSummary) -> RecordedProgress:
    """Return what the record of a run says.  Raises DamagedRunError."""
    progress = RecordedProgress()
    for event in read_events(project.workspace.root, run.id, strict=True):
        progress.hear(event)
    return progress


def _remaining_steps(
    project: Opened, run: RunSummary, plan: Plan, progress: RecordedProgress
) -> Resumed:
    names, heads = project.workspace.names(), project.workspace.heads()
    now = {alias: BaseHead(id, heads[id]) for alias, id in names.items() if id in heads}
    done = {id for id, outcome in progress.ended.items() if outcome == "done"}
    done |= {s.id for s in plan.steps if isinstance(s.work, Move) and _was_moved(plan, s, names)}
    done |= {s.id for s in plan.steps if isinstance(s.work, Append) and s.id in progress.committed}
    stale = []
    for alias in plan.datasets:
        steps = [step for step in plan.steps if step.target == alias]
        at = now.get(_name_now(plan, alias, steps, done))
        last = last_head(plan, alias, progress)
        if (None if at is None else at.head) == last:
            continue
        cut = next((s for s in steps if s.id in progress.begun - progress.ended.keys()), None)
        if at is None or cut is None or not is_its_own(project, cut, last, at.id, at.head):
            stale.append(alias)
        elif isinstance(cut.work, Append | Pull):
            done.add(cut.id)
    ids = tuple(step.id for step in plan.steps if step.id in done)
    return Resumed(run, remaining(plan, done, now), ids, tuple(stale))


def _was_moved(plan: Plan, step: Step, names: Mapping[DatasetAlias, DatasetId]) -> bool:
    based = plan.datasets[step.target].based_on
    assert isinstance(step.work, Move)  # noqa: S101 - the caller looked
    return based is not None and is_moved(based.id, step.work.old, step.target, names)


def is_moved(
    id: DatasetId,
    old: DatasetAlias,
    new: DatasetAlias,
    names: Mapping[DatasetAlias, DatasetId],
) -> bool:
    """Say whether a dataset has its new name already, and only that."""
    return names.get(new) == id and names.get(old) != id


def _name_now(plan: Plan, alias: DatasetAlias, steps: list[Step], done: set[str]) -> DatasetAlias:
    moved = any(isinstance(step.work, Move) and step.id in done for step in steps)
    return alias if moved else plan.datasets[alias].moved_from or alias


def last_head(plan: Plan, alias: DatasetAlias, progress: RecordedProgress) -> Multihash | None:
    """Return the last head of a dataset that the run knew of."""
    if str(alias) in progress.heads:
        text = progress.heads[str(alias)]
        if text is not None:
            return Multihash.parse(text)
    based = plan.datasets[alias].based_on
    return None if based is None else based.head


def is_its_own(
    project: Opened, step: Step, last: Multihash | None, id: DatasetId, head: Multihash
) -> bool:
    """Say whether what follows a block is what a step that was cut off would have committed."""
    try:
        blocks = list(project.workspace.dataset(id).blocks(last, head))
    except NotInChainError:
        return False
    events = [block.event for _, block in blocks]
    if isinstance(step.work, Append):
        if step.work.creates is not None:
            events = events[1:] if events and isinstance(events[0], Seed) else []
        return _are_equal(step.work.events, events)
    if isinstance(step.work, Pull):
        return head == step.work.head
    steady = (AddData, SetDataSchema) if isinstance(step.work, Ingest) else _OF_TRANSFORM
    return last is not None and all(isinstance(event, steady) for event in events)


_OF_TRANSFORM = (ExecuteTransform, SetDataSchema, SetTransform)


def _are_equal(planned: tuple[MetadataEvent, ...], found: list[MetadataEvent]) -> bool:
    """Compare events; names in a plan became ids in the chain."""
    return len(planned) == len(found) and all(map(_is_equal, planned, found))


def _is_equal(planned: MetadataEvent, found: MetadataEvent) -> bool:
    if isinstance(planned, SetTransform) and isinstance(found, SetTransform):
        called = [[each.alias for each in event.inputs] for event in (planned, found)]
        return planned.transform == found.transform and called[0] == called[1]
    return planned == found
