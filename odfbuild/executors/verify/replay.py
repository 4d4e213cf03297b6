"""Replay of recorded steps, compared with what their blocks record.

A step is what the query in force then made of the intervals of its inputs that the block names, at
the system time of the block.  So it is built as it was, from the chains as they stood, and stops
before the commit (ODF 0.34.1, "Verification").  The bytes of a file may differ, its rows may not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from odfbuild.errors import OdfBuildError, StateError
from odfbuild.executors.data.checks.verified_files import data_files
from odfbuild.executors.data.rows import DifferingRow, first_difference
from odfbuild.executors.data.seal import Sealed
from odfbuild.executors.engine.context import StepEngine
from odfbuild.executors.engine.protocol import TransformWork, engine_version
from odfbuild.executors.transform.checkpoint import checkpoint_of_step
from odfbuild.executors.transform.step import (
    FilesOf,
    StepSource,
    execute,
    needs_engine,
    step_query,
    step_work,
)
from odfbuild.executors.verify.history import History, RecordedHistories, place_of
from odfbuild.executors.verify.replay_findings import row_findings, schema_findings
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import RESTATE, ChainState, input_name, last_block_of, plain_version
from odfbuild.odf.events import (
    DataSlice,
    ExecuteTransform,
    ExecuteTransformInput,
    SetDataSchema,
    SetTransform,
    TransformInput,
)
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.diff.query_change import is_other_version
from odfbuild.planner.diff.restate import asks_to_restate
from odfbuild.planner.intervals import rebind
from odfbuild.planner.staleness import InputNow, next_watermark
from odfbuild.project.config.engines import ENGINES
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.objects import CorruptObjectError
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStep:
    """An ExecuteTransform block, and the dataset as it was before the step and after it.

    `last` is the transform that is in force now.  `made` is the one that made it, where `before`
    has another engine in its place that is to run it again.
    """

    dataset: Dataset
    block: Multihash
    sequence: int
    system_time: Timestamp
    event: ExecuteTransform
    before: ChainState
    after: ChainState
    last: SetTransform | None
    made: SetTransform | None = None

    @property
    def rows(self) -> int:
        """Count the recorded rows."""
        piece = self.event.new_data
        return 0 if piece is None else piece.offset_interval.end - piece.offset_interval.start + 1


def in_engine(step: RecordedStep, engine: str, version: str) -> RecordedStep:
    """Return a step as another engine is to run it again; it restates if it did."""
    made = step.before.transform
    if made is None or is_opaque(made.transform):
        raise ValueError("a step of a query that is not known")
    ending = RESTATE if asks_to_restate(made) else ""
    sql = replace(made.transform, engine=engine, version=f"{version}{ending}")
    asked = replace(made, transform=sql)
    return replace(step, before=replace(step.before, transform=asked), last=asked, made=made)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The outcome of running a step again.

    `findings` say what does not hold, none if all does; `row` is the first that differs; `untried`
    says why the step cannot be rerun here, which is no finding.  `place` is the engine elsewhere
    that ran it, None if that was done here.
    """

    block: Multihash
    sequence: int
    rows: int
    findings: tuple[str, ...] = ()
    row: DifferingRow | None = None
    untried: str | None = None
    place: str | None = None


@dataclass(frozen=True, slots=True)
class InputThen:
    """An input of a step: its name in the query, what was read of it, and its chain then."""

    alias: str
    recorded: ExecuteTransformInput
    source: StepSource
    slices: tuple[DataSlice, ...]


def recorded_steps(history: History) -> tuple[RecordedStep, ...]:
    """Return the steps of a dataset, oldest first."""
    last = history.state(history.blocks[-1][0]).transform
    found = []
    for number, (hash, block) in enumerate(history.blocks):
        if isinstance(block.event, ExecuteTransform):
            found.append(
                RecordedStep(
                    dataset=history.dataset,
                    block=hash,
                    sequence=block.sequence_number,
                    system_time=block.system_time,
                    event=block.event,
                    before=history.state(_before(history, number)),
                    after=history.state(hash),
                    last=last,
                )
            )
    return tuple(found)


