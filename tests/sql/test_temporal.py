"""Joins with versions of tables: what Spark is asked, what is wrong with them, and where."""

import pytest

from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DataTypeInt64,
    DataTypeString,
    DataTypeTimestamp,
    SqlQueryStep,
    TemporalTable,
    TimeUnit,
    TransformSql,
)
from odfbuild.sql.analysis.as_of_joins import column_problems
from odfbuild.sql.analysis.engine_revisions import RevisionFault, affected
from odfbuild.sql.analysis.facts import diagnostics, examine
from odfbuild.sql.analysis.keys.key_columns import key_columns
from odfbuild.sql.analysis.windows import longest_wait, waits
from odfbuild.sql.columns import columns_of
from odfbuild.sql.columns.output import ColumnRef
from odfbuild.sql.findings import Reason
from odfbuild.sql.text.as_of_joins import as_of, as_of_joins, read_plainly
from odfbuild.sql.text.parse import read
from odfbuild.sql.text.steps import QueryStep, steps_of

DUE = "LEFT SEMI JOIN (SELECT 1) ON {} <= timestamp_millis(7L)"
MET = (
    "LATERAL (SELECT __odf_row.* FROM `__odf_versions_{0}` WHERE __odf_from <= {1} "
    "AND (__odf_to IS NULL OR {1} < __odf_to))"
)
CHANGED = {
    "select l.k, r.v from l join t for system_time as of l.at as r on r.k = l.k": (
        f"select l.k, r.v from l {DUE.format('l.at')} join {MET.format('t', 'l.at')} as r "
        "on r.k = l.k"
    ),
    "select l.k, t.v from l LEFT OUTER JOIN t FOR SYSTEM_TIME AS OF l.at ON t.k = l.k where v": (
        f"select l.k, t.v from l {DUE.format('l.at')} LEFT OUTER JOIN {MET.format('t', 'l.at')} "
        "AS t ON t.k = l.k where v"
    ),
    "select v from `x.l` l inner join `x.t` for system_time as of `at` r (k, v) on r.k = l.k": (
        f"select v from `x.l` l {DUE.format('`at`')} inner join {MET.format('x.t', '`at`')} "
        "r (k, v) on r.k = l.k"
    ),
    "select * from (select * from l left join t for system_time as of l.at on t.k = l.k) join "
    "u for system_time as of at as u2 on u2.k = k": (
        f"select * from (select * from l {DUE.format('l.at')} left join {MET.format('t', 'l.at')} "
        f"AS t on t.k = l.k) {DUE.format('at')} join {MET.format('u', 'at')} as u2 on u2.k = k"
    ),
}
KEYS = (("t", ("k",)),)
JOINED = "select l.k, r.v from l join t for system_time as of l.event_time as r on r.k = l.k"
SCHEMA = DataSchema(
    (
        DataField("event_time", DataTypeTimestamp(TimeUnit.MILLISECOND, "UTC")),
        DataField("other_time", DataTypeTimestamp(TimeUnit.MILLISECOND, "UTC")),
        DataField("k", DataTypeString()),
        DataField("v", DataTypeInt64()),
    )
)
INPUTS = {"l": SCHEMA, "t": SCHEMA, "u": SCHEMA}


def said(text: str, keys: tuple[tuple[str, tuple[str, ...]], ...] = KEYS) -> list[tuple[str, str]]:
    """Return what is refused of versions in a query, and what should be done."""
    facts = examine([QueryStep(None, text, keys)], INPUTS)
    found = diagnostics(facts, [Reason.TEMPORAL])
    return [(each.what, each.fix or "") for each in found]


@pytest.mark.parametrize("text", CHANGED)
def test_rows_meet_versions_by_a_lateral_join(text: str) -> None:
    assert as_of(read(text), 7).text == CHANGED[text]


def test_without_a_watermark_no_row_appears() -> None:
    text = "select l.k from l join t for system_time as of l.at as r on r.k = l.k"
    assert " LEFT SEMI JOIN (SELECT 1) ON false join LATERAL (" in as_of(read(text), None).text


