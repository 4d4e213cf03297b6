"""Values of files become values of columns, or are refused in words."""

import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.testing.values import WrongValueError, of_text, typed
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.schema.ddl import parse_ddl


def kind(ddl: str) -> Any:
    return parse_ddl([f"c {ddl}"]).fields[0].type


@pytest.mark.parametrize(
    ("ddl", "value", "wanted"),
    [
        ("BIGINT", 7, 7),
        ("BIGINT", None, None),
        ("DOUBLE", 1, 1.0),
        ("BOOLEAN", True, True),
        ("STRING", "no", "no"),
        ("DATE", "2024-02-29", date(2024, 2, 29)),
        ("TIMESTAMP", "2024-01-31T12:00:00+02:00", datetime(2024, 1, 31, 10, tzinfo=UTC)),
        ("TIMESTAMP", "2024-01-31", datetime(2024, 1, 31, tzinfo=UTC)),
        ("DECIMAL(5,2)", 1.1, Decimal("1.1")),
        ("DECIMAL(5,2)", "123.45", Decimal("123.45")),
        ("DECIMAL(5,2)", 120, Decimal(120)),
        ("ARRAY<BIGINT>", [1, None], [1, None]),
        ("STRUCT<a: BIGINT, b: STRING>", {"b": "x"}, {"a": None, "b": "x"}),
        ("BINARY", "AP8=", b"\x00\xff"),
        ("TIME", "12:30:00", time(12, 30)),
    ],
)
def test_values_are_taken_as_the_column_has_them(ddl: str, value: Any, wanted: Any) -> None:
    assert typed(value, kind(ddl)) == wanted
    pa.array([typed(value, kind(ddl))], to_arrow(parse_ddl([f"c {ddl}"])).field(0).type)


@pytest.mark.parametrize(
    ("ddl", "value", "said"),
    [
        ("BIGINT", "7", "'7', and the column is Int64"),
        ("BIGINT", 1.5, "1.5, and the column is Int64"),
        ("BIGINT", True, "true, and the column is Int64"),
        ("INT", 1 << 31, "does not fit into Int32"),
        ("BIGINT NOT NULL", None, "the column is required"),
        ("STRING", 7, "put it in quotes"),
        ("DATE", "2024-13-01", "write it like 2024-01-31"),
        ("DECIMAL(5,2)", "1.234", "does not fit into Decimal(5, 2)"),
        ("DECIMAL(5,2)", 1000, "does not fit into Decimal(5, 2)"),
        ("STRUCT<amount: BIGINT>", {"amout": 1}, "did you mean 'amount'?"),
        ("BINARY", "%", "base64"),
        ("ARRAY<BIGINT>", 1, "the column is List"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(ddl: str, value: Any, said: str) -> None:
    with pytest.raises(WrongValueError, match=re.escape(said)):
        typed(value, kind(ddl))


@pytest.mark.parametrize(
    ("ddl", "text", "wanted"),
    [
        ("BIGINT", "-7", -7),
        ("BIGINT", "", None),
        ("STRING", "", None),
        ("STRING NOT NULL", "", ""),
        ("STRING", "7", "7"),
        ("DOUBLE", "1e3", 1000.0),
        ("BOOLEAN", "True", True),
        ("ARRAY<BIGINT>", "[1, 2]", [1, 2]),
    ],
)
def test_texts_of_csv_are_read_by_the_type(ddl: str, text: str, wanted: Any) -> None:
    assert of_text(text, kind(ddl)) == wanted


@pytest.mark.parametrize(("ddl", "text"), [("BIGINT", "x"), ("BOOLEAN", "maybe"), ("DATE", "x")])
def test_texts_that_are_no_such_value_are_refused(ddl: str, text: str) -> None:
    with pytest.raises(WrongValueError):
        of_text(text, kind(ddl))


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, places=3, min_value=-(10**6), max_value=10**6
    )
)
def test_a_decimal_is_taken_exactly_when_arrow_takes_it(value: Decimal) -> None:
    of = kind("DECIMAL(7,2)")
    try:
        wanted = pa.scalar(value, pa.decimal128(7, 2)).as_py()
    except pa.ArrowInvalid:
        wanted = None
    try:
        found = typed(str(value), of)
    except WrongValueError:
        found = None
    assert (found is None) == (wanted is None)
    assert found is None or found == wanted
