"""Sums that do not fit their type, of which DataFusion gives another number and no error.

What a query adds up is looked at once more after it ran, where integers of 64 bits or decimals of
many digits are added up: the sum of the sizes of all values, as floating-point numbers, bounds each
sum, over windows too.  It takes one pass over what the sums read.  Where that is too large, groups
and partitions are looked at one by one.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.engine.analysis import EngineFaultError
from odfbuild.executors.engine.datafusion.session import (
    QueryContext,
    engine_errors,
    last_of,
    schema_of,
)
from odfbuild.sql.datafusion.subqueries import queries_in
from odfbuild.texts.redaction import excerpt

if TYPE_CHECKING:
    import datafusion

_SUBQUERY: Final = re.compile(r"^ *Subquery:", re.MULTILINE)
_SHORTENED: Final = "Values: "  # of whose rows the text of a plan has the first five
_UNPLANNED: Final = (InvalidQueryError, EngineFaultError)
_MORE_DIGITS: Final = 10
"""Digits that the sum of decimals has more than they have, up to the most of its type."""
_NARROW: Final = 32  # bits of integers of which no number of rows in memory makes a sum too large
_EDGE: Final = 1 - 1e-6  # far more than sums of floating-point numbers are off
_SHOWN: Final = 300


def check_fit(
    context: QueryContext, frame: "datafusion.DataFrame", texts: Sequence[tuple[str | None, str]]
) -> None:
    """Raise InvalidQueryError if a sum in a query that ran does not fit its type.

    `texts` are those that the query was made of.
    """
    plans, checked = tuple(_plans(context, frame, texts)), set[str]()
    with engine_errors("check the sums of the query"):
        for node in chain.from_iterable(map(_nodes, plans)):
            added = _added(node)
            if added and (shown := node.display_indent()) not in checked:
                _check_node(context, node, added)
                if _SHORTENED not in shown:
                    checked.add(shown)


def check_bounded(
    context: QueryContext, frame: "datafusion.DataFrame", texts: Sequence[tuple[str | None, str]]
) -> None:
    """Raise InvalidQueryError where it could not be found out whether a sum fits."""
    for _ in _plans(context, frame, texts):
        pass


def _plans(
    context: QueryContext, frame: "datafusion.DataFrame", texts: Sequence[tuple[str | None, str]]
) -> Iterator[Any]:
    """Yield the plan of a query, and what has the subqueries that it computes first.

    A plan does not give away those.  They are in one in which they are joins; where there is no
    such plan, each is read as a query of its own.
    """
    plan = _plan(frame)
    text = plan.display_indent()
    yield plan
    first = _SUBQUERY.search(text)
    if first is None or "sum(" not in text[first.start() :]:
        return
    other = None
    with context.joining() as joined, suppress(*_UNPLANNED):  # not every query has such a plan
        other = _plan(last_of(joined, texts))
    if other is not None and _SUBQUERY.search(other.display_indent()) is None:
        yield other
        return
    for each in chain.from_iterable(queries_in(text) for _, text in texts):
        try:
            plan = _plan(context.query(each))
        except _UNPLANNED:
            raise InvalidQueryError(
                what="the query has a sum in a subquery, and this one is not understood: "
                f"{excerpt(each, _SHOWN)}",
                why="DataFusion gives a wrong number where a sum does not fit its type, and "
                "whether one does in a subquery is found out by reading each by itself",
                fix="compute subqueries in WITH at the beginning, or in a query before this one, "
                "and join their rows",
            ) from None
        yield plan


def _plan(frame: "datafusion.DataFrame") -> Any:
    with engine_errors("plan the query"):
        return frame.optimized_logical_plan()


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for each in plan.inputs():
        yield from _nodes(each)


def _added(node: Any) -> list[tuple[Any, Any, pa.DataType]]:
    """Return the sums of an operator whose size depends on rows: value, sum, type of the sum."""
    shown = node.display()
    if "sum(" not in shown:
        return []
    made, kinds = node.to_variant(), schema_of(node).types
    if shown.startswith("Aggregate: "):
        results, name = made.aggregate_exprs(), made.agg_func_name
        arguments = made.aggregation_arguments
    elif shown.startswith("WindowAggr: "):
        results, name, arguments = made.get_window_expr(), made.window_func_name, made.get_args
    else:
        return []
    kinds = kinds[len(kinds) - len(results) :]
    return [
        (arguments(each)[0], each, kind)
        for each, kind in zip(results, kinds, strict=True)
        if name(each) == "sum" and not pa.types.is_floating(kind)
    ]


def _check_node(
    context: QueryContext, node: Any, added: Sequence[tuple[Any, Any, pa.DataType]]
) -> None:
    from datafusion.expr import Expr

    below = context.frame_of(node.inputs()[0])
    values = [Expr(value) for value, _, _ in added]
    types = below.select(*(e.alias(str(n)) for n, e in enumerate(values))).schema().types
    left = [
        (value, result, kind)
        for value, (_, result, kind), of in zip(values, added, types, strict=True)
        if _may_not_fit(of, kind)
    ]
    for groups in ([], _groups(node)):
        left = [left[at] for at in _too_large(below, groups, left)] if left else []
    if left:
        raise _refusal(*left[0][1:])


def _too_large(
    below: "datafusion.DataFrame",
    groups: Sequence[Any],
    added: Sequence[tuple[Any, Any, pa.DataType]],
) -> list[int]:
    """Return which sums some group may be too large for."""
    from datafusion import col, functions

    sizes = [
        functions.sum(functions.abs(_number(value, kind))).alias(f"__odf_size_{at}")
        for at, (value, _, kind) in enumerate(added)
    ]
    names = [f"__odf_size_{at}" for at in range(len(added))]
    most = below.aggregate(list(groups), sizes).aggregate(
        [], [functions.max(col(name)).alias(name) for name in names]
    )
    (row,) = most.to_pylist()
    return [
        at
        for at, (_, _, kind) in enumerate(added)
        if (row[names[at]] or 0.0) >= _limit(kind) * _EDGE
    ]


def _number(value: Any, kind: pa.DataType) -> Any:
    whole = value.cast(pa.int64()) if pa.types.is_duration(kind) else value
    return whole.cast(pa.float64())


def _groups(node: Any) -> list[Any]:
    from datafusion.expr import Expr

    made = node.to_variant()
    if node.display().startswith("Aggregate: "):
        return [Expr(each) for each in made.group_by_exprs()]
    first, *others = (made.get_partition_exprs(each) for each in made.get_window_expr())
    alike = all([str(e) for e in each] == [str(e) for e in first] for each in others)
    return [Expr(each) for each in first] if alike else []


def _may_not_fit(value: pa.DataType, total: pa.DataType) -> bool:
    """Tell whether a sum of values of a type may be more than its own type holds."""
    if pa.types.is_decimal(total) and pa.types.is_decimal(value):
        return bool(value.precision + _MORE_DIGITS > total.precision)
    return not pa.types.is_integer(value) or value.bit_width > _NARROW


def _limit(kind: pa.DataType) -> float:
    """Return what a sum of a type has to be less than."""
    if pa.types.is_decimal(kind):
        return float(10 ** (kind.precision - kind.scale))
    return float(2**64 if kind == pa.uint64() else 2**63)


def _refusal(result: Any, kind: pa.DataType) -> InvalidQueryError:
    shown = excerpt(str(result).removeprefix("Expr(").removesuffix(")"), _SHOWN)
    digits = f"{kind.precision} digits" if pa.types.is_decimal(kind) else "64 bits"
    return InvalidQueryError(
        what=f"{shown} is a sum that may take more than {digits}",
        why="DataFusion would give another number, and no error",
        fix="cast the values to a type with room for their sum before they are added up: "
        "sum(cast(n as decimal(38, 0))) for integers, sum(cast(n as double)) where the last digits "
        "do not matter",
    )
