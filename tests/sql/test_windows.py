"""Event-time windows wait for the watermark, whatever form they are written in."""

import pytest

from odfbuild.sql.analysis.engine_revisions import RevisionFault, affected
from odfbuild.sql.analysis.windows import (
    closing,
    has_windows,
    longest_window,
    loose_windows,
    odd_months,
)
from odfbuild.sql.text.parse import read
from odfbuild.sql.text.steps import QueryStep

END = "window.end <= timestamp_millis(1000L)"
SESSION_END = "if(count(*) > 0, session_window.end, null) <= timestamp_millis(1000L)"
CLOSING = {
    "select k from i group by window(t, '1 day'), k": (
        f"select k from i group by window(t, '1 day'), k HAVING {END}"
    ),
    "select k from i group by k, window(t, '2 days', '1 day') order by k": (
        f"select k from i group by k, window(t, '2 days', '1 day') HAVING {END} order by k"
    ),
    "select k from i group by window(t, '1 day') having n > 1 or m": (
        f"select k from i group by window(t, '1 day') having ( n > 1 or m) AND {END}"
    ),
    "select k from (select k from i group by session_window(t, '1 hour'), k) x": (
        "select k from (select k from i group by session_window(t, '1 hour'), k "
        f"HAVING {SESSION_END}) x"
    ),
    "select tumble_start(t, interval '1' day) a from i group by tumble(t, interval '1' day)": (
        f"select window.start a from i group by window(t, '1 day') HAVING {END}"
    ),
    "select hop_end(t, interval '1' hour, interval '2' hour) a from i "
    "group by hop(t, interval '1' hour, interval '2' hour)": (
        f"select window.end a from i group by window(t, '2 hour', '1 hour') HAVING {END}"
    ),
    "select session_rowtime(t, interval '5' minute) a from i "
    "group by session(t, interval '5' minute)": (
        "select if(count(*) > 0, (session_window.end - INTERVAL '0.001' SECOND), null) a from i "
        f"group by session_window(t, '5 minute') HAVING {SESSION_END}"
    ),
    "select k from i group by window(t, '1 day') union all "
    "select k from j group by window(t, '1 day')": (
        f"select k from i group by window(t, '1 day') HAVING {END} union all "
        f"select k from j group by window(t, '1 day') HAVING {END}"
    ),
}


@pytest.mark.parametrize("text", CLOSING)
def test_a_group_of_windows_gives_those_that_have_closed(text: str) -> None:
    assert has_windows(read(text))
    assert loose_windows(read(text)) == ()
    assert closing(read(text), 1000).text == CLOSING[text]


@pytest.mark.parametrize(
    ("item", "sent"),
    [
        ("session_window", "if(count(*) > 0, session_window, null) AS `session_window`"),
        ("session_window.end", "if(count(*) > 0, session_window.end, null) AS `end`"),
        ("session_window.start s", "if(count(*) > 0, session_window.start, null) s"),
        ("max(session_window.end) e", "max(session_window.end) e"),
        ("window_time(session_window) e", "window_time(session_window) e"),
        ("count(*) filter (where session_window.end > u) c", None),
        ("(select max(session_window) from u) m", None),
        (
            "cast(session_window.end as date) d",
            "cast(if(count(*) > 0, session_window.end, null) as date) d",
        ),
        (
            "lag(session_window.end) over (partition by k order by session_window.start) e",
            "lag(if(count(*) > 0, session_window.end, null)) over (partition by k "
            "order by if(count(*) > 0, session_window.start, null)) e",
        ),
    ],
)
def test_a_session_is_that_of_a_group_outside_of_aggregates(item: str, sent: str | None) -> None:
    text = "select k, {} from i group by session_window(t, '1 hour'), k"
    asked = closing(read(text.format(item)), 1000).text
    assert asked == f"{text.format(sent or item)} HAVING {SESSION_END}"


def test_without_a_watermark_no_window_closes() -> None:
    text = "select k from i group by window(t, '1 day'), k"
    assert closing(read(text), None).text == f"{text} HAVING false"


@pytest.mark.parametrize(
    "text",
    [
        "select k, count(*) from i group by k",
        "select sum(v) over w from i window w as (partition by k)",
        "select `window`, t.window from t",
        "select window, hop from i group by window, hop",
        "select date_trunc('day', t) as d from i group by 1 -- window(t, '1 day')",
    ],
)
def test_what_is_no_window_of_event_time_stays_as_it_is(text: str) -> None:
    assert not has_windows(read(text))
    assert loose_windows(read(text)) == ()
    assert closing(read(text), 1000).text == text


