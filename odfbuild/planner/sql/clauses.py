"""The clauses of a query that shape its rows, in words.  Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass

from odfbuild.planner.sql.generators import GENERATORS
from odfbuild.planner.sql.query import QueryStep
from odfbuild.planner.sql.shape import Call, Generator, Group, Join, Select, SetQuery
from odfbuild.planner.sql.statement import SqlTextError
from odfbuild.planner.sql.text import read

__all__ = ["shaping_clauses"]

_WORDS = (
    *("filter", "join", "group", "window", "distinct"),
    *("union", "intersect", "except", "explode", "limit"),
)


def shaping_clauses(steps: Sequence[QueryStep]) -> tuple[str, ...] | None:
    """Return which clauses decide on rows, anywhere in the steps; None if one cannot be read.

    They are `filter` (WHERE, HAVING, QUALIFY), `join`, `group`, `window`, `distinct`, `union`,
    `intersect`, `except`, `explode` and `limit`, in this order.
    """
    try:
        found = {word for step in steps for word in _words(read(step.text).shape)}
    except SqlTextError:
        return None
    return tuple(word for word in _WORDS if word in found)


def _words(shape: object) -> Iterator[str]:
    pending = [shape]
    while pending:
        value = pending.pop()
        if isinstance(value, tuple):
            pending += value
        elif is_dataclass(value):
            yield from _own(value)
            pending += [getattr(value, each.name) for each in fields(value)]


def _own(value: object) -> Iterator[str]:
    match value:
        case Select():
            if (value.where, value.having, value.qualify) != (None, None, None):
                yield "filter"
            yield from ["distinct"] * value.distinct
            yield from ["limit"] * value.limited
        case SetQuery():
            yield value.kind
            yield from ["distinct"] * value.distinct
            yield from ["limit"] * value.limited
        case Join():
            yield "join"
        case Group():
            yield "group"
        case Generator():
            yield "explode"
        case Call():
            yield from ["window"] * (value.over is not None)
            yield from ["explode"] * (value.name in GENERATORS)
        case _:
            pass
