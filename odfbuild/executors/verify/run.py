"""Verification of datasets: unchanged files, and steps that give the same rows again."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from threading import Semaphore, Thread
from typing import TYPE_CHECKING, Final, TypeVar

from odfbuild.executors.engine.registry import engine_of, query_engines
from odfbuild.executors.process.interrupt import StoppedError, result_of
from odfbuild.executors.verify.read_heads import LOOKS, UNCERTAIN, Others, head_or_problem
from odfbuild.odf.events import ExecuteTransform, MetadataBlock
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.diff.chain_definitions import inputs_of
from odfbuild.project.opened import Opened
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.objects import CorruptObjectError, MissingObjectError
from odfbuild.state.chain.seen_heads import DamagedSeenHeadError
from odfbuild.state.remote.errors import UnreachableRepositoryError
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.engine.context import StepPlacement
    from odfbuild.executors.engine.protocol import Engine
    from odfbuild.executors.verify.chain import Fault, Verified
    from odfbuild.executors.verify.history import RecordedHistories
    from odfbuild.executors.verify.recompute import Recomputed
    from odfbuild.executors.verify.recorded_inputs import RecordedInputs
    from odfbuild.executors.verify.replay import RecordedStep, Replayed
    from odfbuild.executors.verify.signatures import SignedHead
    from odfbuild.odf.chain.state import ChainState

T = TypeVar("T")
_FIRST_PAUSE: Final = 0.05  # seconds, and each time twice as many


@dataclass(frozen=True, slots=True)
class Since:
    """A system time; or a block of one dataset, by its number, and its time for the others."""

    time: Timestamp
    dataset: DatasetId | None = None
    sequence: int = -1

    def precedes(self, dataset: DatasetId, sequence: int, system_time: Timestamp) -> bool:
        """Say whether a block comes after it."""
        if dataset == self.dataset:
            return sequence > self.sequence
        return system_time > self.time


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """How to verify: whether steps are run again, also those of all that is read; how many at once.

    `recompute` compares what stands with the query in full.  Without `since` all blocks are looked
    at.  With `head`, the one dataset must end with that block; with `accept_head`, heads may be
    others than those that were seen last.  With `signatures`, heads must be signed.  `placement`
    says which steps are run elsewhere, None if none is.
    """

    replay: bool = False
    recompute: bool = False
    recursive: bool = False
    since: Since | None = None
    jobs: int = 4
    head: Multihash | None = None
    accept_head: bool = False
    signatures: bool = False
    placement: "StepPlacement | None" = None


@dataclass(frozen=True, slots=True)
class Checked:
    """What verification found of one dataset, its steps in their order.

    `signed` says who vouches for its head, if that was asked and somebody does.  `is_gone` tells
    that others took it away meanwhile.
    """

    dataset: DatasetId
    found: "Verified"
    replayed: "tuple[Replayed, ...]" = ()
    recomputed: "Recomputed | None" = None
    signed: "SignedHead | None" = None
    is_gone: bool = False

    @property
    def passed(self) -> bool:
        """Say whether everything holds that could be looked at."""
        if self.recomputed is not None and self.recomputed.findings:
            return False
        return not self.found.findings and not any(each.findings for each in self.replayed)


def verify_datasets(
    project: Opened,
    chosen: Sequence[DatasetId],
    asked: Verification,
    pause: Callable[[float], None] = time.sleep,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[Checked]:
    """Yield what was found of each dataset, in their order, or of all they read from, inputs first.

    An engine is started only if a step has to be run again.  What does not hold of datasets that
    others change meanwhile is looked for once more, when the others have been verified; `say`
    gets a sentence on what is waited for.
    """
    known: dict[DatasetId, _Outcome] = {}
    others = Others(project.workspace, pause, say)
    for found in _verified_once(project, chosen, asked, others):
        if known or found.is_doubtful:
            known[found.checked.dataset] = found
        else:
            yield _certain(project, asked, found)
    for number in range(1, LOOKS):
        doubtful = [id for id, each in known.items() if each.is_doubtful]
        if not doubtful:
            break
        pause(_FIRST_PAUSE * 2**number)
        for found in _verified_once(project, doubtful, asked, others):
            before = known.get(found.checked.dataset)
            if before is None or before.is_doubtful:
                known[found.checked.dataset] = found
    for each in known.values():
        yield _certain(project, asked, each)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What was found of one dataset; `is_doubtful` if that may be so because others changed it."""

    checked: Checked
    looked: "_Look"
    is_doubtful: bool


