"""Positions in GROUP BY and ORDER BY, and counts in LIMIT and OFFSET, that Spark refuses.  Pure.

Only certain errors are reported: a query with a star has an unknown number of columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from odfbuild.sql.analysis.row_by_row import is_aggregate
from odfbuild.sql.columns.constants import MOST, is_no_int
from odfbuild.sql.columns.expressions import integer
from odfbuild.sql.text.shape import (
    Call,
    Column,
    Expr,
    QueryShape,
    Select,
    Unknown,
    walk,
)

_GROUPINGS: Final = {"grouping", "grouping_id"}


def wrong_positions(query: QueryShape, width: int) -> Iterator[str]:
    """Yield the problems of numbers in the clauses of a query of `width` columns, 0 if not known.

    They are positions without a column, and those of aggregates in GROUP BY.
    """
    if isinstance(query, Unknown):
        return
    for count in query.counts:
        yield from _wrong_count(count)
    if width:
        for number in _numbers(query.order):
            if not 0 < number <= width:
                yield _position_error("ORDER BY", number, width)
    if width and isinstance(query, Select) and query.group is not None:
        for number in _numbers(query.group.keys):
            if not 0 < number <= width:
                yield _position_error("GROUP BY", number, width)
            elif any(map(is_aggregate, walk(query.outputs[number - 1].value))):
                yield f"GROUP BY {number}, which is an aggregate"


def loose_groupings(select: Select) -> Iterator[Call]:
    """Yield the calls that identify sets of groups in a query without such sets."""
    if select.group is not None and (select.group.sets or select.group.all):
        return
    having = () if select.having is None else (select.having,)
    for expr in (*(output.value for output in select.outputs), *having, *select.order):
        for each in walk(expr):
            if isinstance(each, Call) and each.name in _GROUPINGS:
                yield each


def _numbers(keys: Sequence[Expr]) -> Iterator[int]:
    for key in keys:
        number = integer(key)
        if number is not None and abs(number) <= MOST:
            yield number


def _position_error(clause: str, number: int, width: int) -> str:
    return f"{clause} {number}, and the SELECT list has {width} column{'s' * (width > 1)}"


def _wrong_count(count: Expr) -> Iterator[str]:
    number = integer(count)
    if is_no_int(count):
        yield "a number of rows in LIMIT or OFFSET is not an INT"
    elif number is not None and number < 0:
        yield f"LIMIT or OFFSET of {number} rows"
    elif any(isinstance(each, Column) for each in walk(count)):
        yield "a number of rows in LIMIT or OFFSET is not a constant"
