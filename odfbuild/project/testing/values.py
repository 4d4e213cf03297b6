"""Values of YAML, CSV and JSON as values of a column's type; the reason when one is none."""

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from odfbuild.json_text import parse_json
from odfbuild.odf.datatypes import inner, is_optional, type_name
from odfbuild.odf.events import (
    DataType,
    DataTypeBinary,
    DataTypeBool,
    DataTypeDate,
    DataTypeDecimal,
    DataTypeFloat16,
    DataTypeFloat32,
    DataTypeFloat64,
    DataTypeInt8,
    DataTypeInt16,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeMap,
    DataTypeString,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
    DataTypeUInt8,
    DataTypeUInt16,
    DataTypeUInt32,
    DataTypeUInt64,
)
from odfbuild.planner.names import did_you_mean
from odfbuild.redaction import excerpt

__all__ = ["WrongValueError", "of_text", "typed"]

_INTEGERS: Final[Mapping[type, tuple[int, int]]] = {
    DataTypeInt8: (-(1 << 7), (1 << 7) - 1),
    DataTypeInt16: (-(1 << 15), (1 << 15) - 1),
    DataTypeInt32: (-(1 << 31), (1 << 31) - 1),
    DataTypeInt64: (-(1 << 63), (1 << 63) - 1),
    DataTypeUInt8: (0, (1 << 8) - 1),
    DataTypeUInt16: (0, (1 << 16) - 1),
    DataTypeUInt32: (0, (1 << 32) - 1),
    DataTypeUInt64: (0, (1 << 64) - 1),
}
_FLOATS: Final = DataTypeFloat16 | DataTypeFloat32 | DataTypeFloat64
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class WrongValueError(Exception):
    """A value cannot be one of a column; the text says why."""


def typed(value: Any, of: DataType) -> Any:
    """Return a value as Arrow takes it for a type.  Raises WrongValueError."""
    if value is None:
        if is_optional(of):
            return None
        raise WrongValueError("null, and the column is required")
    of = inner(of)
    if type(of) in _INTEGERS:
        return _integer(value, of)
    match of:
        case DataTypeBool() if isinstance(value, bool):
            return value
        case DataTypeFloat16() | DataTypeFloat32() | DataTypeFloat64() if _is_number(value):
            return float(value)
        case DataTypeDecimal():
            return _decimal(value, of)
        case DataTypeString() if isinstance(value, str):
            return value
        case DataTypeBinary() if isinstance(value, str):
            return _bytes(value)
        case DataTypeDate() | DataTypeTime() | DataTypeTimestamp() if isinstance(value, str):
            return _when(value, of)
        case DataTypeList() if isinstance(value, list):
            return [typed(each, of.item_type) for each in value]
        case DataTypeMap() if isinstance(value, dict):
            pairs = value.items()
            return [(typed(key, of.key_type), typed(v, of.value_type)) for key, v in pairs]
        case DataTypeStruct() if isinstance(value, dict):
            return _struct(value, of)
    raise WrongValueError(f"{_shown(value)}, and the column is {type_name(of)}{_hint(value, of)}")


def of_text(text: str, of: DataType) -> Any:
    """Return a value of a CSV file: the empty text is null, lists and structs are JSON."""
    if text == "" and (is_optional(of) or not isinstance(inner(of), DataTypeString)):
        return typed(None, of)
    kind = inner(of)
    try:
        if type(kind) in _INTEGERS:
            return typed(int(text), of)
        if isinstance(kind, _FLOATS):
            return float(text)
        if isinstance(kind, DataTypeBool):
            return typed({"true": True, "false": False}.get(text.lower(), text), of)
        if isinstance(kind, DataTypeList | DataTypeMap | DataTypeStruct):
            return typed(parse_json(text), of)
    except ValueError:
        raise WrongValueError(f"{_shown(text)}, and the column is {type_name(kind)}") from None
    return typed(text, of)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _integer(value: Any, of: DataType) -> int:
    least, most = _INTEGERS[type(of)]
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongValueError(f"{_shown(value)}, and the column is {type_name(of)}")
    if not least <= value <= most:
        raise WrongValueError(f"{value}, which does not fit into {type_name(of)}")
    return value


def _decimal(value: Any, of: DataTypeDecimal) -> Decimal:
    try:
        found = Decimal(repr(value) if isinstance(value, float) else value)
    except (InvalidOperation, TypeError, ValueError):
        found = None
    if found is None or isinstance(value, bool) or not found.is_finite():
        raise WrongValueError(f"{_shown(value)}, and the column is {type_name(of)}")
    _, digits, exponent = found.normalize().as_tuple()
    assert isinstance(exponent, int)  # noqa: S101 - it is finite
    if -exponent > of.scale or len(digits) + exponent > of.precision - of.scale:
        raise WrongValueError(f"{_shown(value)}, which does not fit into {type_name(of)}")
    return found


def _bytes(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise WrongValueError(f"{_shown(value)}, and bytes are written in base64") from None


def _when(value: str, of: DataType) -> date | time | datetime:
    try:
        if isinstance(of, DataTypeDate):
            return date.fromisoformat(value)
        if isinstance(of, DataTypeTime):
            return time.fromisoformat(value)
        found = datetime.fromisoformat(value)
    except ValueError:
        example = {
            DataTypeDate: "2024-01-31",
            DataTypeTime: "12:30:00",
        }.get(type(of), "2024-01-31T12:30:00Z")
        raise WrongValueError(
            f"{_shown(value)}, and the column is {type_name(of)}: write it like {example}"
        ) from None
    if isinstance(of, DataTypeTimestamp) and of.timezone == "":
        return found.replace(tzinfo=None)
    aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return _EPOCH + (aware - _EPOCH) // timedelta(milliseconds=1) * timedelta(milliseconds=1)


def _struct(value: Mapping[str, Any], of: DataTypeStruct) -> Mapping[str, Any]:
    known = {each.name: each.type for each in of.fields}
    for name in value:
        if name not in known:
            hint = did_you_mean(name, known)
            raise WrongValueError(f"the column has no field '{name}'{hint and f': {hint}'}")
    return {name: typed(value.get(name), kind) for name, kind in known.items()}


def _hint(value: Any, of: DataType) -> str:
    if isinstance(of, DataTypeString) and not isinstance(value, list | dict):
        return ": put it in quotes"
    return ""


def _shown(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f"'{excerpt(value, 60)}'"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return excerpt(str(value), 60)
