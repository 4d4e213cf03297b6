"""Columns of every type: as they are, as keys, under aggregates; and schemas that vary."""

from tests.rule.shapes.shape import Shape, T, by_row

__all__ = ["TYPES"]

TYPES: tuple[Shape, ...] = (
    by_row("every type", "select * from c"),
    by_row(
        "parts of values",
        f"select {T}, g.u as u, g.v as v, size(l) as l, date_add(u, 1) as d, "
        "z + interval '1' hour as z, upper(s) as s, d * 2 as dd, get(l, 0) as i from c",
    ),
    by_row(
        "items of lists", f"select {T}, s, at, item from c lateral view posexplode(l) e as at, item"
    ),
    by_row("all of some columns", "select * from r where k is not null"),
    Shape("distinct of every type", "select distinct * from c"),
    Shape("distinct of some types", "select distinct * from r"),
    Shape("join of some types", "select r.*, w from r join b on r.k = b.k"),
    Shape("left join of some types", "select r.*, w from r left join b on r.k = b.k"),
    Shape("anti join of some types", "select r.* from r left anti join b on r.k = b.k"),
    Shape("join by texts", f"select x.{T}, x.s, y.u, x.g from c x join c y on x.s = y.s"),
    Shape(
        "join by several types",
        f"select x.{T}, x.d, x.u, y.y, x.q from c x join c y on x.d = y.d and x.u = y.u "
        "and x.h <=> y.h",
    ),
    Shape("group by a date", f"select u, max({T}) as {T}, count(*) as c from c group by u"),
    Shape("group by a struct", f"select g, max({T}) as {T}, count(s) as c from c group by g"),
    Shape("group by lists", f"select l, v, max({T}) as {T}, count(*) as c from c group by l, v"),
    Shape(
        "group by doubles",
        f"select f, x, max({T}) as {T}, count(*) as c from c group by f, x",
    ),
    Shape(
        "least and greatest of types",
        f"select k, max({T}) as {T}, min(s) as s, max(u) as u, min(z) as z, max(d) as d, "
        "min(q) as q, max(y) as y, min(x) as x, max(f) as f, min(h) as h from c group by k",
    ),
    Shape(
        "sums of types",
        f"select k, max({T}) as {T}, sum(i) as i, sum(j) as j, sum(d) as d, avg(d) as ad, "
        "count(q) as q from c group by k",
    ),
    Shape(
        "sums that need order",
        f"select k, max({T}) as {T}, sum(x) as x from c where abs(x) < 1 group by k",
        f"select k, max({T}) as {T}, aggregate(array_sort(collect_list(x)), 0D, "
        "(t, v) -> t + v, t -> if(count(x) = 0, null, t)) as x from c where abs(x) < 1 group by k",
    ),
    Shape(
        "ranks by types",
        f"select {T}, s, d, rank() over (partition by s order by d desc, u, h) as r from c",
    ),
    Shape(
        "row before of types",
        f"select {T}, k, s, y, lag(s) over (partition by k order by {T}, s, y) as p from "
        f"(select distinct {T}, k, s, y from c)",
    ),
    Shape(
        "sets of types",
        f"select k, max({T}) as {T}, count(distinct s, u) as c, collect_set(d) as d "
        "from c group by k",
        f"select k, max({T}) as {T}, count(distinct s, u) as c, "
        "array_sort(collect_set(d)) as d from c group by k",
    ),
    Shape(
        "cube of types",
        f"select max({T}) as {T}, u, h, count(*) as c from c group by cube(u, h)",
    ),
)