def _certain(project: Opened, asked: Verification, outcome: _Outcome) -> Checked:
    """Return what is said of a dataset, and remember its head if all is right."""
    from odfbuild.executors.verify.chain import Fault

    checked = outcome.checked
    if outcome.is_doubtful:
        found = checked.found
        doubt = Fault(None, UNCERTAIN)
        findings = found.findings if doubt in found.findings else (*found.findings, doubt)
        return replace(checked, found=replace(found, findings=findings))
    if checked.passed and not checked.is_gone:
        _remember(project, asked, outcome.looked)
    return checked


def _verified_once(
    project: Opened,
    chosen: Sequence[DatasetId],
    asked: Verification,
    others: Others,
) -> Iterator[_Outcome]:
    from odfbuild.executors.verify.history import RecordedHistories
    from odfbuild.executors.verify.recorded_inputs import RecordedInputs

    past, turns = RecordedHistories(project.workspace), Turns(asked.jobs)
    inputs = RecordedInputs(project.workspace, every=asked.recursive)
    ordered = inputs_first(past, chosen) if asked.recursive else chosen
    steps = past.each(ordered, lambda each: _steps(past, each, asked))
    last = past.each(ordered if asked.recompute else (), partial(_last_step, past))
    look = partial(_look, project, asked, inputs, turns)
    in_full = [step for step in last.values() if step]
    with (
        replaying(
            project,
            past,
            steps,
            asked.jobs,
            in_full=in_full,
            turns=turns,
            placement=asked.placement,
        ) as run,
        _looks(project, run.pool, turns, ordered, look) as looks,
    ):
        again = {each: run.submit(steps[each]) for each in ordered}
        full = {each: run.pool.submit(run.in_full, step) for each, step in last.items() if step}
        for each in ordered:
            replayed = tuple(map(_replay_outcome, again[each], steps[each]))
            computed, step = full.get(each), last.get(each)
            recomputed = (
                None if computed is None or step is None else _recompute_outcome(computed, step)
            )
            looked = result_of(looks[each])
            checked = Checked(each, looked.found, replayed, recomputed, looked.signed)
            if _is_gone(project, looked.found, each):
                checked = Checked(each, replace(looked.found, findings=()), is_gone=True)
            doubt = _is_doubtful(project, past, inputs, checked, looked, others)
            yield _Outcome(checked, looked, doubt)


def _is_gone(project: Opened, found: "Verified", id: DatasetId) -> bool:
    """Tell whether others took a dataset away since it was chosen: its name, then its head."""
    workspace = project.workspace
    return (
        found.head is None
        and len(found.findings) == 1
        and head_or_problem(workspace.dataset(id)) is None
        and id not in workspace.names().values()
    )


def _is_doubtful(
    project: Opened,
    past: "RecordedHistories",
    inputs: "RecordedInputs",
    checked: Checked,
    looked: "_Look",
    others: Others,
) -> bool:
    """Tell whether what does not hold, or could not be looked at, is due to what others did."""
    id, workspace = checked.dataset, project.workspace
    if checked.is_gone or checked.found.is_uncertain:
        return False
    if checked.passed:
        return id in past.unread
    ids = inputs.reached({id, *looked.read})
    return (
        inputs.heads.have_moved(workspace, ids)
        or past.heads.have_moved(workspace, ids)
        or others.work_on(ids)
    )


