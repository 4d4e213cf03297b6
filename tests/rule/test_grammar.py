"""Queries composed of grammar, over random histories: what steps leave is what batch SQL gives.

Many more: `python -m tests.rule.grammar --pairs 1000 --from SEED`, which says how to go on.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from odfbuild.executors.spark.engine import SparkEngine
from odfbuild.planner.sql.incremental import query_class
from odfbuild.planner.sql.query import diagnostics, examine, steps_of
from tests.rule.grammar.choices import Choices, smaller
from tests.rule.grammar.oracles import PlainSpark
from tests.rule.grammar.pairs import columns_of, drawn_pair, outcome

_DRAWN = 150
_FORMERLY_WRONG = (2069, 2170)  # with revision 1 of the engine: a star hid the key


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
    assert set(kinds) == {"linear", "join", "keyed", "state", "whole"}
    assert kinds["whole"] < 0.6 * _DRAWN


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainSpark]:
    found = PlainSpark(tmp_path_factory.mktemp("plain"))
    yield found
    found.close()


@pytest.mark.spark
def test_steps_leave_what_plain_batch_sql_gives(engine: SparkEngine, plain: PlainSpark) -> None:
    _check(engine, plain, [*_FORMERLY_WRONG, *range(18)])


@pytest.mark.spark
@pytest.mark.slow
def test_steps_of_many_pairs_do(engine: SparkEngine, plain: PlainSpark) -> None:
    _check(engine, plain, range(1_000, 1_500))


def _check(engine: SparkEngine, plain: PlainSpark, seeds: Iterable[int]) -> None:
    for seed in seeds:
        pair = drawn_pair(seed)
        found = outcome(engine, plain, pair)
        assert found.name in {"same", "refused", "invalid"}, f"{seed}: {found}\n{pair.query}"
