"""Query shapes over the inputs `a` and `b`, of every class.

`{W}` stands for the watermark in the batch form of a query with event-time windows: there the
condition is written out, which the query itself does not have.  Where no batch form is given, the
query is its own.
"""

from dataclasses import dataclass

__all__ = ["SHAPES", "Shape"]


@dataclass(frozen=True, slots=True)
class Shape:
    """A query and the batch query that says what it means."""

    name: str
    query: str
    batch: str | None = None


_T = "event_time"
_CLOSED = "HAVING window.end <= {W}"


def _windowed(name: str, query: str, batch: str | None = None) -> Shape:
    return Shape(name, query, (batch or query) + f" {_CLOSED}")


SHAPES: tuple[Shape, ...] = (
    # linear
    Shape("projection", f"select {_T}, k, n + 1 as n from a"),
    Shape("filter", f"select {_T}, k, n from a where n > 1"),
    Shape("explode", f"select {_T}, k, explode(array(n, n + 10)) as m from a"),
    Shape("union all", f"select {_T}, k from a union all select {_T}, k from b where w > 0"),
    Shape(
        "case and cast",
        f"select {_T}, case when n > 1 then 'x' end as c, cast(n as string) s from a",
    ),
    # join
    Shape("inner join", f"select a.{_T}, a.k, n, w from a join b on a.k = b.k"),
    Shape("join using", f"select a.{_T}, k, n, w from a join b using (k)"),
    Shape("join without its key", f"select a.{_T}, n, w from a join b on a.k = b.k"),
    Shape(
        "join with a condition", f"select a.{_T}, a.k, n, w from a join b on a.k = b.k and n < w"
    ),
    Shape(
        "interval join",
        f"select a.{_T}, a.k, n, w from a join b on a.k = b.k and b.{_T} between "
        f"a.{_T} - interval 1 hour and a.{_T} + interval 1 hour",
    ),
    Shape("self join", f"select x.{_T}, x.k, y.n from a x join a y on x.k = y.k where x.n < y.n"),
    Shape("self join by other columns", f"select x.{_T}, x.k, y.n from a x join a y on x.n = y.m"),
    Shape("cross join", f"select a.{_T}, a.n, b.w from a cross join b where a.n = b.w"),
    Shape("null safe join", f"select a.{_T}, a.k, w from a join b on a.k <=> b.k"),
    # keyed
    Shape("left join", f"select a.{_T}, a.k, n, w from a left join b on a.k = b.k"),
    Shape("right join", f"select b.{_T}, b.k, n, w from a right join b on a.k = b.k"),
    Shape(
        "full join",
        f"select coalesce(a.{_T}, b.{_T}) as {_T}, a.k, b.k as kb, n, w "
        "from a full join b on a.k = b.k",
    ),
    Shape("semi join", f"select a.{_T}, a.k, n from a left semi join b on a.k = b.k"),
    Shape("anti join", f"select a.{_T}, a.k, n from a left anti join b on a.k = b.k"),
    Shape(
        "anti join with a filter",
        f"select a.{_T}, a.k, n from a left anti join b on a.k = b.k and w > n",
    ),
    Shape("distinct", f"select distinct {_T}, k from a"),
    Shape("distinct of all", "select distinct * from a"),
    Shape("union", f"select {_T}, k from a union select {_T}, k from b"),
    Shape("ranks", f"select {_T}, k, n, rank() over (partition by k order by n) as r from a"),
    Shape(
        "dense ranks",
        f"select {_T}, k, dense_rank() over (partition by k, n order by {_T}) as r from a",
    ),
    Shape(
        "running sum",
        f"select {_T}, k, n, sum(n) over (partition by k order by {_T} "
        "range between unbounded preceding and current row) as s from a",
    ),
    Shape("share of a group", f"select {_T}, k, n, sum(n) over (partition by k) as s from a"),
    Shape(
        "top of a group",
        f"select {_T}, k, n from (select *, rank() over (partition by k "
        "order by n desc) as r from a) where r <= 2",
    ),
    Shape(
        "sums of doubles in windows", f"select {_T}, k, max(x) over (partition by k) as s from a"
    ),
    # state
    Shape("count", f"select max({_T}) as {_T}, k, count(*) as c, count(n) as d from a group by k"),
    Shape(
        "sum",
        f"select max({_T}) as {_T}, k, sum(n) as s, min(n) as lo, max(n) as hi from a group by k",
    ),
    Shape(
        "exact average",
        f"select max({_T}) as {_T}, k, avg(cast(n as decimal(12, 2))) as s from a group by k",
    ),
    Shape(
        "having", f"select max({_T}) as {_T}, k, sum(n) as s from a group by k having count(*) > 1"
    ),
    Shape("group by two", f"select k, n, max({_T}) as {_T}, count(*) as c from a group by k, n"),
    Shape(
        "filtered aggregate",
        f"select max({_T}) as {_T}, k, count(*) filter (where n > 1) as c from a group by k",
    ),
    # keyed, several operators by one key
    Shape(
        "distinct aggregate",
        f"select max({_T}) as {_T}, k, count(distinct n) as c from a group by k",
    ),
    Shape(
        "group over join",
        f"select max(a.{_T}) as {_T}, a.k, sum(w) as s from a join b on a.k = b.k group by a.k",
    ),
    Shape(
        "join of groups",
        f"with x as (select k, max({_T}) as {_T}, sum(n) as s from a group by k) "
        "select x.event_time, x.k, s, w from x join b on x.k = b.k",
    ),
    Shape(
        "group of an expression",
        f"select max({_T}) as {_T}, upper(k) as u, count(*) as c from a group by upper(k)",
    ),
    Shape(
        "group by day",
        f"select date_trunc('hour', {_T}) as {_T}, k, sum(n) as s from a "
        f"group by date_trunc('hour', {_T}), k",
    ),
    # whole
    Shape("aggregate of all", f"select max({_T}) as {_T}, sum(n) as s from a having count(*) > 0"),
    Shape(
        "group over group",
        f"select max({_T}) as {_T}, c, count(*) as d from "
        f"(select k, max({_T}) as {_T}, count(*) as c from a group by k) group by c",
    ),
    Shape("in a subquery", f"select {_T}, k, n from a where k in (select k from b)"),
    Shape(
        "not exists",
        f"select {_T}, k, n from a where not exists (select 1 from b where b.k = a.k and w > n)",
    ),
    Shape("scalar subquery", f"select {_T}, k, n from a where n = (select max(n) from a)"),
    Shape("rollup", f"select max({_T}) as {_T}, k, m, count(*) as c from a group by rollup(k, m)"),
    Shape("except", f"select {_T}, k from a except select {_T}, k from b"),
    Shape("intersect", f"select {_T}, k from a intersect select {_T}, k from b"),
    Shape("rank over all", f"select {_T}, k, rank() over (order by {_T}) as r from a"),
    # made to depend on values alone
    Shape(
        "numbers of rows",
        f"select {_T}, k, n, row_number() over (partition by k order by n desc) as r from a",
        f"select {_T}, k, n, row_number() over (partition by k "
        f"order by n desc, {_T}, k, n, m, x) as r from a",
    ),
    Shape(
        "first of a group",
        f"select * from (select {_T}, k, n, x, row_number() over w as r from a "
        "window w as (partition by k order by m)) where r = 1",
        f"select * from (select {_T}, k, n, x, row_number() over "
        f"(partition by k order by m, {_T}, n, x) as r from a) where r = 1",
    ),
    Shape(
        "row before",
        f"select {_T}, k, n, lag(n) over (partition by k order by {_T}) as p, "
        f"last_value(m) over (partition by k order by {_T} rows between unbounded preceding "
        "and unbounded following) as l from a",
        f"select {_T}, k, n, lag(n) over (partition by k order by {_T}, n, m, x) as p, "
        f"element_at(sort_array(collect_list(struct({_T}, n, m, x)) over (partition by k)), -1).m "
        "as l from a",
    ),
    Shape(
        "moving sum",
        f"select {_T}, k, n, sum(n) over (partition by k order by {_T} rows 1 preceding) as s "
        "from a",
        f"select {_T}, k, n, sum(n) over (partition by k order by {_T}, n, m, x "
        "rows 1 preceding) as s from a",
    ),
    Shape(
        "rows of groups",
        f"select max({_T}) as {_T}, k, m, row_number() over (partition by k order by count(*)) "
        "as r from a group by k, m",
        f"select {_T}, k, m, row_number() over (partition by k order by c, m) as r from "
        f"(select max({_T}) as {_T}, k, m, count(*) as c from a group by k, m)",
    ),
    Shape(
        "rows of a join",
        f"select a.{_T}, a.k, n, w, row_number() over (partition by a.k order by w) as r "
        "from a join b on a.k = b.k",
        f"select {_T}, k, n, w, row_number() over (partition by k order by w, {_T}, n, m, x, t) "
        f"as r from (select a.*, w, b.{_T} as t from a join b on a.k = b.k)",
    ),
    Shape(
        "latest before",
        f"select {_T}, k, n, w from (select a.{_T}, a.k, n, w, row_number() over (partition by "
        f"a.{_T}, a.k, n, m order by b.{_T} desc) as r from a left join b on a.k = b.k and "
        f"b.{_T} <= a.{_T}) where r = 1",
        f"select {_T}, k, n, w from (select a.{_T}, a.k, n, w, row_number() over (partition by "
        f"a.{_T}, a.k, n, m order by b.{_T} desc, x, w) as r from a left join b on a.k = b.k and "
        f"b.{_T} <= a.{_T}) where r = 1",
    ),
    Shape(
        "lists",
        f"select max({_T}) as {_T}, k, collect_list(n) as l, collect_set(m) as s, "
        "array_agg(x) filter (where m > 0) as f from a group by k",
        f"select max({_T}) as {_T}, k, array_sort(collect_list(n)) as l, "
        "array_sort(array_distinct(collect_list(m))) as s, "
        "array_sort(collect_list(if(m > 0, x, null))) as f from a group by k",
    ),
    Shape(
        "texts of a group",
        f"select max({_T}) as {_T}, m, listagg(k, ',') as l, "
        "string_agg(k) within group (order by n desc) as s from a group by m",
        f"select max({_T}) as {_T}, m, "
        "nullif(array_join(array_sort(collect_list(k)), ','), '') as l, "
        "nullif(array_join(transform(array_sort(collect_list(if(k is null, null, "
        "struct(n is null as u, -n as o, k)))), "
        "e -> e.k), ''), '') as s from a group by m",
    ),
    Shape(
        "value at the most",
        f"select max({_T}) as {_T}, k, max_by(n, m) as hi, min_by(x, m) as lo, mode(n) as o "
        "from a group by k",
        f"select {_T}, g.k, hi, lo, o from (select max({_T}) as {_T}, k, "
        "max(struct(m, n)).n as hi, "
        "min(struct(m, x)).x as lo from a group by k) g left join (select k, n as o from "
        "(select k, n, row_number() over (partition by k order by c desc, n) as r from "
        "(select k, n, count(*) as c from a where n is not null group by k, n)) where r = 1) z "
        "on g.k <=> z.k",
    ),
    Shape(
        "average of integers",
        f"select max({_T}) as {_T}, k, avg(n) as s, avg(distinct m) as d from a group by k",
    ),
    Shape(
        "sum of doubles",
        f"select max({_T}) as {_T}, k, sum(x * 0.1D) as s, avg(x / 3) as d, "
        "sum(distinct x) filter (where m > 0) as f from a group by k",
        f"select max({_T}) as {_T}, k, aggregate(array_sort(collect_list(x * 0.1D)), 0D, "
        "(t, v) -> t + v, t -> if(count(x) = 0, null, t)) as s, "
        "aggregate(array_sort(collect_list(x / 3)), 0D, (t, v) -> t + v, "
        "t -> if(count(x) = 0, null, t / count(x))) as d, "
        "sum(distinct x) filter (where m > 0) as f from a group by k",
    ),
    Shape(
        "text of a double",
        f"select max({_T}) as {_T}, cast(x as string) as s, count(*) as c from a "
        "group by cast(x as string)",
        f"select max({_T}) as {_T}, cast(if(x = 0, 0D, x) as string) as s, count(*) as c from a "
        "group by cast(if(x = 0, 0D, x) as string)",
    ),
    # event-time windows
    _windowed(
        "tumbling window",
        f"select window.start as {_T}, k, sum(n) as s from a group by window({_T}, '2 hours'), k",
    ),
    _windowed(
        "sliding window",
        f"select window.end as {_T}, count(*) as c from a "
        f"group by window({_T}, '2 hours', '1 hour')",
    ),
    Shape(
        "session window",
        f"select session_window.start as {_T}, k, count(*) as c from a "
        f"group by session_window({_T}, '1 hour'), k",
        f"select session_window.start as {_T}, k, count(*) as c from a "
        f"group by session_window({_T}, '1 hour'), k having session_window.end <= {{W}}",
    ),
    _windowed(
        "tumble",
        f"select tumble_start({_T}, interval '2' hour) as {_T}, k, max(n) as s from a "
        f"group by tumble({_T}, interval '2' hour), k",
        f"select window.start as {_T}, k, max(n) as s from a group by window({_T}, '2 hours'), k",
    ),
    _windowed(
        "hop",
        f"select hop_start({_T}, interval '1' hour, interval '2' hour) as {_T}, k, "
        f"count(*) as s from a group by hop({_T}, interval '1' hour, interval '2' hour), k",
        f"select window.start as {_T}, k, count(*) as s from a "
        f"group by window({_T}, '2 hours', '1 hour'), k",
    ),
    Shape(
        "join of a window",
        f"select x.{_T}, x.k, s, w from (select window.start as {_T}, k, sum(n) as s "
        f"from a group by window({_T}, '2 hours'), k) x join b on x.k = b.k",
        f"select x.{_T}, x.k, s, w from (select window.start as {_T}, k, sum(n) as s "
        f"from a group by window({_T}, '2 hours'), k having window.end <= {{W}}) x "
        "join b on x.k = b.k",
    ),
)
