"""Messages of Protocol Buffers as fields by number, without generated code.

The messages used here have a few fields of numbers, bytes and texts, which need no library.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

Value: TypeAlias = int | bytes

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MOST_VALUES: Final = 1_000
"""Values that a message, or a packed field, may have: each costs more than its bytes."""

_LONGEST_VARINT: Final = 10
_BITS: Final = 64


class MalformedMessageError(ValueError):
    """Bytes are not a valid message; the text says why."""


def fields(data: bytes) -> Mapping[int, list[Value]]:
    """Return the values of each field of a message, in order: numbers and bytes.

    Raises MalformedMessageError.
    """
    found: dict[int, list[Value]] = {}
    at = count = 0
    while at < len(data):
        count = _count_up(count)
        tag, at = _number(data, at)
        field, kind = tag >> 3, tag & 7
        value: Value
        if field == 0:
            raise MalformedMessageError("a field has the number 0")
        if kind == VARINT:
            value, at = _number(data, at)
        else:
            size, at = _size(data, at, kind)
            if size > len(data) - at:
                raise MalformedMessageError("it ends within a field")
            value, at = data[at : at + size], at + size
            if kind != BYTES:
                value = int.from_bytes(value, "little")
        found.setdefault(field, []).append(value)
    return found


def field(number: int, value: Value) -> bytes:
    """Return one field in its encoding: a number as a varint, negative ones in 64 bits."""
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(value % (1 << _BITS))
    return varint(number << 3 | BYTES) + varint(len(value)) + value


def varint(number: int) -> bytes:
    """Return a number that is not negative as a varint, its lowest seven bits first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def numbers(data: bytes) -> list[int]:
    """Return the numbers of a repeated field that is packed.  Raises MalformedMessageError."""
    found, at = list[int](), 0
    while at < len(data):
        _count_up(len(found))
        number, at = _number(data, at)
        found.append(number)
    return found


def _count_up(count: int) -> int:
    if count == MOST_VALUES:
        raise MalformedMessageError(f"it has more than {MOST_VALUES:,} values")
    return count + 1


def _size(data: bytes, at: int, kind: int) -> tuple[int, int]:
    if kind == BYTES:
        return _number(data, at)
    if kind not in (FIXED64, FIXED32):
        raise MalformedMessageError(f"a field is of the kind {kind}")
    return (8 if kind == FIXED64 else 4), at


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a position, and the position behind it."""
    number = 0
    for length in range(_LONGEST_VARINT):
        if at + length >= len(data):
            raise MalformedMessageError("it ends within a number")
        byte = data[at + length]
        number |= (byte & 0x7F) << 7 * length
        if byte < 0x80:
            return number, at + length + 1
    raise MalformedMessageError("a number is longer than ten bytes")
