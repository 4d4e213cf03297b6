"""Hidden names: columns that an engine puts beside those of the user, under names of no column."""

from collections.abc import Iterable
from itertools import count
from typing import Final

PREFIX: Final = "__odf_"


def hidden_prefix(texts: Iterable[str]) -> str:
    """Return the beginning of hidden names: it is in none of these names and queries, in any case.

    It is almost always `PREFIX`, and needs no quotes in SQL.
    """
    taken = "\n".join(texts).casefold()
    numbered = (f"__odf{number}_" for number in count(1))
    return PREFIX if PREFIX not in taken else next(each for each in numbered if each not in taken)
