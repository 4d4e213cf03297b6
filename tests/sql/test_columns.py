"""What is known of a query's columns without an engine: names, types, origins and uses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.events import DataField, DataSchema, DataTypeTime, DataTypeUInt32
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.odf.schema.types import inner, type_name
from odfbuild.sql.analysis.classes import query_class
from odfbuild.sql.columns import QueryColumns, columns_of
from odfbuild.sql.columns.output import ColumnRef
from odfbuild.sql.text.steps import QueryStep
from tests.sql.sql_cases import CASES, INPUTS, Case, asked, described

TRADES = INPUTS["trades"]


def test_there_are_enough_cases_to_say_something() -> None:
    assert len(CASES) >= 120


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_query_is_known_as_it_is_described(case: Case) -> None:
    assert described(case.query) == case.expected


def of_steps(*steps: str | tuple[str, str]) -> QueryColumns:
    named = [QueryStep(*s) if isinstance(s, tuple) else QueryStep(None, s) for s in steps]
    return columns_of(named, INPUTS)


def sources(found: QueryColumns) -> dict[str, set[str]]:
    assert found.outputs is not None
    return {o.name: {".".join(ref) for ref in o.sources} for o in found.outputs}


# Steps


def test_columns_are_followed_through_steps_to_the_inputs() -> None:
    found = of_steps(
        ("a", "select symbol as s, price * qty as amount from trades where note is null"),
        ("b", "select s, sum(amount) as total from a group by s"),
        "select b.s, b.total * r.rate as value from b join rates r on b.s = r.symbol",
    )
    assert sources(found) == {
        "s": {"trades.symbol"},
        "value": {"trades.price", "trades.qty", "rates.rate"},
    }
    assert {ref for ref in found.shaping if ref.input == "trades"} == {
        ColumnRef("trades", "note"),
        ColumnRef("trades", "symbol"),
    }


@pytest.mark.parametrize(
    ("query", "copied"),
    [
        ("select symbol, price as p, price + 0 as q from trades", {"symbol", "p"}),
        ("select * from (select t.symbol as s, upper(note) as n from trades t)", {"s"}),
        ("select symbol as s, max(price) as m from trades group by symbol", {"s"}),
        ("select symbol, qty from trades union all select symbol, 1 from rates", {"symbol"}),
        ("select symbol, t.qty, rate from trades t left join rates using (symbol)", None),
        ("with x (s, u) as (select symbol, 1 from trades) select s, u from x", {"s"}),
        ("select a as b, a from (select symbol as a from trades)", {"a", "b"}),
        ("select (select max(rate) from rates) as r, symbol from trades", {"symbol"}),
    ],
)
def test_columns_that_come_out_as_they_are_are_told_from_computed_ones(
    query: str, copied: set[str] | None
) -> None:
    outputs = of_steps(query).outputs
    assert outputs is not None
    names = {each.name for each in outputs}
    assert {each.name for each in outputs if each.copied} == (names if copied is None else copied)


def test_an_ordered_set_aggregate_gives_what_it_orders() -> None:
    found = of_steps(
        "select percentile_cont(0.5) within group (order by price) as middle,"
        " percentile_disc(0.5) within group (order by qty desc) as near,"
        " mode() within group (order by note) as usual,"
        " listagg(symbol, ',') within group (order by day) as all from trades"
    )
    assert sources(found) == {
        "middle": {"trades.price"},
        "near": {"trades.qty"},
        "usual": {"trades.note"},
        "all": {"trades.symbol"},
    }
    assert found.shaping == {ColumnRef("trades", "day")}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select * from values ('x', 1), ('y', 2)", {"col1": set(), "col2": set()}),
        ("select v.b as n from values 1, 2 as v (b)", {"n": set()}),
        (
            "with v (a, b) as (values ('x', 1)) "
            "select v.b, t.* except (b) from v join t on a = t.e",
            {"b": set(), "a": {"t.a"}, "c": {"t.c"}, "d": {"t.d"}, "e": {"t.e"}},
        ),
    ],
)
def test_rows_in_the_query_are_made_of_no_column(query: str, expected: dict[str, set[str]]) -> None:
    names = ("a", "b", "c", "d", "e")
    schema = DataSchema(tuple(DataField(name, DataTypeUInt32()) for name in names))
    assert sources(columns_of([QueryStep(None, query)], {"t": schema})) == expected
    wrong = columns_of([QueryStep(None, "select v.z from values (1) as v (a)")], {})
    assert [each.name for each in wrong.unknown_columns] == ["v.z"]


def test_a_step_may_have_the_name_of_an_input() -> None:
    found = of_steps(("trades", "select symbol as s from trades"), "select s from trades")
    assert sources(found) == {"s": {"trades.symbol"}}


def test_places_tell_the_step_and_where_in_it() -> None:
    found = of_steps(("a", "select symbol from trades"), "select\n  symbol as s from a")
    assert found.outputs is not None
    step, place = found.outputs[0].place or (None, None)
    assert place is not None
    assert (step, place.line, place.column) == (1, 2, 13)
    step, place = found.places[ColumnRef("trades", "symbol")]
    assert (step, place.start) == (0, 7)


def test_a_step_that_cannot_be_read_leaves_nothing_known() -> None:
    found = of_steps(("a", "select symbol fro trades where"), "select symbol from a")
    assert (found.outputs, found.shaping) == (None, frozenset())
    assert "step 1 cannot be read" in (found.unknown or "")


def test_no_query_gives_no_columns() -> None:
    assert columns_of([], INPUTS).unknown == "there is no query"


# What is named but does not come out


def test_every_column_that_is_named_has_a_place_even_if_it_is_dropped_again() -> None:
    found = asked("select s from (select symbol as s, note from trades)")
    assert ColumnRef("trades", "note") in found.places
    assert ColumnRef("trades", "note") not in found.shaping


def test_columns_that_a_star_leaves_out_are_named() -> None:
    found = asked("select * except (note, nothing) from trades")
    assert set(found.places) == {ColumnRef("trades", "note")}
    assert found.unknown_columns == ()


@pytest.mark.parametrize(
    ("query", "inputs"),
    [
        ("select * from trades", {"trades"}),
        ("select t.*, r.rate from trades t join rates r using (symbol)", {"trades"}),
        ("select * from trades join rates using (symbol)", {"trades", "rates"}),
        ("select symbol from (select * from trades)", {"trades"}),
        ("select * from (select symbol from trades)", set()),
        ("select count(*) as n from trades", set()),
        ("select venue.* from trades", set()),
    ],
)
def test_the_inputs_that_a_star_takes_in_are_told(query: str, inputs: set[str]) -> None:
    assert asked(query).star_inputs == inputs


# Names that are not there


@pytest.mark.parametrize(
    ("query", "name", "closest"),
    [
        ("select pricee from trades", "pricee", "price"),
        ("select Symbol from trades", "Symbol", "symbol"),
        ("select t.prise from trades t", "t.prise", "price"),
        ("select trades.symbol from trades t", "trades.symbol", "t.symbol"),
        ("select symbol from trades where qtty > 1", "qtty", "qty"),
        ("select venue.names from trades", "venue.names", "venue.name"),
        ("select symbol from trades order by xyzzy", "xyzzy", None),
        (
            "select r.price from trades t left semi join rates r using (symbol)",
            "r.price",
            "t.price",
        ),
        ("select s from (select symbol from trades)", "s", None),
        ("select x.* from trades", "x", None),
        ("select * from trades pivot (sum(qty) for symboll in ('a'))", "symboll", "symbol"),
        (
            "select * from trades pivot (sum(qty) for (symbol, dayy) in (('a', 1) as x))",
            "dayy",
            "day",
        ),
    ],
)
def test_a_name_that_nothing_has_is_told_with_the_nearest(
    query: str, name: str, closest: str | None
) -> None:
    (found,) = asked(query).unknown_columns
    assert (found.name, found.closest, found.ambiguous) == (name, closest, False)
    assert found.place is not None
    shown = query[found.place.start :]
    assert shown.startswith((name.rpartition(".")[2], "*"))


def test_a_name_that_several_relations_have_is_told_with_all_of_them() -> None:
    (found,) = asked("select symbol from trades t, rates r").unknown_columns
    assert (found.ambiguous, found.closest) == (True, "t.symbol or r.symbol")


def test_names_inside_functions_of_items_are_not_columns() -> None:
    assert asked("select transform(tags, x -> x || symbol) as a from trades").unknown_columns == ()


def test_outer_columns_are_seen_inside_a_subquery() -> None:
    query = "select symbol from trades t where exists (select 1 from rates where rate > weight)"
    found = asked(query)
    assert found.unknown_columns == ()
    assert ColumnRef("trades", "weight") in found.shaping


# Inputs that are not known


def test_named_columns_of_an_unknown_input_are_told_without_types() -> None:
    found = columns_of([QueryStep(None, "select a, t.b as c from t where d > 1")], {"t": None})
    assert sources(found) == {"a": {"t.a"}, "c": {"t.b"}}
    assert found.outputs is not None
    assert [o.type for o in found.outputs] == [None, None]
    assert found.shaping == {ColumnRef("t", "d")}
    assert found.unknown_columns == ()


def test_a_star_over_an_unknown_input_gives_unknown_columns() -> None:
    found = columns_of([QueryStep(None, "select *, 1 as one from t")], {"t": None})
    assert (found.outputs, found.unknown) == (None, "the columns of t are not known")
    assert found.star_inputs == {"t"}


def test_a_name_beside_an_unknown_input_belongs_to_the_known_one_if_that_has_it() -> None:
    inputs = {"t": None, "trades": TRADES}
    steps = [QueryStep(None, "select symbol, other from trades join t on trades.qty = t.q")]
    assert sources(columns_of(steps, inputs)) == {"symbol": {"trades.symbol"}, "other": {"t.other"}}


@pytest.mark.parametrize(
    ("query", "form"),
    [
        ("select * from (select day, qty from trades) pivot (sum(qty) for day in (1, 2))", "PIVOT"),
        ("select * from trades unpivot (v for k in (qty))", "UNPIVOT"),
        ("select symbol from trades tablesample (10 rows)", "TABLESAMPLE"),
        ("select a from values (1, 2) as v (a)", "VALUES"),
        ("select a from values (1, 2), (3) as v (a, b)", "VALUES"),
        ("select a from some_function(1) as f", "a table function"),
        (
            "with recursive r as (select 1 as n union all select n + 1 from r) select n from r",
            "WITH",
        ),
    ],
)
def test_a_form_that_is_not_understood_makes_the_columns_unknown(query: str, form: str) -> None:
    found = asked(query)
    assert found.outputs is None
    assert (found.unknown or "").startswith(form)


def test_types_that_only_a_dataset_has_are_those_in_which_the_engine_reads_them() -> None:
    schema = DataSchema((DataField("a", DataTypeUInt32()), DataField("b", DataTypeTime())))
    found = columns_of([QueryStep(None, "select a, b, a + 1 as c from t")], {"t": schema})
    assert found.outputs is not None
    names = [None if o.type is None else type_name(o.type) for o in found.outputs]
    assert names == ["Int64", None, "Int64"]


# Laws

NAMES = st.sampled_from(["symbol", "qty", "price", "note", "day"])


@given(st.lists(NAMES, min_size=1, max_size=5, unique=True))
def test_selecting_by_name_gives_the_columns_of_the_input(names: list[str]) -> None:
    found = asked(f"select {', '.join(names)} from trades")
    assert found.outputs is not None
    by_name = {field.name: field.type for field in TRADES.fields}
    assert [(o.name, o.type) for o in found.outputs] == [(n, by_name[n]) for n in names]


@given(st.sampled_from([case.query for case in CASES]), st.integers(1, 3))
def test_a_query_around_a_query_changes_nothing_of_its_columns(query: str, depth: int) -> None:
    plain = asked(query)
    outer = query
    for _ in range(depth):
        outer = f"select * from ({outer})"
    found = asked(outer)
    assert found.shaping == plain.shaping
    assert (found.outputs is None) == (plain.outputs is None)
    for mine, theirs in zip(found.outputs or (), plain.outputs or (), strict=True):
        assert (mine.name, mine.type, mine.sources) == (theirs.name, theirs.type, theirs.sources)


@given(st.sampled_from([case.query for case in CASES]))
def test_not_knowing_the_inputs_only_ever_takes_types_away(query: str) -> None:
    known, open_ = asked(query), columns_of([QueryStep(None, query)], dict.fromkeys(INPUTS))
    if open_.outputs is None:
        return
    assert known.outputs is not None
    assert len(open_.outputs) == len(known.outputs)
    for less, more in zip(open_.outputs, known.outputs, strict=True):
        assert less.type is None or more.type is not None
        assert less.type is None or more.type is None or inner(less.type) == inner(more.type)
        assert less.sources >= more.sources


def test_an_empty_schema_has_no_columns() -> None:
    found = columns_of([QueryStep(None, "select a from t")], {"t": DataSchema(())})
    assert [each.name for each in found.unknown_columns] == ["a"]


def test_widths_of_integers_are_kept() -> None:
    inputs = {"t": parse_ddl("a INT NOT NULL, b BIGINT NOT NULL")}
    found = columns_of([QueryStep(None, "select a + b as c, a * a as d from t")], inputs)
    assert found.outputs is not None
    assert [type_name(o.type) for o in found.outputs if o.type] == ["Int64", "Int32"]


PIECES = sorted({piece for case in CASES for piece in case.query.replace("(", " ( ").split()})


@given(st.sampled_from([case.query for case in CASES]), st.data())
def test_no_text_is_too_strange_to_be_judged(query: str, data: st.DataObject) -> None:
    words = query.replace("(", " ( ").replace(")", " ) ").split()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(words) - 1))
        words[at : at + data.draw(st.integers(0, 2))] = [data.draw(st.sampled_from(PIECES))]
    steps = [QueryStep(None, " ".join(words))]
    found = columns_of(steps, INPUTS)
    assert (found.outputs is None) == (found.unknown is not None)
    assert query_class(steps, INPUTS).name in {"linear", "join", "keyed", "state", "whole"}
