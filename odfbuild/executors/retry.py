"""Try again what may pass: a few times in a row, longer as long as each try brings something."""

from collections.abc import Callable
from typing import Final, TypeVar

from odfbuild.executors import stopping
from odfbuild.executors.request import UnreachableError

__all__ = ["TransientError", "persist"]

_IN_A_ROW: Final = 3
_IN_ALL: Final = 20
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 60.0

T = TypeVar("T")


class TransientError(Exception):
    """A failure that may pass: what to raise in the end, and how long the server asks to wait."""

    def __init__(self, final: UnreachableError, seconds: float = 0.0) -> None:
        super().__init__(final.what)
        self.final = final
        self.seconds = seconds


def persist(
    attempt: Callable[[], T],
    stored: Callable[[], int],
    pause: Callable[[float], None] | None = None,
) -> T:
    """Return what the first attempt gives that does not fail with a TransientError.

    Up to three more tries follow a failure, twenty if each leaves more bytes `stored` than the one
    before.  A server that asks to wait longer than a minute is not asked again.
    Raises StoppedError when the run is given up.
    """
    fruitless = 0
    for _ in range(_IN_ALL):
        before = stored()
        try:
            return attempt()
        except TransientError as failure:
            fruitless = 0 if stored() > before else fruitless + 1
            if fruitless > _IN_A_ROW:
                raise failure.final from None
            if failure.seconds > _LONGEST_PAUSE:
                raise _asked_to_wait(failure) from None
            backoff = _FIRST_PAUSE * 2 ** max(fruitless - 1, 0)
            (pause or stopping.pause)(min(max(failure.seconds, backoff), _LONGEST_PAUSE))
    try:
        return attempt()
    except TransientError as failure:
        raise failure.final from None


def _asked_to_wait(failure: TransientError) -> UnreachableError:
    error = failure.final
    error.fix = f"the server asks to wait {failure.seconds:g} seconds: run the same command then"
    return error
