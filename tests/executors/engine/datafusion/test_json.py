"""Tests of functions for JSON: their values against Python's own reader, and what is refused."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.engine.datafusion.session import query_context, rows_of
from odfbuild.sql.datafusion.json_calls import has_json_calls, with_fixed_arguments
from tests.support.effort import examples


class Pairs:
    """Keys and values of an object, equal keys among them."""

    def __init__(self, items: list[tuple[str, Any]]) -> None:
        self.items = items

    def __repr__(self) -> str:
        return f"Pairs({self.items})"


KEYS = st.sampled_from(["a", "b", "", "0", "1", 'q"', "é", "it's"])
NUMBERS = st.one_of(
    st.integers(-20, 20),
    st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**400]),
    st.floats(allow_nan=False, allow_infinity=False),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(st.characters(codec="utf-8"), max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.lists(st.tuples(KEYS, inner), max_size=4).map(Pairs)
    ),
    max_leaves=12,
)
SPACES = st.sampled_from(["", " ", "\n\t"])


def written(draw: Any, value: Any) -> str:
    """Return the text of a value, with spaces and escapes wherever they may be."""

    def space() -> str:
        return str(draw(SPACES))

    if isinstance(value, Pairs):
        items = [f"{written(draw, k)}{space()}:{space()}{written(draw, v)}" for k, v in value.items]
        return "{" + space() + f"{space()},{space()}".join(items) + space() + "}"
    if isinstance(value, list):
        parts = [written(draw, each) for each in value]
        return "[" + space() + f"{space()},{space()}".join(parts) + space() + "]"
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


def at(value: Any, keys: list[str | int]) -> Any:
    """Return what a path leads to in values that Python read; LookupError if nothing is there."""
    for key in keys:
        if isinstance(value, dict):
            value = value[key]
        elif isinstance(value, list):
            if not str(key).isdecimal():
                raise LookupError(key)
            value = value[int(key)]
        else:
            raise LookupError(key)
    return value


def first_of_equals(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))


def called(expression: str, *texts: str | None) -> list[Any]:
    """Return what an expression over the column `j` gives for each text."""
    with query_context(spill=None, clock=False) as context:
        context.add("t", pa.table({"j": pa.array(texts, pa.string())}))
        found: list[Any] = rows_of(context.query(f"select {expression} as x from t"))[
            "x"
        ].to_pylist()
        return found


def quoted(keys: list[str | int]) -> str:
    """Return keys as the last arguments of a call."""
    texts = (
        str(each) if isinstance(each, int) else "'" + each.replace("'", "''") + "'" for each in keys
    )
    return "".join(f", {each}" for each in texts)


def expected(name: str, value: Any, length: int) -> Any:
    """Return what a function gives for a value that is there."""
    kind = type(value)
    if name == "json_contains":
        return True
    if name == "json_get_str":
        return value if kind is str else None
    if name == "json_get_bool":
        return value if kind is bool else None
    if name == "json_get_int":
        return value if kind is int and -(2**63) <= value < 2**63 else None
    if name == "json_length":
        return length if kind in (dict, list) else None
    assert name == "json_get_float"
    try:
        return float(value) if kind in (int, float) else None
    except OverflowError:
        return None


NAMES = (
    "json_contains",
    "json_get_str",
    "json_get_bool",
    "json_get_int",
    "json_length",
    "json_get_float",
)


@settings(max_examples=examples(150, 3000))
@given(st.data())
def test_functions_give_what_python_reads(data: st.DataObject) -> None:
    """What Python's reader finds on the way of a path, the first of equal keys at each step."""
    value = data.draw(VALUES)
    text = data.draw(SPACES) + written(data.draw, value) + data.draw(SPACES)
    keys = data.draw(st.lists(st.one_of(KEYS, st.integers(0, 2)), max_size=3))
    arguments = quoted(keys)
    asked = ", ".join(f"{name}(j{arguments}) as {name}" for name in NAMES)
    asked += f", json_get_json(j{arguments}) as part, json_as_text(j{arguments}) as shown"
    with query_context(spill=None, clock=False) as context:
        context.add("t", pa.table({"j": [text]}))
        [found] = rows_of(context.query(f"select {asked} from t")).to_pylist()
    part, shown = found.pop("part"), found.pop("shown")
    try:
        there = at(json.loads(text, object_pairs_hook=first_of_equals), keys)
    except LookupError:
        assert found == dict.fromkeys(NAMES) | {"json_contains": False}
        assert part is None and shown is None
        return
    assert part == part.strip() and part in text
    assert json.loads(part, object_pairs_hook=first_of_equals) == there
    pairs = json.loads(part, object_pairs_hook=lambda each: each)
    length = len(pairs) if isinstance(pairs, list) else 0
    for name in NAMES:
        assert found[name] == expected(name, there, length), name
        assert type(found[name]) is type(expected(name, there, length)), name
    assert shown == (there if isinstance(there, str) else None if there is None else part)


