"""Metadata blocks as bytes: the form that gives a block its hash (ODF 0.34.1, "MetadataBlock").

A block is written to a buffer of its own; a Manifest around it tells what it is and in which
version.  Version 2, which every reader of ODF 0.34.1 takes, places Timestamp structs without
alignment; version 3 aligns them to four bytes.  The hash of a block is that of the bytes as
they are stored: a block that is copied must not be written again.
"""

from itertools import product
from struct import Struct
from typing import TypeVar

from odfbuild.errors import ProtocolError
from odfbuild.odf.events import Manifest, MetadataBlock
from odfbuild.odf.identity import Multicodec, Multihash, sha3_256
from odfbuild.odf.record import Record
from odfbuild.odf.wire.reader import MalformedBytesError, read_field, read_table
from odfbuild.odf.wire.writer import write_table

DEFAULT_VERSION = 2
_TIME_ALIGN = {2: 1, 3: 4}
_HEADER = 40
_LENGTH = Struct("<I").unpack_from
_BLOCK = int(Multicodec.ODF_METADATA_BLOCK)

_T = TypeVar("_T", bound=Record)


class UnsupportedVersionError(ProtocolError):
    """The version of the manifest is too old or too new."""

    code = "unsupported-version"

    def __init__(self, version: int) -> None:
        older = version < min(_TIME_ALIGN)
        super().__init__(
            what=f"metadata blocks of version {version} are not supported",
            why="versions 2 and 3 are in use; version 1 had no sequence numbers",
            fix="rebuild the dataset with a newer tool" if older else "update odfbuild",
        )
        self.version = version


def _starts() -> dict[bytes, int]:
    """Return where content starts in the manifests that are usual, by the bytes before it."""
    starts = {}
    for version, size in product(_TIME_ALIGN, (8, 12)):
        content = b"\xff" * size
        data = write_table(Manifest(kind=_BLOCK, version=version, content=content), time_align=4)
        starts[data[:_HEADER]] = data.index(content)
    return starts


_STARTS = _starts()


def encode_block(block: MetadataBlock, version: int = DEFAULT_VERSION) -> bytes:
    """Return the content of a block file."""
    content = encode_table(block, version)
    return write_table(Manifest(kind=_BLOCK, version=version, content=content), time_align=4)


def decode_block(data: bytes) -> MetadataBlock:
    """Return the block in a block file; raise ProtocolError if there is none.

    A member of a union that is not known is in it as an Opaque.
    """
    return read_table(MetadataBlock, _content(data))


def decode_link(data: bytes) -> Multihash | None:
    """Return the hash of the block before the one in a block file, leaving the rest unread."""
    found: Multihash | None = read_field(MetadataBlock, "prev_block_hash", _content(data))
    return found


def _content(data: bytes) -> bytes:
    """Return the content of a manifest.

    The usual manifests are known by sight: all that reading one looks at lies in its first bytes.
    """
    start = _STARTS.get(data[:_HEADER])
    if start is not None and start <= len(data):
        end: int = start + _LENGTH(data, start - 4)[0]
        if end <= len(data):
            return data[start:end]
    manifest = read_table(Manifest, data)
    if manifest.kind != _BLOCK:
        raise MalformedBytesError(
            what=f"an object of kind {manifest.kind:#x} is not a metadata block",
            why=f"metadata blocks carry the kind {_BLOCK:#x}",
            fix="check where the bytes come from",
        )
    if manifest.version not in _TIME_ALIGN:
        raise UnsupportedVersionError(manifest.version)
    return manifest.content


def block_hash(data: bytes) -> Multihash:
    """Return the hash of a block file: its name, and what the next block refers to."""
    return sha3_256(data)


def encode_table(value: Record, version: int = DEFAULT_VERSION) -> bytes:
    """Return any value as a finished FlatBuffers buffer, without a manifest."""
    if version not in _TIME_ALIGN:
        raise UnsupportedVersionError(version)
    return write_table(value, _TIME_ALIGN[version])


def decode_table(cls: type[_T], data: bytes) -> _T:
    """Return the value of a class in a finished buffer; raise ProtocolError if there is none."""
    return read_table(cls, data)
