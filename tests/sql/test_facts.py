"""What a query text says: its inputs, whether it works row by row, and what it must not use."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.events import SqlQueryStep, TransformSql
from odfbuild.sql.analysis.facts import QueryFacts, diagnostics, examine
from odfbuild.sql.findings import Reason
from odfbuild.sql.text.edits import CarriedText, carry
from odfbuild.sql.text.parse import read
from odfbuild.sql.text.statement import CLOCK_WORDS
from odfbuild.sql.text.steps import QueryStep, steps_of


def facts(text: str, *inputs: str, **steps: str) -> QueryFacts:
    named = [QueryStep(alias, query) for alias, query in steps.items()]
    return examine([*named, QueryStep(None, text)], inputs or ("t",))


LINEAR = [
    "SELECT op, event_time, symbol, value * 10 AS value FROM t",
    "select * from t where a > 1 and b in (1, 2) or c like 'x%' or d between 1 and 2",
    "select *, explode(split(names, ',')) as name from t",
    "select k, v from t lateral view outer explode(m) e as k, v",
    "select a from t union all (select b from t) union all select c from t",
    "with x as (select a from t), y (b) as (select a from x) select b from y",
    "select q.* from (select a.b as c, t.* except (a) from t) as q",
    "select if(a > 1, 'x', null), case when a then b end, transform(c, x -> x + 1) from t",
    "from t select a",
    "select a, from, to from t",
    "select a -- what follows is no clause: group by\nfrom t /* limit 1 */",
    "select a from t;",
    "select 'group by' as `order by` from t",
    "select cast(a as decimal(10, 2)) as `distinct` from `t`",
]


@pytest.mark.parametrize("text", LINEAR)
def test_projections_filters_generators_and_unions_are_linear(text: str) -> None:
    found = facts(text)
    assert found.findings == ()
    assert (found.kind, found.is_linear, found.inputs) == ("linear", True, ("t",))


OTHER = {
    "select distinct a from t": "DISTINCT",
    "select a from t group by a": "GROUP BY",
    "select count(*) from t": "the aggregate count()",
    "select a, sum(b) as s from t": "the aggregate sum()",
    "select a from t order by a": "ORDER BY",
    "select a from t sort by a": "SORT BY",
    "select a from t limit 3": "LIMIT",
    "select a from t, u": "JOIN",
    "select a from t left join u using (a)": "JOIN",
    "select row_number() over (partition by a order by b) from t": "a window function (OVER)",
    "select a from t union select a from u": "UNION without ALL",
    "select a from t intersect select a from u": "INTERSECT",
    "select a from t except select a from u": "EXCEPT",
    "select a from t where a in (select b from u)": "a subquery in an expression",
    "select (select max(b) from u) as m from t": "a subquery in an expression",
    "select 1 as a": "SELECT without FROM",
    "select * from range(10)": "a table function or VALUES",
    "select a from t tablesample (10 percent)": "TABLESAMPLE",
    "select * from (select * from t) pivot (max(a) for b in (1, 2))": "PIVOT",
    "select * from t unpivot (v for k in (a))": "UNPIVOT",
    "select window(event_time, '1 day') from t": "the window window()",
    "select a from t having a > 1": "HAVING",
}


@pytest.mark.parametrize(("text", "clause"), OTHER.items(), ids=OTHER.values())
def test_what_is_not_row_by_row_is_named(text: str, clause: str) -> None:
    found = facts(text, "t", "u")
    assert found.kind == clause
    assert clause in diagnostics(found)[0].what


def test_the_place_of_a_clause_is_told() -> None:
    finding = facts("select a\nfrom t\n  group by a").about(Reason.NOT_LINEAR)[0]
    assert (finding.place.line, finding.place.column, finding.place.start) == (3, 3, 18)


FORBIDDEN = {
    "select rand() from t": Reason.NOT_DETERMINISTIC,
    "select `uuid`() from t": Reason.NOT_DETERMINISTIC,
    "select now() from t": Reason.NOT_DETERMINISTIC,
    "select current_date from t": Reason.NOT_DETERMINISTIC,
    "select current_timestamp() from t": Reason.NOT_DETERMINISTIC,
    "select `current_timestamp` from t": Reason.NOT_DETERMINISTIC,
    "select unix_timestamp() from t": Reason.NOT_DETERMINISTIC,
    "select date 'today' from t": Reason.NOT_DETERMINISTIC,
    "select timestamp'now' from t": Reason.NOT_DETERMINISTIC,
    "select monotonically_increasing_id() from t": Reason.NOT_DETERMINISTIC,
    "select input_file_name() from t": Reason.ENVIRONMENT,
    "select system.builtin.current_user() from t": Reason.ENVIRONMENT,
    "select identifier('a') from t": Reason.ENVIRONMENT,
    "select reflect('java.lang.System', 'exit', 1) from t": Reason.FOREIGN_CODE,
    "select java_method('java.util.UUID', 'randomUUID') from t": Reason.FOREIGN_CODE,
}


@pytest.mark.parametrize(("text", "reason"), FORBIDDEN.items())
def test_what_may_change_from_run_to_run_is_refused_with_its_place(
    text: str, reason: Reason
) -> None:
    finding = facts(text).about(reason)[0]
    at = finding.place
    assert text[at.start :].lstrip("`").startswith(finding.name.strip("()"))
    assert f"column {at.column}" in diagnostics(facts(text), [reason])[0].what


@pytest.mark.parametrize("name", sorted(CLOCK_WORDS))
@pytest.mark.parametrize("form", ["{}", "`{}`"])
@pytest.mark.parametrize(("plain", "alike"), [("s", "\u017f"), ("i", "\u0131"), ("I", "\u0130")])
def test_a_word_for_the_time_is_one_however_it_is_spelt(
    name: str, form: str, plain: str, alike: str
) -> None:
    """Python's own rule for letters without regard to case is another than Java's."""
    spelt = name.upper().replace("I", "i" if plain == "i" else "I").replace(plain, alike)
    text = f"select {form.format(spelt)} from t"
    assert [each.name for each in facts(text).about(Reason.NOT_DETERMINISTIC)] == [name]


@pytest.mark.parametrize("name", sorted(CLOCK_WORDS))
def test_a_column_that_has_the_name_of_a_clock_is_read_by_its_table(name: str) -> None:
    """A text is judged without its schemas, so a name alone proves no column."""
    (found,) = diagnostics(facts(f"select `{name}` from t"))
    assert found.fix.startswith(f"write t.`{name}` for a column of that name")
    assert "it is not known whether Spark reads the column or the clock" in found.fix
    assert facts(f"select t.`{name}` from t").findings == ()


@pytest.mark.parametrize(
    "text",
    [
        "select t.now, t.current_date from t",
        "select a as now, b as current_timestamp from t",
        "select 'rand()' as text, \"now()\" as more from t",
        "select unix_timestamp(a, 'yyyy') from t",
        "select date '2020-01-01', cast('2020-01-01' as date) from t",
        "select t.`current_date`, 1 as `current_time` from t",
    ],
)
def test_names_and_texts_that_only_look_forbidden_are_not(text: str) -> None:
    assert facts(text).findings == ()


REFUSED = {
    "": "syntax-error",
    "select a fro t where": "syntax-error",
    "select 'a from t": "syntax-error",
    "select a from t where )": "syntax-error",
    "select a from t |> where a": "syntax-error",
    "select a from t; select b from t": "several-statements",
    "drop table t": "not-a-select",
    "insert into t select a from t": "not-a-select",
    "create function f as 'x'": "not-a-select",
    "values (1)": "not-a-select",
    "set spark.sql.ansi.enabled = false": "not-a-select",
    "add jar 'x.jar'": "not-a-select",
}


@pytest.mark.parametrize(("text", "code"), REFUSED.items())
def test_only_one_readable_select_is_a_query(text: str, code: str) -> None:
    finding = facts(text).about(Reason.SYNTAX)[0]
    assert finding.hint == code
    assert facts(text).outputs is None


def test_a_syntax_error_has_its_line_and_column() -> None:
    finding = facts("select a,\n  b from t where )").about(Reason.SYNTAX)[0]
    assert (finding.place.line, finding.place.column) == (2, 18)


def test_inputs_are_told_in_the_order_of_their_use() -> None:
    text = "select a from `c.d` union all select a from b union all select a from `c.d`"
    assert facts(text, "b", "c.d", "unused").inputs == ("c.d", "b")


def test_earlier_steps_and_common_table_expressions_are_not_inputs() -> None:
    found = facts(
        "with t as (select a from t) select * from t union all select * from s", s="select a from t"
    )
    assert found.inputs == ("t",)
    assert found.findings == ()


def test_an_unknown_input_is_answered_with_the_nearest() -> None:
    found = diagnostics(facts("select a from rate", "rates"))
    assert [each.code for each in found] == ["unknown-input"]
    assert "`rates`" in found[0].fix


def test_a_later_step_is_unknown_to_an_earlier_one() -> None:
    found = facts("select a from t", x="select a from y", y="select a from t")
    assert [f.name for f in found.about(Reason.UNKNOWN_INPUT)] == ["y"]


def test_a_dotted_name_without_backticks_is_told_apart() -> None:
    found = diagnostics(facts("select a from ca.rates", "ca.rates"))
    assert "`ca.rates`" in found[0].fix


def test_files_cannot_be_read_by_name() -> None:
    assert facts("select a from parquet.`/etc/passwd`").about(Reason.UNKNOWN_INPUT)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("select op, a from t", True),
        ("select t.op from t", True),
        ("select x.op from t as x", True),
        ("select `op` from t", True),
        ("select a from t where op = 0", True),
        ("select a as op from t", True),
        ("select * from t", False),
        ("select * except (op, offset) from t", False),
        ("select s.op from t", False),
        ("select OP, a from t", False),
        ("select 'op' as a from t", False),
    ],
)
def test_naming_the_operation_column_is_noticed(text: str, names: bool) -> None:
    assert facts(text).names_op is names


@pytest.mark.parametrize(
    ("text", "fans_out"),
    [
        ("select a from t", False),
        ("select explode(a) from t", True),
        ("select a from t lateral view posexplode(b) x", True),
        ("select a from t union all select b from t", True),
    ],
)
def test_queries_that_multiply_rows_are_noticed(text: str, fans_out: bool) -> None:
    assert facts(text).fans_out is fans_out


def test_the_columns_of_the_last_step_are_told_where_the_text_tells_them() -> None:
    assert facts("select a, b.c as d, `e f` from t").outputs == ("a", "d", "e f")
    assert facts("select *, a from t").outputs is None


def test_all_steps_but_the_last_need_an_alias() -> None:
    steps = [QueryStep(None, "select a from t"), QueryStep("b", "select a from t")]
    assert [f.name for f in examine(steps, ["t"]).about(Reason.STEPS)] == [
        "a step before the last has no alias",
        "the last step has an alias",
    ]


def test_a_transform_is_one_query_or_a_list() -> None:
    assert steps_of(TransformSql(engine="spark", query="q")) == (QueryStep(None, "q"),)
    listed = (SqlQueryStep(alias="a", query="p"), SqlQueryStep(alias=None, query="q"))
    steps = (QueryStep("a", "p"), QueryStep(None, "q"))
    assert steps_of(TransformSql(engine="spark", queries=listed)) == steps
    assert steps_of(TransformSql(engine="spark")) == ()


@pytest.mark.parametrize("name", ["sql.analysis.facts", "app.plan.query_errors", "app.plan.part"])
def test_sqlglot_is_imported_only_when_a_text_is_read(name: str) -> None:
    code = f"import sys, odfbuild.{name}; print('sqlglot' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


@pytest.mark.parametrize(
    "name", ["sql.analysis.facts", "app.plan.make_plan", "app.plan.query_errors"]
)
def test_what_columns_a_query_makes_is_imported_only_for_a_query(name: str) -> None:
    code = f"import sys, odfbuild.{name}; print('odfbuild.sql.columns' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


# Carried columns

CARRIED = {
    "select a, b + 1 as c from t": "select p, o, a, b + 1 as c from t",
    "select * from t": "select p, o, * EXCEPT (p, o) from t",
    "select * except (a) from t": "select p, o, * except (p, o, a) from t",
    "select x.* from t x": "select p, o, x.* EXCEPT (p, o) from t x",
    "select s.* from t": "select p, o, s.* from t",
    "select struct(*) as r from t": "select p, o, struct(* EXCEPT (p, o)) as r from t",
    "with x (a) as (select k from t) select a from x": (
        "with x (p, o, a) as (select p, o, k from t) select p, o, a from x"
    ),
    "select b from (select a from t) as q (b)": (
        "select p, o, b from (select p, o, a from t) as q (p, o, b)"
    ),
    "select k from t lateral view explode(m) e as k": (
        "select p, o, k from t lateral view explode(m) e as k"
    ),
    "select a from t union all select '*' from t": (
        "select p, o, a from t union all select p, o, '*' from t"
    ),
    "select /*+ x */ all a from t": "select /*+ x */ all p, o, a from t",
    "select 2 * a from t -- select": "select p, o, 2 * a from t -- select",
}


@pytest.mark.parametrize(("text", "expected"), CARRIED.items())
def test_carried_columns_come_first_in_every_select(text: str, expected: str) -> None:
    assert carry(read(text), ["p", "o"]).text == expected


def test_columns_that_are_not_there_are_excluded_in_vain() -> None:
    carried = carry(
        read("select * except (op, `a b`, offset) from t"), ["p"], absent=["op", "offset"]
    )
    assert carried.text == "select p, * except (p, `a b`) from t"


@given(st.sampled_from([*CARRIED, *LINEAR]), st.data())
def test_places_in_the_changed_text_lead_back_to_the_original(
    text: str, data: st.DataObject
) -> None:
    carried = carry(read(text), ["p", "o"])
    edited = [range(start, end) for start, end, _ in carried.edits]
    at = data.draw(st.integers(0, len(text) - 1))
    if any(at in each for each in edited):
        return
    shift = sum(len(new) - (end - start) for start, end, new in carried.edits if start <= at)
    assert carried.text[at + shift] == text[at]
    assert carried.origin(at + shift) == at


def test_a_text_without_edits_stays_as_it_is() -> None:
    plain = CarriedText("select a from t", ())
    assert (plain.text, plain.origin(7)) == ("select a from t", 7)


def test_a_text_that_breaks_the_parser_is_one_that_cannot_be_read() -> None:
    found = examine((QueryStep(None, "select f(and(e -> e), 'a') from t"),), ["t"]).findings
    assert [each.reason for each in found] == [Reason.SYNTAX]