@settings(max_examples=examples(150, 3000))
@given(st.data(), st.lists(st.tuples(KEYS, VALUES), max_size=2), VALUES)
def test_a_text_is_read_up_to_the_value(
    data: st.DataObject, before: list[tuple[str, Any]], value: Any
) -> None:
    """What follows a value may be anything; nothing is found behind what is no JSON."""
    part = written(data.draw, value)
    members = "".join(
        f"{written(data.draw, key)}: {written(data.draw, each)}, " for key, each in before
    )
    rest = data.draw(st.text(st.characters(codec="utf-8"), max_size=6))
    sound = "{" + members + f'"k": {part}' + data.draw(st.sampled_from([",", " ", "}"])) + rest
    broken = "{" + members + data.draw(st.sampled_from(['"k"', "~", '"b": 01, ', "'a': 1, "]))
    texts = (sound, f'{broken}"k": {part}}}')
    assert called("json_get_json(j, 'k')", *texts) == [part, None]


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("json_get_str(j, 'k')", ["v", None, None, None, None]),
        ("json_get_str(j, 'n')", [None] * 5),
        ("json_get_float(j, 'n')", [1.5, None, None, None, None]),
        ("json_get_int(j, '1')", [None, 2, None, None, None]),
        ("json_get_int(j, 1)", [None, 2, None, None, None]),
        ("json_get_int(j, (1))", [None, 2, None, None, None]),
        ("json_contains('{\"1\": 7}', ((1)))", [False] * 5),
        ("json_get_bool(j, 'b')", [True, None, None, None, None]),
        ("json_contains(j, '0')", [False, True, False, False, False]),
        ("json_contains(j, null)", [False] * 5),
        ("json_get_int(j)", [None, None, None, None, 3]),
        ("json_length(j)", [3, 2, None, None, None]),
    ],
)
def test_what_is_not_there_or_of_another_kind_is_null(expression: str, values: list[Any]) -> None:
    texts = ('{"k": "v", "n": 1.5, "b": true}', "[1, 2]", "no json", None, "3")
    assert called(expression, *texts) == values


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("json_get_str", '{"k": "\\ud800"}'),
        ("json_get_str", '{"\\ud800": 1, "k": "v"}'),
        ("json_get_str", '{"k": "a\nb"}'),
        ("json_get_float", f'{{"k": {"9" * 400}}}'),
        ("json_get_float", '{"k": NaN}'),
        ("json_get_float", '{"k": Infinity}'),
        ("json_get_float", '{"k": 1.}'),
        ("json_get_int", '{"k": 01}'),
        ("json_get_int", '{"k": 1e2}'),
        ("json_get_int", f'{{"k": {"9" * 5000}}}'),
        ("json_get_json", f'{{"k": {"[" * 100_000}'),
        ("json_get_str", f'{{"a": {"[" * 100_000}{"]" * 100_000}, "k": "v"}}'),
        ("json_get_json", '{"k": '),
        ("json_get_json", '{"k": nul}'),
        ("json_as_text", '{"k": null}'),
        ("json_length", '{"k": [1, 2'),
    ],
)
def test_a_value_that_no_column_holds_is_null(name: str, text: str) -> None:
    assert called(f"{name}(j, 'k')", text) == [None]


def test_numbers_of_any_length_before_the_value_are_passed_over() -> None:
    assert called("json_get_int(j, 'k')", f'{{"a": {"9" * 5000}, "k": -7}}') == [-7]


@pytest.mark.parametrize(
    ("expression", "kind", "value"),
    [
        ("json_get(j, 'a', 0)::bigint", pa.int64(), 7),
        ("json_get(j, 'a', 0)::int", pa.int32(), 7),
        ("cast(json_get(j, 'a', 0) as double)", pa.float64(), 7.0),
        ("cast(json_get(j, 'b') as varchar)", pa.string(), "x"),
        ("json_get(j, 'c')::boolean", pa.bool_(), True),
        ("json_get_int(json_get(j, 'a'), 0)", pa.int64(), 7),
        ("json_get(json_get(json_get(j), 'a'), 0)::bigint", pa.int64(), 7),
        ("JSON_LENGTH(j, 'a')", pa.int64(), 1),
        ('"json_length"(j) - 1', pa.int64(), 2),
        ("((json_get(j, 'a', 0)))::bigint", pa.int64(), 7),
        ("cast((json_get(j, 'a', 0)) as bigint)", pa.int64(), 7),
        ("json_get_int((json_get((json_get(j)), 'a')), 0)", pa.int64(), 7),
        ("abs(json_get(j, 'a', 0)::bigint)", pa.int64(), 7),
    ],
)
def test_casts_say_the_type(expression: str, kind: pa.DataType, value: Any) -> None:
    with query_context(spill=None, clock=False) as context:
        context.add("t", pa.table({"j": ['{"a": [7], "b": "x", "c": true}']}))
        rows = rows_of(context.query(f"select {expression} as x from t"))
    assert (rows.schema.field("x").type, rows["x"].to_pylist()) == (kind, [value])


