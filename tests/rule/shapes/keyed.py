"""One operator that works key by key."""

from tests.rule.shapes.shape import Shape, T

__all__ = ["KEYED"]

KEYED: tuple[Shape, ...] = (
    Shape("left join", f"select a.{T}, a.k, n, w from a left join b on a.k = b.k"),
    Shape("right join", f"select b.{T}, b.k, n, w from a right join b on a.k = b.k"),
    Shape(
        "full join",
        f"select coalesce(a.{T}, b.{T}) as {T}, a.k, b.k as kb, n, w "
        "from a full join b on a.k = b.k",
    ),
    Shape("semi join", f"select a.{T}, a.k, n from a left semi join b on a.k = b.k"),
    Shape("anti join", f"select a.{T}, a.k, n from a left anti join b on a.k = b.k"),
    Shape(
        "anti join with a filter",
        f"select a.{T}, a.k, n from a left anti join b on a.k = b.k and w > n",
    ),
    Shape("distinct", f"select distinct {T}, k from a"),
    Shape("distinct of all", "select distinct * from a"),
    Shape("union", f"select {T}, k from a union select {T}, k from b"),
    Shape("ranks", f"select {T}, k, n, rank() over (partition by k order by n) as r from a"),
    Shape(
        "dense ranks",
        f"select {T}, k, dense_rank() over (partition by k, n order by {T}) as r from a",
    ),
    Shape(
        "running sum",
        f"select {T}, k, n, sum(n) over (partition by k order by {T} "
        "range between unbounded preceding and current row) as s from a",
    ),
    Shape("share of a group", f"select {T}, k, n, sum(n) over (partition by k) as s from a"),
    Shape(
        "top of a group",
        f"select {T}, k, n from (select *, rank() over (partition by k "
        "order by n desc) as r from a) where r <= 2",
    ),
    Shape("sums of doubles in windows", f"select {T}, k, max(x) over (partition by k) as s from a"),
    Shape(
        "running sum by rows",
        f"select {T}, k, m, sum(m) over (partition by k order by {T}, m "
        "range between unbounded preceding and current row) as s, "
        f"count(*) over (partition by k order by {T} range between interval 1 hour preceding "
        "and interval 1 hour following) as c from a",
    ),
    Shape(
        "best by qualify",
        f"select {T}, k, n from a qualify dense_rank() over (partition by k order by n) = 1",
    ),
    Shape(
        "left join with a condition",
        f"select a.{T}, a.k, n, w from a left join b on a.k = b.k and w >= n",
    ),
)
