"""The class of a query, as plans and checks name it."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from odfbuild.values import dataclass


class ClassMeaning(NamedTuple):
    """Which queries are of a class, in Markdown, and what a step of them reads."""

    queries: str
    reads: str


CLASSES: Final[Mapping[str, ClassMeaning]] = {
    "linear": ClassMeaning("columns, filters, `explode`, `union all`", "the new rows"),
    "state": ClassMeaning(
        "`group by` with count, min, max, exact sums and averages",
        "the new rows, and what is kept of their groups",
    ),
    "join": ClassMeaning(
        "inner joins of linear parts",
        "the new rows, and the rows of other inputs that they may meet",
    ),
    "keyed": ClassMeaning(
        "other groups, `distinct`, window functions with `partition by`, outer, semi and anti "
        "joins, event-time windows, joins with versions; several of these by keys that share a "
        "column",
        "of every input, and of the dataset, all rows of the keys that new rows have",
    ),
    "whole": ClassMeaning(
        "anything else: two operators by different keys, subqueries in expressions, no key at all, "
        "functions that are not known to depend on their arguments alone",
        "everything",
    ),
}
"""The classes, from the one whose steps read the least to the one whose steps read the most."""


@dataclass(frozen=True, slots=True)
class QueryClass:
    """How a transform can be computed, one of `CLASSES`, and the clause why."""

    name: str
    because: str | None = None
