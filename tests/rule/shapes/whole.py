"""Queries that are computed as a whole, before and after."""

from tests.rule.shapes.shape import Shape, T

__all__ = ["WHOLE"]

WHOLE: tuple[Shape, ...] = (
    Shape("aggregate of all", f"select max({T}) as {T}, sum(n) as s from a having count(*) > 0"),
    Shape(
        "group over group",
        f"select max({T}) as {T}, c, count(*) as d from "
        f"(select k, max({T}) as {T}, count(*) as c from a group by k) group by c",
    ),
    Shape("in a subquery", f"select {T}, k, n from a where k in (select k from b)"),
    Shape(
        "not exists",
        f"select {T}, k, n from a where not exists (select 1 from b where b.k = a.k and w > n)",
    ),
    Shape("scalar subquery", f"select {T}, k, n from a where n = (select max(n) from a)"),
    Shape("rollup", f"select max({T}) as {T}, k, m, count(*) as c from a group by rollup(k, m)"),
    Shape("except", f"select {T}, k from a except select {T}, k from b"),
    Shape("intersect", f"select {T}, k from a intersect select {T}, k from b"),
    Shape("rank over all", f"select {T}, k, rank() over (order by {T}) as r from a"),
    Shape(
        "any value of all",
        f"select max({T}) as {T}, any_value(n) + 1 as v, any_value(distinct k) as u from a "
        "having any_value(k) is not null",
        f"select max({T}) as {T}, min(n) + 1 as v, min(k) as u from a having min(k) is not null",
    ),
    Shape("cube", f"select max({T}) as {T}, k, m, sum(n) as s from a group by cube(k, m)"),
    Shape(
        "grouping sets",
        f"select max({T}) as {T}, k, m, grouping_id() as g, count(*) as c from a "
        "group by grouping sets ((k), (m), (k, m))",
    ),
    Shape(
        "exists",
        f"select {T}, k, n from a where exists (select 1 from b where b.k = a.k and w = n)",
    ),
    Shape(
        "correlated scalar",
        f"select {T}, k, n, (select max(w) from b where b.k = a.k) as w from a",
    ),
    Shape("not in", f"select {T}, k, n from a where n not in (select w from b where w > 1)"),
    Shape(
        "union of groups",
        f"select max({T}) as {T}, k, sum(n) as s from a group by k union all "
        f"select max({T}), k, sum(w) from b group by k",
    ),
    Shape(
        "several steps by several keys",
        f"select {T}, n, c, d from by_n union all select {T}, null, c, null from by_c",
        steps=(
            ("by_k", f"select max({T}) as {T}, k, n, count(*) as c from a group by k, n"),
            (
                "by_n",
                f"select max({T}) as {T}, n, sum(c) as c, count(distinct k) as d "
                "from by_k group by n",
            ),
            ("by_c", f"select max({T}) as {T}, c from by_n group by c"),
        ),
    ),
    Shape("except all", f"select {T}, k from a except all select {T}, k from b"),
    Shape("intersect all", f"select {T}, k, n from a intersect all select {T}, k, w from b"),
    Shape(
        "group beside an unread step",
        f"select max({T}) as {T}, k, count(distinct n) as c from a group by k",
        steps=(("one", "select k, max(w) as w from b group by k"),),
    ),
    Shape(
        "group beside an unread common table",
        f"with x as (select k from b) select max({T}) as {T}, k, max(x) as x from a group by k",
    ),
)