def test_a_window_that_nothing_groups_by_is_found_with_its_place() -> None:
    (found,) = loose_windows(read("select k,\n  window(t, '1 day').start as s from i"))
    assert (found.text, found.place.line, found.place.column) == ("window", 2, 3)
    text = "select window(t, '1 day').start as s from i group by window(t, '1 day')"
    assert loose_windows(read(text)) == ()


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("select k from i group by window(t, '1 day'), k", 24),
        ("select k from i group by window(t, '90 minutes', '1 hour')", 1.5),
        ("select k from i group by hop(t, interval '1' hour, interval '2' hour)", 2),
        ("select k from i group by session_window(t, '1 hour 30 minutes')", 1.5),
        ("select k from i group by session(t, interval 5 minutes)", 1 / 12),
        ("select k from i group by window(t, '1 week') union all "
         "select k from i group by window(t, '1 hour')", 168),
        ("select k from i group by session_window(t, case when a then '5 minutes' end)", None),
        ("select k from i group by window(t, '2 fortnights')", None),
        ("select k from i group by tumble(t, interval '1' month)", 31 * 24),
        ("select k from i group by tumble(t, '2 quarters')", 6 * 31 * 24),
        ("select k from i", 0),
    ],
)  # fmt: skip
def test_the_length_of_the_longest_window_is_told(text: str, hours: float | None) -> None:
    assert longest_window(read(text)) == (None if hours is None else hours * 3_600_000)


@pytest.mark.parametrize(
    ("call", "odd"),
    [
        *((f"tumble(t, interval '{n}' month)", n not in {1, 2, 3, 4, 6, 12}) for n in range(1, 15)),
        ("tumble(t, '1 quarter')", False),
        ("tumble(t, interval 2 quarters)", False),
        ("tumble(t, interval '3' quarter)", True),
        ("tumble(t, interval '1 year')", False),
        ("tumble(t, interval '2' years)", True),
        ("window(t, '1 month')", True),
        ("window(t, '1 day', '1 month')", True),
        ("hop(t, interval '1' month, interval '2' month)", True),
        ("session_window(t, '1 month')", True),
        ("tumble(t, interval '30' day)", False),
    ],
)
def test_months_are_windows_where_they_divide_a_year(call: str, odd: bool) -> None:
    text = f"select max(t) as t from i group by {call}, k"
    assert [each.text for each in odd_months(read(text))] == [call.partition("(")[0]] * odd


def test_months_that_have_closed_are_chosen_before_rows_are_grouped() -> None:
    text = "select tumble_end(t, interval '1' month) as t from i{} group by tumble(t, '1 month')"
    month = (
        "named_struct('start', date_trunc('MONTH', t), "
        "'end', date_trunc('MONTH', t) + make_ym_interval(0, 1))"
    )
    closed = f"{month}.end <= timestamp_millis(1000L)"
    expected = f"select {month}.end as t from i{{}} group by {month}"
    found = closing(read(text.format("")), 1000).text
    assert found == expected.format(f" WHERE {closed}")
    found = closing(read(text.format(" where a or b")), 1000).text
    assert found == expected.format(f" where ( a or b) AND {closed}")
    assert closing(read(text.format("")), None).text == expected.format(" WHERE false")


@pytest.mark.parametrize(
    ("texts", "cause"),
    [
        (["select session_window.start, count(*) from a group by session_window(t, '1 hour')"], 1),
        (["select 1, count(*) from a group by k, SESSION(t, interval '1' hour)"], 1),
        (["select 1 from a group by Session_Window(t, '1 hour')", "select * from x"], 1),
        (["select * from (select 1 from a group by session_window(t, '1 hour'), k)"], 1),
        (["select 1 from a group by tumble(t, interval '1' hour)"], None),
        (["select session_window from a group by session_window"], None),
        (["select 'session_window(t, 1)' as s, count(*) from a group by k"], None),
    ],
)
def test_sessions_of_earlier_revisions_may_be_cut_off(texts: list[str], cause: int | None) -> None:
    aliases = [*"xyz"[: len(texts) - 1], None]
    steps = [QueryStep(alias, text) for alias, text in zip(aliases, texts, strict=True)]
    expected = None if cause is None else RevisionFault.SESSIONS
    for version in ("4.3.0", "4.3.0+odfbuild.1", "4.3.0+odfbuild.4"):
        assert affected(steps, {}, version) is expected, version
    assert affected(steps, {}, "4.3.0+odfbuild.5") is None
    other = [QueryStep(each.alias, each.text, engine="datafusion") for each in steps]
    assert affected(other, {}, "51.0.0+odfbuild.1") is None
