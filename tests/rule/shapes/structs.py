"""Structs with required members which may be null themselves, in queries of every class."""

from tests.rule.shapes.shape import Shape, T, by_row

__all__ = ["STRUCTS"]

_ONE = "if(n > 1, null, named_struct('p', m, 'q', coalesce(n, 0L)))"
_VALUES = {
    "a struct": _ONE,
    "a struct in a struct": f"named_struct('o', {_ONE}, 'm', m)",
    "a struct in one that may be null": f"if(m = 2, null, named_struct('o', {_ONE}, 'm', m))",
    "a list in a struct": "if(n > 1, null, named_struct('l', array(m, coalesce(n, 0L)), 'm', m))",
}
_FORMS = {
    "as it is": f"select {T}, k, {{}} as s from a",
    "the greatest of a group": f"select max({T}) as {T}, k, max({{}}) as s from a group by k",
    "of a group": f"select max({T}) as {T}, {{}} as s, count(*) as c from a group by 2",
    "counted in a group": f"select max({T}) as {T}, k, count(distinct {{}}) as c, "
    "min({}) as s from a group by k",
    "over a window": f"select {T}, k, n, min({{}}) over (partition by k) as s from a",
    "distinct": f"select distinct {T}, k, {{}} as s from a",
    "of a left join": f"select b.{T}, b.k, w, s from b left join "
    f"(select max({T}) as {T}, k, max({{}}) as s from a group by k) a on a.k = b.k",
    "of a union": f"select {T}, k, {{}} as s from a union all select {T}, k, null from b",
}

STRUCTS: tuple[Shape, ...] = tuple(
    (by_row if form in {"as it is", "of a union"} else Shape)(
        f"{value} {form}", text.replace("{}", written)
    )
    for value, written in _VALUES.items()
    for form, text in _FORMS.items()
)
