"""Constants over which DataFusion fails are found as a query is analysed, and no others."""

import re
from collections.abc import Iterator, Mapping
from random import Random

import pyarrow as pa
import pytest

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.engine.datafusion.constants import OF_NULLS, check_constants, keeps_nulls
from odfbuild.executors.engine.datafusion.session import QueryContext, query_context, rows_of
from odfbuild.executors.engine.datafusion.transform import texts_of
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.steps import DATAFUSION, QueryStep
from tests.support.effort import examples

COLUMNS = {
    "t": (pa.timestamp("ms", "UTC"), 0),
    "i": (pa.int64(), 3),
    "s": (pa.string(), "11"),
    "d": (pa.float64(), 1.0),
    "x": (pa.binary(), b"1"),
    "e": (pa.date32(), 1),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, *_) in COLUMNS.items()])
DRAWN = examples(200, 8_000)
_FORMS = (
    "regexp_replace(s, '{regex}', 'b')", "regexp_replace(s, 'a', 'b', '{flags}')",
    "regexp_match(s, '{regex}')", "regexp_count(s, '{regex}')", "regexp_like(s, '{regex}')",
    "split_part(s, ',', {count})", "date_trunc('{unit}', t)", "date_part('{unit}', t)",
    "extract({unit} from t)", "date_bin(interval '{count} day', t)", "make_date(2024, {count}, 1)",
    "chr({count})", "to_timestamp('{text}')", "to_date('{text}')", "cast('{text}' as date)",
    "cast('{text}' as int)", "try_cast('{text}' as int)", "encode(s, '{coding}')",
    "decode(s, '{coding}')", "digest(s, '{coding}')", "arrow_cast(i, '{kind}')", "'{text}'::int",
    "i + cast('{text}' as int)", "lpad(s, {count}, 'x')", "substr(s, {count}, {count})",
    "round(d, {count})", "repeat(s, {count})",
    "case when i > 0 then 1 else make_date(2024, {count}, 1) end",
    "coalesce(i, cast('{text}' as int))", "i / {count}", "i % {count}", "to_char(t, '{format}')",
    "to_char(e, '{format}')", "to_timestamp(s, '{format}')", "to_date(s, '{format}')",
    "regexp_instr(s, '{regex}', {count})", "regexp_count(s, '{regex}', {count})",
    "overlay(s placing s from {count})", "range(i, 20, {count})", "d / {count} + i / (i - 1)",
    "case when i < 0 then i / {count} end", "substring(s from i for {count})",
)  # fmt: skip
_PARTS = {
    "regex": ("a", "(", "[", "a{2,1}", "(?=a)", "[a]", "(a)"),
    "flags": ("g", "i", "q", "gi", ""),
    "unit": ("day", "month", "fortnight", "doy", "year", "sec"),
    "count": ("-1", "0", "1", "12", "13"),
    "text": ("2024-01-01", "2024-13-01", "12", "x", "", "1.5"),
    "coding": ("hex", "base64", "utf-8", "md5", "sha256", "rot13"),
    "format": ("%Y-%m-%d", "%Q", "%H:%M", "%", "%1", "%q", "%d/%m"),
    "kind": ("Int64", "Int8", "Utf8", "Foo"),
}


def step(expr: str) -> QueryStep:
    return QueryStep(None, f"select t, {expr} as y from a", engine=DATAFUSION)


@pytest.fixture(scope="module")
def context() -> Iterator[QueryContext]:
    with query_context(spill=None, clock=False) as found:
        yield found


def fails(context: QueryContext, expr: str) -> bool:
    values = [pa.array([value], kind) for kind, value in COLUMNS.values()]
    context.add("a", pa.Table.from_arrays(values, list(COLUMNS)))
    try:
        rows_of(context.query(texts_of([step(expr)])[0][1]))
    except InvalidQueryError:
        return True
    return False


def refused(expr: str) -> bool:
    try:
        check_constants([step(expr)], texts_of([step(expr)]), {"a": SCHEMA})
    except InvalidQueryError:
        return True
    return False


