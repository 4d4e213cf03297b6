"""Scheduler: steps of a plan in order, several at a time; skipped is not failed.

Order is the plan's, and only that.  A step runs when those it waits for are done and its pools have
room; when one fails, what follows from it is skipped, and everything else goes on, unless asked
otherwise.  The first interrupt ends the run after the open slices, the second at once; a third
kills engines.  However often it is asked to end, each step has an outcome or was not begun.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import field
from typing import Protocol, assert_never

from odfbuild.errors import InternalError, OdfBuildError, PlanError, StateError
from odfbuild.executors.engine.context import InputNotes, Round, Site
from odfbuild.executors.ingest.fetch.planned_files import other_files
from odfbuild.executors.ingest.manual_watermark import advance_watermark
from odfbuild.executors.ingest.poll import ingest
from odfbuild.executors.process.interrupt import (
    Enough,
    StoppedError,
    broken_off_by_second,
    first_finished,
    hurries,
    interruptible,
    is_ending,
    is_stopped,
    leave_behind,
    stop,
    stoppable,
)
from odfbuild.executors.runs.definition import StalePlanError, Stood, existing, write_definition
from odfbuild.executors.runs.options import RunSettings
from odfbuild.executors.runs.pull import pull
from odfbuild.executors.runs.report import Done, Failed, Interrupted, Outcome, RunReport, Skipped
from odfbuild.executors.transform.step import transform
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Append, BaseHead, Ingest, Move, Plan, Pull, Step, Transform
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass


class Progress(Protocol):
    """Who watches a run: called from the thread of the step."""

    def started(self, step: Step) -> None: ...

    def advanced(self, step: Step, done: Round) -> None: ...

    def finished(self, step: Step, outcome: Outcome) -> None: ...


class Unwatched:
    """Progress that nobody looks at."""

    def started(self, step: Step) -> None: ...

    def advanced(self, step: Step, done: Round) -> None: ...

    def finished(self, step: Step, outcome: Outcome) -> None: ...


_AS_USUAL = RunSettings()
_LOOK = 0.02  # seconds between two looks at steps that are to end
_HASTE = 5.0  # seconds for steps to end whose engine was killed


class UnreachableStepError(PlanError):
    """A step of a plan depends on one that does not precede it, so it could never run."""

    code = "unreachable-step"


class InterruptedRun(KeyboardInterrupt):
    """A run was interrupted, and nothing runs any more; `report` says how far it came."""

    def __init__(self, report: RunReport) -> None:
        super().__init__()
        self.report = report


@dataclass(slots=True)
class _Run:
    """A run as it stands; `begun` has each step in a thread, and what it committed so far.

    `open` are those whose thread is not done with them; `is_over` lets no other begin.
    """

    site: Site
    progress: Progress
    settings: RunSettings
    waiting: dict[str, Step]
    based: Mapping[DatasetAlias, BaseHead | None]
    stood: Stood
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    begun: dict[str, tuple[Step, list[Round]]] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    is_over: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, step: Step) -> bool:
        """Begin a step in this thread; False if no more is to be begun."""
        with self.lock:
            if self.is_over:
                return False
            self.begun[step.id] = step, []
            self.open.add(step.id)
            return True

    def leave(self, step: Step) -> None:
        with self.lock:
            self.open.discard(step.id)

    def set_outcome(self, step: Step, outcome: Outcome) -> bool:
        """Keep what became of a step; False if that is known already."""
        with self.lock:
            return self.outcomes.setdefault(step.id, outcome) is outcome


def check_heads(plan: Plan, workspace: Workspace) -> None:
    """Refuse a plan whose datasets moved since; of no others anything is read.

    A dataset that gets another name still has its old one.  Raises StalePlanError; nothing has
    been done then.
    """
    heads = workspace.named_heads(
        {planned.moved_from or alias for alias, planned in plan.datasets.items()}
    )
    for alias, planned in plan.datasets.items():
        now = heads.get(planned.moved_from or alias)
        then = None if planned.based_on is None else planned.based_on.head
        if now != then:
            raise StalePlanError(
                what=f"{alias} changed since the plan was made",
                why=f"the plan was made against {then or 'no dataset'}, and now it is {now}",
                fix="plan again",
            )


def check_order(plan: Plan) -> None:
    """Refuse a plan with a step that could never run, before anything is done."""
    before: set[str] = set()
    for step in plan.steps:
        for each in step.after:
            if each not in before:
                raise UnreachableStepError(
                    what=f"{step.id} waits for {each}, which is not a step before it",
                    why="the step would never run, and the run would end without it",
                    fix="plan again; if the plan is the same, report it: a mistake in odfbuild",
                )
        before.add(step.id)


def run(
    plan: Plan, site: Site, *, jobs: int, progress: Progress, settings: RunSettings = _AS_USUAL
) -> RunReport:
    """Execute a plan, `jobs` steps at a time, and return what became of every step.

    Raises InterruptedRun after an interrupt, once nothing runs any more, and UnreachableStepError
    with nothing done.
    """
    check_order(plan)
    waiting = {step.id: step for step in plan.steps}
    based = {alias: planned.based_on for alias, planned in plan.datasets.items()}
    state = _Run(site, progress, settings, waiting, based, _stood(plan))
    try:
        _carry_out(state, jobs)
    except KeyboardInterrupt:
        raise InterruptedRun(_report(plan, state)) from None
    return _report(plan, state)


def _report(plan: Plan, state: _Run) -> RunReport:
    known = dict(tuple(state.outcomes.items()))  # what was left behind may still look at it
    return RunReport(
        tuple((step, known[step.id]) for step in plan.steps if step.id in known),
        left=tuple(step for step in plan.steps if step.id not in known),
    )


def _carry_out(state: _Run, jobs: int) -> None:
    with stoppable(), interruptible(state.settings.ending):
        pool = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="step")
        try:
            with broken_off_by_second():
                _do_steps(state, jobs, pool)
            if is_ending():
                raise KeyboardInterrupt
        except BaseException:
            _give_up(state)
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _do_steps(state: _Run, jobs: int, pool: ThreadPoolExecutor) -> None:
    running: dict[Future[None], Step] = {}
    while running or (state.waiting and not is_ending()):
        for step in _ready(state, jobs, list(running.values())):
            running[pool.submit(_run_step, state, step)] = step
        if not running:
            break
        for future in first_finished(running):
            del running[future]
            future.result()


def _give_up(state: _Run) -> None:
    """Let no more step begin, and wait for the open ones to be broken off; settle all of them.

    Those that do not end though their engine was killed are left behind: what they still say is
    not heard.
    """
    with state.lock:
        state.is_over = True
    stop()
    state.site.cancel()
    until: float | None = None
    while state.open:
        if until is None and hurries():
            until = time.monotonic() + _HASTE
        if until is not None and time.monotonic() > until:
            leave_behind()
            break
        time.sleep(_LOOK)
    for step, rounds in state.begun.values():
        _settle(state, step, Interrupted(tuple(rounds), cut_off=True))


def _stood(plan: Plan) -> Stood:
    changed = {step.target for step in plan.steps if isinstance(step.work, Append)}
    pulled = {step.target for step in plan.steps if isinstance(step.work, Pull)}
    based = (
        (alias, planned.based_on) for alias, planned in plan.datasets.items() if alias not in pulled
    )
    return {at.id: None if alias in changed else at.head for alias, at in based if at is not None}


def _ready(state: _Run, jobs: int, running: Sequence[Step]) -> Sequence[Step]:
    """Take the steps that may start now out of the waiting ones; settle those that never may."""
    ready: list[Step] = []
    if is_ending():
        return ready
    targets = [step.target for step in running]
    for step in tuple(state.waiting.values()):
        failed = _why_never(state, step)
        if failed is not None:
            del state.waiting[step.id]
            _settle(state, step, Skipped(_root_cause(state, failed)))
        elif (
            len(targets) < jobs
            and not any(_pending(state, each) for each in step.after)
            and state.settings.has_room(step.target, targets)
        ):
            del state.waiting[step.id]
            ready.append(step)
            targets.append(step.target)
    return ready


def _why_never(state: _Run, step: Step) -> str | None:
    """Return the step for whose failure a step is not to run; None if it may."""
    if state.settings.fail_fast:
        known = tuple(state.outcomes.items())  # steps in other threads add to it
        failed = (id for id, each in known if isinstance(each, Failed))
        return next(failed, None)
    return next((each for each in step.after if _has_failed(state, each)), None)


def _has_failed(state: _Run, step: str) -> bool:
    return isinstance(state.outcomes.get(step), Failed | Skipped)


def _pending(state: _Run, step: str) -> bool:
    return step not in state.outcomes


def _root_cause(state: _Run, step: str) -> str:
    outcome = state.outcomes[step]
    return outcome.because if isinstance(outcome, Skipped) else step


def _run_step(state: _Run, step: Step) -> None:
    if state.enter(step):
        try:
            _do_step(state, step)
        finally:
            state.leave(step)


def _do_step(state: _Run, step: Step) -> None:
    _, rounds = state.begun[step.id]

    def done(each: Round) -> None:
        rounds.append(each)
        state.progress.advanced(step, each)
        if isinstance(step.work, Ingest) and (is_ending() or len(rounds) == state.settings.slices):
            raise Enough

    state.progress.started(step)
    try:
        _work(state, step, done)
    except Enough:
        given = tuple(rounds)
        _settle(state, step, Interrupted(given) if is_ending() else Done(given))
    except StoppedError:
        _settle(state, step, Interrupted(tuple(rounds)))
    except Exception as error:
        if is_stopped():  # what it reads or asks was taken from it
            _settle(state, step, Interrupted(tuple(rounds)))
        else:
            _settle(state, step, Failed(_in_words(error, state.site.env), tuple(rounds)))
    else:
        _settle(state, step, Done(tuple(rounds)))


def _settle(state: _Run, step: Step, outcome: Outcome) -> None:
    if state.set_outcome(step, outcome):
        state.progress.finished(step, outcome)


def _work(state: _Run, step: Step, done: Callable[[Round], None]) -> None:
    site = state.site
    match step.work:
        case Append():
            if (refused := state.settings.refused.get(step.target)) is not None:
                raise refused
            based = state.based.get(step.target)
            write_definition(site, step.target, step.work, based, state.stood, done)
        case Move():
            site.workspace.rename(step.work.old, step.target)
            done(Round("name", 0, 0))
        case Ingest(options=options, watermark=watermark):
            dataset = _target(state, step.target)
            other = other_files(site, dataset, step)
            ingest(site, dataset, done, options)
            if other is not None:
                done(Round("", 0, 0, InputNotes(checks=(other,))))
            if watermark is not None:
                advance_watermark(site, dataset, watermark, done)
        case Transform():
            transform(site, _target(state, step.target), done)
        case Pull():
            pull(site, step.target, step.work, done)
        case _:
            assert_never(step.work)


def _target(run: _Run, alias: DatasetAlias) -> Dataset:
    """Return the dataset that a step is for: the planned one, whatever its name is by now."""
    based = run.based.get(alias)
    dataset = None if based is None else run.site.workspace.open(based.id)
    return dataset or existing(run.site, alias)


def _in_words(error: Exception, env: Mapping[str, str]) -> OdfBuildError:
    if isinstance(error, OSError):
        return _system_error(error)
    if isinstance(error, OdfBuildError) and not isinstance(error, InternalError):
        return error
    if env.get("ODFBUILD_TRACEBACK"):
        import traceback

        from odfbuild.texts.redaction import redacted

        sys.stderr.write(redacted("".join(traceback.format_exception(error))))
    return error if isinstance(error, InternalError) else InternalError(error)


def _system_error(error: OSError) -> StateError:
    return StateError(
        what=_what_failed(error),
        why="the operating system refused to read or write a file of the workspace or the source",
        fix="check that the disk has room and the files are accessible, then apply again",
    )


def _what_failed(error: OSError) -> str:
    if error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    # a library that read a file by itself says its name alone
    return f"no such file: {error}" if isinstance(error, FileNotFoundError) else str(error)
