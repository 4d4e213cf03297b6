"""Which columns are made of which, and who uses one, over several queries."""

import pytest

from odfbuild.odf.events import (
    DatasetKind,
    FetchStepFilesGlob,
    MergeStrategyAppend,
    ReadStepCsv,
    SetPollingSource,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.evolution.columns.use import ColumnUse
from tests.planner.builders import declare, derivative

SOURCE = SetPollingSource(
    fetch=FetchStepFilesGlob(path="x"),
    read=ReadStepCsv(ddl_schema=("event_time TIMESTAMP", "id BIGINT", "fee BIGINT", "a STRING")),
    merge=MergeStrategyAppend(),
)
DECLARED = (
    declare("trades", DatasetKind.ROOT, (SOURCE,)),
    derivative("net", "trades", query="select event_time, id, fee * 2 as twice from trades"),
    derivative("some", "trades", query="select event_time, id from trades where fee > 0"),
    derivative("all", "trades", query="select * from trades"),
    derivative("report", "net", "some", query="select event_time, twice from net"),
    derivative("last", "report", query="select event_time, 1 as one from report"),
    derivative("odd", "all", query="select ][ from"),
    derivative("after", "odd", query="select event_time from odd"),
)


def use() -> ColumnUse:
    return ColumnUse(DECLARED, {}, {})


def users(dataset: str, column: str, steps: int | None = None) -> set[str]:
    return set(map(str, use().users(DatasetAlias.parse(dataset), column, steps)))


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("id", {"net", "some", "all", "odd", "after"}),
        ("a", {"all", "odd", "after"}),
        ("A", {"all", "odd", "after"}),
        ("nobody", set()),
    ],
)
def test_a_column_is_used_by_those_who_give_it_out(column: str, expected: set[str]) -> None:
    assert users("trades", column) == expected


def test_a_column_that_is_not_taken_on_is_not_used_any_further() -> None:
    assert users("net", "id") == set()
    assert users("net", "twice") == {"report"}
    assert users("report", "twice") == set()


def test_what_chooses_rows_touches_every_column_that_comes_out() -> None:
    assert users("trades", "fee", 1) == {"net", "some", "all"}
    assert "report" in users("trades", "fee", 2)


def test_a_query_that_cannot_be_read_uses_all_and_so_do_its_readers() -> None:
    assert users("all", "a") == {"odd", "after"}
    assert users("all", "a", 1) == {"odd"}


def test_columns_know_the_columns_that_they_are_made_of() -> None:
    made = use().made(DatasetAlias.parse("net"))
    assert made is not None
    assert {each.name: [f"{a}.{c}" for a, c in each.sources] for each in made} == {
        "event_time": ["trades.event_time"],
        "id": ["trades.id"],
        "twice": ["trades.fee"],
    }
    assert use().made(DatasetAlias.parse("odd")) is None
    roots = use().made(DatasetAlias.parse("trades"))
    assert roots is not None
    assert all(each.sources == () for each in roots)


@pytest.mark.parametrize(
    ("name", "query", "expected"),
    [
        ("net", "select event_time, fee from trades", "linear"),
        ("sums", "select id, sum(fee) as f from trades group by id", "state"),
        ("means", "select a, collect_set(fee) as f from trades group by a", "keyed"),
        ("sorted", "select * from trades order by fee limit 3", "whole"),
    ],
)
def test_columns_of_inputs_decide_how_a_query_is_computed(
    name: str, query: str, expected: str
) -> None:
    one = ColumnUse((DECLARED[0], derivative(name, "trades", query=query)), {}, {})
    found = one.query_class(DatasetAlias.parse(name))
    assert found is not None
    assert found.name == expected
    assert one.query_class(DatasetAlias.parse("trades")) is None