def _before(history: History, number: int) -> Multihash:
    """Return the block before a step: a schema that its rows brought belongs to the step."""
    at = number - 1
    previous = history.blocks[at][1]
    together = previous.system_time == history.blocks[number][1].system_time
    if isinstance(previous.event, SetDataSchema) and together:
        at -= 1
    return history.blocks[at][0]


@dataclass(frozen=True, slots=True)
class ReplayRefusal:
    """Why a step is not run again; `found` says that this is a finding."""

    why: str
    found: bool


def refusal(step: RecordedStep, *, anyway: bool = False) -> ReplayRefusal | None:
    """Return why a step is not run again; None if it can be.

    With `anyway` a step of another version of the engine is no less run, to compare the two.
    """
    transform = step.before.transform
    if transform is None or is_opaque(transform.transform):
        return ReplayRefusal("its transform is not of a kind that this version knows", found=False)
    engine = transform.transform.engine
    if engine_version(engine) is None:
        only = f"its engine is {engine}, and steps of {' and '.join(ENGINES)} alone are run again"
        return ReplayRefusal(only, found=False)
    outdated = None if anyway else _upgrade_reason(step, transform)
    return None if outdated is None else ReplayRefusal(outdated, found=True)


def _upgrade_reason(step: RecordedStep, made: SetTransform) -> str | None:
    """Say that an upgrade comes first: another version made the step, and is still in force."""
    installed = engine_version(made.transform.engine) or ""
    if step.last is None or is_opaque(step.last.transform):
        return None
    if step.last.transform.engine != made.transform.engine:
        return None
    if not is_other_version(step.last.transform, installed):
        return None
    if not is_other_version(made.transform, installed):
        return None
    return (
        f"it was made by {made.transform.engine} {made.transform.version}, and {installed} is "
        "installed: see whether that gives the same rows by odfbuild engine upgrade"
    )


def replay(
    step: RecordedStep,
    past: RecordedHistories,
    engine: StepEngine | None,
    workspace: Workspace,
    *,
    anyway: bool = False,
) -> Replayed:
    """Run a step again and compare; what goes wrong meanwhile is a finding.

    `anyway` is as in `refusal`; only a step that is refused needs no engine.
    """
    refused = refusal(step, anyway=anyway)
    if refused is not None and not refused.found:
        return _outcome(step, untried=refused.why)
    if refused is not None:
        return _outcome(step, findings=(refused.why,))
    if engine is None:
        raise ValueError("a step that can be run needs an engine")
    try:
        with workspace.staging() as staging:
            findings, row = _compare(step, past, engine, staging)
    except OdfBuildError as error:
        return _outcome(step, findings=(f"it cannot be rerun: {error.what}",))
    return _outcome(step, findings=findings, row=row)


def _outcome(
    step: RecordedStep,
    *,
    findings: tuple[str, ...] = (),
    row: DifferingRow | None = None,
    untried: str | None = None,
) -> Replayed:
    return Replayed(
        block=step.block,
        sequence=step.sequence,
        rows=step.rows,
        findings=findings,
        row=row,
        untried=untried,
    )


def _compare(
    step: RecordedStep, past: RecordedHistories, engine: StepEngine, staging: Path
) -> tuple[tuple[str, ...], DifferingRow | None]:
    inputs = inputs_then(step, past)
    findings = list(_watermark_findings(step, inputs))
    sealed = None
    work = _work(step, inputs, past, staging, _places)
    if work is not None:
        damaged = _damage_reason(step, inputs, work, past)
        if damaged is not None:
            return (*findings, damaged), None
        sealed = execute(engine, step.before, work, step.system_time)
        findings += schema_findings(schema_in_force(step.after), sealed.schema)
    findings += _checkpoint_findings(step, work)
    found = list(row_findings(step.event.new_data, None if sealed is None else sealed.slice))
    row = _first_row(step, sealed, past) if found else None
    if findings or found:
        found += _version_notes(step)
    return (*findings, *found), row


Remade: TypeAlias = "tuple[Path, Multihash | None] | None"
"""A file that a step gives, and the logical hash of its rows if it has rows."""


