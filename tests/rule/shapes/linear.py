"""Queries that work row by row."""

from tests.rule.shapes.shape import Shape, T, by_row

__all__ = ["LINEAR"]

LINEAR: tuple[Shape, ...] = (
    by_row("projection", f"select {T}, k, n + 1 as n from a"),
    by_row("filter", f"select {T}, k, n from a where n > 1"),
    by_row("explode", f"select {T}, k, explode(array(n, n + 10)) as m from a"),
    by_row(
        "lateral view",
        f"select {T}, k, i, e from a lateral view outer posexplode(if(n > 1, array(n, m), "
        "array())) v as i, e",
    ),
    by_row("union all", f"select {T}, k from a union all select {T}, k from b where w > 0"),
    by_row("union with itself", f"select {T}, n from a union all select {T}, m from a"),
    by_row(
        "the sign of zero",
        f"select {T}, k, cast(x as string) as s, atan2(x, -1D) as a, -x as y from a",
    ),
    by_row(
        "the sign of zero inside of a list",
        f"select {T}, k, cast(v as string) as s, transform(v, e -> atan2(e, -1D)) as a, f, "
        "named_struct('v', v) as w from c",
    ),
    by_row(
        "case and cast",
        f"select {T}, case when n > 1 then 'x' end as c, cast(n as string) s from a",
    ),
    Shape(
        "steps row by row",
        f"select {T}, k, 'left' as l, n from few union all select {T}, k, 'right', w from b",
        steps=(
            ("some", f"select {T}, k, n, m from a where m > 0"),
            ("few", f"select {T}, k, n + m as n from some where k is not null"),
        ),
        by_row=True,
    ),
)
