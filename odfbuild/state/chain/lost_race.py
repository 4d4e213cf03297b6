"""Lost races for a head: work whose commit came too late is repeated on the new head."""

from collections.abc import Callable
from typing import Final, TypeVar

from odfbuild.state.chain.heads import HeadMovedError

ATTEMPTS: Final = 10
"""How often work is done in a row before a lost race is reported as `head-moved`."""

Result = TypeVar("Result")


def until_committed(attempt: Callable[[], Result]) -> Result:
    """Return what an attempt gives that reads a state, works and commits; again after a lost race.

    Raises HeadMovedError after the last attempt, and at once when the dataset is gone.
    """
    for left in reversed(range(ATTEMPTS)):
        try:
            return attempt()
        except HeadMovedError as error:
            if left == 0 or error.actual is None:
                raise
    raise AssertionError("the last attempt returns or raises")