@pytest.mark.parametrize("text", CHANGED)
def test_places_lead_back_into_the_text(text: str) -> None:
    changed = as_of(read(text), 7)
    for word in ("select", "on ", "= l.k", "where"):
        if word in text:
            assert changed.origin(changed.text.rindex(word)) == text.rindex(word)


@pytest.mark.parametrize(
    "text",
    [
        "select k from l",
        "select 'for system_time as of x' as k from l",
        "select system_time as of_, k as `for system_time as of` from l",
        "select k from l -- for system_time as of l.at",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert as_of_joins(read(text)) == ()
    assert as_of(read(text), 7).text == text
    assert not waits([QueryStep(None, text)])


def test_a_table_may_be_read_by_its_versions_its_rows_or_both() -> None:
    join = "join t for system_time as of l.at as r on r.k = l.k"
    assert read_plainly(read(f"select 1 from l {join}")) == {"l"}
    assert read_plainly(read(f"select 1 from l {join} join t on t.k = l.k")) == {"l", "t"}


REFUSED = {
    "select 1 from l join u for system_time as of l.event_time as r on r.k = l.k and l.v = r.v": (
        "the versions of 'u', which has no primary key (line 1, column 22)",
        "add temporalTables: [{name: u, primaryKey: [k, v]}] to the transform",
    ),
    "select 1\nfrom l join t for system_time as of l.event_time using (k)": (
        "a join with the versions of 't' without ON (line 2, column 15)",
        "write JOIN b FOR SYSTEM_TIME AS OF a.event_time AS b ON b.key = a.key",
    ),
    "select 1 from l, t for system_time as of l.event_time as r where r.k = l.k": (
        "FOR SYSTEM_TIME AS OF of 't' that is not joined (line 1, column 20)",
        "write JOIN b FOR SYSTEM_TIME AS OF a.event_time AS b ON b.key = a.key",
    ),
    "select 1 from t for system_time as of t.event_time": (
        "FOR SYSTEM_TIME AS OF of 't' that is not joined (line 1, column 17)",
        "write JOIN b FOR SYSTEM_TIME AS OF a.event_time AS b ON b.key = a.key",
    ),
    "select 1 from l full join t for system_time as of l.event_time as r on r.k = l.k": (
        "FULL JOIN with the versions of 't' (line 1, column 29)",
        "use JOIN or LEFT JOIN: versions are found for the left side",
    ),
    "select 1 from l join t for system_time as of timestamp '2020-01-01' as r on r.k = l.k": (
        "FOR SYSTEM_TIME AS OF something other than a column (line 1, column 46)",
        "name the event time of the left side: "
        "JOIN b FOR SYSTEM_TIME AS OF a.event_time AS b ON b.key = a.key",
    ),
    "select 1 from l join t for system_time as of l.event_time + interval 1 day r on r.k = l.k": (
        "FOR SYSTEM_TIME AS OF something other than a column (line 1, column 46)",
        "name the event time of the left side: "
        "JOIN b FOR SYSTEM_TIME AS OF a.event_time AS b ON b.key = a.key",
    ),
    "select 1 from l x join t for system_time as of l.event_time as r on r.k = x.k": (
        "l.event_time is not a column of the left side (line 1, column 48)",
        "name the event time of x",
    ),
    "select 1 from l join t for system_time as of r.event_time as r on r.k = l.k": (
        "r.event_time is not a column of the left side (line 1, column 46)",
        "name the event time of l",
    ),
    "with t as (select * from u) "
    "select 1 from l join t for system_time as of l.event_time as r on r.k = l.k": (
        "the versions of 't', which is a part of WITH (line 1, column 50)",
        "make it a step of the query, with that alias",
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_wrong_is_said_with_its_place_and_a_way_out(text: str) -> None:
    assert said(text) == [REFUSED[text]]


@pytest.mark.parametrize(
    "text",
    [
        "select 1 from l where k in (select l.k from l right join t for system_time as of "
        "l.event_time as r on r.k = l.k)",
        "select 1 from (l right join t for system_time as of l.event_time as r on r.k = l.k)",
        "select 1 from (select 1 from l right join t for system_time as of l.event_time as r "
        "on r.k = l.k)",
        "with x as (select 1 from l right join t for system_time as of l.event_time as r "
        "on r.k = l.k) select 1 from x",
        "select 1 from l union all select 1 from l right join t for system_time as of "
        "l.event_time as r on r.k = l.k",
    ],
)
def test_joins_are_found_wherever_they_stand(text: str) -> None:
    assert [what.split(" (line")[0] for what, _ in said(text)] == [
        "RIGHT JOIN with the versions of 't'"
    ]


@pytest.mark.parametrize(
    ("keys", "what", "fix"),
    [
        ((("tt", ("k",)),), "'tt' is neither an input nor a step", "did you mean 't'?"),
        ((("t", ()),), "'t' has an empty primary key", "name the columns"),
        ((("t", ("k",)), ("t", ("v",))), "'t' is declared twice", "omit one of them"),
    ],
)
def test_temporal_tables_are_inputs_or_steps_with_a_key(
    keys: tuple[tuple[str, tuple[str, ...]], ...], what: str, fix: str
) -> None:
    found = said("select * from t", keys)
    assert len(found) == 1
    assert what in found[0][0]
    assert "(line" not in found[0][0]
    assert fix in found[0][1]


def test_a_step_may_have_versions() -> None:
    steps = steps_of(
        TransformSql(
            engine="spark",
            queries=(
                SqlQueryStep(alias="s", query="select * from t"),
                SqlQueryStep(
                    query="select l.* from l join s for system_time as of l.event_time on s.k = l.k"
                ),
            ),
            temporal_tables=(TemporalTable("s", ("k",)),),
        )
    )
    assert examine(steps, INPUTS).about(Reason.TEMPORAL) == ()
    assert waits(steps)


def _columns(text: str, *keys: str) -> list[tuple[int, str, int]]:
    steps = [QueryStep(None, text, (("t", keys),))]
    found = column_problems(steps, INPUTS, dict.fromkeys(INPUTS, "event_time"))
    return [(each.step, each.name, each.place.column) for each in found]


def test_a_primary_key_is_made_of_columns_of_its_table() -> None:
    assert _columns("select * from t", "k", "v") == []
    lacks = "the temporal table 't' has no column 'kk' for its primary key"
    assert _columns("select * from t", "k", "kk") == [(1, lacks, 1)]


@pytest.mark.parametrize(
    ("left", "time", "wrong"),
    [
        ("l", "l.event_time", False),
        ("l", "event_time", False),
        ("l", "l.other_time", True),
        ("l", "other_time", True),
        ("l as x", "x.other_time", True),
        ("u join l on u.k = l.k", "l.other_time", True),
        ("(select other_time as at, k from l) x", "x.at", False),
    ],
)
def test_a_row_is_looked_at_when_it_happened(left: str, time: str, wrong: bool) -> None:
    found = _columns(
        f"select 1 from {left} join t for system_time as of {time} as r on r.k = r.k", "k"
    )
    said = [(0, f"{time} is not the event time of 'l'", 45 + len(left))]
    assert found == (said if wrong else [])


def test_the_columns_of_a_version_come_with_a_row_and_its_key_decides() -> None:
    text = "select l.k, r.v from l left join t for system_time as of l.event_time as r on r.k = l.k"
    found = columns_of([QueryStep(None, text, (("t", ("k",)),))], INPUTS)
    assert [each.name for each in found.outputs or ()] == ["k", "v"]
    assert {ColumnRef("l", "event_time"), ColumnRef("t", "k")} <= found.shaping
    absent = columns_of([QueryStep(None, text, (("t", ("q",)),))], INPUTS).unknown_columns
    assert [(each.name, each.place and each.place.start) for each in absent] == [("q", 33)]


@pytest.mark.parametrize("join", ["join", "left join"])
@pytest.mark.parametrize(
    ("on", "keys", "used"),
    [
        ("r.k = l.k", ("k",), ("k",)),
        ("r.k = l.k", ("k", "v"), ("k",)),
        ("l.v = r.v and r.k = l.k", ("k", "v"), ("k", "v")),
        ("l.v = r.v and r.k = l.k", ("k",), ("k",)),
        ("l.v = r.v", ("k",), None),
        ("r.k < l.k", ("k",), None),
    ],
)
def test_a_step_works_by_the_columns_of_the_primary_key_that_are_compared(
    join: str, on: str, keys: tuple[str, ...], used: tuple[str, ...] | None
) -> None:
    text = f"select l.* from l {join} t for system_time as of l.event_time as r on {on}"
    found = key_columns([QueryStep(None, text, (("t", keys),))], {"l": SCHEMA, "t": SCHEMA})
    assert (None if found is None else sorted(found.inputs["t"])) == (used and sorted(used))
    if found is not None:
        assert found.times == {"l": frozenset({"event_time"})}


def test_rows_wait_for_their_own_time_or_for_the_longest_window() -> None:
    join = "select 1 from l join t for system_time as of l.event_time as r on r.k = l.k"
    group = "select 1 from l group by window(event_time, '2 hours')"
    odd = "select 1 from l group by window(event_time, x)"
    assert longest_wait([QueryStep(None, join)]) == 0
    assert longest_wait([QueryStep(None, join), QueryStep(None, group)]) == 7_200_000
    assert longest_wait([QueryStep(None, join), QueryStep(None, odd)]) is None


def test_a_step_over_a_group_works_by_what_both_have_in_common() -> None:
    text = (
        "select q.*, r.v as rate from (select max(event_time) as event_time, k, v from l "
        "group by k, v) q join t for system_time as of q.event_time as r on r.k = q.k"
    )
    found = key_columns([QueryStep(None, text, KEYS)], INPUTS)
    assert found is not None
    assert found.inputs == {"l": ("k",), "t": ("k",)}
    assert found.times is None, "the greatest time of a group is no column of an input"
    other = key_columns(
        [QueryStep(None, text.replace("r.k = q.k", "r.k = q.event_time"), KEYS)], INPUTS
    )
    assert other is None


def test_a_step_looks_at_everything_for_versions_by_another_key_than_the_left_side() -> None:
    text = (
        "select q.*, r.k as rk from (select event_time, k, v, sum(v) over (partition by k) as s "
        "from l) q join t for system_time as of q.event_time as r on r.v = q.v"
    )
    assert key_columns([QueryStep(None, text, (("t", ("v",)),))], INPUTS) is None
    assert key_columns([QueryStep(None, text.replace("by k", "by v"), (("t", ("v",)),))], INPUTS)


@pytest.mark.parametrize(
    ("steps", "cause"),
    [
        ([QueryStep(None, JOINED, KEYS)], RevisionFault.VERSIONS),
        ([QueryStep("t", "select * from u"), QueryStep(None, JOINED, KEYS)], None),
        (
            [QueryStep("x", JOINED, KEYS), QueryStep(None, "select * from x")],
            RevisionFault.VERSIONS,
        ),
        ([QueryStep(None, "select * from l join t on t.k = l.k", KEYS)], None),
    ],
    ids=["of an input", "of a step", "in a step", "not its versions"],
)
def test_queries_that_read_versions_of_an_input_are_affected(
    steps: list[QueryStep], cause: RevisionFault | None
) -> None:
    """An earlier revision let versions that had been corrected come back."""
    assert affected(steps, INPUTS, "4.3.0+odfbuild.1") is cause
    assert affected(steps, INPUTS, "4.3.0+odfbuild.2") is None
