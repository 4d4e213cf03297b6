"""Aggregates over the rows of a UNION, which DataFusion puts together in no order.

Sums of integers and decimals are the same in any order; those of floating-point numbers have other
last bits.  What a plan adds up, its types tell, not the text of a query.

Groups of several kinds at once (ROLLUP, CUBE, GROUPING SETS) come out divided: a column that is the
same in all rows counts as sorted, although it is null in the groups that leave it out.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from odfbuild.errors import InvalidQueryError
from odfbuild.texts.redaction import excerpt

_SETS: Final = ("ROLLUP (", "CUBE (", "GROUPING SETS (")
_UNION: Final = re.compile(r"^ *Union(?: \[|$)", re.MULTILINE)
_SUBQUERY: Final = re.compile(r"^ *Subquery:", re.MULTILINE)
_SHOWN: Final = 300


def check_united_groups(*plans: Any) -> None:
    """Raise InvalidQueryError where a plan has groups of several kinds above a UNION.

    Plans are of one query: as it is written, and as it runs.
    """
    for plan in plans:
        text = plan.display_indent()
        if not any(each in text for each in _SETS) or _UNION.search(text) is None:
            continue
        nodes = list(_above_unions(plan))
        found = [each for node in nodes for each in node.to_variant().group_by_exprs()]
        if _SUBQUERY.search(text) or any(_shown(each).startswith(_SETS) for each in found):
            raise InvalidQueryError(
                what="the query has ROLLUP, CUBE or GROUPING SETS beside a UNION",
                why="DataFusion gives one group as several where a column is the same in all rows",
                fix="use UNION ALL in a separate dataset, and this in one that reads it; or write "
                "a GROUP BY for each kind of group, with UNION ALL between them",
            )


def check_united_sums(schema_of: Callable[[Any], pa.Schema], *plans: Any) -> None:
    """Raise InvalidQueryError where a plan adds up floating-point numbers of a UNION.

    Plans are of one query: as it is written, and as it runs, in which branches of different types
    have got one, and most subqueries are joins.  Of those that are left types are not known here:
    these may have no sum beside a UNION.
    """
    for plan in plans:
        for node in _above_unions(plan):
            made = node.to_variant()
            results = made.aggregate_exprs()
            types = schema_of(node).types[-len(results) :] if results else []
            for each, kind in zip(results, types, strict=True):
                if made.agg_func_name(each) == "sum" and pa.types.is_floating(kind):
                    shown = excerpt(_shown(each), _SHOWN)
                    raise _refusal(f"{shown}, a sum of floating-point numbers, beside a UNION")
    text = plans[-1].display_indent()
    if _SUBQUERY.search(text) and _UNION.search(text) and "sum(" in text:
        raise _refusal("a sum, a UNION and a subquery in an expression")


def _above_unions(plan: Any) -> Iterator[Any]:
    """Yield the aggregates of a plan that read what a UNION gives."""
    if plan.display().startswith("Aggregate: ") and _has_union(plan):
        yield plan
    for each in plan.inputs():
        yield from _above_unions(each)


def _has_union(plan: Any) -> bool:
    return type(plan.to_variant()).__name__ == "Union" or any(map(_has_union, plan.inputs()))


def _shown(expr: Any) -> str:
    return str(expr).removeprefix("Expr(").removesuffix(")")


def _refusal(found: str) -> InvalidQueryError:
    return InvalidQueryError(
        what=f"the query has {found}",
        why="DataFusion puts the rows of a UNION together in no order, and such a sum has other "
        "last digits in another order",
        fix="cast the numbers to a decimal before they are added up: sum(cast(x as decimal(38, "
        "6))); or use UNION ALL in a separate dataset, and this in one that reads it",
    )
