"""Errors of the smart transfer protocol, and the answers of a server that mean them."""

from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.repositories.protocol import SeedOverwriteError
from odfbuild.repositories.smart.messages import (
    Failure,
    InvalidHead,
    InvalidInterval,
    NameCollision,
    RefCollision,
    SeedBlockOverwriteRestricted,
    TransferFailed,
    TransferPhase,
    UnknownFailure,
)
from odfbuild.state.chain.heads import HeadMovedError
from odfbuild.state.remote.errors import TransferError
from odfbuild.texts.redaction import excerpt

LONGEST = 2_000  # characters of what a server says that are shown


class DivergedIntervalError(TransferError):
    """A server cannot return the blocks between a client's head and its own."""

    code = "diverged-interval"


class RefCollisionError(TransferError):
    """A server has the dataset under another name."""

    code = "ref-collision"


class NameCollisionError(TransferError):
    """A server has another dataset of this name."""

    code = "name-collision"


class RemoteFailureError(TransferError):
    """A server failed; `phase` is how far the transfer had come, if it reported that."""

    code = "remote-failure"

    def __init__(self, place: str, said: str, phase: TransferPhase | None) -> None:
        at = "" if phase is None else f", at {phase.phase.value}"
        super().__init__(
            what=f"{place} gave up{at}: {said or 'it does not say why'}",
            why="the transfer broke off on the other side; what was there before is unchanged",
            fix="try again: what was moved is not moved again; if it stays so, ask who runs it",
        )
        self.phase = phase


class TransferTimeoutError(TransferError):
    """A server did not answer in time."""

    code = "transfer-timeout"

    def __init__(self, place: str, waiting_for: str, seconds: float) -> None:
        super().__init__(
            what=f"{place} sent nothing for {seconds:g} seconds, where {waiting_for} was due",
            why="a server that neither answers nor ends a connection would be waited for without "
            "end",
            fix="try again: what was moved is not moved again",
        )


class UncertainHeadError(TransferError):
    """A push was interrupted after all was sent, so it is not known whether the head changed."""

    code = "uncertain-head"

    def __init__(self, place: str, head: Multihash) -> None:
        super().__init__(
            what=f"{place} did not confirm that its head is {head}",
            why="the connection ended after all was sent, and its head could not be read since",
            fix="push again: if the head is there, nothing is left to do",
        )


def refusal(
    failure: Failure,
    place: str,
    *,
    expected: Multihash | None = None,
    dataset: DatasetId | None = None,
) -> TransferError | HeadMovedError:
    """Return the error that the answer of a server means.

    `expected` is the head that a push believed in, `dataset` what it pushed.
    """
    match failure:
        case InvalidHead():
            return HeadMovedError(failure.actual_head, failure.expected_head)
        case UnknownFailure(variant="InvalidHead"):
            return HeadMovedError(expected, None)
        case InvalidInterval():
            return DivergedIntervalError(
                what=f"{place} has no blocks that lead from {failure.tail} to {failure.head}",
                why="the chain there does not continue the one here: it is older, or diverged",
                fix="to compare the two, clone that one in another project: odfbuild clone "
                f"{place} -C FOLDER; odfbuild pull {place} --force takes the one that is there",
            )
        case SeedBlockOverwriteRestricted() if dataset is not None:
            return SeedOverwriteError(place, None, dataset)
        case SeedBlockOverwriteRestricted():
            return RemoteFailureError(place, "its chain has another Seed", None)
        case RefCollision():
            return RefCollisionError(
                what=f"{place} has the dataset {excerpt(failure.dataset_id, 200)} under another "
                "name",
                why="a dataset is on a server once, whatever it is called",
                fix="push to the name that it has there",
            )
        case NameCollision():
            return NameCollisionError(
                what=f"{place} has another dataset called {excerpt(failure.dataset_alias, 200)}",
                why="a name is that of one dataset",
                fix="push to another name",
            )
        case TransferFailed(error_message=said) if said.startswith(HeadMovedError.code):
            return HeadMovedError(expected, None)
        case TransferFailed(error_message=DivergedIntervalError.code) if dataset and not expected:
            return DivergedIntervalError(
                what=f"{place} has blocks that this chain has not, and does not show them",
                why="it is signed for a push to an empty location, and blocks that were not read "
                "here cannot be dropped",
                fix="to read the chain there and continue it, use a token with the scope read: "
                "ask the operator of the server",
            )
        case TransferFailed(error_message=DivergedIntervalError.code):
            return DivergedIntervalError(
                what=f"{place} has blocks that this chain has not",
                why="the push does not continue the head there",
                fix="to compare the two, clone that one in another project: odfbuild clone "
                f"{place} -C FOLDER; odfbuild push NAME --to {place} --force gives up those there",
            )
        case TransferFailed():
            return RemoteFailureError(place, excerpt(failure.error_message, LONGEST), failure.phase)
        case UnknownFailure():
            return RemoteFailureError(place, excerpt(failure.variant, LONGEST), None)
