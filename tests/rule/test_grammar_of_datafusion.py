"""Queries composed in DataFusion's dialect: what steps leave is what plain batch SQL gives.

Many more: `python -m tests.rule.grammar --engine datafusion --pairs 1000 --from SEED`.
"""

from collections import Counter
from collections.abc import Iterable

import pytest

from odfbuild.executors.engine.datafusion.engine import DataFusionEngine
from tests.rule.grammar.choices import Choices
from tests.rule.grammar.dialects import DATAFUSION, SPARK
from tests.rule.grammar.pairs import Pair, drawn_pair, outcome
from tests.rule.grammar.plain_datafusion import PlainDataFusion
from tests.rule.grammar.queries import Composed
from tests.rule.grammar.tables import drawn_history, table
from tests.support.effort import examples

_DRAWN = examples(40, 2_000)
_OF_FIELDS = (
    "select max(p.event_time) as event_time, s.m from b as p join (select * from a where z.n > 0) "
    "as s on p.z.n + 1 = s.m group by s.m",
    "select p.event_time, q.m from b as p join a as q on p.z.n + 1 = q.m and upper(p.z.k) = q.k",
    "select p.event_time from (select z.k as k, m, event_time, z from a) as p "
    "left semi join b on p.m = b.z.n and upper(p.z.k) = b.k",
)
"""Joins by fields of structs, of which DataFusion's own settings make no plan."""


def test_steps_leave_what_plain_batch_sql_gives_and_a_plan_says_whether_they_run() -> None:
    names = _outcomes(drawn_pair(seed, dialect=DATAFUSION) for seed in range(_DRAWN))
    assert set(names) <= {"same", "refused", "invalid", "lenient"}
    assert names["same"] > 0.75 * _DRAWN


@pytest.mark.parametrize("seed", range(20))
def test_a_dialect_decides_on_words_alone(seed: int) -> None:
    ours, other = (drawn_pair(seed, dialect=each) for each in (DATAFUSION, SPARK))
    assert ours.query.transform.engine == "datafusion"
    assert other.query.transform.engine == "spark"
    again = drawn_pair(0, record=ours.record, dialect=DATAFUSION)
    assert (again.query, again.history) == (ours.query, ours.history)


def test_joins_by_fields_of_structs_are_the_same() -> None:
    tables = (table("a", "n m z"), table("b", "n m z"))
    pairs = [
        Pair(
            tables,
            Composed(((None, text),), DATAFUSION),
            drawn_history(Choices(text), tables),
            ((), ()),
        )
        for text in _OF_FIELDS
    ]
    assert set(_outcomes(pairs)) == {"same"}


def _outcomes(pairs: Iterable[Pair]) -> Counter[str]:
    engine, plain, names = DataFusionEngine(), PlainDataFusion(), Counter[str]()
    for pair in pairs:
        found = outcome(engine, plain, pair, plans=engine)
        assert found.name not in {"differs", "fails"}, f"{found}\n{pair.query}"
        names[found.name] += 1
    return names