def remade(
    step: RecordedStep, past: RecordedHistories, engine: StepEngine, staging: Path
) -> tuple[Remade, Remade]:
    """Run a step again and return the slice and the checkpoint that it gives, in `staging`.

    What it leaves behind now need not be there.  Raises StateError for what it reads and is not
    there or damaged, and the engine's errors.
    """
    work = replay_work(step, past, staging)
    if work is None:
        return None, None
    sealed = execute(engine, step.before, work, step.system_time)
    piece, path, kept = sealed.slice, sealed.path, work.new_checkpoint
    return (
        None if piece is None or path is None else (path, piece.logical_hash),
        None if kept is None or not kept.is_file() else (kept, None),
    )


def replay_work(step: RecordedStep, past: RecordedHistories, staging: Path) -> TransformWork | None:
    """Return what the engine has to do to run a step again, None if it is not needed.

    Raises StateError for what the step reads and is not there or damaged.
    """
    inputs = inputs_then(step, past)
    work = _work(step, inputs, past, staging, _places)
    damaged = None if work is None else _damage_reason(step, inputs, work, past)
    if damaged is not None:
        raise StateError(
            what=damaged,
            why="a step gives the recorded rows only of what it read then",
            fix="restore that first; what is made of other datasets: odfbuild rebuild --restore",
        )
    return work


def recorded_work(
    step: RecordedStep, past: RecordedHistories, staging: Path
) -> TransformWork | None:
    """Return what the engine worked on in a step, None if it was not needed.

    Raises StateError for inputs that are not there any more, or damaged.
    """
    return _work(step, inputs_then(step, past), past, staging, data_files)


def _work(
    step: RecordedStep,
    inputs: Sequence[InputThen],
    past: RecordedHistories,
    staging: Path,
    files: FilesOf,
) -> TransformWork | None:
    batch = rebind(step.event, [each.alias for each in inputs], [each.slices for each in inputs])
    sources = [each.source for each in inputs]
    query = step_query(step.before, batch, sources)
    if not needs_engine(step.before, batch, query):
        return None

    return step_work(
        query,
        step.dataset,
        step.before,
        batch,
        sources,
        staging,
        past.slices,
        files,
        checkpoint=past.checkpoint,
    )


def _places(dataset: Dataset, slices: Sequence[DataSlice], _: str) -> tuple[Path, ...]:
    """Return where files are to be: `_damage_reason` brings them, and says which of them are not
    as recorded.
    """
    return tuple(place_of(dataset.stores.data, each) for each in slices)


def inputs_then(step: RecordedStep, past: RecordedHistories) -> tuple[InputThen, ...]:
    """Return the inputs as the step found them, in the order of the query.

    Raises StateError when they are not those of the query, or not in the workspace any more.
    """
    transform = step.before.transform
    assert transform is not None  # noqa: S101 - else it is not tried
    recorded = {each.dataset_id: each for each in step.event.query_inputs}
    named = [each.dataset_ref for each in transform.inputs]
    if named != [each.dataset_id for each in step.event.query_inputs]:
        raise StateError(
            what="the block names other inputs than the query that was in force",
            why="a step reads the inputs of its transform, in their order",
            fix="restore the dataset from a copy",
        )
    return tuple(
        _input(each, recorded[each.dataset_ref], past)
        for each in transform.inputs
        if isinstance(each.dataset_ref, DatasetId)
    )


def _input(
    given: TransformInput, recorded: ExecuteTransformInput, past: RecordedHistories
) -> InputThen:
    at = last_block_of(recorded)
    history = past.history(recorded.dataset_id, at)
    alias = input_name(given)
    if history is None:
        raise StateError(
            what=f"its input {alias} is not in the workspace",
            why="a step needs the rows of its inputs",
            fix="bring that dataset into the workspace, then verify again",
        )
    state = history.state(at or history.blocks[0][0])
    return InputThen(
        alias, recorded, StepSource(history.dataset, state), history.slices(state.head)
    )