def test_constants_that_are_refused_fail_over_a_row(context: QueryContext) -> None:
    random, calls = Random(f"constants {DRAWN}"), dict[str, None]()
    for _ in range(DRAWN):
        parts = {name: random.choice(of) for name, of in _PARTS.items()}
        calls[random.choice(_FORMS).format(**parts)] = None
    ours = [each for each in calls if refused(each)]
    assert len(calls) / 5 < len(ours) < len(calls)
    assert not [each for each in ours if not fails(context, each)]
    missed = [each for each in calls if each not in ours and fails(context, each)]
    print("\n".join(missed))
    assert len(missed) < len(calls) / 8  # branches, and numbers that are looked at beside values


_SPECIAL = {
    "cast": "cast({} as int)",
    "try_cast": "try_cast({} as int)",
    "extract": "extract(year from {})",
    "position": "position({} in {})",
    "overlay": "overlay({} placing {} from 1)",
    "gcd": "gcd(i, {})",
    "lcm": "lcm(i, {})",
    "digest": "digest({}, 'md5')",
    "decode": "decode({}, 'hex')",
    "date_trunc": "date_trunc('day', {})",
    "datetrunc": "datetrunc('day', {})",
    "date_bin": "date_bin(interval '1 day', {})",
}
_CONSTANTS = ("'a'", "'day'", "'hex'", "'Int64'", "'%Y'", "'md5'", "1", "2.0")


def gives(context: QueryContext, expr: str, values: Mapping[str, object]) -> object:
    arrays = [pa.array([values.get(name)], kind) for name, (kind, *_) in COLUMNS.items()]
    context.add("a", pa.Table.from_arrays(arrays, list(COLUMNS)))
    try:
        return rows_of(context.query(texts_of([step(expr)])[0][1])).column("y")[0].as_py()
    except (InvalidQueryError, SqlTextError):
        return None


@pytest.mark.parametrize("name", sorted(OF_NULLS))
def test_a_null_argument_makes_a_null(context: QueryContext, name: str) -> None:
    random, seen = Random(name), 0
    values = {column: value for column, (_, value) in COLUMNS.items()}
    for number in range(200):
        form = _SPECIAL.get(name, f"{name}({', '.join(['{}'] * (1 + number % 3))})")
        given = [random.choice((*COLUMNS, *_CONSTANTS)) for _ in range(form.count("{}"))]
        expr, used = form.format(*given), COLUMNS.keys() & {*given, *re.findall(r"\bi\b", form)}
        found = gives(context, expr, values) if used else None
        if found is not None:
            seen += 1
            assert keeps_nulls(step(expr))
            for column in used:  # a format of a value that is no text decides nothing
                assert gives(context, expr, {**values, column: None}) in (None, found), expr
    assert seen, name


@pytest.mark.parametrize(
    "expr", ["coalesce(i, 1)", "i is null", "case when i = 1 then 2 end", "concat(s)", "[i]"]
)
def test_what_makes_values_of_nulls_is_not_run(expr: str) -> None:
    assert not keeps_nulls(step(f"make_date(2024, {expr}, 1)"))


_PLACES = (
    "substr(s, {}, {})", "substring(s from {} for {})", "regexp_count(s, '{regex}', {})",
    "regexp_instr(s, '{regex}', {})", "overlay(s placing 'x' from {})", "range({}, {}, {})",
    "array_slice([i, 2, 3], {}, 3, {})", "i % {} / {}", "left(s, {})", "split_part(s, '@', {})",
)  # fmt: skip
_AMOUNTS = ("1", "2", "-1", "0", "i", "strpos(s, '@')", "strpos(s, '@') - 1", "length(s) - 20")


def test_what_is_computed_of_columns_is_no_constant(context: QueryContext) -> None:
    random, amount = Random(f"computed {DRAWN}"), examples(300, 6_000)
    calls = ["substr(s, 1, strpos(s, '@') - 1)", "i % 10 / strpos(s, '@') + d / 0"]
    for _ in range(amount):
        regex = random.choice(("a", "b", "[a]"))
        form = random.choice(_PLACES)
        given = [random.choice(_AMOUNTS) for _ in range(form.count("{}"))]
        calls.append(form.format(*given, regex=regex))
    ours = {each for each in calls if refused(each)}
    assert 0 < len(ours) < len(calls) / 3
    rows: list[dict[str, object]] = [
        {**{name: value for name, (_, value) in COLUMNS.items()}, "i": number, "s": text}
        for number in (1, 5)
        for text in ("ab@example.org", "a" * 20 + "@b", "@")
    ]
    passed = [each for each in ours if any(gives(context, each, row) is not None for row in rows)]
    assert not passed
