"""Bounds on the backtracking of a foreign regular expression, checked before it is used.

Python's `re` backtracks: `(a+)+$` takes 2^n steps for n letters.  An upper bound of the steps is
computed from the parsed pattern, as a linear function of the steps that the rest of it takes: an
item that can end in `b` ways runs the rest `b` times.  Repeats count one way only where the
characters after them cannot be in them, alternatives where their first characters differ.  So what
is admitted is proven to end; some harmless patterns are refused as well.  Pure.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

LONGEST_TEXT: Final = 255
"""Characters of a text that a pattern may be applied to: those of a file name."""

_MOST: Final = 400_000_000  # steps for the worst text by the bound; seconds at most
_TOO_MANY: Final = 1 << 60
_LONGEST_PATTERN: Final = 1000
_PARSER: Any = re._parser  # type: ignore[attr-defined]
_OTHER: Final = 128  # stands for all characters that are not ASCII
_ALL: Final = frozenset(range(_OTHER + 1))
_IGNORES_CASE: Final = re.compile(r"\(\?[a-zA-Z]*i")
_CATEGORIES: Final = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}
_REPEATS: Final = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_ONE: Final = ("LITERAL", "NOT_LITERAL", "IN", "ANY")

_Chars: TypeAlias = frozenset[int]
_Item: TypeAlias = tuple[Any, Any]
_Cost: TypeAlias = tuple[int, int]  # steps of its own, and how often the rest is run


class CostlyPatternError(ValueError):
    """A pattern may take too many steps for a text of LONGEST_TEXT characters."""


def check_cost(pattern: str) -> None:
    """Raise CostlyPatternError unless a search is bounded; re.error if it is no pattern."""
    if len(pattern) > _LONGEST_PATTERN:
        raise CostlyPatternError(f"it has more than {_LONGEST_PATTERN} characters")
    parsed = _PARSER.parse(pattern)
    anchored = (
        len(parsed) > 0
        and str(parsed[0][0]) == "AT"
        and str(parsed[0][1]) in ("AT_BEGINNING", "AT_BEGINNING_STRING")
        and not parsed.state.flags & re.MULTILINE
    )
    bounds = _Bounds(len(pattern), bool(_IGNORES_CASE.search(pattern)))
    steps, runs = bounds.of_all(list(parsed), frozenset())
    if (steps + runs) * (1 if anchored else LONGEST_TEXT) > _MOST:
        raise CostlyPatternError(
            "repeats within or after each other can split one text in too many ways"
        )


class _Bounds:
    """The bounds for one pattern; `size` is more than the steps of a failure at one character."""

    def __init__(self, size: int, ignores_case: bool) -> None:
        self.size = size
        self.ignores_case = ignores_case

    def of_all(self, items: Sequence[_Item], after: _Chars) -> _Cost:
        """Return the cost of a sequence before something that begins with `after`."""
        steps, runs = 0, 1
        for item in reversed(items):
            own, times = self._of(item, after)
            steps, runs = min(own + times * steps, _TOO_MANY), min(times * runs, _TOO_MANY)
            after = self._first([item], after)
        return steps, runs

    def _of(self, item: _Item, after: _Chars) -> _Cost:
        name, value = str(item[0]), item[1]
        if name == "SUBPATTERN":
            return self.of_all(list(value[-1]), after)
        if name == "ATOMIC_GROUP":
            return self.of_all(list(value), after)
        if name in ("ASSERT", "ASSERT_NOT"):
            return sum(self.of_all(list(value[1]), frozenset())), 1
        if name == "BRANCH":
            return self._of_branch([list(each) for each in value[1]], after)
        if name == "GROUPREF_EXISTS":
            return self._of_branch([list(each or ()) for each in value[1:]], after)
        if name in _REPEATS:
            return self._of_repeat(value, after)
        return (LONGEST_TEXT if name == "GROUPREF" else 1), 1

    def _of_branch(self, ways: list[list[_Item]], after: _Chars) -> _Cost:
        costs = [self.of_all(each, after) for each in ways]
        firsts = [self._first(each, after) for each in ways]
        one = sum(map(len, firsts)) == len(frozenset[int]().union(*firsts)) and not any(
            map(_may_be_empty, ways)
        )
        runs = [times for _, times in costs]
        return sum(own for own, _ in costs) + len(ways), max(runs) if one else sum(runs)

    def _of_repeat(self, value: tuple[int, Any, Any], after: _Chars) -> _Cost:
        least, most, body = int(value[0]), int(value[1]), value[2]
        first = self._first(list(body), frozenset())
        empty = _may_be_empty(body)
        apart = not empty and not first & after
        if empty and most > LONGEST_TEXT:
            return _TOO_MANY, _TOO_MANY
        most = min(most, LONGEST_TEXT // max(1, body.getwidth()[0]) + 1)
        own, times = self.of_all(list(body), first | after if most > 1 else after)
        steps, runs = 0, 1
        for count in reversed(range(most)):
            steps, runs = own + times * steps + self.size * apart, times * runs
            if count >= least:
                runs = max(1, runs) if apart else 1 + runs
            if steps > _TOO_MANY or runs > _TOO_MANY:
                return _TOO_MANY, _TOO_MANY
        return steps, runs

    def _first(self, items: Sequence[_Item], after: _Chars) -> _Chars:
        """Return what a match may begin with where each other character fails within `size`."""
        for item in reversed(items):
            name, value = str(item[0]), item[1]
            if name in _ONE:
                after = self._chars(item)
            elif name in ("SUBPATTERN", "ATOMIC_GROUP"):
                after = self._first(list(value[-1] if name == "SUBPATTERN" else value), after)
            elif name in _REPEATS and not _may_be_empty(value[2]):
                first = self._first(list(value[2]), frozenset())
                after = first if value[0] else first | after
            elif name == "BRANCH" and not any(map(_may_be_empty, value[1])):
                firsts = (self._first(list(each), frozenset()) for each in value[1])
                after = frozenset[int]().union(*firsts)
            elif name != "AT":
                after = _ALL
        return after

    def _chars(self, item: _Item, *, negated: bool = False) -> _Chars:
        """Return the characters that one item matches, or more; or fewer, for a negated class."""
        name, value = str(item[0]), item[1]
        if name == "LITERAL":
            return self._both_cases({min(value, _OTHER)}, negated)
        if name == "NOT_LITERAL":
            return _ALL - {value}
        if name == "RANGE":
            found = {min(each, _OTHER) for each in range(value[0], min(value[1], _OTHER) + 1)}
            return self._both_cases(found | ({_OTHER} if value[1] >= _OTHER else set()), negated)
        if name == "CATEGORY":
            return _of_category(str(value))
        if name == "IN" and str(value[0][0]) == "NEGATE":
            out = (self._chars(each, negated=True) for each in value[1:])
            return _ALL - (frozenset[int]().union(*out) - {_OTHER})
        if name == "IN":
            return frozenset[int]().union(*map(self._chars, value))
        return _ALL

    def _both_cases(self, found: set[int], negated: bool) -> _Chars:
        if negated or not self.ignores_case:
            return frozenset(found)
        both = {ord(c) for n in found if n < _OTHER for c in (chr(n).lower(), chr(n).upper())}
        return frozenset(both | {_OTHER})


@cache
def _of_category(name: str) -> _Chars:
    _, inverse, kind = name.removeprefix("CATEGORY_").rpartition("NOT_")
    fits = re.compile(_CATEGORIES[kind]).match
    found = {n for n in range(_OTHER) if fits(chr(n))}
    return frozenset((_ALL - found if inverse else found) | {_OTHER})


def _may_be_empty(items: Iterable[_Item]) -> bool:
    """Tell whether a sequence can match no character."""
    return all(_is_empty(str(name), value) for name, value in items)


def _is_empty(name: str, value: Any) -> bool:
    if name in ("SUBPATTERN", "ATOMIC_GROUP"):
        return _may_be_empty(value[-1] if name == "SUBPATTERN" else value)
    if name in _REPEATS:
        return value[0] == 0 or _may_be_empty(value[2])
    if name == "BRANCH":
        return any(map(_may_be_empty, value[1]))
    return name not in _ONE
