"""Spark's analyser: the columns of any query, errors at their places, and nothing asked twice."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.data.slice_schema import slice_schema
from odfbuild.executors.engine.analysis import (
    AnalysedInput,
    Analysis,
    PlacedQueryError,
    QueryPlace,
    RefusedQueryError,
)
from odfbuild.executors.engine.columns import (
    AnalysedColumns,
    Asker,
    ColumnsOf,
    data_schema,
    full_schema,
)
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.chain.state import vocabulary
from odfbuild.odf.events import SetVocab
from odfbuild.odf.schema.ddl import column_lines, parse_ddl
from odfbuild.planner.declared import Declared
from odfbuild.project.lock.state import Definitions
from odfbuild.sql.text.steps import QueryStep
from odfbuild.state.memory.engine_answers import Answers
from tests.planner.builders import derivative, root
from tests.support.engines import FakeEngine

pytestmark = pytest.mark.spark

VOCAB = vocabulary(SetVocab())
SCHEMA = parse_ddl(
    "event_time TIMESTAMP NOT NULL, k STRING, v BIGINT, d DECIMAL(10,2), "
    "s STRUCT<a INT, b ARRAY<STRING>>"
)


def question(*texts: str) -> Analysis:
    """Ask about steps; all but the last can be read as s0, s1, ..."""
    last = len(texts) - 1
    steps = (QueryStep(None if at == last else f"s{at}", text) for at, text in enumerate(texts))
    source = AnalysedInput("my.in", full_schema(SCHEMA, VOCAB), VOCAB)
    return Analysis(steps=tuple(steps), inputs=(source,), vocab=VOCAB)


def columns(engine: SparkEngine, *texts: str) -> tuple[str, ...]:
    stored = slice_schema(engine.analyse(question(*texts)), VOCAB, None)
    return column_lines(data_schema(stored, VOCAB))


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (
            ["select * from `my.in`"],
            ["k STRING", "v BIGINT", "d DECIMAL(10,2)", "s STRUCT<a INT, b ARRAY<STRING>>"],
        ),
        (
            ["select event_time, sum(v) n, max(d) m from `my.in` group by event_time"],
            ["n BIGINT", "m DECIMAL(10,2)"],
        ),
        (
            ["select a.event_time, b.s.b from `my.in` a join `my.in` b on a.k = b.k"],
            ["b ARRAY<STRING>"],
        ),
        (
            ["select event_time, row_number() over (partition by k order by v) n from `my.in`"],
            ["n INT"],
        ),
        (
            ["select event_time, k as kk from `my.in`", "select event_time, length(kk) n from s0"],
            ["n INT"],
        ),
        (["select op, event_time, offset as o from `my.in`"], ["o BIGINT"]),
        (
            [
                "select tumble_start(event_time, interval '1' day) as event_time, sum(v) as n "
                "from `my.in` group by tumble(event_time, interval '1' day)"
            ],
            ["n BIGINT"],
        ),
    ],
    ids=["star", "group", "join", "window", "steps", "raw event log", "event-time window"],
)
def test_any_query_has_columns(engine: SparkEngine, texts: list[str], expected: list[str]) -> None:
    assert columns(engine, *texts) == ("event_time TIMESTAMP NOT NULL", *expected)


@pytest.mark.parametrize(
    ("texts", "place"),
    [
        (["select event_time,\n  kk from `my.in`"], QueryPlace(0, 21, 2)),
        (["select event_time, k from `my.in`", "select event_time, z from s0"], QueryPlace(1, 19)),
        (["select event_time, s.zz from `my.in`"], QueryPlace(0, 19, 4)),
        (["select event_time, '\U0001f600' as y, kk from `my.in`"], QueryPlace(0, 29, 2)),
    ],
)
def test_an_error_has_its_place(engine: SparkEngine, texts: list[str], place: QueryPlace) -> None:
    with pytest.raises(PlacedQueryError) as caught:
        engine.analyse(question(*texts))
    assert caught.value.at == place
    assert "(line" in caught.value.what
    assert "(line" not in caught.value.message


@pytest.mark.parametrize("query", ["select v from `my.in`", "select event_time, v, v from `my.in`"])
def test_a_result_that_is_no_dataset_is_refused(engine: SparkEngine, query: str) -> None:
    with pytest.raises(InvalidQueryError):
        engine.analyse(question(query))


@pytest.mark.parametrize(
    "value",
    [
        "lag(v) over (order by k rows between 1 preceding and current row)",
        "lag(v, k) over (order by k)",
        "cast(v as decimal(40,2))",
        "sum(v) over (order by k rows between 1 following and 1 preceding)",
    ],
)
def test_what_the_analyser_refuses_under_any_name_is_the_query(
    engine: SparkEngine, value: str
) -> None:
    with pytest.raises(PlacedQueryError) as caught:
        engine.analyse(question(f"select event_time, {value} as x from `my.in`"))
    assert "_LEGACY" not in str(caught.value)


@pytest.mark.parametrize(
    ("expr", "place"),
    [
        ("make_date(2024, 13, 1)", 19),
        ("nullif(v, 2147483647 + 1)", 29),
        ("sequence(1, 5, -1)", 19),
        ("upper(url_decode('%zz'))", 25),
        ("v + array(1, 2)[5]", 23),
    ],
)
def test_a_constant_that_every_row_needs_is_worked_out(
    engine: SparkEngine, expr: str, place: int
) -> None:
    with pytest.raises(PlacedQueryError) as caught:
        engine.analyse(question(f"select event_time, {expr} as x from `my.in`"))
    assert caught.value.at is not None
    assert caught.value.at.start == place


@pytest.mark.parametrize(
    "expr",
    [
        "if(v > 1, make_date(2024, 13, 1), null)",
        "coalesce(v, 2147483647 + 1)",
        "v > 1 or 2147483647 + 1 > v",
        "try_divide(v, 0)",
        "transform(array(v), x -> 2147483647 + 1)",
        "case when false then array(1)[5] end",
        "try_url_decode('%zz')",
        "v + array(1, 2)[1] + exp(1000)",
    ],
)
def test_a_constant_that_no_row_may_need_is_not(engine: SparkEngine, expr: str) -> None:
    assert columns(engine, f"select event_time, {expr} as x from `my.in`")


def test_a_query_that_may_give_other_rows_each_time_is_refused(engine: SparkEngine) -> None:
    with pytest.raises(RefusedQueryError):
        engine.analyse(question("select event_time, rand() as r from `my.in`"))


def resolved(project: Sequence[Declared], asker: Asker) -> dict[str, AnalysedColumns]:
    found = ColumnsOf(Definitions(project), asker)
    return {str(each.alias): found(each.alias) for each in project}


def test_spark_is_not_asked_again_what_it_answered(engine: SparkEngine, tmp_path: Path) -> None:
    project = [
        root("a"),
        derivative("b", "a", query="select event_time, a / 2 as half from a"),
        derivative("c", "b", query="select event_time, half + x as y from b"),
    ]
    answers = Answers(tmp_path / "answers.sqlite")
    first = resolved(project, Asker(lambda: engine, "1", answers))
    assert first["b"].lines == ("event_time TIMESTAMP NOT NULL", "half DOUBLE")
    assert [each.code for each in first["c"].found] == ["invalid-query"]
    other = FakeEngine()
    assert resolved(project, Asker(lambda: other, "1", answers)) == first
    assert other.asked == []
    answers.close()


@pytest.mark.parametrize(
    ("key", "refused"),
    [
        ("map('a', v)", True),
        ("array(map('a', v))", True),
        ("named_struct('m', map('a', v > 1))", True),
        ("map(1, map('a', event_time))", True),
        ("map('a', coalesce(v, 0))", False),
        ("map('a', k)", False),
        ("map('a', array(v))", False),
        ("array_sort(map_entries(map('a', v)))", False),
    ],
)
def test_no_group_is_of_a_map_in_which_spark_takes_nulls_for_zeros(
    engine: SparkEngine, key: str, refused: bool
) -> None:
    text = f"select max(event_time) as event_time, to_json(m) as j from (select event_time, {key} "
    asked = question(f"{text} as m from `my.in`) group by m")
    if not refused:
        assert engine.analyse(asked)
        return
    with pytest.raises(PlacedQueryError, match=r"a group for each value of a .*MAP") as caught:
        engine.analyse(asked)
    assert "to_json" in caught.value.fix