def _damage_reason(
    step: RecordedStep, inputs: Sequence[InputThen], work: TransformWork, past: RecordedHistories
) -> str | None:
    """Say which of the files that the step reads is not as recorded; then nothing can be told."""
    for each, frame in zip(inputs, work.inputs, strict=True):
        read = {path.name for path in (*frame.paths, *frame.past)}
        used = [piece for piece in each.slices if str(piece.physical_hash) in read]
        found = past.damage(each.recorded.dataset_id, used)
        if found is not None:
            return f"it cannot be rerun, as its input {each.alias} is damaged: {found}"
    before = past.slices(step.dataset, step.before.head) if work.output else ()
    found = past.damage(step.dataset.id, before)
    return None if found is None else f"it cannot be rerun, as rows before it are: {found}"


def _watermark_findings(step: RecordedStep, inputs: Sequence[InputThen]) -> Iterator[str]:
    now = [InputNow(each.alias, each.source.state) for each in inputs]
    expected, recorded = next_watermark(step.before, now), step.event.new_watermark
    if expected != recorded:
        yield f"the watermark is {recorded or 'none'}, and {expected or 'none'} by its inputs"


def _checkpoint_findings(step: RecordedStep, work: TransformWork | None) -> Iterator[str]:
    """Say that the groups came out otherwise which the step counted; bytes may differ.

    A step without an engine names the checkpoint of the step before once more.  One that names none
    lets the next step count everything.
    """
    from odfbuild.executors.data.checkpoints import checkpoint_fault, same_groups

    recorded, left = step.event.new_checkpoint, checkpoint_of_step(step.before, work)
    if recorded is None or recorded == left:
        return
    made = None if work is None else work.new_checkpoint
    if left is None or made is None:
        if work is None or not _is_of_other_version(step):
            kept = "none" if left is None else str(left.physical_hash)
            yield f"the checkpoint is {recorded.physical_hash}, and the step leaves {kept}"
        return
    if left.physical_hash == recorded.physical_hash:  # its size is for `verify` to compare
        return
    path = _checkpoint_as_recorded(step.dataset, recorded.physical_hash)
    if path is None:
        yield f"the checkpoint {recorded.physical_hash} is damaged or missing"
        return
    fault = None if _is_of_other_version(step) else checkpoint_fault(path)
    if fault is not None:
        named = f"the checkpoint {recorded.physical_hash}"
        yield f"{named} {fault}: the next step counts all rows again"
    elif same_groups(path, made) is False:
        yield f"the groups in the checkpoint {recorded.physical_hash} came out otherwise"


def _checkpoint_as_recorded(dataset: Dataset, hash: Multihash) -> Path | None:
    from odfbuild.odf.hashing import physical_hash

    try:
        path = dataset.checkpoint_path(hash)
    except CorruptObjectError:  # of a store, which gives no file with other bytes
        return None
    return path if path.is_file() and physical_hash(path) == hash else None


def _first_row(
    step: RecordedStep, sealed: Sealed | None, past: RecordedHistories
) -> DifferingRow | None:
    """Return the first row that differs; None if the recorded ones are not there to be read."""
    piece, path = step.event.new_data, None
    if piece is not None:
        if past.damage(step.dataset.id, [piece]) is not None:
            return None
        path = step.dataset.data_path(piece.physical_hash)
    return first_difference(
        path,
        None if sealed is None else sealed.path,
        start=step.before.next_offset,
        offset=step.before.vocab.offset_column,
    )


def _is_of_other_version(step: RecordedStep) -> bool:
    if step.made is not None:
        return True
    made = step.before.transform
    assert made is not None  # noqa: S101 - else it is not tried
    return is_other_version(made.transform, engine_version(made.transform.engine) or "")


def _version_notes(step: RecordedStep) -> Iterator[str]:
    made = step.before.transform
    assert made is not None  # noqa: S101 - else it is not tried
    installed = engine_version(made.transform.engine) or ""
    if step.made is not None:
        was = f"{step.made.transform.engine} {plain_version(step.made.transform.version or '')}"
        yield f"it was made by {was}, and run again by {made.transform.engine} {installed}"
    elif _is_of_other_version(step):
        yield f"it was made by version {made.transform.version}, and run again by {installed}"
