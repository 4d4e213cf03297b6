"""Values of Arrow as those of Python, also dates and instants outside of the years 1 to 9999.

Python has none of these, so they are texts in ISO 8601, with a sign before years of other than four
digits: `+10000-01-01`, `-0043-03-15`.  A sentinel such as 9999-12-31T23:59:59-05:00 is one in UTC.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

_DAY: Final = 86_400 * 10**9
_CYCLE: Final = 146_097  # days of 400 years
_EPOCH: Final = date(1970, 1, 1).toordinal()
_NANOS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


class FarTime(str):
    """A date or an instant that Python cannot hold, as text; `rank` orders it among others.

    That is -1 or 1, as it is earlier or later than all that Python can hold, and its number.
    """

    rank: tuple[int, int]
    __slots__ = ("rank",)

    def __new__(cls, text: str, number: int) -> FarTime:
        made = super().__new__(cls, text)
        made.rank = (-1 if number < 0 else 1, number)
        return made


def python_rows(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows as dictionaries; the names of the columns differ."""
    import pyarrow as pa

    try:
        found: list[dict[str, Any]] = rows.to_pylist()
    except (OverflowError, ValueError, pa.ArrowInvalid):
        names = rows.schema.names
        if not names:
            raise
        columns = [python_values(each) for each in rows.columns]
        found = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return found


def python_values(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of a column.  Raises ValueError for a struct with fields of one name."""
    import pyarrow as pa

    try:
        found: list[Any] = values.to_pylist()
    except (OverflowError, ValueError, pa.ArrowInvalid):
        found = [_value(each) for each in values]
    return found


def _value(scalar: Any) -> Any:
    import pyarrow as pa

    kind = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_struct(kind):
        names = [kind.field(at).name for at in range(kind.num_fields)]
        if len(set(names)) < len(names):
            raise ValueError(f"the fields of a struct have the same name: {kind}")
        return {name: _value(scalar[at]) for at, name in enumerate(names)}
    if pa.types.is_map(kind):
        return [(_value(each[0]), _value(each[1])) for each in scalar.values]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return [_value(each) for each in scalar.values]
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        if pa.types.is_date32(kind):
            return FarTime(_day(scalar.value), scalar.value)
        if pa.types.is_timestamp(kind):
            return _instant(scalar.value, _NANOS[kind.unit], is_utc=kind.tz is not None)
        raise


def _instant(ticks: int, unit: int, *, is_utc: bool) -> FarTime:
    days, nanos = divmod(ticks * unit, _DAY)
    seconds, part = divmod(nanos, 10**9)
    clock = f"{seconds // 3_600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    digits = f"{part:09}"
    digits = digits[:3] if not part % 10**6 else digits[:6] if not part % 1000 else digits
    return FarTime(f"{_day(days)}T{clock}.{digits}{'Z' if is_utc else ''}", ticks)


def _day(days: int) -> str:
    """Return a day since 1970 in the Gregorian calendar, which repeats itself after 400 years."""
    cycles, within = divmod(days + _EPOCH - 1, _CYCLE)
    found = date.fromordinal(within + 1)
    year = found.year + 400 * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{found.month:02}-{found.day:02}"
