"""The shape of a statement: it says what is meant, and can be sent to another process."""

import pickle
import re
from contextlib import suppress

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.events import DataTypeDecimal
from odfbuild.sql.text.parse import read, sql_name
from odfbuild.sql.text.shape import (
    Call,
    Case,
    Cast,
    Column,
    Derived,
    Element,
    Expr,
    Field,
    Join,
    Lambda,
    Literal,
    NamedTable,
    Operation,
    RowGenerator,
    Select,
    SetQuery,
    StarExpr,
    Subquery,
    Unknown,
    WindowShape,
    walk,
)
from odfbuild.sql.text.statement import SqlTextError
from tests.sql.sql_cases import CASES


def select(text: str) -> Select:
    shape = read(text).shape
    assert isinstance(shape, Select)
    return shape


def item(text: str) -> Expr:
    return select(f"select {text} from t").outputs[0].value


A, B = Column(("a",)), Column(("b",))
EXPRESSIONS: dict[str, Expr] = {
    "a": A,
    "t.a.b": Column(("t", "a", "b")),
    "a.b.c.d.e": Column(("a", "b", "c", "d", "e")),
    "1": Literal("integer", "1"),
    "1.50": Literal("decimal", "1.50"),
    "1e3": Literal("double", "1e3"),
    "'x'": Literal("string", "x"),
    "null": Literal("null", "null"),
    "true": Literal("boolean", "true"),
    "interval 1 day": Literal("interval", "day"),
    "a + b": Operation("+", (A, B)),
    "a || b || a": Operation("||", (A, B, A)),
    "a and b and a": Operation("and", (A, B, A)),
    "a is not null": Operation("is not null", (A,)),
    "not a": Operation("not", (A,)),
    "a not in (1)": Operation("not", (Operation("in", (A, Literal("integer", "1"))),)),
    "cast(a as decimal(5,1))": Cast(A, DataTypeDecimal(5, 1)),
    "try_cast(a as decimal)": Cast(A, DataTypeDecimal(10, 0), safe=True),
    "a::variant": Cast(A, None),
    "f(a, b)": Call(name="f", args=(A, B)),
    "TO_DATE(a)": Call(name="to_date", args=(A,)),
    "system.builtin.abs(a)": Call(name="abs", args=(A,)),
    "own.abs(a)": Unknown("a function that is not built in", (Call(name="abs", args=(A,)),)),
    "count(*)": Call(name="count", args=(StarExpr((), (), None),)),
    "count(distinct a)": Call(name="count", args=(A,), distinct=True),
    "sum(a) filter (where b)": Call(name="sum", args=(A,), where=B),
    "first(a) ignore nulls": Call(name="first", args=(A,), ignores_nulls=True),
    "struct(a, b as c)": Call(name="struct", args=(A, B), names=(None, "c")),
    "listagg(a) within group (order by b)": Call(name="listagg", args=(A,), order=(B,)),
    "rank() over (partition by a order by b)": Call(
        name="rank", args=(), over=WindowShape((A,), (B,))
    ),
    "rank() over w": Call(name="rank", args=(), over=WindowShape(name="w")),
    "transform(a, x -> x + b)": Call(
        name="transform", args=(A, Lambda(("x",), Operation("+", (Column(("x",)), B))))
    ),
    "dateadd(day, 1, a)": Call(
        name="dateadd", args=(Literal("word", "day"), Literal("integer", "1"), A)
    ),
    "array(a, b)[0]": Element(Call(name="array", args=(A, B)), Literal("integer", "0")),
    "f(a).b": Field(Call(name="f", args=(A,)), "b"),
    "case when a then b end": Case(None, ((A, B),), None),
    "case a when 1 then b else a end": Case(A, ((Literal("integer", "1"), B),), A),
    "* except (a)": StarExpr((), (("a",),), None),
    "s.*": StarExpr(("s",), (), None),
}


@pytest.mark.parametrize(("text", "expected"), EXPRESSIONS.items())
def test_an_expression_has_its_shape(text: str, expected: Expr) -> None:
    assert item(text) == expected


def test_joins_and_views_stand_in_their_order() -> None:
    shape = select(
        "select * from t as x left join u on x.a = u.a, lateral (select 1 as n) "
        "lateral view outer explode(l) e as i"
    )
    assert shape.source is not None
    assert shape.source.source == NamedTable("t", "x", (), None)
    left, lateral = shape.source.joins
    on = Operation("=", (Column(("x", "a")), Column(("u", "a"))))
    assert left == Join(NamedTable("u", None, (), None), "left", on)
    assert isinstance(lateral.source, Derived)
    assert (lateral.kind, lateral.source.lateral) == ("cross", True)
    explode = Call(name="explode", args=(Column(("l",)),))
    assert shape.source.views == (RowGenerator(explode, "e", ("i",), outer=True, view=True),)


def test_each_clause_holds_its_expressions() -> None:
    shape = select(
        "select distinct a from t where b group by a, rollup(b) having a qualify b "
        "order by a desc limit 1"
    )
    assert (shape.where, shape.having, shape.qualify, shape.order) == (B, A, B, (A,))
    assert shape.group is not None
    assert (shape.group.keys, shape.group.sets) == ((A, B), True)
    assert (shape.distinct, shape.limited) == (True, True)


