"""Queries composed in DataFusion's dialect: what steps leave is what plain batch SQL gives.

Many more: `python -m tests.rule.grammar --engine datafusion --pairs 1000 --from SEED`.
"""

from collections import Counter
from collections.abc import Iterable

import pytest

from odfbuild.executors.engine.datafusion.engine import DataFusionEngine
from tests.rule.grammar.dialects import DATAFUSION, SPARK
from tests.rule.grammar.pairs import drawn_pair, outcome
from tests.rule.grammar.plain_datafusion import PlainDataFusion
from tests.support.effort import examples

_DRAWN = examples(40, 2_000)
_LOST = (218, 280)
"""Seeds of queries with fields of structs, of which DataFusion makes no plan on its own."""


def test_steps_leave_what_plain_batch_sql_gives_and_a_plan_says_whether_they_run() -> None:
    names = _outcomes([*range(_DRAWN), *_LOST])
    assert set(names) <= {"same", "refused", "invalid", "lenient"}
    assert names["same"] > 0.75 * _DRAWN


@pytest.mark.parametrize("seed", range(20))
def test_a_dialect_decides_on_words_alone(seed: int) -> None:
    ours, other = (drawn_pair(seed, dialect=each) for each in (DATAFUSION, SPARK))
    assert ours.query.transform.engine == "datafusion"
    assert other.query.transform.engine == "spark"
    again = drawn_pair(0, record=ours.record, dialect=DATAFUSION)
    assert (again.query, again.history) == (ours.query, ours.history)


def _outcomes(seeds: Iterable[int]) -> Counter[str]:
    engine, plain, names = DataFusionEngine(), PlainDataFusion(), Counter[str]()
    for seed in seeds:
        pair = drawn_pair(seed, dialect=DATAFUSION)
        found = outcome(engine, plain, pair, plans=engine)
        assert found.name not in {"differs", "fails"}, f"seed {seed}: {found}\n{pair.query}"
        names[found.name] += 1
    return names
