"""Edits of SQL texts: changes inside of each other, columns carried through every SELECT.  Pure.

Each relation that such a query reads starts with the carried columns, and so does each SELECT
after this; the user's own text stays as it is, letter for letter, between the insertions:

    select *, a + 1 as b from t         select p, o, * except (p, o), a + 1 as b from t
    with x (a) as (select k from t)     with x (p, o, a) as (select p, o, k from t)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import TypeAlias

from odfbuild.sql.text.parse import read
from odfbuild.sql.text.spans import Span
from odfbuild.sql.text.statement import Star, Statement
from odfbuild.values import dataclass

Parts: TypeAlias = "tuple[str | Span, ...]"
"""A text of new pieces and copies of old ones."""

SHARED = -1
"""The owner of edits that belong to a window, not to one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryEdit:
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

    def hides(self, other: QueryEdit) -> bool:
        """Tell whether another edit is made in copies only."""
        if self.inner is None or other is self:
            return False
        inside = self.at[0] <= other.at[0] and other.at[1] <= self.at[1]
        return inside and (other.owner >= self.inner or other.owner == SHARED)


class Edits:
    """The edits of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._edits: list[QueryEdit] = []

    def add(
        self, at: Span, parts: Parts, owner: int, *, closes: bool = False, inner: int | None = None
    ) -> None:
        self._edits.append(QueryEdit(at=at, parts=parts, owner=owner, closes=closes, inner=inner))

    def around(self, span: Span, start: str, end: Parts, owner: int) -> None:
        """Put something before and behind a piece."""
        self.add((span[0], span[0]), (start,), owner)
        self.add((span[1], span[1]), end, owner, closes=True)

    def made(self) -> tuple[tuple[int, int, str], ...]:
        """Return what to put in which place of the text, in order."""
        return tuple((*each.at, self._text(each)) for each in _free(self._edits))

    def _text(self, edit: QueryEdit) -> str:
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


def _free(edits: Sequence[QueryEdit]) -> Sequence[QueryEdit]:
    """Return edits in their order, without those that others have in their copies."""
    outer = [each for each in edits if each.inner is not None]
    if outer:
        edits = [each for each in edits if not any(other.hides(each) for other in outer)]
    return sorted(edits, key=lambda each: each.rank)


@dataclass(frozen=True)
class CarriedText:
    """A changed text; `edits` are (start, end, replacement) of the original, in order."""

    original: str
    edits: tuple[tuple[int, int, str], ...]

    @classmethod
    def of(cls, query: Statement) -> CarriedText:
        """Return the text of a query that was read, as it is."""
        found = cls(query.text, ())
        found.__dict__["statement"] = query
        return found

    @cached_property
    def text(self) -> str:
        pieces, at = [], 0
        for start, end, replacement in self.edits:
            pieces += [self.original[at:start], replacement]
            at = end
        return "".join([*pieces, self.original[at:]])

    @cached_property
    def statement(self) -> Statement:
        """Return what the changed text says, which is read once.  Raises SqlTextError."""
        return read(self.text)

    def origin(self, offset: int) -> int:
        """Return which offset of the original an offset of the changed text comes from."""
        shift = 0
        for start, end, replacement in self.edits:
            if offset < start + shift:
                break
            if offset < start + shift + len(replacement):
                return start
            shift += len(replacement) - (end - start)
        return offset - shift


@dataclass(frozen=True, slots=True)
class TwiceCarried:
    """A text that was changed, and then changed again."""

    first: Carried
    second: CarriedText

    @property
    def original(self) -> str:
        return self.first.original

    @property
    def text(self) -> str:
        return self.second.text

    @property
    def statement(self) -> Statement:
        return self.second.statement

    def origin(self, offset: int) -> int:
        """Return which offset of the original an offset of the changed text comes from."""
        return self.first.origin(self.second.origin(offset))


Carried: TypeAlias = CarriedText | TwiceCarried


def edited(first: Carried, *changes: Callable[[Statement], CarriedText]) -> Carried:
    """Return a text after some more changes, each of what the one before it left.

    A text is read again only where it was changed.  Raises SqlTextError if it cannot be.
    """
    done = first
    for change in changes:
        found = change(done.statement)
        if found.edits:
            done = TwiceCarried(done, found)
    return done


def carry(query: Statement, columns: Sequence[str], absent: Collection[str] = ()) -> CarriedText:
    """Return the text with the columns put first everywhere.

    `absent` are columns that the relations do not have, which a star may exclude all the same.
    """
    listed = ", ".join(columns)
    edits = [(at, at, f" {listed},") for at in query.selects]
    edits += [(at, at, f"{listed}, ") for at in query.alias_lists]
    edits += [_star(star, listed, absent) for star in query.stars if star.carries]
    return CarriedText(query.text, tuple(sorted(edits)))


def _star(star: Star, listed: str, absent: Collection[str]) -> tuple[int, int, str]:
    if star.exclusion is None:
        end = star.place.start + 1
        return end, end, f" EXCEPT ({listed})"
    start, end = star.exclusion
    if not set(star.excluded) & set(absent):
        return start, start, f"{listed}, "
    kept = [f"`{name}`" for name in star.excluded if name not in absent]
    return start, end, ", ".join([listed, *kept])
