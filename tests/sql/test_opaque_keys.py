"""Which keys a query only tells apart."""

import pytest

from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.sql.analysis.keys.key_columns import key_columns, opaque_keys
from odfbuild.sql.text.steps import QueryStep

INPUTS = {
    "a": parse_ddl(["t TIMESTAMP", "k STRING", "m STRING", "n BIGINT"]),
    "b": parse_ddl(["t TIMESTAMP", "k STRING", "j STRING", "w BIGINT"]),
}


def found(query: str, columns: str, *steps: tuple[str, str]) -> set[str]:
    """Return the columns of the result that hold parts of the key that are only told apart."""
    asked = [*(QueryStep(alias, text) for alias, text in steps), QueryStep(None, query)]
    made = {step.alias for step in asked}
    used = {name: schema for name, schema in INPUTS.items() if name not in made}
    texts = " ".join(step.text for step in asked)
    used = {name: schema for name, schema in used.items() if f" {name}" in texts}
    key = key_columns(asked, used)
    if key is None or key.outputs is None:
        return set()
    names = {alias: [each.name for each in used[alias].fields] for alias in key.inputs}
    return {key.outputs[part] for part in opaque_keys(asked, key, names, columns.split())}


@pytest.mark.parametrize(
    ("query", "columns", "parts"),
    [
        ("select max(t) as t, k, sum(n) as s from a group by k", "t k s", {"k"}),
        ("select max(t) as t, k as q, count(*) as s from a group by k", "t q s", {"q"}),
        ("select max(t) as t, k, m from a group by k, m", "t k m", {"k", "m"}),
        ("select max(t) as t, k, m from a where m > 'x' group by k, m", "t k m", {"k"}),
        ("select distinct k, m from a", "k m", {"k", "m"}),
        ("select t, k, sum(n) over (partition by k order by t) as s from a", "t k s", {"k"}),
        (
            "select t, k from (select *, rank() over w as r from a window w as "
            "(partition by k order by n)) where r = 1",
            "t k",
            {"k"},
        ),
        ("select a.t, a.k, n, w from a left join b on a.k = b.k and n < w", "t k n w", {"k"}),
        ("select a.t, k, n from a left semi join b using (k)", "t k n", {"k"}),
        ("with x as (select k as q, n from a) select q, sum(n) as s from x group by q", "q s",
         {"q"}),
        ("select max(t) as t, k, sum(n) as s from a group by k having k <> 'x'", "t k s", set()),
        ("select max(t) as t, k, max(upper(k)) as s from a group by k", "t k s", set()),
        ("select t, k, sum(n) over (partition by k order by k) as s from a", "t k s", set()),
        ("select max(t) as t, k, k as q from a group by k", "t k q", set()),
        ("select max(t) as t, k, count(distinct *) as c from a group by k", "t k c", set()),
        ("select max(t) as t, k, max(struct(*)) as c from a group by k", "t k c", set()),
        ("select a.t, a.k, n from a join b on a.k = b.k and a.k = b.j", "t k n", set()),
        ("select a.t, a.k, n from a join b on a.k = b.k where b.k in ('x')", "t k n", set()),
        (
            "with x as (select k as q, n from a) select q, sum(n) as s from x where q > '' "
            "group by q",
            "q s",
            set(),
        ),
        ("select max(t) as t, k from a lateral view explode(split(k, ',')) e as p group by k",
         "t k", set()),
        ("select a.t, a.k, n from a join (select j, upper(j) as k from b) q on a.k = q.j "
         "and a.k = q.k", "t k n", set()),
        ("select max(t) as t, k as m, sum(n) as s from a group by k", "t m s", set()),
        ("select upper(k) as u, count(*) as c from a group by upper(k)", "u c", set()),
    ],
)  # fmt: skip
def test_keys_that_are_only_told_apart_are_found(query: str, columns: str, parts: set[str]) -> None:
    assert found(query, columns) == parts


def test_names_are_followed_through_steps() -> None:
    one = ("x", "select k as q, n from a")
    assert found("select q, sum(n) as s from x group by q", "q s", one) == {"q"}
    looks = ("x", "select k as q, n from a where k like 'p%'")
    assert found("select q, sum(n) as s from x group by q", "q s", looks) == set()