class Turns:
    """So many at a time of what takes memory; none any more once it `is_over`."""

    def __init__(self, count: int) -> None:
        self._free = Semaphore(count)
        self.is_over = False

    def __enter__(self) -> None:
        self._free.acquire()
        try:
            self.go_on()
        except StoppedError:
            self._free.release()
            raise

    def go_on(self) -> None:
        """Raise StoppedError once it is over."""
        if self.is_over:
            raise StoppedError

    def __exit__(self, *_: object) -> None:
        self._free.release()


@dataclass(frozen=True, slots=True)
class _Look:
    """What was found of one dataset but by its steps, and who signed its head.

    `follows` is the head that was seen last, where the one that was looked at is the head after it;
    `read` are its inputs.
    """

    found: "Verified"
    signed: "SignedHead | None" = None
    follows: Multihash | None = None
    read: Collection[DatasetId] = ()


@contextmanager
def _looks(
    project: Opened,
    pool: ThreadPoolExecutor,
    turns: Turns,
    ordered: Sequence[DatasetId],
    look: Callable[[DatasetId], _Look],
) -> "Iterator[Mapping[DatasetId, Future[_Look]]]":
    """Look at datasets in the threads of a pool; in a store those that wait for a turn are brought
    meanwhile.
    """
    workspace = project.workspace
    if workspace.url is None:
        yield {each: pool.submit(look, each) for each in ordered}
        return
    looks: dict[DatasetId, Future[_Look]] = {each: Future() for each in ordered}

    def work(dataset: Dataset) -> None:
        future = looks[dataset.id]
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(look(dataset.id))
            except BaseException as error:
                future.set_exception(error)

    datasets = [workspace.dataset(each) for each in looks]
    thread = Thread(target=workspace.each, args=(datasets, work), daemon=True)
    thread.start()
    try:
        yield looks
    finally:
        turns.is_over = True
        for each in looks.values():
            each.cancel()
        thread.join()


def _look(
    project: Opened, asked: Verification, inputs: "RecordedInputs", turns: Turns, id: DatasetId
) -> _Look:
    """Look at one dataset, at its inputs and at its head."""
    from odfbuild.executors.verify.ahead import bring_dataset
    from odfbuild.executors.verify.chain import Fault, verify
    from odfbuild.executors.verify.heads import head_findings

    dataset = project.workspace.dataset(id)
    wanted = None if asked.since is None else partial(_is_wanted, asked.since, id)

    def ahead(targets: Collection[Multihash]) -> None:
        bring_dataset(dataset, targets, wanted, inputs.bring, turns.go_on)

    read: set[DatasetId] = set()

    def problems(
        event: ExecuteTransform, at: Timestamp, before: "ChainState | None"
    ) -> tuple[str, ...]:
        read.update(each.dataset_id for each in event.query_inputs)
        return inputs.problems(event, at, before)

    found = verify(dataset, wanted=wanted, inputs=problems, ahead=ahead, turn=turns)
    head = found.head
    if head is None:
        return _Look(found, read=read)
    read.update(inputs_of(head))
    inputs.heads.note(id, head.head)
    cycle, signed = _cycle(inputs, head), None
    about_head: tuple[Fault, ...] = ()
    try:
        about_head = tuple(head_findings(project, head, asked.head, accept=asked.accept_head))
        if asked.signatures:
            from odfbuild.executors.verify.signatures import check_signatures
            from odfbuild.repositories.signatures.acceptance import current_time

            report = check_signatures(project, head, current_time())
            signed, about_head = report.signed, (*about_head, *report.findings)
    except (MissingObjectError, CorruptObjectError) as error:  # others may have moved the head
        about_head = (*about_head, Fault(head.head, error.what))
    found = replace(found, findings=(*found.findings, *cycle, *about_head))
    follows = None if found.findings else _replaced_head(project, dataset, head.head)
    return _Look(found, signed, follows, read)


def _replaced_head(project: Opened, dataset: Dataset, head: Multihash) -> Multihash | None:
    """Return the head that was seen last, if it is another one than that which is it now."""
    try:
        known = project.workspace.seen.read(dataset.id)
    except DamagedSeenHeadError:  # it was accepted, else it were a finding
        known = project.workspace.seen.damage = None
    if known is None or known.head == head or dataset.head() != head:
        return None
    return known.head


