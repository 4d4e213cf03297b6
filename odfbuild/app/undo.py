"""Undo: runs that are taken back, and datasets that are no longer declared."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from odfbuild.app.load_project import load
from odfbuild.errors import Diagnostic, OdfBuildError, ProjectErrors, StateError
from odfbuild.executors.runs.record import RunRecorder, RunRequest
from odfbuild.executors.runs.resume import (
    NotResumableError,
    ended_run,
    is_its_own,
    is_moved,
    last_head,
    recorded_progress,
)
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import SetTransform
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.maintenance.rewrite import extent
from odfbuild.planner.maintenance.undo import HeadReturn, Undo, diverging, in_order
from odfbuild.planner.plan import Move, Plan
from odfbuild.planner.saved import SavedPlan, canonical, from_json, to_json
from odfbuild.planner.saved.codec import DamagedPlanError, NotAPlanError
from odfbuild.project.opened import Opened
from odfbuild.state.chain.dataset import NotInChainError
from odfbuild.state.memory.applied import record_applied
from odfbuild.state.runs import Ended, RunSummary, find_run, list_runs, read_events, read_plan
from odfbuild.values import dataclass


def prepare_retirement(project: Opened, names: Collection[DatasetAlias]) -> Undo:
    """Work out what it takes to retire datasets: readers first, each loses its name and its head.

    Raises ProjectErrors with every definition that is still there, or still reads one of them.
    """
    states = project.workspace.states()
    gone = {states[alias].dataset: alias for alias in names}
    refuse_declared(project, gone)
    steps = []
    for id, alias in gone.items():
        blocks = project.workspace.dataset(id).blocks(upto=states[alias].head)
        given_up = extent(block.event for _, block in blocks)
        steps.append(
            HeadReturn(
                alias=alias,
                id=id,
                kind=states[alias].kind,
                expected=states[alias].head,
                to=None,
                blocks=given_up.blocks,
                records=given_up.records,
            )
        )
    ordered = in_order(steps, states)
    after = {alias: state for alias, state in states.items() if alias not in names}
    vanishing = {
        step.id: {hash for hash, _ in project.workspace.dataset(step.id).blocks(upto=step.expected)}
        for step in ordered
    }
    return Undo(
        run=None,
        project=project.config.name,
        target=project.target,
        workspace=project.config.target(project.target).workspace,
        steps=ordered,
        diverging=diverging(ordered, vanishing, after),
    )


def refuse_declared(project: Opened, gone: Mapping[DatasetId, DatasetAlias]) -> None:
    """Raise ProjectErrors with every definition of datasets that go, and of what reads them."""
    there, names = project.workspace.names(), set(gone.values())
    problems = [
        *_still_declared(load(project).declared, gone),
        *(
            _moving(entry.old, entry.new)
            for entry in project.policy.moved
            if entry.old in names and entry.new not in there
        ),
    ]
    if problems:
        raise ProjectErrors(problems)


def _still_declared(
    declared: Collection[Declared], gone: Mapping[DatasetId, DatasetAlias]
) -> Iterator[Diagnostic]:
    names = set(gone.values())
    for each in declared:
        if each.alias in names:
            yield Diagnostic(
                code="still-declared",
                what=f"{each.alias} is declared",
                why="the next apply would create another dataset of that name, without its history",
                fix=f"remove the definition, then: odfbuild retire {each.alias}",
                span=each.span(()),
            )
            continue
        for index, event in enumerate(each.snapshot.metadata):
            refs = event.inputs if isinstance(event, SetTransform) else ()
            for at, ref in enumerate(refs):
                known = ref.dataset_ref
                read = gone.get(known) if isinstance(known, DatasetId) else known
                if read in names:
                    yield Diagnostic(
                        code="still-read",
                        what=f"{each.alias} reads {read}",
                        why="it cannot continue without its input",
                        fix="remove this definition, too, or change its input; then: odfbuild "
                        f"retire {read}",
                        span=each.span(("metadata", index, "inputs", at)),
                    )


def _moving(old: DatasetAlias, new: DatasetAlias) -> Diagnostic:
    return Diagnostic(
        code="still-declared",
        what=f"{old} would be renamed to {new}",
        why="by an entry of moved: in odfbuild.yaml that is not applied yet",
        fix=f"odfbuild apply {new}, or remove the entry",
    )


@dataclass(frozen=True, slots=True)
class _Moved:
    """What a run did to one dataset: where it stood before and after, None where it was not.

    `commits` are those of the run: the last block, and how many; None for a run that took back.
    """

    alias: DatasetAlias
    id: DatasetId
    before: Multihash | None
    after: Multihash | None
    old_name: DatasetAlias | None = None
    commits: tuple[tuple[str, int], ...] | None = None


class MixedBlocksError(StateError):
    """Undoing a run would drop blocks that others committed."""

    code = "mixed-blocks"


def prepare_undo(project: Opened, text: str) -> Undo:
    """Work out what taking back a run does; without steps there is nothing to take back.

    Raises UnknownRunError, RunGoesOnError, NotResumableError, StalePlanError when a dataset was
    moved by somebody else since, MixedBlocksError when one was while the run went on, and
    ProjectErrors with definitions of datasets that would be retired again.
    """
    run = ended_run(project, text)
    moved = list(_moved_heads(project, run))
    names = project.workspace.names()
    heads = project.workspace.heads()
    steps = []
    for each in moved:
        now = heads.get(each.id)
        if now == each.before and (each.old_name is None or each.old_name in names):
            continue
        if now != each.after or _is_taken(each, names):
            raise _stale(run, each)
        if not _is_its_own(project, each):
            raise MixedBlocksError(
                what=f"the run {run.id} did not write all blocks that {each.alias} got meanwhile",
                why="another run committed at the same time: undoing one would undo both",
                fix="odfbuild reset NAME BLOCK resets one dataset, with the blocks of both runs; "
                "odfbuild log NAME shows the blocks",
            )
        steps.append(_step(project, each))
    going = {s.id: s.alias for s in steps if s.to is None and s.expected is not None}
    if going and _is_retirement(project, run.id):
        refuse_declared(project, going)
    states = project.workspace.states()
    after = _after(project, steps, states)
    ordered = in_order(steps, {**after, **states})
    gone = {step.id: _vanishing(project, step) for step in ordered}
    return Undo(
        run=run.id,
        project=project.config.name,
        target=project.target,
        workspace=project.config.target(project.target).workspace,
        steps=ordered,
        diverging=diverging(ordered, gone, after),
    )


def take_back(project: Opened, undo: Undo, asking: RunRequest) -> None:
    """Do what was prepared, readers first.

    Raises HeadMovedError when a dataset moved since; what was taken back before it stays so, and
    the same can be prepared again.  Raises KeyboardInterrupt after an interrupt, between two
    datasets.
    """
    from odfbuild.executors.process.interrupt import interruptible, stoppable

    with stoppable(), interruptible(lambda: None):
        _take_back(project, undo, asking)
    record_applied(project.workspace, {step.old_name or step.alias: "ok" for step in undo.steps})


def _take_back(project: Opened, undo: Undo, asking: RunRequest) -> None:
    from odfbuild.executors.process.interrupt import is_ending

    record = RunRecorder(project, asking, len(undo.steps), lambda: canonical(to_json(undo)))
    record.begin()
    done: list[HeadReturn] = []
    failed: OdfBuildError | OSError | None = None
    work = "retire" if undo.run is None else "undo"
    for step in undo.steps:
        name, at = f"{work}:{step.alias}", None if step.expected is None else str(step.expected)
        ended = partial(record.add, "dataset_finished", step.alias, step=name)
        if failed is not None or is_ending():
            ended(outcome="not-begun", head=at)
            continue
        record.add("dataset_started", step.alias, step=name, work=work, head=at)
        try:
            _go_back(project, step)
        except (OdfBuildError, OSError) as error:
            ended(level="error", outcome="failed", head=at)
            failed = error
        else:
            ended(outcome="done", head=None if step.to is None else str(step.to))
            done.append(step)
    if failed is not None:
        record.end(Ended.PARTLY if done else Ended.FAILED, done=len(done), failed=1)
        raise failed
    if len(done) < len(undo.steps):
        record.end(Ended.STOPPED, done=len(done))
        raise KeyboardInterrupt
    record.end(Ended.DONE, done=len(done))


def _go_back(project: Opened, step: HeadReturn) -> None:
    workspace = project.workspace
    if step.to is None:
        if step.expected is not None:
            workspace.remove(step.alias, step.id, step.expected)
        return
    if step.to != step.expected:
        workspace.dataset(step.id).set_head(step.to, step.expected)
    if step.expected is None:
        workspace.name(step.alias, step.id)
    if step.old_name is not None:
        workspace.rename(step.alias, step.old_name)


def _moved_heads(project: Opened, run: RunSummary) -> Iterator[_Moved]:
    match _saved_by(project, run.id):
        case Undo(steps=steps):
            yield from map(_taken_back, steps)
        case Plan() as plan:
            yield from _by_plan(project, run, plan)
        case _:
            raise NotResumableError(
                what=f"it is not known what the run {run.id} did",
                why="its plan is damaged",
                fix="odfbuild reset NAME BLOCK resets one dataset",
            )


def _saved_by(project: Opened, run: str) -> SavedPlan | None:
    """Return the plan that a run recorded; None if it cannot be read."""
    try:
        return from_json(read_plan(project.workspace.root, run))
    except (NotAPlanError, DamagedPlanError):
        return None


def _is_retirement(project: Opened, run: str) -> bool:
    """Tell whether what a run took back, or that run in turn, was the retiring of datasets."""
    at: str | None = run
    while at is not None:
        found = _saved_by(project, at)
        if not isinstance(found, Undo):
            return False
        at = found.run
    return True


def _taken_back(step: HeadReturn) -> _Moved:
    """Return what a run that took back did to a dataset."""
    renamed = None if step.old_name is None else step.alias
    return _Moved(step.old_name or step.alias, step.id, step.expected, step.to, renamed)


def _by_plan(project: Opened, run: RunSummary, plan: Plan) -> Iterator[_Moved]:
    recorded = recorded_progress(project, run)
    names, heads = project.workspace.names(), project.workspace.heads()
    now = {alias: heads[id] for alias, id in names.items() if id in heads}
    for alias in dict.fromkeys(step.target for step in plan.steps):
        based = plan.datasets[alias].based_on
        after = last_head(plan, alias, recorded)
        steps = [step for step in plan.steps if step.target == alias]
        id = based.id if based is not None else names.get(alias)
        if id is None:
            continue  # it was never made, or is gone again
        commits = recorded.commits.get(str(alias), [])
        cut = next((s for s in steps if s.id in recorded.begun - recorded.ended.keys()), None)
        if (
            cut is not None
            and alias in now
            and now[alias] != after
            and is_its_own(project, cut, after, id, now[alias])
            and not _is_of_another(project, run, now[alias])
        ):
            commits = [*commits, (str(now[alias]), len(_blocks(project, id, after, now[alias])))]
            after = now[alias]
        before = None if based is None else based.head
        old = next((s.work.old for s in steps if isinstance(s.work, Move)), None)
        renamed = old is not None and is_moved(id, old, alias, names)
        if before != after or renamed:
            yield _Moved(alias, id, before, after, old if renamed else None, tuple(commits))


def _all_runs(root: Path) -> tuple[RunSummary, ...]:
    """Return all runs.  Raises DamagedRunError: one that cannot be read may have done anything."""
    found = list_runs(root)
    if found.damaged:
        find_run(root, found.damaged[0])
    return found.runs


def _is_of_another(project: Opened, run: RunSummary, head: Multihash) -> bool:
    """Tell whether another run says that it committed a block."""
    root = project.workspace.root
    return any(
        event.get("event") == "slice_committed" and event.get("head") == str(head)
        for other in _all_runs(root)
        if other.id != run.id
        for event in read_events(root, other.id, strict=True)
    )


def _is_its_own(project: Opened, each: _Moved) -> bool:
    """Tell whether a run committed all that leads from where it found a dataset to its last."""
    if each.commits is None or each.after is None:
        return True
    try:
        found = project.workspace.dataset(each.id).blocks(each.before, each.after)
        blocks = [str(hash) for hash, _ in found]
    except NotInChainError:
        return False
    own: set[str] = set()
    for head, count in each.commits:
        if head in blocks:
            end = blocks.index(head) + 1
            own.update(blocks[max(0, end - count) : end])
    return own == {*blocks}


def _is_taken(each: _Moved, names: Mapping[DatasetAlias, DatasetId]) -> bool:
    """Say whether a name that is needed belongs to another dataset."""
    wanted = each.old_name or each.alias
    return names.get(wanted, each.id) != each.id


def _stale(run: RunSummary, each: _Moved) -> OdfBuildError:
    from odfbuild.executors.runs.definition import StalePlanError

    return StalePlanError(
        what=f"{each.alias} changed after the run {run.id}",
        why="later blocks would be lost",
        fix="undo the later runs first, newest first: odfbuild runs lists them",
    )


def _step(project: Opened, each: _Moved) -> HeadReturn:
    dataset = project.workspace.dataset(each.id)
    state = dataset.state(each.after or each.before)
    assert state is not None  # noqa: S101 - one of the two is a block
    given_up = extent(
        block.event for _, block in _blocks(project, each.id, each.before, each.after)
    )
    return HeadReturn(
        alias=each.alias,
        id=each.id,
        kind=state.kind,
        expected=each.after,
        to=each.before,
        old_name=each.old_name,
        blocks=given_up.blocks,
        records=given_up.records,
    )


def _vanishing(project: Opened, step: HeadReturn) -> frozenset[Multihash]:
    return frozenset(hash for hash, _ in _blocks(project, step.id, step.to, step.expected))


def _blocks(
    project: Opened, id: DatasetId, after: Multihash | None, upto: Multihash | None
) -> list[Any]:
    """Return the blocks that are given up between two heads; none where it goes forward."""
    if upto is None:
        return []
    try:
        return list(project.workspace.dataset(id).blocks(after, upto))
    except NotInChainError:
        return []


def _after(
    project: Opened, steps: Sequence[HeadReturn], states: Mapping[DatasetAlias, ChainState]
) -> Mapping[DatasetAlias, ChainState]:
    """Return where all datasets stand afterwards."""
    found = dict(states)
    for step in steps:
        found.pop(step.alias, None)
        if step.to is not None:
            state = project.workspace.dataset(step.id).state(step.to)
            assert state is not None  # noqa: S101 - it is a block
            found[step.old_name or step.alias] = state
    return found
