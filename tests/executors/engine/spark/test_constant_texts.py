"""Constant texts that are refused fail in Spark: over a row, or as it reads the query."""

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

import pytest

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
}
"""By the letter of a type: a column of it, the type, and the value in its one row."""
SCHEMA = parse_ddl(", ".join(f"{name} {kind}" for name, kind, _ in VALUES.values()))
_CASTS = {each for each in OPERATORS if each.startswith("cast:")}
_LEFT_OUT = {"time", "make_time"}  # of a type that is not enabled
DRAWN = examples(150, 6_000)
_FORMS = (
    "to_number(k, '{number}')", "try_to_number(k, '{number}')", "to_char(c, '{number}')",
    "from_utc_timestamp(time, '{zone}')", "convert_timezone('{zone}', time)",
    "make_timestamp(2024, 1, 1, 0, 0, 0, '{zone}')", "encode(k, '{charset}')",
    "decode(x, '{charset}')", "to_binary(k, '{charset}')", "mask(k, '{word}', '{word}')",
    "next_day(day, '{word}')", "format_string('{printf}', k, i, d)", "from_json(k, '{columns}')",
    "slice(items, 1, {count})", "bit_get(i, {count})", "elt({count}, k, k)", "to_date('{word}')",
    "timestampadd({unit}, 1, time)", "time + interval {count}.5 {unit}",
    "time + interval '{count}' {unit}", "stack(2, i, i, i) as (p, q)",
    "stack(1, i, i, i) as (p, q)", "coalesce('{word}', day)",
)  # fmt: skip
_PARTS = {
    "number": ("9", "0", "9", "9", ",", "G", ".", "D", "$", "S", "MI", "PR", "X"),
    "zone": ("UTC", "GMT", "+", "-", "1", "02", ":", "30", "Europe/Berlin", "EST", "mars", "Z"),
    "charset": ("utf-8", "UTF-16", "latin1", "hex", "base64", "us-ascii", "UTF8"),
    "word": ("x", "MON", "tuesday", "", "Fr", "2024-01-01", "2024-13-01", "12"),
    "printf": ("%", "s", "%s", "%d", "%.2f", "%x", "q", "1$", "%%", " ", "%5s", "%tY"),
    "columns": ("a", " ", "INT", ",", "b", "ARRAY", "<", ">", "STRUCT", ":", "STRING", "DECIMAL"),
    "count": ("-1", "0", "1", "2", "31", "32", "99"),
    "unit": ("day", "DAYS", "hour", "month", "fortnight", "second"),
}
_MOST = {"number": 6, "zone": 4, "printf": 4, "columns": 9}  # parts that are put together


def drawn(random: Random) -> str:
    """Return a call whose constant texts and numbers may be wrong."""
    form = random.choice(_FORMS)
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
