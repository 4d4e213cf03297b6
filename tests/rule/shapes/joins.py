"""Inner joins of rows that are read one by one."""

from tests.rule.shapes.shape import Shape, T

__all__ = ["JOINS"]

JOINS: tuple[Shape, ...] = (
    Shape("inner join", f"select a.{T}, a.k, n, w from a join b on a.k = b.k"),
    Shape("join using", f"select a.{T}, k, n, w from a join b using (k)"),
    Shape("join without its key", f"select a.{T}, n, w from a join b on a.k = b.k"),
    Shape("join with a condition", f"select a.{T}, a.k, n, w from a join b on a.k = b.k and n < w"),
    Shape(
        "interval join",
        f"select a.{T}, a.k, n, w from a join b on a.k = b.k and b.{T} between "
        f"a.{T} - interval 1 hour and a.{T} + interval 1 hour",
    ),
    Shape("self join", f"select x.{T}, x.k, y.n from a x join a y on x.k = y.k where x.n < y.n"),
    Shape("self join by other columns", f"select x.{T}, x.k, y.n from a x join a y on x.n = y.m"),
    Shape("cross join", f"select a.{T}, a.n, b.w from a cross join b where a.n = b.w"),
    Shape("null safe join", f"select a.{T}, a.k, w from a join b on a.k <=> b.k"),
)
