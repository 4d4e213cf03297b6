"""Changes of a text as values: ranges to replace and ranges to move, by offsets of the old text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["ClashError", "Edit", "Move", "apply_edits"]


class ClashError(Exception):
    """Two edits want the same characters; nothing sensible can be made of both."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the half-open range by a text; an empty range inserts."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Take a range out, with the edits inside of it, and put it elsewhere, between two texts."""

    start: int
    end: int
    to: int
    before: str = ""
    after: str = ""


def apply_edits(text: str, edits: Sequence[Edit], moves: Sequence[Move] = ()) -> str:
    """Return the text with all edits made; those at one place in their order, moved text first.

    Raises ClashError when two of them overlap.
    """
    return _render(text, 0, len(text), sorted(_steps(edits, moves), key=_place))


@dataclass(frozen=True, slots=True)
class _Step:
    """`rank` orders what happens at one place: text moved in, text moved out, edits."""

    start: int
    end: int
    rank: int
    text: str = ""
    moved: Move | None = None


def _steps(edits: Sequence[Edit], moves: Sequence[Move]) -> Iterator[_Step]:
    for move in moves:
        yield _Step(move.to, move.to, 0, moved=move)
        yield _Step(move.start, move.end, 1)
    for edit in edits:
        yield _Step(edit.start, edit.end, 2, edit.text)


def _place(step: _Step) -> tuple[int, int, bool]:
    return step.start, step.rank, step.end > step.start


def _render(text: str, start: int, end: int, steps: list[_Step]) -> str:
    parts: list[str] = []
    at, gone = start, start
    for step in steps:
        if step.start < at:
            if step.start < gone:
                continue
            raise ClashError
        parts.append(text[at : step.start])
        at = step.end
        if step.rank == 1:
            gone = step.end
        parts.append(step.text if step.moved is None else _moved(text, step.moved, steps))
    parts.append(text[at:end])
    return "".join(parts)


def _moved(text: str, move: Move, steps: list[_Step]) -> str:
    inside = [
        step for step in steps
        if move.start <= step.start
        and step.end <= move.end
        and step.rank == 2
        and (step.start < move.end or step.start == move.start)
    ]  # fmt: skip
    return move.before + _render(text, move.start, move.end, inside) + move.after
