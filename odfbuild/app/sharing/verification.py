"""Verification of a received chain beyond rules and hashes, before it becomes visible.

Rows are compared with what their blocks say, and on request the steps that brought them are run
again, out of the folder in which the chain was received: what does not hold is never taken in.  A
step is made of its inputs, so these have to be in the workspace as far as the step read them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from odfbuild.app.import_chain import NotVerifiedError
from odfbuild.errors import OdfBuildError, StateError
from odfbuild.odf.chain.state import last_block_of
from odfbuild.odf.events import ExecuteTransformInput, MetadataBlock
from odfbuild.odf.identity import DatasetId
from odfbuild.project.opened import Opened
from odfbuild.repositories.intake import Arrival, dataset_of
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace

if TYPE_CHECKING:
    from odfbuild.executors.verify.replay import RecordedStep, Replayed

VerifyLevel: TypeAlias = Literal["hashes", "data", "replay"]
_SHOWN = 10  # findings
_JOBS = 4


class InputsNotHereError(StateError):
    """Steps cannot be rerun, as the workspace lacks some of their inputs."""

    code = "inputs-not-here"

    def __init__(self, place: str, missing: Sequence[DatasetId]) -> None:
        listed = ", ".join(map(str, missing))
        super().__init__(
            what=f"the steps of {place} cannot be rerun: {listed} is not in the workspace, or not "
            "up to the block that a step read; nothing was pulled",
            why="a step needs the rows of its inputs",
            fix="pull that first, inputs before their readers: odfbuild pull "
            f"REPOSITORY/{missing[0]}; or pull without a replay: --verify data",
        )
        self.missing = tuple(missing)


class ReplayRefusedError(StateError):
    """A step belongs to an engine, or a version of it, that cannot be run here."""

    code = "replay-refused"


def verify_arrival(
    project: Opened, arrival: Arrival, here: Dataset | None, place: str, level: VerifyLevel
) -> None:
    """Refuse what was received if its rows or steps are not what the chain says of them.

    Raises NotVerifiedError, and InputsNotHereError and ReplayRefusedError where steps were to be
    run again and cannot be.
    """
    if level == "hashes":
        return
    dataset = dataset_of(arrival, here)
    steps = _new_steps(project, arrival, dataset, place) if level == "replay" else ()
    _check_rows(arrival, dataset, place)
    if steps:
        _replay(project, dataset, steps, place)


def _check_rows(arrival: Arrival, dataset: Dataset, place: str) -> None:
    from odfbuild.executors.verify.chain import verify

    new = {*arrival.blocks}
    hashes = {block.sequence_number: hash for hash, block in dataset.blocks()}

    def wanted(block: MetadataBlock) -> bool:
        return hashes.get(block.sequence_number) in new

    found = verify(dataset, wanted=wanted).findings
    if found:
        raise _not_verified(
            place,
            [each.what for each in found],
            "files must have the rows that blocks record",
        )


def _new_steps(
    project: Opened, arrival: Arrival, dataset: Dataset, place: str
) -> "tuple[RecordedStep, ...]":
    """Return the steps that were received, all of which can be run again here."""
    from odfbuild.executors.verify.history import History
    from odfbuild.executors.verify.replay import recorded_steps, refusal

    new = {*arrival.blocks}
    found = recorded_steps(History(dataset, arrival.state.head))
    steps = tuple(each for each in found if each.block in new)
    for step in steps:
        if (refused := refusal(step)) is not None:
            raise ReplayRefusedError(
                what=f"block {step.sequence} of {place} cannot be rerun: {refused.why}; nothing "
                "was pulled",
                why="a step is compared with the result of the engine that made it",
                fix="pull it without a replay: --verify data",
            )
    read = (each for step in steps for each in step.event.query_inputs)
    missing = dict.fromkeys(
        each.dataset_id for each in read if not _is_here(project.workspace, each)
    )
    if missing:
        raise InputsNotHereError(place, tuple(missing))
    return steps


def _is_here(workspace: Workspace, read: ExecuteTransformInput) -> bool:
    """Say whether the workspace has an input, up to the block that was read."""
    dataset = workspace.open(read.dataset_id)
    at = last_block_of(read)
    if dataset is None:
        return False
    try:
        return at is None or dataset.state(at) is not None
    except OdfBuildError:  # it is not of this chain, or not here yet
        return False


def _replay(project: Opened, dataset: Dataset, steps: "Sequence[RecordedStep]", place: str) -> None:
    from odfbuild.executors.process.interrupt import result_of
    from odfbuild.executors.verify.history import RecordedHistories
    from odfbuild.executors.verify.run import replaying

    past = RecordedHistories(project.workspace, received=dataset)
    with replaying(project, past, {dataset.id: steps}, _JOBS) as run:
        found = list(map(result_of, run.submit(steps)))
    findings = [line for each in found for line in _lines(each)]
    if findings:
        raise _not_verified(place, findings, "a step must give the rows that its block records")


def _lines(found: "Replayed") -> list[str]:
    return [f"block {found.sequence}: {each}" for each in found.findings]


def _not_verified(place: str, findings: Sequence[str], why: str) -> NotVerifiedError:
    listed = "".join(f"\n  {each}" for each in findings[:_SHOWN])
    return NotVerifiedError(
        what=f"{place} does not verify, so nothing was pulled{listed}",
        why=why,
        fix="ask the owner of that copy",
    )
