"""Sums over the rows of a UNION, which DataFusion puts together in no order.

Sums of integers and decimals are the same in any order; those of floating-point numbers have other
last bits.  What a plan adds up, its types tell, not the text of a query.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from odfbuild.errors import InvalidQueryError
from odfbuild.texts.redaction import excerpt

_SHOWN = 300


def check_united_sums(written: Any, computed: Any, schema_of: Callable[[Any], pa.Schema]) -> None:
    """Raise InvalidQueryError where a query with a UNION adds up floating-point numbers.

    `written` is the plan as the text has it; in `computed` branches of different types have got
    one.  Of plans within expressions types are not known here: these may have no sum beside a
    UNION.
    """
    text = written.display_indent()
    if "Union" not in text or "sum(" not in text:
        return
    if "Subquery:" in text:
        raise _refusal("a sum, a UNION and a subquery in an expression")
    for plan in (written, computed):
        _check_aggregates(plan, schema_of)


def _check_aggregates(plan: Any, schema_of: Callable[[Any], pa.Schema]) -> None:
    for node in _aggregates(plan):
        made = node.to_variant()
        results = made.aggregate_exprs()
        types = schema_of(node).types[-len(results) :] if results else []
        for each, kind in zip(results, types, strict=True):
            if made.agg_func_name(each) == "sum" and pa.types.is_floating(kind):
                shown = excerpt(str(each).removeprefix("Expr(").removesuffix(")"), _SHOWN)
                raise _refusal(f"{shown}, a sum of floating-point numbers, beside a UNION")


def _aggregates(plan: Any) -> Iterator[Any]:
    if plan.display().startswith("Aggregate: "):
        yield plan
    for each in plan.inputs():
        yield from _aggregates(each)


def _refusal(found: str) -> InvalidQueryError:
    return InvalidQueryError(
        what=f"the query has {found}",
        why="DataFusion puts the rows of a UNION together in no order, and such a sum has other "
        "last digits in another order",
        fix="cast the numbers to a decimal before they are added up: sum(cast(x as decimal(38, "
        "6))); or use UNION ALL in a separate dataset, and this in one that reads it",
    )
