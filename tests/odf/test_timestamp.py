"""Instants: text, stored parts and other units of time."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.timestamp import InvalidTimestampError, Timestamp
from tests.support.cases import load
from tests.support.values.strategies import timestamps

TEXTS = [
    pytest.param(case["text"].strip(), case["expected"]["canonical_text"].strip(), id=case["id"])
    for case in load("yaml-serde")["vectors"]
    if case["type"].startswith("date-time")
]


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_vector_times_are_printed_in_utc_with_the_fewest_digits(text: str, expected: str) -> None:
    assert str(Timestamp.parse(text)) == expected


@given(timestamps)
def test_printing_and_parsing_gives_the_same_instant(at: Timestamp) -> None:
    assert Timestamp.parse(str(at)) == at


@given(timestamps)
def test_stored_parts_give_the_same_instant(at: Timestamp) -> None:
    assert Timestamp.from_parts(*at.parts()) == at


@given(timestamps)
def test_datetimes_agree_down_to_the_microsecond(at: Timestamp) -> None:
    assert Timestamp.from_datetime(at.to_datetime()).nanos == at.nanos // 1000 * 1000


@given(timestamps, timestamps)
def test_instants_are_ordered_as_their_datetimes(one: Timestamp, other: Timestamp) -> None:
    if one.to_datetime() < other.to_datetime():
        assert one < other


@given(st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1)))
def test_the_standard_library_reads_what_is_printed(at: datetime) -> None:
    aware = at.replace(tzinfo=timezone(timedelta(hours=-7, minutes=-30)))
    assert datetime.fromisoformat(str(Timestamp.from_datetime(aware))) == aware
    assert Timestamp.parse(aware.isoformat()) == Timestamp.from_datetime(aware)


def test_milliseconds_are_rounded_down_also_before_1970() -> None:
    assert Timestamp(-1).millis == -1
    assert Timestamp(1_999_999).millis == 1
    assert Timestamp.from_millis(-1).nanos == -1_000_000


def test_a_datetime_without_a_zone_is_taken_as_utc() -> None:
    assert Timestamp.from_datetime(datetime(1970, 1, 1)).nanos == 0
    assert Timestamp(0).to_datetime() == datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ((2020, 1, 0, 0), "2020-01-01T00:00:00Z"),
        ((2020, 366, 86_399, 999_999_999), "2020-12-31T23:59:59.999999999Z"),
        ((1969, 365, 86_399, 1_000), "1969-12-31T23:59:59.000001Z"),
    ],
)
def test_parts_are_year_day_seconds_and_nanoseconds(
    parts: tuple[int, int, int, int], text: str
) -> None:
    assert str(Timestamp.from_parts(*parts)) == text
    assert Timestamp.parse(text).parts() == parts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2020-01-01",
        "2020-01-01T12:00:00",
        "2020-01-01T12:00Z",
        "2020-02-30T12:00:00Z",
        "2020-01-01T24:00:00Z",
        "2020-01-01T23:59:60Z",
        "2020-01-01T12:00:00.1234567890Z",
        "2020-01-01T12:00:00.Z",
        "2020-01-01T12:00:00+24:00",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "٢٠٢٠-01-01T12:00:00Z",
        "2020-01-01T12:00:00Z\n",
    ],
)
def test_what_is_no_instant_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidTimestampError) as caught:
        Timestamp.parse(text)
    assert "2024-03-01T12:00:00Z" in caught.value.fix


@pytest.mark.parametrize(
    "parts",
    [
        (2021, 366, 0, 0),
        (1900, 366, 0, 0),
        (2020, 0, 0, 0),
        (0, 1, 0, 0),
        (10_000, 1, 0, 0),
        (2020, 1, 86_400, 0),
        (2020, 1, 0, 10**9),
    ],
)
def test_stored_parts_out_of_range_are_refused(parts: tuple[int, int, int, int]) -> None:
    with pytest.raises(InvalidTimestampError):
        Timestamp.from_parts(*parts)


@pytest.mark.parametrize("nanos", [10**30, -(10**30)])
def test_instants_outside_of_the_calendar_cannot_be_printed(nanos: int) -> None:
    with pytest.raises(InvalidTimestampError):
        str(Timestamp(nanos))
    with pytest.raises(InvalidTimestampError):
        Timestamp(nanos).to_datetime()
