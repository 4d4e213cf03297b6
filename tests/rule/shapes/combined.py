"""Several operators that work by one key."""

from tests.rule.shapes.shape import Shape, T

__all__ = ["COMBINED"]

COMBINED: tuple[Shape, ...] = (
    Shape(
        "distinct aggregate",
        f"select max({T}) as {T}, k, count(distinct n) as c from a group by k",
    ),
    Shape(
        "group over join",
        f"select max(a.{T}) as {T}, a.k, sum(w) as s from a join b on a.k = b.k group by a.k",
    ),
    Shape(
        "join of groups",
        f"with x as (select k, max({T}) as {T}, sum(n) as s from a group by k) "
        "select x.event_time, x.k, s, w from x join b on x.k = b.k",
    ),
    Shape(
        "group of an expression",
        f"select max({T}) as {T}, upper(k) as u, count(*) as c from a group by upper(k)",
    ),
    Shape(
        "group by day",
        f"select date_trunc('hour', {T}) as {T}, k, sum(n) as s from a "
        f"group by date_trunc('hour', {T}), k",
    ),
    Shape(
        "steps by one key",
        f"select s.{T}, s.k, s.c, t.s from one s left join two t on s.k = t.k",
        steps=(
            ("one", f"select k, max({T}) as {T}, count(*) as c from a group by k"),
            ("two", "select k, sum(w) as s from b group by k"),
        ),
    ),
    Shape(
        "ranks of groups by one key",
        f"select {T}, k, m, s, rank() over (partition by k order by s) as r from "
        f"(select max({T}) as {T}, k, m, sum(n) as s from a group by k, m)",
    ),
    Shape(
        "group over a union",
        f"select k, max({T}) as {T}, count(*) as c, sum(v) as v from "
        f"(select {T}, k, n as v from a union all select {T}, k, w from b) group by k",
    ),
    Shape(
        "top of a join",
        f"select {T}, k, n, w from (select a.{T}, a.k, n, w, rank() over (partition by a.k "
        "order by w desc) as r from a join b on a.k = b.k) where r = 1",
    ),
)
