"""Queries composed of grammar, over random histories: what steps leave is what batch SQL gives.

Many more: `python -m tests.rule.grammar --pairs 1000 --from SEED`, which says how to go on.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.sql.analysis.classes import query_class
from odfbuild.sql.analysis.facts import diagnostics, examine
from odfbuild.sql.query_class import CLASSES
from odfbuild.sql.text.steps import steps_of
from tests.rule.grammar.choices import Choices, smaller
from tests.rule.grammar.oracles import PlainSpark
from tests.rule.grammar.pairs import Pair, columns_of, drawn_pair, outcome
from tests.rule.grammar.queries import Composed
from tests.rule.grammar.tables import drawn_history, table

_DRAWN = 300
_AT = "timestamp'2020-01-01 00:00:00' as event_time"
_FORMERLY_WRONG = {  # with revision 1 of the engine: a star hid the key
    "history 2069 0": (
        (table("a", "n email l h"), table("b", "n email z l"), table("c", "m w z l K")),
        Composed(
            (
                (
                    None,
                    f"select *, {_AT} from (select * except (r) from (select z.* except (n), "
                    "cast(size(array(n, n)) as bigint) as n, rank() over (partition by p.k order "
                    "by n desc) as r from b as p) q where r = 1) q",
                ),
            )
        ),
    ),
    "history 2170 0": (
        (table("a", "n m email w z l h"), table("b", "m l h")),
        Composed(
            (
                ("s1", "select d.* except (w) from a as d where (d.n is null and d.h)"),
                (
                    None,
                    "select * from (select coalesce(concat(k, 'x'), 'p') as z, event_time + "
                    "interval '1' hour as event_time, a.z.* except (k), dense_rank() over "
                    "(partition by a.n order by a.w desc) as r from a) q where r = 1",
                ),
            )
        ),
    ),
}


def test_a_pair_is_made_again_by_its_seed_and_by_its_record() -> None:
    one, again = drawn_pair(7), drawn_pair(7)
    assert one == again
    by_record = drawn_pair(0, record=one.record)
    assert (by_record.query, by_record.history) == (one.query, one.history)
    other = drawn_pair(7, 1)
    assert other.query == one.query
    assert other.history != one.history


def test_a_record_becomes_smaller_as_long_as_it_fails() -> None:
    found = smaller([5, 1, 9, 3, 7, 2], lambda each: max(each, default=0) >= 9)
    assert found == [9]
    drawn = Choices("a seed")
    numbers = [drawn.below(10) for _ in range(5)]
    again = Choices(None, drawn.taken)
    assert [again.below(10) for _ in range(6)] == [*numbers, 0]


def test_most_queries_are_accepted_and_every_class_is_among_them() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(_DRAWN):
        pair = drawn_pair(seed)
        steps, seen = steps_of(pair.query.transform), columns_of(pair.tables)
        facts = examine(steps, list(seen))
        if not diagnostics(facts, facts.refused):
            kinds[query_class(steps, seen).name] += 1
    assert sum(kinds.values()) > 0.8 * _DRAWN
    assert set(kinds) == set(CLASSES)
    assert kinds["whole"] < 0.6 * _DRAWN


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainSpark]:
    found = PlainSpark(tmp_path_factory.mktemp("plain"))
    yield found
    found.close()


@pytest.mark.spark
def test_steps_leave_what_plain_batch_sql_gives(engine: SparkEngine, plain: PlainSpark) -> None:
    pairs = [
        Pair(tables, query, drawn_history(Choices(seed), tables), ((), ()))
        for seed, (tables, query) in _FORMERLY_WRONG.items()
    ]
    _check(engine, plain, [*pairs, *map(drawn_pair, range(10))])


@pytest.mark.spark
@pytest.mark.slow
def test_steps_of_many_pairs_do(engine: SparkEngine, plain: PlainSpark) -> None:
    _check(engine, plain, map(drawn_pair, range(1_000, 1_500)))


def _check(engine: SparkEngine, plain: PlainSpark, pairs: Iterable[Pair]) -> None:
    for pair in pairs:
        found = outcome(engine, plain, pair)
        assert found.name in {"same", "refused", "invalid"}, f"{found}\n{pair.query}"
