"""Put columns that nobody asked for into every SELECT of a row-by-row query.  Pure.

Each relation that such a query reads starts with the carried columns, and so does each SELECT
after this; the user's own text stays as it is, letter for letter, between the insertions:

    select *, a + 1 as b from t         select p, o, * except (p, o), a + 1 as b from t
    with x (a) as (select k from t)     with x (p, o, a) as (select p, o, k from t)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from odfbuild.planner.sql.statement import Star
from odfbuild.planner.sql.text import read

__all__ = ["CarriedText", "TwiceCarried", "carry"]


@dataclass(frozen=True, slots=True)
class CarriedText:
    """A changed text; `edits` are (start, end, replacement) of the original, in order."""

    original: str
    edits: tuple[tuple[int, int, str], ...]

    @property
    def text(self) -> str:
        pieces, at = [], 0
        for start, end, replacement in self.edits:
            pieces += [self.original[at:start], replacement]
            at = end
        return "".join([*pieces, self.original[at:]])

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

    first: CarriedText | TwiceCarried
    second: CarriedText

    @property
    def original(self) -> str:
        return self.first.original

    @property
    def text(self) -> str:
        return self.second.text

    def origin(self, offset: int) -> int:
        """Return which offset of the original an offset of the changed text comes from."""
        return self.first.origin(self.second.origin(offset))


def carry(text: str, columns: Sequence[str], absent: Collection[str] = ()) -> CarriedText:
    """Return the text with the columns put first everywhere.

    `absent` are columns that the relations do not have, so that a star may exclude them in vain.
    """
    statement = read(text)
    listed = ", ".join(columns)
    edits = [(at, at, f" {listed},") for at in statement.selects]
    edits += [(at, at, f"{listed}, ") for at in statement.alias_lists]
    edits += [_star(star, listed, absent) for star in statement.stars if star.carries]
    return CarriedText(text, tuple(sorted(edits)))


def _star(star: Star, listed: str, absent: Collection[str]) -> tuple[int, int, str]:
    if star.exclusion is None:
        end = star.place.start + 1
        return end, end, f" EXCEPT ({listed})"
    start, end = star.exclusion
    if not set(star.excluded) & set(absent):
        return start, start, f"{listed}, "
    kept = [f"`{name}`" for name in star.excluded if name not in absent]
    return start, end, ", ".join([listed, *kept])
