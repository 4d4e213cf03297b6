"""What a derivative means: replaying its rows gives the query's result over the replayed input.

Rows are (op, values) pairs; a query is a function from one row's values to any number of rows.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

__all__ = ["Change", "is_well_formed", "replayed", "result"]

Values: TypeAlias = tuple[Any, ...]
Change: TypeAlias = tuple[int, Values]


def replayed(changes: Iterable[Change]) -> Counter[Values]:
    """Return how often each row is there: appends and corrections-to add, the others remove."""
    rows: Counter[Values] = Counter()
    for op, values in changes:
        rows[values] += 1 if op in {0, 3} else -1
    return Counter({values: times for values, times in rows.items() if times})


def result(rows: Counter[Values], query: Callable[[Values], Iterable[Values]]) -> Counter[Values]:
    """Return the query's result over a multiset of rows."""
    found: Counter[Values] = Counter()
    for values, times in rows.items():
        for each in query(values):
            found[each] += times
    return Counter({values: times for values, times in found.items() if times})


def is_well_formed(changes: Sequence[Change]) -> bool:
    """Tell whether every correct-from is followed by its correct-to, and no other one is there."""
    ops = [op for op, _ in changes]
    after_from = [b for a, b in pairwise(ops) if a == 2]
    return all(op == 3 for op in after_from) and ops.count(2) == ops.count(3) and ops[-1:] != [2]
