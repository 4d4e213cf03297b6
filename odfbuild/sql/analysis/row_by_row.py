"""Parts of a SELECT that work row by row, on groups, or on neither.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from odfbuild.sql.columns.expressions import CASTS
from odfbuild.sql.columns.functions import (
    AGGREGATES,
    ORDERED,
    RANKINGS,
    SCALARS,
    UNTYPED,
    WINDOW_PARTS,
    WINDOWED,
)
from odfbuild.sql.forbidden import GENERATORS
from odfbuild.sql.text.shape import Call, Expr, GroupBy, Literal, Select, Subquery, Unknown, walk

_MORE = {"struct", "named_struct", "extract", "date_part", "datepart", "round", "mod", "pmod"}
_ALLOWED = (SCALARS.keys() | UNTYPED | CASTS.keys() | _MORE) - WINDOWED


def obstacle(
    exprs: Sequence[Expr], also: Collection[str] = (), *, timed: bool = False
) -> str | None:
    """Return the first obstacle: a subquery, a function that is not known, an unknown form.

    `also` are functions allowed in addition to those of one row; `timed` allows windows of event
    time.
    """
    for expr in exprs:
        for each in walk(expr):
            if isinstance(each, Subquery):
                return "a subquery in an expression"
            if isinstance(each, Unknown):
                return each.why
            if isinstance(each, Call) and not _is_allowed(each, also, timed=timed):
                return f"the function {each.name}()"
    return None


def _is_allowed(call: Call, also: Collection[str], *, timed: bool) -> bool:
    if call.name in WINDOWED or call.name in WINDOW_PARTS:
        return timed
    return call.name in _ALLOWED or (call.name in also and call.name not in ORDERED)


def refusal(select: Select) -> str | None:
    """Return the first clause or function because of which a SELECT works by no key."""
    if select.foreign:
        return select.foreign[0].text
    if select.limited:
        return "LIMIT"
    if select.order:
        return "ORDER BY"
    if select.spread:
        return "SORT BY, DISTRIBUTE BY or CLUSTER BY"
    grouped = select.group.keys if select.group else ()
    many = AGGREGATES.keys() | RANKINGS.keys()
    values = [output.value for output in select.outputs]
    overs = (e for _, over in select.windows for e in (*over.partition, *over.order))
    return (
        obstacle(values, many | GENERATORS, timed=bool(grouped))
        or obstacle([*some(select.where), *overs])
        or obstacle([*some(select.having), *some(select.qualify)], many)
        or obstacle(grouped, timed=True)
    )


def some(expr: Expr | None) -> list[Expr]:
    """Return an expression, if there is one, as a list."""
    return [] if expr is None else [expr]


def is_aggregate(expr: Expr) -> bool:
    """Return whether a call computes one value from a group of rows."""
    return isinstance(expr, Call) and expr.name in AGGREGATES and expr.over is None


def keys_of(group: GroupBy, select: Select) -> list[Expr]:
    """Return the keys of a group as expressions of input columns, not as positions or aliases."""
    if group.all:
        values = [output.value for output in select.outputs]
        return [v for v in values if not any(is_aggregate(e) for e in walk(v))]
    return [_key(each, select) for each in group.keys]


def _key(key: Expr, select: Select) -> Expr:
    if isinstance(key, Literal) and key.kind == "integer":
        at = int(key.text) - 1
        return select.outputs[at].value if 0 <= at < len(select.outputs) else key
    return key
