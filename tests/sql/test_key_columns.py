"""The columns of a key, and those that are the times of event-time windows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.odf.events import DataField, DataSchema, DataTypeInt32, DataTypeString
from odfbuild.sql.analysis.keys.key_columns import KeyColumns, key_columns, span_columns
from odfbuild.sql.text.steps import QueryStep
from tests.support.effort import examples

I = DataSchema(tuple(DataField(n, DataTypeString()) for n in ("k", "t", "u")))  # noqa: E741
J = DataSchema((DataField("k", DataTypeString()), DataField("w", DataTypeInt32())))


def key(text: str, **steps: str) -> KeyColumns | None:
    named = [QueryStep(alias, query) for alias, query in steps.items()]
    inputs = {"i": I, "j": J} if " j " in f"{text} {steps}" else {"i": I}
    return key_columns([*named, QueryStep(None, text)], inputs)


def test_a_key_is_found_in_inputs_and_result() -> None:
    found = key("select i.k as key, count(*) from i join j on i.k = j.k group by i.k")
    assert found == KeyColumns({"i": ("k",), "j": ("k",)}, ("key",), {})


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("select k, count(*) from i group by window(t, '1 day'), k", {"i": frozenset("t")}),
        ("select k, count(*) from (select k, u as t from i) group by k, session_window(t, '1 day')",
         {"i": frozenset("u")}),
        ("select k, count(*) from i group by tumble(i.t, interval '1' day), k",
         {"i": frozenset("t")}),
        ("select k, count(*) from i group by window(t + interval 1 day, '1 day'), k", None),
        ("select k, count(*) from (select k, t + interval 1 day as t from i) "
         "group by k, window(t, '1 day')", None),
    ],
)  # fmt: skip
def test_the_times_of_windows_are_found_in_the_inputs(
    text: str, times: dict[str, frozenset[str]] | None
) -> None:
    found = key(text)
    assert found is not None
    assert found.outputs == ("k",)
    assert (None if found.times is None else dict(found.times)) == times


def test_an_earlier_step_may_name_the_time() -> None:
    found = key(
        "select k, count(*) from s group by k, window(v, '1 day')", s="select k, t v from i"
    )
    assert found is not None
    assert found.times == {"i": frozenset({"t"})}


def test_without_a_key_that_the_inputs_have_there_is_none() -> None:
    assert key("select count(*) from i group by window(t, '1 day')") is None
    assert key("select count(*) from i") is None


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("select count(*) as c from i group by window(t, '1 day')", {"i": "t"}),
        ("select c + 1 as d from (select count(*) as c from (select u as v from i where k > 'a') "
         "group by hop(v, interval '1' hour, interval '1' day)) where c > 1", {"i": "u"}),
        ("select k, count(*) as c from i group by tumble(t, interval '1' day), k", {"i": "t"}),
        ("select count(*) as c from i group by session_window(t, '1 day')", {}),
        ("select count(*) as c from i group by window(t + interval 1 day, '1 day')", {}),
        ("select count(*) as c from i join j on i.k = j.k group by window(i.t, '1 day')", {}),
        ("select k, max(c) as c from (select k, count(*) as c from i group by window(t, '1 day'), "
         "k) group by k", {}),
        ("select k, count(*) as c from i group by k", {}),
        ("select count(*) as c from i", {}),
    ],
)  # fmt: skip
def test_a_query_that_works_by_windows_alone_tells_of_what_time(
    text: str, columns: dict[str, str]
) -> None:
    inputs = {"i": I, "j": J} if " j " in text else {"i": I}
    assert span_columns([QueryStep(None, text)], inputs) == columns


JOINS = st.sampled_from(["left join", "join", "full join"])


@pytest.mark.timeout(60)
@settings(max_examples=examples(60, 2_000))
@given(st.data())
def test_a_key_is_looked_for_to_an_end_whatever_is_joined(data: st.DataObject) -> None:
    """A later join may make both sides of an outer one equal, in any order of its conditions."""
    text = "select a.k from i as a"
    for count, alias in enumerate("bcd", start=1):
        columns = st.sampled_from([f"{each}.k" for each in "abcd"[:count]])
        others = data.draw(st.lists(columns, min_size=1, max_size=3, unique=True))
        sides = [data.draw(st.permutations([each, f"{alias}.k"])) for each in others]
        on = " and ".join(f"{left} = {right}" for left, right in sides)
        text += f" {data.draw(JOINS)} i as {alias} on {on}"
    found = key(text)
    assert found is None or set(found.inputs) == {"i"}
