"""Aggregates of a plan that DataFusion cannot compute, whatever the rows are.

A plan that runs over no rows shows most of what cannot run.  What an aggregate does with its first
row it shows only if no join and no filter before it leaves that out: first_value() of groups fails
then where its ORDER BY has one expression twice, and an alias or a cast that does nothing hides
that.  So each aggregate of a plan is computed over one row of nulls.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.engine.analysis import EngineFaultError
from odfbuild.executors.engine.datafusion.session import MEMORY, engine_errors, session_context
from odfbuild.texts.redaction import excerpt

if TYPE_CHECKING:
    import datafusion

_ONE: Final = "__odf_one"
_SHOWN: Final = 300


def aggregates_of(frame: "datafusion.DataFrame") -> tuple[Any, ...]:
    """Return the aggregates of the plan of a query.  Raises InvalidQueryError without a plan."""
    with engine_errors("plan the query"):
        nodes = _nodes(frame.optimized_logical_plan())
        return tuple(each for each in nodes if each.display().startswith("Aggregate: "))


def check_aggregates(aggregates: Iterable[Any]) -> None:
    """Raise InvalidQueryError if an aggregate fails over every row."""
    for each in aggregates:
        try:
            with engine_errors("plan the query"):
                for _ in _over_nulls(each).execute_stream():
                    pass
        except EngineFaultError:
            raise _impossible(each) from None
        except InvalidQueryError:  # of these values: others need not fail
            continue


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for each in plan.inputs():
        yield from _nodes(each)


def _over_nulls(aggregate: Any) -> "datafusion.DataFrame":
    """Return an aggregate over a row in which each column of its input is null.

    That is what an outer join finds whose condition is never true: names and types stay, and the
    optimizer does not know that the values are null.
    """
    from datafusion import col
    from datafusion.expr import Expr

    context, node = _context(), aggregate.to_variant()
    below = context.create_dataframe_from_logical_plan(aggregate.inputs()[0])
    row = context.table(_ONE).join_on(below, col(_ONE), how="left")
    groups, computed = node.group_by_exprs(), node.aggregate_exprs()
    return row.aggregate([Expr(each) for each in groups], [Expr(each) for each in computed])


@lru_cache(maxsize=1)
def _context() -> "datafusion.SessionContext":
    """Return a context as steps have it, with a table of one row, whose only value is false."""
    with session_context(MEMORY, spill=None) as context:
        context.register_record_batches(_ONE, [pa.table({_ONE: [False]}).to_batches()])
        return context


def _impossible(aggregate: Any) -> InvalidQueryError:
    return InvalidQueryError(
        what=f"DataFusion cannot compute {excerpt(aggregate.display(), _SHOWN)}",
        why="it fails whatever the rows are; first_value(), last_value() and DISTINCT ON do where "
        "an ORDER BY has one expression twice",
        fix="name each column once in ORDER BY: an alias in it is the column that it stands for",
    )
