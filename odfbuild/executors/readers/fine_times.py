"""Times finer than the milliseconds that datasets keep: they are cut, and the first is told."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

__all__ = ["FineTimes", "note_cut", "noting"]


@dataclass(slots=True)
class FineTimes:
    """The first time that was cut, as it was written; None if there was none."""

    first: str | None = None


_NOTED: ContextVar[FineTimes | None] = ContextVar("fine_times", default=None)


@contextmanager
def noting(into: FineTimes) -> Iterator[None]:
    """Note in `into` what is cut meanwhile by this thread."""
    before = _NOTED.set(into)
    try:
        yield
    finally:
        _NOTED.reset(before)


def note_cut(values: Any, is_cut: Any) -> None:
    """Note the first of some values for which `is_cut` is true."""
    noted = _NOTED.get()
    if noted is None or noted.first is not None:
        return
    at = pc.index(is_cut, True).as_py()
    if at >= 0:
        noted.first = str(values[at])
