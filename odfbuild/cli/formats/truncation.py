"""Truncation of folds and lines to a number of bytes: equal shares, and a count of what is cut.

Pure.  Sizes are bytes of UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from odfbuild.values import dataclass

_LEAST = 400
SMALLEST = 60  # no fold is smaller, whatever is in it


@dataclass(frozen=True, slots=True)
class Fold:
    """A text that is shown when its summary (HTML) is clicked on."""

    summary: str
    text: str
    is_open: bool = False


def size_of(text: str) -> int:
    """Return the size of a text in bytes."""
    return len(text.encode("utf-8", "surrogatepass"))


def fit_folds(folds: Sequence[Fold], room: int, more: str, *, total: int | None = None) -> str:
    """Return folds that are no longer than `room` in all, the first ones if not all can be shown.

    Each gets the same share; what one does not need goes to the others.  `more` is the line of how
    many are not shown, of `total` if there are more than the folds given.
    """
    number = len(folds) if total is None else total
    whole = [_details(fold) for fold in folds]
    if number == len(folds) and sum(map(size_of, whole)) <= room:
        return "".join(whole)
    room -= size_of(more) + 10
    most = min(len(folds), max(0, room // _LEAST))
    share = _share([size_of(text) for text in whole[:most]], room)
    shown = [
        text if size_of(text) <= share else _cut(fold, share)
        for fold, text in zip(folds[:most], whole, strict=False)
    ]
    left = number - sum(text != "" for text in shown)
    return "".join([*shown, more.format(f"{left:,}") if left else ""])


def fit_lines(head: str, lines: Sequence[str], room: int, more: str) -> str:
    """Return a head and lines below it, as many as fit, ended by a line of how many more."""
    kept: list[str] = [head] if head else []
    left = room - size_of(head) - size_of(more) - 10
    shown = 0
    for line in lines:
        left -= size_of(line) + 1
        if left < 0:
            break
        kept.append(line)
        shown += 1
    if shown < len(lines):
        kept += ["", more.format(f"{len(lines) - shown:,}")]
    return "\n".join([*kept, ""]) if lines else ""


def _share(sizes: Sequence[int], room: int) -> int:
    """Return the greatest size to which all can be cut so that they fit."""
    left = room
    for number, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - number)
        if size > share:
            return share
        left -= size
    return room


def _details(fold: Fold) -> str:
    fence = _fence(fold.text)
    head = "<details open>" if fold.is_open else "<details>"
    return (
        f"{head}<summary>{fold.summary}</summary>\n\n"
        f"{fence}text\n{fold.text.rstrip()}\n{fence}\n\n</details>\n"
    )


def _cut(fold: Fold, share: int) -> str:
    """Return the fold with as many of its first lines as fit, and how many are not shown."""
    lines = fold.text.rstrip().split("\n")
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high + 1) // 2
        if size_of(_details(_first(fold, lines, middle))) <= share:
            low = middle
        else:
            high = middle - 1
    cut = _details(_first(fold, lines, low))
    return cut if size_of(cut) <= share else ""


def _first(fold: Fold, lines: Sequence[str], number: int) -> Fold:
    more = [] if number == len(lines) else [f"... {len(lines) - number:,} more lines"]
    return Fold(fold.summary, "\n".join([*lines[:number], *more]), fold.is_open)


def _fence(text: str) -> str:
    """Return a fence that nothing in the text can close."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(3, longest + 1)