def test_set_operations_and_common_tables_are_kept() -> None:
    shape = read("with q (x) as (select a from t) select x from q union select b from u").shape
    assert isinstance(shape, SetQuery)
    assert (shape.kind, shape.distinct) == ("union", True)
    assert [(part.name, part.columns) for part in shape.with_] == [("q", ("x",))]


def test_subqueries_are_found_but_not_entered() -> None:
    shape = select("select a from t where a in (select b from u) and exists (select 1 from v)")
    assert shape.where is not None
    assert [e.kind for e in walk(shape.where) if isinstance(e, Subquery)] == ["in", "exists"]
    assert B not in list(walk(shape.where))


def test_tables_inside_subqueries_are_inputs_too() -> None:
    statement = read("select a from t where a in (select b from `u.v`)")
    assert [table.text for table in statement.tables] == ["t", "u.v"]


@pytest.mark.parametrize("text", ["select j:a from t", "select a, j:b as c from t"])
def test_a_path_in_json_is_refused_rather_than_taken_for_an_alias(text: str) -> None:
    with pytest.raises(SqlTextError) as caught:
        read(text)
    assert caught.value.code == "syntax-error"
    assert caught.value.place.line == 1


@pytest.mark.parametrize("sizes", ["1e5", "10, 0.5", "10, 2, 3", "1L", "0x1F, 2", "'5'", "a"])
def test_a_decimal_has_two_whole_numbers_at_most(sizes: str) -> None:
    for form in ("cast(a as decimal({}))", "a::decimal({})", "cast(a as array<decimal({})>)"):
        with pytest.raises(SqlTextError) as caught:
            read(f"select {form.format(sizes)} as b from t")
        assert caught.value.code == "syntax-error"


def test_a_text_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(SqlTextError, match=r"nested too deeply|cannot be read"):
        read(f"select {'(' * 3_000}a{')' * 3_000} from t")


def test_a_long_chain_is_no_deep_nesting() -> None:
    terms = " or ".join(f"a = {number}" for number in range(300))
    where = select(f"select a from t where {terms}").where
    assert isinstance(where, Operation)
    assert len(where.args) == 300


@given(st.sampled_from([case.query for case in CASES]))
def test_a_statement_can_be_sent_to_another_process(text: str) -> None:
    statement = read(text)
    assert pickle.loads(pickle.dumps(statement)) == statement  # noqa: S301


@given(st.sampled_from([case.query for case in CASES]), st.sampled_from(["\n", "  ", "\t"]))
def test_layout_is_no_part_of_the_shape(text: str, space: str) -> None:
    if {"'", "`"} & set(text):
        return
    assert read(text.replace(" ", space)).shape == read(text).shape


WORDS = {word.lower() for word in sqlglot.tokens.Tokenizer.KEYWORDS if word.isidentifier()}


def test_a_written_name_is_a_column_whatever_it_is() -> None:
    for name in (*WORDS, "current_path", "a b", "a`b", "Größe", "1st", "x"):
        written = sql_name(name)
        found = select(f"select {written}, f(1) as {written} from {written}")
        first, second = found.outputs
        assert isinstance(first.value, Column)
        assert (first.value.parts, second.aliases) == ((name,), (name,))
        assert found.source is not None
        assert isinstance(found.source.source, NamedTable)
        assert found.source.source.name == name


FORMS = (
    "with w as (select t, k from a) select w.* except (k), s.x from w "
    "left join p for system_time as of w.t as q on q.k = w.k and q.v > 0",
    "select t, e, f from a lateral view outer explode(l) y as e "
    "cross join lateral (select count(*) as f from u where u.k = a.k) as z where e in (1, 2)",
    "select t, name, v from (select t, g, id from a) unpivot include nulls (v for name in (g, id))",
    "select * from a pivot (sum(v) as s for k in ('x' as x, 'y' as y))",
    "select distinct t, row_number() over w as n, lag(v, 1) over (partition by k order by t desc "
    "nulls last rows between 1 preceding and current row) from a window w as (order by t) "
    "qualify n <= 2 order by t limit 3 offset 1",
    "select max(t) as t, k, sum(v) filter (where v > 1) as s, listagg(k, ',') within group "
    "(order by k) from a group by grouping sets ((k), ()) having count(*) > 1 union all by name "
    "select window(t, '1 day').start, case when v is null then cast(v as decimal(12, 2)) else "
    "interval 1 day end, transform(l, (e, i) -> e + i), map('a', 1)['a'] from a except select 1",
)


@pytest.mark.parametrize("text", FORMS)
def test_a_text_that_is_cut_at_any_word_is_read_or_refused(text: str) -> None:
    ends = [each.end() for each in re.finditer(r"'[^']*'|\w+|[^\w\s]", text)]
    for end in ends:
        with suppress(SqlTextError):
            read(text[:end])
    assert read(text).shape
