"""Values of Arrow in Python: those that it can hold as ever, others as texts of the calendar."""

from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.data.python_values import FarTime, python_rows, python_values

_FIRST, _LAST = -719_162, 2_932_896  # the days of the years 1 to 9999
days = st.integers(-5_000_000, 5_000_000) | st.sampled_from(
    [_FIRST - 1, _FIRST, _LAST, _LAST + 1, _FIRST - 366, _FIRST - 367, -(2**31), 2**31 - 1]
)


def _iso(text: str) -> str:
    """Return a date of NumPy with a year of four digits, or a sign and at least four."""
    year, month, day = text.rsplit("-", 2)
    number = int(year)
    sign = "-" if number < 0 else "+" if number > 9999 else ""
    return f"{sign}{abs(number):04}-{month}-{day}"


def dates(numbers: list[Any]) -> pa.Array:
    return pa.array(numbers, pa.int32()).cast(pa.date32())


@given(numbers=st.lists(st.none() | days))
def test_dates_are_those_of_the_calendar(numbers: list[int | None]) -> None:
    found = python_values(dates(numbers))
    for number, value in zip(numbers, found, strict=True):
        if number is None:
            assert value is None
        elif _FIRST <= number <= _LAST:
            assert value == date.fromordinal(number + date(1970, 1, 1).toordinal())
        else:
            assert isinstance(value, FarTime)
            assert value == _iso(str(np.datetime64(number, "D")))


@pytest.mark.parametrize(("unit", "digits"), [("s", 3), ("ms", 3), ("us", 6)])
@given(number=days.filter(lambda day: abs(day) <= 5_000_000), part=st.integers(0, 10**6 - 1))
def test_instants_are_those_of_the_calendar(unit: str, digits: int, number: int, part: int) -> None:
    per_second = 10 ** {"s": 0, "ms": 3, "us": 6}[unit]
    ticks = number * 86_400 * per_second + part % (86_400 * per_second)
    for zone in (None, "UTC"):
        (value,) = python_values(pa.array([ticks], pa.int64()).cast(pa.timestamp(unit, zone)))
        if _FIRST <= number <= _LAST:
            assert not isinstance(value, str)
            assert value.toordinal() - date(1970, 1, 1).toordinal() == number
            continue
        text = str(
            np.array(ticks, f"M8[{unit}]").astype(f"datetime64[{'us' if digits == 6 else 'ms'}]")
        )
        day, _, clock = text.partition("T")
        shown = clock.removesuffix("000") if digits == 6 and clock.endswith("000") else clock
        assert value == f"{_iso(day)}T{shown}{'Z' if zone else ''}"


def test_nanoseconds_are_not_lost() -> None:
    values = pa.array([1, 1_000, None], pa.int64()).cast(pa.timestamp("ns", "UTC"))
    found = list(map(str, python_values(values)))
    assert found[0].endswith("00.000000001Z") or "000000001" in found[0]
    assert found[2] == "None"


def test_they_are_found_in_structs_lists_and_maps() -> None:
    far, close = dates([_LAST + 1, None]), dates([0, 1])
    rows = pa.table(
        {
            "s": pa.StructArray.from_arrays([far, close], names=["far", "close"]),
            "l": pa.ListArray.from_arrays(pa.array([0, 2, 2], pa.int32()), far),
            "m": pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), ["a", "b"], far),
            "n": [1, 2],
        }
    )
    text, day = "+10000-01-01", date(1970, 1, 1)
    assert python_rows(rows) == [
        {"s": {"far": text, "close": day}, "l": [text, None], "m": [("a", text)], "n": 1},
        {"s": {"far": None, "close": day.replace(day=2)}, "l": [], "m": [("b", None)], "n": 2},
    ]
    assert [python_rows(each) for each in rows.to_batches()] == [python_rows(rows)]


def test_fields_of_one_name_are_no_value() -> None:
    pair = pa.StructArray.from_arrays([pa.array([1]), dates([_LAST + 1])], names=["a", "a"])
    with pytest.raises(ValueError, match="the same name"):
        python_values(pair)
