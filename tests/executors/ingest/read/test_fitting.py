"""What does not fit a type is found for a whole column as it is for each value by itself."""

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.ingest.read.values import Formats, Misfit, sieved, typed

TYPES = [
    pa.bool_(),
    pa.int8(),
    pa.int32(),
    pa.int64(),
    pa.uint64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(10, 2),
    pa.decimal128(2, 2),
    pa.decimal128(38, 18),
    pa.date32(),
    pa.timestamp("ms", "UTC"),
    pa.timestamp("ns", "UTC"),
    pa.time64("us"),
    pa.binary(16),
]
TEXTS = [
    *(
        "true",
        "FALSE",
        "fal\u017fe",
        "0",
        "-0",
        "+5",
        " 7\t",
        "",
        " ",
        "0x10",
        "127",
        "-129",
        "007",
    ),
    *("2147483647", "2147483648", "9223372036854775807", "-9223372036854775809", "1" * 40),
    *("1.25", "1.200", "1.205", ".5", "5.", "1e5", "1E400", "-1e39", "nan", "+inf", "-Infinity"),
    *("99999999.99", "100000000", "2024-02-29", "2023-02-29", "2024-13-01", "0001-01-01"),
    *("2024-01-01T10:20:30Z", "2024-01-01 10:20:30.123456789", "2024-01-01t10:20+01:00"),
    *("2024-01-01T24:00:00Z", "2024-01-01T10", "1600-01-01", "2262-12-31", "2024-01-01Z"),
    *("23:59:59", "24:00:00", "12:00:00.5", "0123456789abcdef0123456789abcdef", "bad", "1\n"),
    "01234567-89ab-cdef-0123-456789abcdef",
]


def alone(text: str | None, target: pa.DataType, formats: Formats) -> pa.Array | None:
    try:
        return typed(pa.array([text], pa.string()), target, formats)
    except Misfit:
        return None


def check(texts: Sequence[str | None], target: pa.DataType, formats: Formats) -> None:
    column, rows = sieved(pa.array(texts, pa.string()), target, formats)
    each = [alone(text, target, formats) for text in texts]
    assert rows == [row for row, made in enumerate(each) if made is None]
    assert column.type == target
    for row, made in enumerate(each):
        wanted = pa.nulls(1, target) if made is None else made
        assert str(column.slice(row, 1)) == str(wanted)


@pytest.mark.parametrize("target", TYPES, ids=str)
def test_every_kind_of_text_is_judged_as_it_is_alone(target: pa.DataType) -> None:
    check([None, *TEXTS], target, Formats())


@given(st.lists(st.none() | st.sampled_from(TEXTS), min_size=1, max_size=8), st.sampled_from(TYPES))
def test_a_column_is_judged_as_its_values_are(texts: list[str | None], target: pa.DataType) -> None:
    check(texts, target, Formats())


def test_texts_by_a_pattern_are_judged_by_it() -> None:
    texts = [None, "", "31.12.2024", " 01.02.2024 ", "31.02.2024", "2024-12-31"]
    check(texts, pa.date32(), Formats(date="%d.%m.%Y"))
    check(texts, pa.timestamp("ms", "UTC"), Formats(timestamp="%d.%m.%Y"))


def test_values_that_fit_only_apart_are_kept_all_the_same() -> None:
    texts = ["+0100 2024", " -0100 2024", "no"]
    check(texts, pa.timestamp("ms", "UTC"), Formats(timestamp="%z %Y"))
