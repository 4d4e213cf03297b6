"""Envelope of messages to and from an engine: Protocol Buffers with one field of bytes.

The service is `engine.Engine`; each of its messages has `bytes flatbuffer = 1`, in which a finished
FlatBuffers buffer of a table of `odf.messages` stands, without a manifest around it.  One field is
written and read here by hand, as its code would be longer than this.
"""

from typing import Final, TypeVar

from odfbuild.errors import ProtocolError
from odfbuild.odf.record import Record
from odfbuild.odf.wire.blocks import decode_table, encode_table

SERVICE: Final = "engine.Engine"
"""Name of the service, as the reference has it."""

PORT: Final = 5544
"""Port that the specification gives to engines ("Communication Interface")."""

MOST_BYTES: Final = 16 << 20
"""Bytes that a message may have, either way: it names files, whose rows are not in it."""

_FIELD: Final = 0x0A  # number 1, of bytes
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT: Final = 10

_Message = TypeVar("_Message", bound=Record)


class BadMessageError(ProtocolError):
    """Bytes are no message of the engine contract."""

    code = "bad-message"


def packed(message: Record) -> bytes:
    """Return a message as it goes over the wire (ODF 0.34.1, "Communication Interface")."""
    return enveloped(encode_table(message))


def unpacked(cls: type[_Message], data: bytes) -> _Message:
    """Return the message of a class that came over the wire.  Raises ProtocolError."""
    return decode_table(cls, content(data))


def enveloped(buffer: bytes) -> bytes:
    """Return a FlatBuffers buffer in its envelope."""
    return bytes([_FIELD]) + _varint(len(buffer)) + buffer


def content(data: bytes) -> bytes:
    """Return the FlatBuffers buffer in an envelope: of several the last, as proto3 says.

    Fields of other numbers are passed over.  Raises BadMessageError.
    """
    found, at = None, 0
    while at < len(data):
        tag, at = _read(data, at)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise _bad("a field has the number 0")
        if kind == _VARINT:
            _, at = _read(data, at)
            continue
        if kind == _BYTES:
            size, at = _read(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise _bad(f"a field is of the kind {kind}")
        if size > len(data) - at:
            raise _bad("it ends within a field")
        if number == 1:
            if kind != _BYTES:
                raise _bad("its first field is not of bytes")
            found = data[at : at + size]
        at += size
    if found is None:
        raise _bad("it has no flatbuffer")
    return found


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _read(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it."""
    number = 0
    for length in range(_LONGEST_VARINT):
        if at + length >= len(data):
            raise _bad("it ends within a number")
        byte = data[at + length]
        number |= (byte & 0x7F) << 7 * length
        if byte < 0x80:
            return number, at + length + 1
    raise _bad("a number is longer than ten bytes")


def _bad(why: str) -> BadMessageError:
    return BadMessageError(
        what=f"the bytes are no message of the engine contract: {why}",
        why="each message is `bytes flatbuffer = 1` of Protocol Buffers",
        fix="send what the specification describes (ODF 0.34.1, Engine Contract)",
    )
