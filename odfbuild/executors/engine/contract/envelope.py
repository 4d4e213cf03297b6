"""Envelope of messages to and from an engine: Protocol Buffers with one field of bytes.

The service is `engine.Engine`; each of its messages has `bytes flatbuffer = 1`, in which a finished
FlatBuffers buffer of a table of `odf.messages` stands, without a manifest around it.
"""

from typing import Final, TypeVar

from odfbuild.errors import ProtocolError
from odfbuild.host.protobuf import MalformedMessageError, field, fields
from odfbuild.odf.record import Record
from odfbuild.odf.wire.blocks import decode_table, encode_table

SERVICE: Final = "engine.Engine"
"""Name of the service, as the reference has it."""

PORT: Final = 5544
"""Port that the specification gives to engines ("Communication Interface")."""

MOST_BYTES: Final = 16 << 20
"""Bytes that a message may have, either way: it names files, whose rows are not in it."""

_FIELD: Final = 1

_Message = TypeVar("_Message", bound=Record)


class BadMessageError(ProtocolError):
    """Bytes are not a message of the engine contract."""

    code = "bad-message"


def packed(message: Record) -> bytes:
    """Return a message as it goes over the wire (ODF 0.34.1, "Communication Interface")."""
    return enveloped(encode_table(message))


def unpacked(cls: type[_Message], data: bytes) -> _Message:
    """Return the message of a class that came over the wire.  Raises ProtocolError."""
    return decode_table(cls, content(data))


def enveloped(buffer: bytes) -> bytes:
    """Return a FlatBuffers buffer in its envelope."""
    return field(_FIELD, buffer)


def content(data: bytes) -> bytes:
    """Return the FlatBuffers buffer in an envelope: of several the last, as proto3 says.

    Fields of other numbers are passed over.  Raises BadMessageError.
    """
    try:
        found = fields(data).get(_FIELD)
    except MalformedMessageError as error:
        raise _bad(str(error)) from None
    if found is None:
        raise _bad("it has no flatbuffer")
    if not all(isinstance(each, bytes) for each in found):
        raise _bad("its first field is not of bytes")
    return bytes(found[-1])


def _bad(why: str) -> BadMessageError:
    return BadMessageError(
        what=f"the bytes are not a message of the engine contract: {why}",
        why="each message is `bytes flatbuffer = 1` of Protocol Buffers",
        fix="send what the specification describes (ODF 0.34.1, Engine Contract)",
    )