DEEP = 200


@pytest.mark.parametrize("opening", ["[", '{"x":'])
@pytest.mark.parametrize(("depth", "is_read"), [(DEEP, True), (DEEP + 1, False), (990, False)])
def test_what_is_nested_too_deeply_is_not_passed_over_wherever_it_is_read(
    opening: str, depth: int, is_read: bool
) -> None:
    """How much is left of the stack does not decide what a row is."""
    closing = "]" if opening == "[" else "}"
    nested = opening * depth + "0" + closing * depth
    strings = '"' + "[{" * depth + '\\"[", ' + '"]"'
    text = f'{{"s": [{strings}], "b": {nested}, "a": 1}}'

    def after(frames: int) -> list[Any]:
        return after(frames - 1) if frames else called("json_get_int(j, 'a')", text)

    assert after(0) == after(300) == [1 if is_read else None]


COLUMN_LISTS = (
    "with json_length(x) as (select j from t) select x from json_length",
    "with a as (select 1), json_length(x) as (select j from t) select x from json_length",
    "with json_get_int(x, y, z) as (select j, 1, 2 from t) select x from json_get_int",
    "select x from (select j from t) as json_length(x)",
    "select x from (select j from t) json_length(x)",
    "select x from t json_get_str(x)",
    "select j as x from t where exists (select 1 from (select 'k') as json_length(x) "
    "where json_length.x = 'k')",
    "select x from (select max(j) from t) as max(x)",
)


@pytest.mark.parametrize("text", COLUMN_LISTS)
def test_names_of_tables_with_their_columns_are_no_calls(text: str) -> None:
    assert with_fixed_arguments(text) == text
    assert not has_json_calls(text)
    with query_context(spill=None, clock=False) as context:
        context.add("t", pa.table({"j": ["[]"]}))
        assert rows_of(context.query(text)).to_pydict() == {"x": ["[]"]}


def test_names_that_users_give_stay_as_they_are() -> None:
    with query_context(spill=None, clock=False) as context:
        context.add("t", pa.table({"j": ["[]"]}))
        text = 'select j as "k__odf_json_x", json_length(j) as "__odf_json_length" from t'
        assert context.query(text).schema().names == ["k__odf_json_x", "__odf_json_length"]


@pytest.mark.parametrize(
    "call",
    [
        "json_get_int(j, 'a', concat(upper(trim('b')), 'c'))",
        "json_get_int(j, 'a\"', 'b')",
        "json_get_int(j, '(', ')')",
        "json_get_int(j, 'a(b', 0)",
        "json_get_int(j, ')', 'b\")', 'c')",
    ],
)
def test_no_name_of_ours_is_that_of_a_column_or_in_an_error(call: str) -> None:
    with query_context(spill=None, clock=False) as context:
        context.add("t", pa.table({"j": ["[]"]}))
        [found] = context.query(f"select {call} from t").schema().names
        assert found.startswith("json_get_int(t.j,Utf8(") and "json_rest" not in found
        with pytest.raises(InvalidQueryError) as refused:
            context.query("select json_get_int(j, 'a', 'b', k) from t")
        assert "__odf" not in refused.value.what


def test_columns_without_a_name_are_called_as_they_were_written() -> None:
    with query_context(spill=None, clock=False) as context:
        context.add("t", pa.table({"j": ["[]"]}))
        text = "select json_length(j), json_get_int(j, 'a', 0, concat('b', 'c')) from t"
        names = context.query(f"select * from ({text}) s").schema().names
    assert names == [
        "json_length(t.j)",
        'json_get_int(t.j,Utf8("a"),Int64(0),concat(Utf8("b"),Utf8("c")))',
    ]


@pytest.mark.parametrize(
    ("expression", "what", "fix"),
    [
        ("json_get(j, 'a')", "json_get() without a cast", "::bigint"),
        ("cast(json_get(j, 'a') as date)", "json_get() without a cast", "json_as_text("),
        ("json_get(j, 'a')::bigint[]", "json_get() without a cast", "::bigint"),
        ("json_get(j, 'a')::decimal(20, 0)", "json_get() without a cast", "::bigint"),
        ("try_cast(json_get(j, 'a') as bigint)", "json_get() without a cast", "::bigint"),
        ("abs(json_get(j, 'a'))::bigint", "json_get() without a cast", "::bigint"),
        ("j ->> 'a'", "the operator ->>", "json_as_text("),
        ("j -> 'a'", "the operator ->", "json_get("),
    ],
)
def test_what_gives_no_type_is_refused_with_the_way_round(
    expression: str, what: str, fix: str
) -> None:
    with pytest.raises(InvalidQueryError) as refused:
        called(expression, "{}")
    assert what in refused.value.what and fix in refused.value.fix
