"""Times finer than the milliseconds that datasets keep: where they are cut, and which was first."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """The first time of a column that was cut: as it was written, and its row, from 1, if known."""

    column: str
    value: str
    row: int | None = None


@dataclass(slots=True)
class FineTimes:
    """The first time that was cut of each column.

    `rows` counts those of the pieces before; `column` and `size` are of the piece at hand.
    """

    first: dict[str, Cut] = field(default_factory=dict)
    rows: int = 0
    column: str = ""
    size: int | None = None


_NOTED: ContextVar[FineTimes | None] = ContextVar("fine_times", default=None)


@contextmanager
def noting(into: FineTimes | None) -> Iterator[None]:
    """Note in `into` what is cut meanwhile by this thread; None for what is only tried."""
    before = _NOTED.set(into)
    try:
        yield
    finally:
        _NOTED.reset(before)


def noting_column(name: str, rows: int | None = None) -> None:
    """Say of which column what is cut from now on is, and how many rows of an input it has."""
    noted = _NOTED.get()
    if noted is not None:
        noted.column, noted.size = name, rows


def passed(rows: int) -> None:
    """Say that a piece of so many rows ends here."""
    noted = _NOTED.get()
    if noted is not None:
        noted.rows += rows


def is_noted() -> bool:
    """Tell whether it matters that a time of the column at hand is cut."""
    noted = _NOTED.get()
    return noted is not None and noted.column not in noted.first


def note_cut(values: Any, is_cut: Any) -> None:
    """Note the first of some values for which `is_cut` is true."""
    noted = _NOTED.get()
    if noted is None or noted.column in noted.first:
        return
    at = pc.index(is_cut, True).as_py()
    if at >= 0:
        row = noted.rows + at + 1 if len(values) == noted.size else None
        noted.first[noted.column] = Cut(noted.column, written(values[at]), row)


def note_piece(piece: FineTimes) -> None:
    """Note what was cut in a piece of an input that comes after what was noted before."""
    noted = _NOTED.get()
    if noted is None:
        return
    for column, cut in piece.first.items():
        row = None if cut.row is None else noted.rows + cut.row
        noted.first.setdefault(column, replace(cut, row=row))
    noted.rows += piece.rows


def written(value: pa.Scalar) -> str:
    """Return a time as text, in all digits: Python has none for nanoseconds."""
    if not pa.types.is_timestamp(value.type):
        return str(value)
    zone = "" if value.type.tz is None else "Z"
    plain = pa.scalar(value.value, pa.int64()).cast(pa.timestamp(value.type.unit))
    return f"{plain.cast(pa.string())}{zone}"
