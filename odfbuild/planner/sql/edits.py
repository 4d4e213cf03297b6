"""Changes of a text that may stand inside of each other, made in one go.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from odfbuild.planner.sql.spans import Span

__all__ = ["SHARED", "Edit", "Edits", "Parts"]

Parts: TypeAlias = "tuple[str | Span, ...]"
"""A text of new pieces and copies of old ones."""

SHARED = -1
"""The owner of edits that belong to a window, not to one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A piece to put in place of another; `owner` is the call that it is for.

    With `inner` the changes inside of `at` that are for calls from that one on are made nowhere
    but in copies.
    """

    at: Span
    parts: Parts
    owner: int
    closes: bool = False
    inner: int | None = None

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """At one place inner calls are closed before outer ones, and opened after them."""
        owner = -self.owner if self.closes else self.owner
        return self.at[0], 0 if self.closes else 1, owner, self.at[1]

    def hides(self, other: Edit) -> bool:
        """Tell whether another edit is made in copies only."""
        if self.inner is None or other is self:
            return False
        inside = self.at[0] <= other.at[0] and other.at[1] <= self.at[1]
        return inside and (other.owner >= self.inner or other.owner == SHARED)


class Edits:
    """The edits of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._edits: list[Edit] = []

    def add(
        self, at: Span, parts: Parts, owner: int, *, closes: bool = False, inner: int | None = None
    ) -> None:
        self._edits.append(Edit(at=at, parts=parts, owner=owner, closes=closes, inner=inner))

    def around(self, span: Span, start: str, end: Parts, owner: int) -> None:
        """Put something before and behind a piece."""
        self.add((span[0], span[0]), (start,), owner)
        self.add((span[1], span[1]), end, owner, closes=True)

    def made(self) -> tuple[tuple[int, int, str], ...]:
        """Return what to put in which place of the text, in order."""
        return tuple((*each.at, self._text(each)) for each in _free(self._edits))

    def _text(self, edit: Edit) -> str:
        pieces = (p if isinstance(p, str) else self._copy(p, edit.owner) for p in edit.parts)
        return "".join(pieces)

    def _copy(self, span: Span, owner: int) -> str:
        """Return a piece of the text with the changes inside it, but those of calls around it."""
        inside = [
            each
            for each in self._edits
            if span[0] <= each.at[0] and each.at[1] <= span[1]
            if each.owner > owner or (each.owner == SHARED and owner != SHARED)
        ]
        pieces, at = [], span[0]
        for each in _free(inside):
            pieces += [self.text[at : each.at[0]], self._text(each)]
            at = each.at[1]
        return "".join([*pieces, self.text[at : span[1]]])


def _free(edits: Sequence[Edit]) -> Sequence[Edit]:
    """Return edits in their order, without those that others have in their copies."""
    outer = [each for each in edits if each.inner is not None]
    if outer:
        edits = [each for each in edits if not any(other.hides(each) for other in outer)]
    return sorted(edits, key=lambda each: each.rank)
