"""Stars beside items that redefine a name: the column that a key means is not the input's."""

from tests.rule.shapes.shape import Shape, T

__all__ = ["STARS"]

_K = "replace(k, 'q', 'p') as k"
_SUB = f"(select * except (k), {_K} from a)"
_COUNT = f"select max({T}) as {T}, k, count(distinct n) as c from"

STARS: tuple[Shape, ...] = (
    Shape("star, distinct count", f"{_COUNT} {_SUB} group by k"),
    Shape("star, counts", f"select max({T}) as {T}, k, count(*) as c from {_SUB} group by k"),
    Shape("star, window", f"select {T}, k, n, sum(n) over (partition by k) as s from {_SUB}"),
    Shape("star, distinct", f"select distinct {T}, k from {_SUB}"),
    Shape(
        "star, ranks",
        f"select {T}, k, n, rank() over (partition by k order by n, {T}) as r from {_SUB}",
    ),
    Shape("star, join", f"select x.{T}, x.k, n, w from {_SUB} x join b on x.k = b.k"),
    Shape("star, join using", f"select x.{T}, k, n, w from {_SUB} x join b using (k)"),
    Shape("star, left join", f"select x.{T}, x.k, n, w from {_SUB} x left join b on x.k = b.k"),
    Shape("star, anti join", f"select x.{T}, x.k, n from {_SUB} x left anti join b on x.k = b.k"),
    Shape(
        "star, newest of a key",
        f"select {T}, k, n from {_SUB} qualify rank() over (partition by k order by {T} desc) = 1",
    ),
    Shape(
        "star, newest of a key in a subquery",
        f"select * except (r) from (select *, rank() over (partition by k order by {T} desc) as r "
        f"from {_SUB}) where r = 1",
    ),
    Shape("star, common table", f"with q as {_SUB} {_COUNT} q group by k"),
    Shape("star, step", f"{_COUNT} q group by k", steps=(("q", _SUB[1:-1]),)),
    Shape(
        "star, steps of stars",
        f"{_COUNT} r group by k",
        steps=(("q", _SUB[1:-1]), ("r", "select * from q")),
    ),
    Shape(
        "star of a struct",
        f"select max({T}) as {T}, u, count(distinct i) as c from (select {T}, i, g.* from c) "
        "group by u",
    ),
    Shape(
        "star of one side, name of the other",
        f"{_COUNT} (select x.*, replace(y.k, 'q', 'p') as k from (select {T}, n from a) x "
        "join b y on x.n = y.w) group by k",
    ),
    Shape(
        "name of one side behind a star",
        f"select max(x.{T}) as {T}, k, count(distinct n) as c from (select * except (k) from a) x "
        f"join (select {_K}, w from b) y on x.n = y.w group by k",
    ),
    Shape(
        "star, column of a view",
        f"{_COUNT} (select * except (k, j), j as k from a "
        "lateral view explode(array(replace(k, 'q', 'p'))) v as j) group by k",
    ),
    Shape(
        "field and column of one name",
        f"select max({T}) as {T}, g.u as x, u as y, count(i) as c from c group by u, g.u",
    ),
    Shape(
        "star, all groups",
        f"select *, count(*) as c from (select {T}, k, m from a) group by all",
    ),
    Shape(
        "having by an alias",
        f"select max({T}) as {T}, replace(k, 'q', 'p') as k, count(*) as c from a group by k "
        "having k = 'p'",
    ),
)
