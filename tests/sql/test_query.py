"""A query is read once, whatever is asked of it and by how many."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from odfbuild.odf.events import (
    DatasetVocabulary,
    SqlQueryStep,
    TemporalTable,
    TransformSql,
)
from odfbuild.sql.analysis.facts import examine
from odfbuild.sql.analysis.keys.key_columns import step_key
from odfbuild.sql.query import Query, QueryInput
from odfbuild.sql.text.steps import QueryStep, steps_of
from tests.reads import texts_read
from tests.sql.sql_cases import CASES, INPUTS, Case

VOCAB = DatasetVocabulary()
ANSWERS = (
    *("facts", "problems", "key", "spans", "products", "accumulators", "sums", "order_free"),
    *("waits", "longest_wait", "versioned", "read_plainly"),
)
SEVERAL = TransformSql(
    engine="spark",
    queries=(
        SqlQueryStep(alias="daily", query="select day, symbol, rate, event_time from rates"),
        SqlQueryStep(
            query="select t.event_time, t.symbol, r.rate from trades t join daily "
            "for system_time as of t.event_time as r on r.symbol = t.symbol"
        ),
    ),
    temporal_tables=(TemporalTable("daily", ("symbol",)),),
)


def over(transform: TransformSql) -> Query:
    return Query.of(
        transform, (QueryInput(name, each, VOCAB) for name, each in INPUTS.items()), VOCAB
    )


def one(text: str) -> TransformSql:
    return TransformSql(engine="spark", query=text)


@pytest.mark.parametrize(
    "transform", [*(one(case.query) for case in CASES), SEVERAL], ids=lambda each: each.query or ""
)
def test_no_text_is_read_twice(transform: TransformSql) -> None:
    with texts_read() as read:
        query = over(transform)
        for name in (*ANSWERS, *reversed(ANSWERS)):
            getattr(query, name)
    assert {step.text for step in query.steps} <= read.keys()
    assert set(read.values()) == {1}


def test_other_inputs_do_not_have_it_read_again() -> None:
    named = Query.of(SEVERAL, (QueryInput(name, None, VOCAB) for name in INPUTS), VOCAB)
    with texts_read() as read:
        assert named.waits
        query = named.over(QueryInput(name, each, VOCAB) for name, each in INPUTS.items())
        assert query.facts.inputs == ("rates", "trades")
    assert set(read.values()) == {1}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_it_says_what_its_steps_say(case: Case) -> None:
    transform = one(case.query)
    query, steps = over(transform), steps_of(transform)
    assert query.facts == examine(steps, INPUTS)
    assert query.key == step_key(steps, {name: INPUTS[name] for name in query.facts.inputs})


@pytest.mark.parametrize("transform", [one(CASES[0].query), SEVERAL], ids=["one", "several"])
def test_several_threads_get_the_same_answers(transform: TransformSql) -> None:
    query, expected = over(transform), over(transform)
    asked = [name for name in ANSWERS for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda name: getattr(query, name), asked))
    assert found == [getattr(expected, name) for name in asked]


def test_a_copy_of_a_step_in_another_process_reads_for_itself() -> None:
    step = QueryStep("a", "select k from t", (("t", ("k",)),))
    bare = pickle.dumps(step)
    assert step.statement.outputs == ("k",)
    assert pickle.dumps(step) == bare
    assert pickle.loads(bare) == step  # noqa: S301
