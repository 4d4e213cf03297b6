"""Constant texts that are refused fail in Spark: over a row, or as it reads the query."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING

import pytest

from odfbuild.executors.engine.analysis import PlacedQueryError
from odfbuild.executors.engine.spark.admission import admitted
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.sql.argument_types import ACCEPTED
from odfbuild.sql.columns import columns_of
from odfbuild.sql.text.steps import QueryStep
from tests.sql.spark_types import OPERATORS
from tests.support.effort import examples, stride

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VALUES = {
    "b": ("b", "BOOLEAN", "true"),
    "i": ("i", "INT", "1"),
    "l": ("l", "BIGINT", "1L"),
    "d": ("d", "DOUBLE", "1D"),
    "c": ("c", "DECIMAL(12,2)", "1.5BD"),
    "t": ("k", "STRING", "'1'"),
    "x": ("x", "BINARY", "x'31'"),
    "D": ("day", "DATE", "date'2024-01-01'"),
    "T": ("time", "TIMESTAMP", "timestamp'2024-01-01'"),
    "A": ("items", "ARRAY<INT>", "array(1)"),
    "X": ("xml", "STRING", "'<a b=\"1\">1</a>'"),
}
"""By the letter of a type: a column of it, the type, and the value in its one row."""
SCHEMA = parse_ddl(", ".join(f"{name} {kind}" for name, kind, _ in VALUES.values()))
_CASTS = {each for each in OPERATORS if each.startswith("cast:")}
_LEFT_OUT = {"time", "make_time"}  # of a type that is not enabled
DRAWN = examples(90, 6_000)
_FORMS = (
    "to_number(k, '{number}')", "try_to_number(k, '{number}')", "to_char(c, '{number}')",
    "from_utc_timestamp(time, '{zone}')", "convert_timezone('{zone}', time)",
    "make_timestamp(2024, 1, 1, 0, 0, 0, '{zone}')", "encode(k, '{charset}')",
    "decode(x, '{charset}')", "to_binary(k, '{charset}')", "mask(k, '{word}', '{word}')",
    "next_day(day, '{word}')", "format_string('{printf}', k, i, d)", "from_json(k, '{columns}')",
    "slice(items, 1, {count})", "bit_get(i, {count})", "elt({count}, k, k)", "to_date('{word}')",
    "timestampadd({unit}, 1, time)", "time + interval {count}.5 {unit}",
    "time + interval '{count}' {unit}", "stack(2, i, i, i) as (p, q)",
    "stack(1, i, i, i) as (p, q)", "coalesce('{word}', day)", "to_varchar(i, '{number}')",
    "to_char(x, '{charset}')", "to_char(k, '{number}')", "try_element_at(items, {count})",
    "hll_sketch_agg(i, {count})", "substring(k, '{word}')", "overlay(k placing k from '{word}')",
    "overlay(k, k, 1, '{word}')", "time at time zone '{zone}'", "array_join(array(k), ',', {any})",
    "is_variant_null({any})", "is_variant_null(parse_json(k))", "substr({any}, {any}, 1)",
)  # fmt: skip
_OF_CONSTANTS = (
    "k rlike '{regex}'", "regexp_replace(k, '{regex}', '')", "regexp_extract(k, '{regex}', 0)",
    "regexp_extract_all(k, '{regex}', 0)", "regexp_instr(k, '{regex}')", "split(k, '{regex}')",
    "regexp_count(k, '{regex}')", "regexp_substr(k, '{regex}')", "str_to_map(k, '{regex}', ',')",
    "date_format(time, '{pattern}')", "to_char(day, '{pattern}')", "from_unixtime(l, '{pattern}')",
    "xpath_string(xml, '{path}')", "xpath_int(xml, '{path}')", "xpath(xml, '{path}')",
    "xpath_boolean(xml, '{path}')", "from_utc_timestamp(time, '{zone}')",
    "to_utc_timestamp(time, '{zone}')", "sequence(day, day, interval {count} {unit})",
    "sequence(day, day, interval '{count}' month)", "format_number(d, '{digits}')",
    "aes_encrypt(k, '{key}', '{mode}')", "if(b, k rlike '{regex}', false)",
    "transform(items, o -> k rlike '{regex}')", "variant_get(parse_json(k), '{place}', 'int')",
    "try_variant_get(parse_json(k), '{place}', 'int')",
    "to_json(named_struct('p', time), map('timestampFormat', '{pattern}'))",
    "to_json(array(named_struct('p', day)), map('dateFormat', '{pattern}'))",
    "to_csv(named_struct('p', time), map('timestampFormat', '{pattern}'))",
    "to_xml(named_struct('p', day), map('dateFormat', '{pattern}'))",
    "from_json(concat('{{\"p\":\"', k, '\"}}'), 'p DATE', map('dateFormat', '{pattern}'))",
    "from_csv(k, 'p DATE', map('dateFormat', '{pattern}'))",
)  # fmt: skip
"""Calls of a column that fail, if they do, for their constants alone."""
_PARTS = {
    "number": ("9", "0", "9", "9", ",", "G", ".", "D", "$", "S", "MI", "PR", "X"),
    "zone": ("UTC", "GMT", "+", "-", "1", "02", ":", "30", "Europe/Berlin", "EST", "mars", "Z"),
    "charset": ("utf-8", "UTF-16", "latin1", "hex", "base64", "us-ascii", "UTF8"),
    "word": ("x", "MON", "tuesday", "", "Fr", "2024-01-01", "2024-13-01", "12"),
    "printf": ("%", "s", "%s", "%d", "%.2f", "%x", "q", "1$", "%%", " ", "%5s", "%tY"),
    "columns": ("a", " ", "INT", ",", "b", "ARRAY", "<", ">", "STRUCT", ":", "STRING", "DECIMAL"),
    "count": ("-1", "0", "1", "2", "31", "32", "99"),
    "unit": ("day", "DAYS", "hour", "month", "fortnight", "second"),
    "any": ("b", "i", "c", "k", "x", "day", "time", "items", "1", "'1'", "null"),
    "regex": (
        "a",
        "(",
        ")",
        "[",
        "]",
        "{2,1}",
        "{1,2}",
        "*",
        "+",
        "?",
        "(?i)",
        "|",
        "[[:x:]]",
        ".",
    ),
    "pattern": (
        "yyyy",
        "YYYY",
        "MM",
        "MMMMMM",
        "d",
        "-",
        " ",
        "HH",
        "n",
        "SSS",
        "[",
        "]",
        "Q",
        "x",
    ),
    "path": ("a", "/", "//", "[", "]", "1", "@b", "*", "count(", ")", "text()", " = ", "$v", "::"),
    "place": ("$", ".", "a", "[", "0", "]", "'", "b"),
    "digits": ("#", ",", "0", ".", "%", ";", "x"),
    "key": ("0000111122223333", "short", "000011112222333300001111"),
    "mode": ("GCM", "CBC", "ECB", "XYZ"),
}
_MOST = {"number": 6, "zone": 4, "printf": 4, "columns": 9, "regex": 4, "pattern": 3, "path": 3}
_MOST |= {"digits": 4, "place": 4}
"""How many parts are put together."""


def drawn(random: Random, forms: Sequence[str] = _FORMS) -> str:
    """Return a call whose constant texts and numbers may be wrong."""
    form = random.choice(forms)
    parts = {
        name: "".join(random.choices(of, k=random.randint(1, _MOST.get(name, 1))))
        for name, of in _PARTS.items()
    }
    return form.format(**parts)


def slots() -> Iterator[str]:
    """Yield calls with a text that is no value in the place of a number, a date or a condition."""
    for (name, count), groups in sorted(ACCEPTED.items()):
        text = OPERATORS.get(name, f"{name}({', '.join(['{}'] * count)})")
        for group in groups if name not in _CASTS | _LEFT_OUT else ():
            given = [next((v[0] for each, v in VALUES.items() if each in of), "") for of in group]
            for at, of in enumerate(group):
                if "q" in of and all(given) and not {"A", "M", "S", "x"} & of:
                    yield text.format(*given[:at], "'abc!'", *given[at + 1 :])


def refused(expr: str) -> bool:
    name = "" if " as (" in expr else " as y"
    found = columns_of([QueryStep(None, f"select {expr}{name} from a")], {"a": SCHEMA})
    return bool(found.wrong_constants) or not found.outputs


@pytest.fixture
def session(engine: SparkEngine) -> "SparkSession":
    engine._sessions.start(0)
    session = engine._sessions.session(StepSize.SMALL)
    row = ", ".join(f"if(z > 0, {value}, null) as {name}" for name, _, value in VALUES.values())
    session.sql(f"select {row} from values (1) as s(z)").createOrReplaceTempView("a")
    return session


def fails(session: "SparkSession", expr: str) -> bool:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        session.sql(f"select {expr} from a").collect()
    except (PySparkException, Py4JJavaError):
        return True
    return False


_UNNEEDED = ("coalesce(", "ifnull(", "nvl(", "nanvl(", "case when", "b or ")
"""Forms that need a text for some rows only, and that are refused all the same."""


def test_a_text_that_no_argument_takes_is_refused_where_spark_fails(
    session: "SparkSession",
) -> None:
    calls = [each for each in slots() if refused(each) and not each.startswith(_UNNEEDED)]
    assert len(calls) > 250
    some = calls[:: stride(5)]
    assert not [each for each in some if not fails(session, each)]


def test_formats_that_are_refused_fail(session: "SparkSession") -> None:
    random = Random(f"formats {DRAWN}")
    calls = dict.fromkeys(drawn(random) for _ in range(DRAWN))
    ours = [each for each in calls if refused(each) and not each.startswith(_UNNEEDED)]
    assert len(calls) / 5 < len(ours) < len(calls)
    assert not [each for each in ours if not fails(session, each)]


def evaluates(session: "SparkSession", expr: str) -> bool:
    """Tell whether a query with a call passes what is looked at before the first block."""
    from pyspark.errors import PySparkException

    try:
        admitted(session, f"select {expr} as y from a", evaluated=True)
    except (PySparkException, PlacedQueryError):
        return False
    return True


def test_constants_that_fail_over_any_row_are_found_before_the_first(
    session: "SparkSession",
) -> None:
    random = Random(f"constants {DRAWN}")
    calls = list(dict.fromkeys(drawn(random, _OF_CONSTANTS) for _ in range(DRAWN)))
    passed = [each for each in calls if evaluates(session, each)]
    assert len(calls) / 5 < len(passed) < len(calls) * 4 / 5
    assert not [each for each in calls if each not in passed and not fails(session, each)]
    assert not [each for each in passed if fails(session, each) and not each.startswith(_WITHIN)]


_WITHIN = ("if(", "transform(", "str_to_map(")
"""Forms whose parts no row may need, and one that fails for repeated keys."""
