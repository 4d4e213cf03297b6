"""The inputs of the queries: their columns, and rows of values that are apt to meet or to be odd.

`a` and `b` are plain; `c` has a column of each type that a dataset can have and a query can group
by; `r` has some of those, other ones in each history.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

__all__ = ["HOUR", "SYSTEM", "Row", "drawn_schema", "in_another_form", "row"]

Row = dict[str, Any]

HOUR = 3_600_000
SYSTEM = ("offset", "op", "system_time")
_MILLIS = pa.timestamp("ms", tz="UTC")
_FIRST = [
    pa.field("offset", pa.int64()),
    pa.field("op", pa.int32()),
    pa.field("system_time", _MILLIS),
    pa.field("event_time", _MILLIS),
]
_NAN = float("nan")
_NANS = (_NAN, -_NAN)
_MOST = Decimal("9999999999999999999999999999.9999999999")

_Column = tuple[pa.DataType, Sequence[Any]]
_PLAIN: Mapping[str, Mapping[str, _Column]] = {
    "a": {
        "k": (pa.string(), ["p", "q", "r", None]),
        "n": (pa.int64(), [0, 1, 2, 3, None]),
        "m": (pa.int64(), [0, 1, 2]),
        "x": (pa.float64(), [0.5, 1.5, 0.0, -0.0, _NAN, None]),
    },
    "b": {"k": (pa.string(), ["p", "q", "r", None]), "w": (pa.int64(), [0, 1, 2, 3, None])},
}
_TYPED: Mapping[str, _Column] = {
    "k": (pa.string(), ["p", "q", "r", None]),
    "s": (pa.string(), ["", " p", "P", "é", "e\u0301", "ß", "漢字", "\U0001d11e", "a\nb'", None]),
    "h": (pa.bool_(), [True, False, None]),
    "i": (pa.int8(), [-128, 0, 127, None]),
    "j": (pa.int32(), [-(2**31), 0, 1, 2**31 - 1, None]),
    "f": (pa.float32(), [0.1, 1.5, -0.0, 0.0, math.inf, _NAN, None]),
    "x": (pa.float64(), [0.1, 0.2, 0.3, 1e300, -1e300, 5e-324, -0.0, 0.0, _NAN, None]),
    "d": (pa.decimal128(12, 3), [Decimal(v) for v in ("0.001", "-0.5", "999999999.999")] + [None]),
    "q": (pa.decimal128(38, 10), [Decimal(0), _MOST, _MOST.copy_negate(), None]),
    "u": (pa.date32(), [date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29), None]),
    "z": (_MILLIS, [0, 1, 1_709_164_800_123, -1, None]),
    "y": (pa.binary(), [b"", b"\x00\xff", b"p", None]),
    "l": (pa.list_(pa.int32()), [[], [1], [1, None], [2, 1, 1], None]),
    "g": (
        pa.struct([("u", pa.int64()), ("v", pa.string())]),
        [{"u": 1, "v": "p"}, {"u": None, "v": "é"}, {"u": 1, "v": None}, None],
    ),
    "o": (pa.list_(pa.list_(pa.string())), [[], [[]], [["p", None], ["é"]], [None], None]),
    "v": (pa.list_(pa.float64()), [[0.0], [-0.0], [_NAN, 1.5], None]),
}


def drawn_schema(draw: Random, name: str) -> pa.Schema:
    """Return the columns of an input; of `r` those that this history has."""
    columns = [pa.field(each, kind) for each, (kind, _) in _columns(name).items()]
    if name == "r":
        columns = [each for each in columns if each.name == "k" or draw.random() < 0.4]
        draw.shuffle(columns)
    return pa.schema([*_FIRST, *columns])


def row(draw: Random, name: str, schema: pa.Schema) -> Row:
    """Return a row of an input without the columns that every dataset begins with."""
    values = _columns(name)
    one: Callable[[str], Any] = lambda each: draw.choice(values[each][1])  # noqa: E731
    names = [each for each in schema.names if each in values]
    return {"event_time": draw.randint(0, 12) * HOUR // 3, **{each: one(each) for each in names}}


def _columns(name: str) -> Mapping[str, _Column]:
    return _PLAIN.get(name, _TYPED)


def in_another_form(row: Row, flips: Callable[[], bool]) -> Row:
    """Return an equal row, of which zeros and NaNs may have the other sign."""
    return {name: _other_form(value, flips) for name, value in row.items()}


def _other_form(value: Any, flips: Callable[[], bool]) -> Any:
    if isinstance(value, dict):
        return in_another_form(value, flips)
    if isinstance(value, list):
        return [_other_form(each, flips) for each in value]
    if not isinstance(value, float) or not (value == 0 or math.isnan(value)) or not flips():
        return value
    return -value if value == 0 else _NANS[value is _NANS[0]]
