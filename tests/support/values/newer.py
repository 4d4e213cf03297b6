"""Blocks as a newer version of the format would write them: members of unions that we lack."""

from odfbuild.errors import ProtocolError
from odfbuild.odf.events import Manifest
from odfbuild.odf.identity import Multicodec
from odfbuild.odf.opaque import Opaque, opaque_parts
from odfbuild.odf.record import Record
from odfbuild.odf.wire.blocks import decode_table, encode_table

__all__ = ["as_newer", "in_envelope"]


def as_newer(value: Record, union: str, tag: int) -> bytes:
    """Return the table of a value with the tag of its first member of a union changed.

    The tag is the byte whose change, and no other's, makes that member unknown.
    """
    data = encode_table(value)
    changed = (data[:at] + bytes([tag]) + data[at + 1 :] for at in range(len(data)))
    return next(each for each in changed if _unknown(type(value), each) == [Opaque(union, tag)])


def in_envelope(content: bytes, version: int = 2) -> bytes:
    """Return the block file of a block's table."""
    kind = int(Multicodec.ODF_METADATA_BLOCK)
    return encode_table(Manifest(kind=kind, version=version, content=content))


def _unknown(cls: type[Record], data: bytes) -> list[Opaque]:
    try:
        return list(opaque_parts(decode_table(cls, data)))
    except ProtocolError:
        return []
