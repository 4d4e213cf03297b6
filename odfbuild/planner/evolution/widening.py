"""Which changes of a column's type a reader of the old type copes with.  Pure.

| from | to |
|---|---|
| a signed integer | a longer signed one |
| an unsigned integer | a longer one, signed or not |
| a whole number | a float that holds all its values, a decimal with room for its digits |
| a float | a longer float |
| DECIMAL(p, s) | DECIMAL(q, t) with t >= s and q - t >= p - s |
| seconds, milliseconds | a finer unit, down to microseconds |
| a list, or bytes, of one length | of any length |

Everything else is another type: a text is no number, and a date no instant.
"""

from collections.abc import Mapping

from odfbuild.odf.datatypes import spelled_out
from odfbuild.odf.events import (
    DataType,
    DataTypeBinary,
    DataTypeDecimal,
    DataTypeDuration,
    DataTypeFloat16,
    DataTypeFloat32,
    DataTypeFloat64,
    DataTypeInt8,
    DataTypeInt16,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeTime,
    DataTypeTimestamp,
    DataTypeUInt8,
    DataTypeUInt16,
    DataTypeUInt32,
    DataTypeUInt64,
    TimeUnit,
)

__all__ = ["is_widening"]

_SIGNED: Mapping[type, int] = {
    DataTypeInt8: 8,
    DataTypeInt16: 16,
    DataTypeInt32: 32,
    DataTypeInt64: 64,
}
_UNSIGNED: Mapping[type, int] = {
    DataTypeUInt8: 8,
    DataTypeUInt16: 16,
    DataTypeUInt32: 32,
    DataTypeUInt64: 64,
}
_FLOATS: Mapping[type, int] = {  # bits of the numbers that are held exactly
    DataTypeFloat16: 11,
    DataTypeFloat32: 24,
    DataTypeFloat64: 53,
}
_UNITS = (TimeUnit.SECOND, TimeUnit.MILLISECOND, TimeUnit.MICROSECOND)


def is_widening(old: DataType, new: DataType) -> bool:
    """Say whether every value of the old type is one of the new, and means the same there.

    Both are types of values that are not null, and different.
    """
    match spelled_out(old), spelled_out(new):
        case DataTypeDecimal() as was, DataTypeDecimal() as now:
            whole = now.precision - now.scale >= was.precision - was.scale
            return whole and now.scale >= was.scale
        case DataTypeTimestamp() as was, DataTypeTimestamp() as now:
            return was.timezone == now.timezone and _finer(was.unit, now.unit)
        case (DataTypeTime() as was, DataTypeTime() as now) | (
            DataTypeDuration() as was,
            DataTypeDuration() as now,
        ):
            return _finer(was.unit, now.unit)
        case DataTypeBinary(fixed_length=int()), DataTypeBinary(fixed_length=None):
            return True
        case DataTypeList(fixed_length=int()) as was, DataTypeList(fixed_length=None) as now:
            return was.item_type == now.item_type
    return _wider_number(old, new)


def _wider_number(old: DataType, new: DataType) -> bool:
    if type(old) in _FLOATS:
        return _FLOATS.get(type(new), 0) > _FLOATS[type(old)]
    signed = type(old) in _SIGNED
    bits = _SIGNED.get(type(old)) or _UNSIGNED.get(type(old))
    if bits is None:
        return False
    magnitude = bits - 1 if signed else bits
    if isinstance(new, DataTypeDecimal):
        return new.precision - new.scale >= len(str(2**magnitude))
    if type(new) in _FLOATS:
        return _FLOATS[type(new)] >= magnitude
    return _SIGNED.get(type(new), 0) > bits or (not signed and _UNSIGNED.get(type(new), 0) > bits)


def _finer(was: TimeUnit | None, now: TimeUnit | None) -> bool:
    """Nanoseconds are left out: their range is the smaller one."""
    if was not in _UNITS or now not in _UNITS:
        return False
    return _UNITS.index(now) > _UNITS.index(was)