def _replay_outcome(run: "Future[Replayed]", step: "RecordedStep") -> "Replayed":
    """Return the outcome of a step; an unexpected error is a finding of its dataset."""
    from odfbuild.executors.verify.replay import Replayed

    try:
        return result_of(run)
    except UnreachableRepositoryError:
        raise
    except Exception as error:
        what = f"it cannot be rerun: {type(error).__name__}: {error}"
        return Replayed(block=step.block, sequence=step.sequence, rows=step.rows, findings=(what,))


def _recompute_outcome(run: "Future[Recomputed]", step: "RecordedStep") -> "Recomputed":
    """Return the outcome of a query in full, as `_replay_outcome` does of a step."""
    from odfbuild.executors.verify.recompute import Recomputed

    try:
        return result_of(run)
    except UnreachableRepositoryError:
        raise
    except Exception as error:
        what = f"its query cannot be computed in full: {type(error).__name__}: {error}"
        return Recomputed(block=step.block, sequence=step.sequence, findings=(what,))


def _cycle(inputs: "RecordedInputs", head: "ChainState") -> "tuple[Fault, ...]":
    """Return the cycle that a dataset is made in, if it is."""
    from odfbuild.executors.verify.chain import Fault

    cycle = inputs.cycle(head)
    return () if cycle is None else (Fault(head.head, f"it is made of itself: {cycle}"),)


def _remember(project: Opened, asked: Verification, looked: _Look) -> None:
    """Remember a head that is right, where none was seen yet, or the one before it."""
    head, seen = looked.found.head, project.workspace.seen
    if head is None:
        return
    try:
        known = seen.read(head.dataset)
    except DamagedSeenHeadError:  # it was accepted, else it were a finding
        known = seen.damage = None
    if known is None or asked.accept_head:
        seen.put(head.dataset, head.head, head.sequence)
    elif looked.follows is not None:
        seen.advance(head.dataset, looked.follows, head.head, head.sequence)


def _is_wanted(since: Since, dataset: DatasetId, block: MetadataBlock) -> bool:
    return since.precedes(dataset, block.sequence_number, block.system_time)


def _steps(
    past: "RecordedHistories", dataset: DatasetId, asked: Verification
) -> "tuple[RecordedStep, ...]":
    return steps_since(past, dataset, asked.since) if asked.replay else ()


def _last_step(past: "RecordedHistories", dataset: DatasetId) -> "RecordedStep | None":
    return next(reversed(steps_since(past, dataset)), None)


def steps_since(
    past: "RecordedHistories", dataset: DatasetId, since: Since | None = None
) -> "tuple[RecordedStep, ...]":
    """Return the recorded steps of a dataset; none of a chain that cannot be read."""
    from odfbuild.executors.verify.replay import recorded_steps

    try:
        history = past.history(dataset)
    except UnreachableRepositoryError:
        raise
    except Exception:  # the look at its blocks says what is wrong
        past.unread.add(dataset)
        return ()
    return tuple(
        step
        for step in (() if history is None else recorded_steps(history))
        if since is None or since.precedes(dataset, step.sequence, step.system_time)
    )


def inputs_first(past: "RecordedHistories", chosen: Sequence[DatasetId]) -> tuple[DatasetId, ...]:
    """Return datasets and all that they are made of, inputs first; in a cycle, in any order."""
    read: dict[DatasetId, tuple[DatasetId, ...]] = {}
    level: Collection[DatasetId] = dict.fromkeys(chosen)
    while level:
        read.update(past.each(level, partial(_inputs, past)))
        level = {one: None for each in level for one in read[each] if one not in read}
    found: dict[DatasetId, None] = {}
    seen: set[DatasetId] = set()
    left = [(each, False) for each in reversed(chosen)]
    while left:
        each, is_done = left.pop()
        if is_done:
            found[each] = None
        elif each not in seen:
            seen.add(each)
            left.append((each, True))
            left += [(one, False) for one in reversed(read[each])]
    return tuple(found)


