"""Queries that are made to depend on values alone, not on the order of rows."""

from tests.rule.shapes.shape import Shape, T

__all__ = ["ORDER"]

ORDER: tuple[Shape, ...] = (
    Shape(
        "numbers of rows",
        f"select {T}, k, n, row_number() over (partition by k order by n desc) as r from a",
        f"select {T}, k, n, row_number() over (partition by k "
        f"order by n desc, {T}, k, n, m, x) as r from a",
    ),
    Shape(
        "first of a group",
        f"select * from (select {T}, k, n, x, row_number() over w as r from a "
        "window w as (partition by k order by m)) where r = 1",
        f"select * from (select {T}, k, n, x, row_number() over "
        f"(partition by k order by m, {T}, n, x) as r from a) where r = 1",
    ),
    Shape(
        "row before",
        f"select {T}, k, n, lag(n) over (partition by k order by {T}) as p, "
        f"last_value(m) over (partition by k order by {T} rows between unbounded preceding "
        "and unbounded following) as l from a",
        f"select {T}, k, n, lag(n) over (partition by k order by {T}, n, m, x) as p, "
        f"element_at(sort_array(collect_list(struct({T}, n, m, x)) over (partition by k)), -1).m "
        "as l from a",
    ),
    Shape(
        "moving sum",
        f"select {T}, k, n, sum(n) over (partition by k order by {T} rows 1 preceding) as s from a",
        f"select {T}, k, n, sum(n) over (partition by k order by {T}, n, m, x "
        "rows 1 preceding) as s from a",
    ),
    Shape(
        "rows of groups",
        f"select max({T}) as {T}, k, m, row_number() over (partition by k order by count(*)) "
        "as r from a group by k, m",
        f"select {T}, k, m, row_number() over (partition by k order by c, m) as r from "
        f"(select max({T}) as {T}, k, m, count(*) as c from a group by k, m)",
    ),
    Shape(
        "rows of a join",
        f"select a.{T}, a.k, n, w, row_number() over (partition by a.k order by w) as r "
        "from a join b on a.k = b.k",
        f"select {T}, k, n, w, row_number() over (partition by k order by w, {T}, n, m, x, t) "
        f"as r from (select a.*, w, b.{T} as t from a join b on a.k = b.k)",
    ),
    Shape(
        "latest before",
        f"select {T}, k, n, w from (select a.{T}, a.k, n, w, row_number() over (partition by "
        f"a.{T}, a.k, n, m order by b.{T} desc) as r from a left join b on a.k = b.k and "
        f"b.{T} <= a.{T}) where r = 1",
        f"select {T}, k, n, w from (select a.{T}, a.k, n, w, row_number() over (partition by "
        f"a.{T}, a.k, n, m order by b.{T} desc, x, w) as r from a left join b on a.k = b.k and "
        f"b.{T} <= a.{T}) where r = 1",
    ),
    Shape(
        "lists",
        f"select max({T}) as {T}, k, collect_list(n) as l, collect_set(m) as s, "
        "array_agg(x) filter (where m > 0) as f from a group by k",
        f"select max({T}) as {T}, k, array_sort(collect_list(n)) as l, "
        "array_sort(array_distinct(collect_list(m))) as s, "
        "array_sort(collect_list(if(m > 0, x, null))) as f from a group by k",
    ),
    Shape(
        "texts of a group",
        f"select max({T}) as {T}, m, listagg(k, ',') as l, "
        "string_agg(k) within group (order by n desc) as s from a group by m",
        f"select max({T}) as {T}, m, "
        "nullif(array_join(array_sort(collect_list(k)), ','), '') as l, "
        "nullif(array_join(transform(array_sort(collect_list(if(k is null, null, "
        "struct(n is null as u, -n as o, k)))), "
        "e -> e.k), ''), '') as s from a group by m",
    ),
    Shape(
        "value at the most",
        f"select max({T}) as {T}, k, max_by(n, m) as hi, min_by(x, m) as lo, mode(n) as o "
        "from a group by k",
        f"select {T}, g.k, hi, lo, o from (select max({T}) as {T}, k, "
        "max(struct(m, n)).n as hi, "
        "min(struct(m, x)).x as lo from a group by k) g left join (select k, n as o from "
        "(select k, n, row_number() over (partition by k order by c desc, n) as r from "
        "(select k, n, count(*) as c from a where n is not null group by k, n)) where r = 1) z "
        "on g.k <=> z.k",
    ),
    Shape(
        "average of integers",
        f"select max({T}) as {T}, k, avg(n) as s, avg(distinct m) as d from a group by k",
    ),
    Shape(
        "sum of doubles",
        f"select max({T}) as {T}, k, sum(x * 0.1D) as s, avg(x / 3) as d, "
        "sum(distinct x) filter (where m > 0) as f from a group by k",
        f"select max({T}) as {T}, k, aggregate(array_sort(collect_list(x * 0.1D)), 0D, "
        "(t, v) -> t + v, t -> if(count(x) = 0, null, t)) as s, "
        "aggregate(array_sort(collect_list(x / 3)), 0D, (t, v) -> t + v, "
        "t -> if(count(x) = 0, null, t / count(x))) as d, "
        "sum(distinct x) filter (where m > 0) as f from a group by k",
    ),
    Shape(
        "text of a double",
        f"select max({T}) as {T}, cast(x as string) as s, count(*) as c from a "
        "group by cast(x as string)",
        f"select max({T}) as {T}, cast(if(x = 0, 0D, x) as string) as s, count(*) as c from a "
        "group by cast(if(x = 0, 0D, x) as string)",
    ),
    Shape(
        "newest row by QUALIFY",
        f"select * except (x) from a where n > 0 qualify row_number() over (partition by k "
        f"order by {T} desc) = 1 or lag(m) over w is null window w as (partition by k order by n)",
        f"select {T}, k, n, m from (select *, row_number() over (partition by k order by {T} desc, "
        f"{T}, k, n, m, x) as r, lag(m) over (partition by k order by n, {T}, k, n, m, x) as l "
        "from a where n > 0) where r = 1 or l is null",
    ),
    Shape(
        "first rows of all",
        f"select *, 1 as one from (select {T}, k, n from a order by n desc limit 3 offset 1)",
        f"select {T}, k, n, 1 as one from (select *, row_number() over (order by n desc, {T}, k) "
        f"as r from a) where r between 2 and 4",
    ),
    Shape(
        "last of equal rank",
        f"select {T}, k, n, last_value(m) over (partition by k order by n) as l, "
        "first_value(m) over (partition by k order by n range between current row and 1 following) "
        "as f from a",
        f"select {T}, k, n, element_at(array_sort(collect_list(struct(n, {T}, k, n as n2, m, x)) "
        "over (partition by k order by n)), -1).m as l, "
        f"element_at(array_sort(collect_list(struct(n, {T}, k, n as n2, m, x)) over (partition by "
        "k order by n range between current row and 1 following)), 1).m as f from a",
    ),
    Shape(
        "statistics of a group",
        f"select max({T}) as {T}, k, round(stddev(n), 6) as s, round(var_pop(x), 6) as v, "
        "round(corr(n, x), 6) as c, round(regr_slope(m, n), 6) as r, first(k) as f, "
        "round(skewness(distinct m), 6) as w from a group by k",
        f"select max({T}) as {T}, k, round(sqrt((sum(n * n) - sum(n) * sum(n) / count(n)) / "
        "nullif(count(n) - 1, 0)), 6) as s, round(var_pop(x), 6) as v, round(corr(n, x), 6) as c, "
        "round(regr_slope(m, n), 6) as r, k as f, round(skewness(distinct m), 6) as w "
        "from a group by k",
    ),
    Shape(
        "turned around",
        f"select * from (select date_trunc('hour', {T}) as {T}, k, n from a) "
        "pivot (sum(n) as s, avg(n) as v for k in ('p', 'q'))",
        f"select date_trunc('hour', {T}) as {T}, sum(n) filter (where k = 'p') as p_s, "
        "avg(n) filter (where k = 'p') as p_v, sum(n) filter (where k = 'q') as q_s, "
        f"avg(n) filter (where k = 'q') as q_v from a group by date_trunc('hour', {T})",
    ),
    Shape(
        "rows of groups of several sets",
        f"select max({T}) as {T}, k, m, row_number() over (order by count(*)) as r, "
        "max_by(n, x, 2) as l from a group by rollup(k, m)",
        f"select {T}, k, m, row_number() over (order by c, k, m, g) as r, l from "
        f"(select max({T}) as {T}, k, m, count(*) as c, grouping_id() as g, "
        "if(count(x) = 0, null, slice(reverse(array_sort(collect_list(if(x is null, null, "
        "struct(x, n))))), 1, 2).n) as l "
        "from a group by rollup(k, m))",
    ),
)
