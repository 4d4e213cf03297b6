"""Groups whose numbers can be carried on from step to step."""

from tests.rule.shapes.shape import Shape, T

__all__ = ["STATE"]

STATE: tuple[Shape, ...] = (
    Shape("count", f"select max({T}) as {T}, k, count(*) as c, count(n) as d from a group by k"),
    Shape(
        "sum",
        f"select max({T}) as {T}, k, sum(n) as s, min(n) as lo, max(n) as hi from a group by k",
    ),
    Shape(
        "exact average",
        f"select max({T}) as {T}, k, avg(cast(n as decimal(12, 2))) as s from a group by k",
    ),
    Shape(
        "having",
        f"select max({T}) as {T}, k, sum(n) as s from a group by k having count(*) > 1",
    ),
    Shape("group by two", f"select k, n, max({T}) as {T}, count(*) as c from a group by k, n"),
    Shape(
        "filtered aggregate",
        f"select max({T}) as {T}, k, count(*) filter (where n > 1) as c from a group by k",
    ),
    Shape(
        "group by a constant",
        f"select 'all' as g, m, max({T}) as {T}, sum(n) as s from a group by 'all', 2",
    ),
    Shape(
        "any value",
        f"select max({T}) as {T}, k, any_value(n, true) as v, any_value(m) ignore nulls as u, "
        "any_value(n) filter (where n > 1) as w, any_value(k) as y from a group by k",
        f"select max({T}) as {T}, k, min(n) as v, min(m) as u, min(n) filter (where n > 1) as w, "
        "k as y from a group by k",
    ),
    Shape("group by null", f"select max({T}) as {T}, sum(n) as s from a group by null"),
)
