"""Window functions that Spark refuses for their form alone.  Pure.

Only certain errors are reported: functions and bounds that are not known are accepted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from odfbuild.sql.analysis.row_by_row import is_aggregate, obstacle, some
from odfbuild.sql.columns.constants import is_no_int
from odfbuild.sql.columns.expressions import integer
from odfbuild.sql.text.shape import (
    Call,
    Column,
    Expr,
    FrameBound,
    QueryShape,
    Select,
    TextPlace,
    Unknown,
    WindowShape,
    walk,
)

WindowRefusal: TypeAlias = tuple[str, TextPlace, str]
"""The problem, its position, and the fix."""

_OFFSETS = {"lag", "lead"}
_RANKS = {"rank", "dense_rank", "percent_rank", "row_number", "ntile"}
_ORDERED = _OFFSETS | _RANKS | {"cume_dist", "nth_value"}
_COUNTS = {"lag": 1, "lead": 1, "nth_value": 1, "ntile": 0}
"""Which argument of a window function is a number that must be a constant."""


_REFUSED_COUNTS = {*_OFFSETS, "ntile"}
"""Window functions whose number must be an INT literal."""


def window_forms(query: QueryShape) -> Iterator[WindowRefusal]:
    """Yield the problems of the window functions of a query, and of FILTER."""
    if isinstance(query, Select):
        yield from _windows_of(query)
        yield from _misplaced_windows(query)


def _misplaced_windows(select: Select) -> Iterator[WindowRefusal]:
    """Yield window functions in clauses that precede windows, and misplaced filters."""
    group = () if select.group is None or select.group.all else select.group.keys
    clauses = [("WHERE", each) for each in some(select.where)]
    clauses += [("HAVING", each) for each in some(select.having)]
    clauses += [("GROUP BY", key) for key in group]
    for clause, expr in clauses:
        for call in walk(expr):
            if isinstance(call, Call) and call.over is not None and call.place is not None:
                hint = "filter by it in QUALIFY, or compute it in a subquery and filter that"
                yield f"{call.name}() over a window in {clause}", call.place, hint
    values = (*(output.value for output in select.outputs), *select.order)
    for expr in some(select.qualify):
        yield from _wrong_qualify(expr, [each.value for each in select.outputs])
    for call in (each for expr in values for each in walk(expr)):
        if not isinstance(call, Call) or call.where is None or call.place is None:
            continue
        if _is_of_a_row(call):
            hint = "FILTER selects the rows of an aggregate; write if(..., ...) for a value"
            yield f"{call.name}() with FILTER is not an aggregate", call.place, hint
        elif any(is_aggregate(each) or _over(each) for each in walk(call.where)):
            hint = "filter by columns of the rows, or aggregate in a subquery"
            yield f"{call.name}() with an aggregate or a window in FILTER", call.place, hint


def _wrong_qualify(expr: Expr, outputs: Sequence[Expr]) -> Iterator[WindowRefusal]:
    within = {id(e) for call in walk(expr) if _over(call) for e in walk(call) if e is not call}
    for call in walk(expr):
        if is_aggregate(call) and id(call) not in within:
            assert isinstance(call, Call)  # noqa: S101 - is_aggregate
            if call.place is not None:
                hint = "write the condition in HAVING; QUALIFY is for window functions"
                yield f"{call.name}() in QUALIFY", call.place, hint
    parts = [each for of in (expr, *outputs) for each in walk(of)]
    if not any(_over(each) or isinstance(each, Unknown) for each in parts):
        places = (e.place for e in walk(expr) if isinstance(e, Column | Call) and e.place)
        for place in islice(places, 1):
            yield "QUALIFY without a window function", place, "write the condition in WHERE"


def _over(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.over is not None


def _is_of_a_row(call: Call) -> bool:
    """Return whether a function is known to compute a value from one row."""
    return obstacle([Call(name=call.name, args=())]) is None


def _windows_of(select: Select) -> Iterator[tuple[str, TextPlace, str]]:
    named = dict(select.windows)
    aliases = {alias for output in select.outputs for alias in output.aliases}
    exprs = (*(output.value for output in select.outputs), *some(select.qualify), *select.order)
    for call in (each for expr in exprs for each in walk(expr)):
        if not isinstance(call, Call) or call.over is None:
            continue
        over = call.over
        if over.name is not None:
            over = named.get(over.name, over)
        if call.place is None or over.name is not None:
            continue  # a window on another one
        wrong = [*_wrong_window(call, over, aliases)] if call.name in _ORDERED else []
        for what, hint in (*_wrong_call(call), *wrong, *_wrong_frame(over)):
            yield what, call.place, hint
            break


def _wrong_window(
    call: Call, over: WindowShape, aliases: Collection[str]
) -> Iterator[tuple[str, str]]:
    name = call.name
    if not over.order:
        yield f"{name}() has no ORDER BY in its window", "add ORDER BY to the window"
    if over.frame and name in _OFFSETS:
        yield f"{name}() has a frame", "omit the frame: the offset says which row is meant"
    own = "range" if name == "cume_dist" else "rows"
    another = over.frame not in {"", own} or (over.frame and over.bounds != _UP_TO_HERE)
    if name in _RANKS | {"cume_dist"} and another:
        what = f"{name}() has a frame of its own, of {own.upper()} up to the current row"
        yield what, "omit the frame"
    at = _COUNTS.get(name, len(call.args))
    for count in call.args[at : at + 1]:
        yield from _wrong_count(name, count, aliases)


def _wrong_call(call: Call) -> Iterator[tuple[str, str]]:
    if _is_of_a_row(call):
        yield (
            f"{call.name}() over a window is a function of one row",
            "omit OVER, or use it with an aggregate",
        )
    elif call.distinct:
        yield (
            f"{call.name}(DISTINCT ...) over a window",
            "group in a subquery, and join; or count the items of collect_set(...) over it",
        )


def _wrong_count(name: str, count: Expr, aliases: Collection[str]) -> Iterator[tuple[str, str]]:
    columns = [each for each in walk(count) if isinstance(each, Column)]
    if columns and not any(each.parts[0] in aliases for each in columns):
        yield (
            f"the number in {name}() is not a constant",
            "write a number; a self-join finds the row that a column names",
        )
    if is_no_int(count) and name in _REFUSED_COUNTS:
        yield f"the number in {name}() is not an INT", "write a number without a letter behind it"
    number = integer(count)
    if number is not None and number < 1 and name not in _OFFSETS:
        yield f"{name}() counts from 1, but gets {number}", "write 1 or more"


_UP_TO_HERE = (FrameBound("preceding"), FrameBound("current"))
_ALL_ROWS = (FrameBound("preceding"), FrameBound("following"))


def _wrong_frame(over: WindowShape) -> Iterator[tuple[str, str]]:
    """Yield the problems of the bounds of a frame, as far as they are plain numbers."""
    if not over.bounds:
        return
    start, end = over.bounds
    first, last = _offset(start), _offset(end)
    for distance in (each.distance for each in over.bounds if each.distance is not None):
        if any(isinstance(each, Column) for each in walk(distance)):
            yield "a bound of the frame is not a constant", "write a number; filter by a column"
        elif over.frame == "rows" and is_no_int(distance):
            yield "a bound of ROWS is not an INT", "write how many rows, or RANGE for a distance"
    if (start.side, start.distance) == ("following", None):
        yield "the frame begins behind the last row", "begin at UNBOUNDED PRECEDING, or nearer"
    elif (end.side, end.distance) == ("preceding", None):
        yield "the frame ends before the first row", "end at UNBOUNDED FOLLOWING, or nearer"
    elif first is not None and last is not None and first > last:
        yield "the frame ends before it begins", "exchange the bounds"
    distant = [each for each in over.bounds if each.distance is not None]
    if over.frame == "range" and not over.order and over.bounds != _ALL_ROWS:
        yield "a RANGE without ORDER BY", "add ORDER BY to the window, or count ROWS"
    elif over.frame == "range" and distant and len(over.order) > 1:
        yield (
            f"a RANGE with a distance over {len(over.order)} keys in ORDER BY",
            "order by the one key that the distance is of, or count ROWS",
        )


def _offset(bound: FrameBound) -> int | None:
    """Return the offset of a bound from the current row, None if it is not a number.

    Spark compares only such bounds: a frame from `1 FOLLOWING` to the current row is empty.
    """
    number = None if bound.distance is None else integer(bound.distance)
    if number is None:
        return None
    return number if bound.side == "following" else -number