def _inputs(past: "RecordedHistories", dataset: DatasetId) -> tuple[DatasetId, ...]:
    """Return what a dataset was ever made of, as far as it is in the workspace."""
    try:
        history = past.history(dataset)
        state = None if history is None else history.state(history.blocks[-1][0])
        read = () if state is None else state.progress
        return tuple(each for each in read if past.history(each) is not None)
    except UnreachableRepositoryError:
        raise
    except Exception:  # which the look at its blocks says
        past.unread.add(dataset)
        return ()


@dataclass(frozen=True, slots=True)
class VerificationPool:
    """Threads that look at datasets, run recorded steps again, or their queries in full."""

    pool: ThreadPoolExecutor
    run: "Callable[[RecordedStep], Replayed]"
    in_full: "Callable[[RecordedStep], Recomputed]"

    def submit(self, steps: "Sequence[RecordedStep]") -> "tuple[Future[Replayed], ...]":
        """Run steps when their turn comes."""
        return tuple(self.pool.submit(self.run, step) for step in steps)


@contextmanager
def replaying(
    project: Opened,
    past: "RecordedHistories",
    steps: "Mapping[DatasetId, Sequence[RecordedStep]]",
    jobs: int,
    *,
    anyway: bool = False,
    in_full: "Sequence[RecordedStep]" = (),
    turns: AbstractContextManager[object] | None = None,
    placement: "StepPlacement | None" = None,
) -> Iterator[VerificationPool]:
    """Give so many threads; what is not done yet is given up on an error.

    With `anyway` also steps of another version of the engine are run.  `in_full` are the steps
    after which the rows that stand may be compared with the query in full.  Each is done within
    `turns`, which others may take too.  `placement` says which are run elsewhere.
    """
    from odfbuild.executors.process.interrupt import stop, stoppable
    from odfbuild.executors.transform.step_engines import StepEngines
    from odfbuild.executors.verify.recompute import recompute
    from odfbuild.executors.verify.replay import refusal, replay

    every = [step for each in steps.values() for step in each]
    runs = [step for step in every if refusal(step, anyway=anyway) is None]
    runs += [step for step in in_full if refusal(step, anyway=True) is None]
    workspace, engines = project.workspace, StepEngines(project.workspace, placement)
    here = [step for step in runs if not engines.takes(step.dataset.id, step.before.transform)]
    with _engine(project, here, is_needed=bool(runs)) as engine, stoppable():
        pool = ThreadPoolExecutor(jobs, "verify")

        def again(step: "RecordedStep") -> "Replayed":
            own = None if engine is None else engines.of(step.dataset.id, engine)
            found = replay(step, past, own, workspace, anyway=anyway)
            return found if own is None else replace(found, place=own.place)

        def full(step: "RecordedStep") -> "Recomputed":
            if engine is None:
                return recompute(step, past, None, workspace)
            own = engines.of(step.dataset.id, engine)
            found = recompute(step, past, engine, workspace, own.elsewhere)
            return replace(found, place=own.place)

        try:
            turn = turns or nullcontext()
            yield VerificationPool(
                pool, partial(_within, turn, again), partial(_within, turn, full)
            )
        except BaseException:
            stop()
            if engine is not None:
                engine.cancel()
            engines.cancel()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _within(
    turn: AbstractContextManager[object], work: "Callable[[RecordedStep], T]", step: "RecordedStep"
) -> T:
    with turn:
        return work(step)


@contextmanager
def _engine(
    project: Opened, steps: "Sequence[RecordedStep]", *, is_needed: bool
) -> "Iterator[Engine | None]":
    """Give an engine, started for these steps, if one `is_needed`."""
    if not is_needed:
        yield None
        return
    engine = engine_of(project)
    try:
        pieces = (step.event.new_data for step in steps)
        engine.prepare(
            sum(piece.size for piece in pieces if piece is not None),
            query_engines(*(step.before.transform for step in steps)),
            merges=False,
        )
        yield engine
    finally:
        engine.close()
