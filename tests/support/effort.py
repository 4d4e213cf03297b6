"""How many examples a law is tried on that is dearer, or cheaper, than most."""

from hypothesis import settings

__all__ = ["examples"]

_LONG = 1_000


def examples(short: int, long: int) -> int:
    """Return the number for `make test`, or the one for `make test-long`."""
    return long if settings().max_examples >= _LONG else short
