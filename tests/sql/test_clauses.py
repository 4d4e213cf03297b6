"""The clauses that shape rows, in words."""

import pytest

from odfbuild.sql.analysis.facts import shaping_clauses
from odfbuild.sql.text.steps import QueryStep


@pytest.mark.parametrize(
    ("query", "clauses"),
    [
        ("select a, b + 1 as c from t", ()),
        ("select a from t where b > 0", ("filter",)),
        ("select a from t join u using (k)", ("join",)),
        ("select a from t left semi join u on t.k = u.k", ("join",)),
        ("select k, count(*) from t group by k having count(*) > 1", ("filter", "group")),
        ("select a, row_number() over (partition by k order by a) as n from t", ("window",)),
        ("select distinct a from t", ("distinct",)),
        ("select a from t union all select a from u", ("union",)),
        ("select a from t union select a from u", ("distinct", "union")),
        ("select a from t except all select a from u", ("except",)),
        ("select explode(a) as b from t", ("explode",)),
        ("select b from t lateral view explode(a) x as b", ("explode",)),
        ("with x as (select * from t where b) select a from x", ("filter",)),
        ("select a from (select * from t where b) x join u on x.k = u.k", ("filter", "join")),
        ("select case when a in (select k from u where b) then 1 end as c from t", ("filter",)),
        ("select a from t where", None),
    ],
)
def test_clauses_are_told_wherever_they_stand(query: str, clauses: tuple[str, ...] | None) -> None:
    assert shaping_clauses([QueryStep(None, query)]) == clauses


def test_all_steps_count() -> None:
    steps = [QueryStep("x", "select * from t where a"), QueryStep(None, "select distinct b from x")]
    assert shaping_clauses(steps) == ("filter", "distinct")
