"""Comparison of the rows of a fixture with the expected ones, in any order."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

from odfbuild.values import dataclass

Row: TypeAlias = Mapping[str, Any]

_LOOKED: Final = 500
_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class MissingRow:
    """An expected row that is missing, the most similar row, and the columns that differ."""

    expected: Row
    came: Row | None = None
    differing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """The missing rows, and the unexpected ones that are similar to none of them."""

    columns: tuple[str, ...]
    missing: tuple[MissingRow, ...]
    unexpected: tuple[Row, ...]

    @property
    def paired(self) -> int:
        """The number of missing rows that have a similar one."""
        return sum(each.came is not None for each in self.missing)


def compare(
    expected: Sequence[Row], came: Sequence[Row], columns: Sequence[str]
) -> Difference | None:
    """Return how rows differ in these columns, None if they are the same, with the same counts.

    Doubles are equal if their first 12 digits are.
    """
    wanted, found = _by_key(expected, columns), _by_key(came, columns)
    missing = _surplus(wanted, found)
    unexpected = _surplus(found, wanted)
    if not missing and not unexpected:
        return None
    pairs = []
    for row in missing:
        closest = _nearest(row, unexpected, columns)
        if closest is None:
            pairs.append(MissingRow(row))
        else:
            unexpected.remove(closest)
            pairs.append(MissingRow(row, closest, _differing(row, closest, columns)))
    return Difference(tuple(columns), tuple(pairs), tuple(unexpected))


def _by_key(rows: Iterable[Row], columns: Sequence[str]) -> Mapping[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(_key(row.get(name)) for name in columns)].append(row)
    return found


def _surplus(
    one: Mapping[tuple[Any, ...], list[Row]], other: Mapping[tuple[Any, ...], list[Row]]
) -> list[Row]:
    """Return the rows of which the other mapping has fewer."""
    has = Counter({key: len(rows) for key, rows in other.items()})
    return [row for key, rows in one.items() for row in rows[has[key] :]]


def _nearest(row: Row, among: Sequence[Row], columns: Sequence[str]) -> Row | None:
    """Return the row that agrees in most columns, if any does in one."""
    best, most = None, 0
    for each in among[:_LOOKED]:
        same = len(columns) - len(_differing(row, each, columns))
        if same > most:
            best, most = each, same
    return best


def _differing(one: Row, other: Row, columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in columns if _key(one.get(name)) != _key(other.get(name)))


def _key(value: Any) -> Any:
    """Return a hashable key that equal values have in common."""
    match value:
        case float():
            return _number(value)
        case Decimal():
            return value.normalize()
        case list() | tuple():
            return tuple(_key(each) for each in value)
        case dict():
            return tuple(sorted((name, repr(_key(each))) for name, each in value.items()))
        case _:
            return value


def _number(value: float) -> Any:
    if math.isnan(value):
        return "NaN"
    return float(f"{value:.{_DIGITS}g}") + 0.0
