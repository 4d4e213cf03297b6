"""Manifests as bytes: blocks in their envelope, snapshots and events as bare tables.

A block file says what it is and in which version (ODF 0.34.1, "MetadataBlock").  A snapshot is the
table DatasetSnapshot and an event the table MetadataEventWrapper of ODF 0.37, which say nothing of
themselves, so whoever reads them has to know.
"""

from typing import Any

from odfbuild.errors import ProtocolError
from odfbuild.odf.events import DatasetSnapshot, Manifest
from odfbuild.odf.identity import Multicodec
from odfbuild.odf.manifest import MANIFESTS, from_mapping
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.wire.blocks import decode_block, decode_table, encode_block, encode_table
from odfbuild.odf.wire.reader import read_member
from odfbuild.odf.wire.writer import write_member
from odfbuild.values import dataclass

_TABLE_VERSION = 3  # structs lie aligned, as readers of that time expect
_ALIGNED = 4


class UnknownContentError(ProtocolError):
    """The kind of a manifest in bytes is not known."""

    code = "unknown-content"


@dataclass(frozen=True, slots=True)
class Manifested:
    """What a manifest says: the kind of its content, the version of that, and the value."""

    kind: str
    version: int
    value: Any


def from_bytes(data: bytes, kind: str | None = None) -> Manifested:
    """Return what bytes hold; of anything but a block the kind has to be told.

    Raises UnknownContentError when they are no block and no kind is told, else other errors of the
    protocol.
    """
    match kind:
        case "DatasetSnapshot":
            return Manifested(kind, _first(kind), decode_table(DatasetSnapshot, data))
        case "MetadataEvent":
            return Manifested(kind, _first(kind), read_member(kind, data))
        case None if not _is_block(data):
            raise UnknownContentError(
                what="the bytes are not a metadata block",
                why="only a block says what it is; tables of snapshots and events do not",
                fix="say what they are: --kind DatasetSnapshot, or --kind MetadataEvent",
            )
        case _:
            block = decode_block(data)
            return Manifested("MetadataBlock", decode_table(Manifest, data).version, block)


def to_bytes(what: Manifested) -> bytes:
    """Return a block file, or the table of a snapshot or an event."""
    match what.kind:
        case "MetadataBlock":
            return encode_block(what.value, what.version)
        case "MetadataEvent":
            return write_member(what.kind, what.value, _ALIGNED)
        case _:
            return encode_table(what.value, _TABLE_VERSION)


def is_canonical(what: Manifested, data: bytes) -> bool:
    """Say whether the bytes come out again when their mapping is turned into bytes."""
    cls, _ = MANIFESTS[what.kind]
    try:
        again = from_mapping(cls, to_mapping(what.value))
        return to_bytes(Manifested(what.kind, what.version, again)) == data
    except ProtocolError:
        return False


def _first(kind: str) -> int:
    return MANIFESTS[kind][1][0]


def _is_block(data: bytes) -> bool:
    try:
        return decode_table(Manifest, data).kind == Multicodec.ODF_METADATA_BLOCK
    except ProtocolError:
        return False
