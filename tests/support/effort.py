"""How many examples, or places, a law is tried on that is dearer, or cheaper, than most."""

from collections.abc import Iterator
from itertools import count

from hypothesis import settings

__all__ = ["examples", "places", "stride"]

_LONG = 1_000


def examples(short: int, long: int) -> int:
    """Return the number for `make test`, or the one for `make test-long`."""
    return long if settings().max_examples >= _LONG else short


def stride(short: int) -> int:
    """Return each how many-th place `make test` tries; `make test-long` tries all of them."""
    return examples(short, 1)


def places(nth: int, short: int) -> Iterator[int]:
    """Count the places at which something may go wrong: each `short`-th, the first by `nth`.

    Cases of one law that are numbered by `nth` so try all places between them.
    """
    step = stride(short)
    return count(nth % step, step)
