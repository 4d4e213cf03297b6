"""Blocks of metadata in one archive: tar, packed by gzip, oldest first.

An entry is named by the hash of a block and holds its bytes.  The headers are those of GNU tar,
with a name, a size and a checksum and nothing else, as the reference implementation writes them.

An archive that comes from elsewhere is read piece by piece, and nothing in it is believed: an entry
is a plain one that is named by a hash, its bytes have that hash, and there are as many as were
announced.  No more is unpacked than the limits say, however little was sent.
"""

import zlib
from collections.abc import Iterable, Iterator

from odfbuild.errors import ProtocolError
from odfbuild.odf.identity import Multicodec, Multihash
from odfbuild.state.chain.objects import check_bytes
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

_RECORD = 512
_CHUNK = 1 << 16
_LONGEST_NAME = 100
_MAGIC = b"ustar  \0"
_PLAIN = (b"0", b"\0")
_GZIP = 16 + zlib.MAX_WBITS
_PADDING = 1 << 20  # bytes of zeros that may follow the last entry
_BLOCK_BYTES = 64 << 20


class UnsafeArchiveError(ProtocolError):
    """An archive of blocks is damaged, or differs from what was announced."""

    code = "unsafe-archive"

    def __init__(self, what: str) -> None:
        super().__init__(
            what=f"the archive of blocks is refused: {what}",
            why="it must hold exactly the announced blocks, each named by its hash",
            fix="try again; if it persists, the other side is faulty or malicious",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLimits:
    """What is unpacked at most: entries, bytes of all blocks together, and bytes a packed byte.

    Blocks are small tables, which gzip makes five times smaller; many that are alike, fifty times.
    """

    entries: int = 1_000_000
    bytes: int = 1 << 30
    ratio: int = 250


DEFAULT_LIMITS = ArchiveLimits()


def pack(blocks: Iterable[tuple[Multihash, bytes]]) -> bytes:
    """Return an archive of blocks, which come oldest first; equal blocks give equal bytes."""
    packer = zlib.compressobj(wbits=_GZIP)
    packed = []
    for hash, data in blocks:
        packed.append(packer.compress(_header(str(hash), len(data)) + data))
        packed.append(packer.compress(bytes(-len(data) % _RECORD)))
    packed.append(packer.compress(bytes(2 * _RECORD)))
    return b"".join([*packed, packer.flush()])


def unpack(
    payload: bytes, *, blocks: int, limits: ArchiveLimits = DEFAULT_LIMITS
) -> Iterator[tuple[Multihash, bytes]]:
    """Yield the blocks of an archive in its order, each checked against its hash.

    Raises UnsafeArchiveError, and CorruptObjectError of a block that is another than its name says,
    at the latest when all were read; so nothing may be done with a block before.
    """
    if blocks > limits.entries:
        raise UnsafeArchiveError(f"{blocks:,} blocks are announced, at most {limits.entries:,} may")
    stream = _Unpacked(payload, limits)
    seen: set[Multihash] = set()
    while (entry := _entry(stream)) is not None:
        hash, data = entry
        if len(seen) == blocks:
            raise UnsafeArchiveError(f"it has more than the {blocks:,} blocks that were announced")
        if hash in seen:
            raise UnsafeArchiveError(f"it has the block {hash} twice")
        seen.add(hash)
        check_bytes(hash, data, "the archive")
        yield hash, data
    if len(seen) != blocks:
        raise UnsafeArchiveError(f"it has {len(seen):,} blocks, {blocks:,} were announced")
    stream.finish()


def _header(name: str, size: int) -> bytes:
    """Return the header of an entry: name, size, checksum, the mark of GNU; a time of zero."""
    header = bytearray(_RECORD)
    header[: len(name)] = name.encode()
    header[124:136] = b"%011o\0" % size
    header[136:148] = b"%011o\0" % 0
    header[148:156] = b" " * 8
    header[257:265] = _MAGIC
    header[148:156] = b"%07o\0" % sum(header)
    return bytes(header)


class _Unpacked:
    """The bytes of an archive, unpacked as they are asked for."""

    def __init__(self, payload: bytes, limits: ArchiveLimits) -> None:
        self._packed = memoryview(payload)
        self._at = 0
        self._unpacker = zlib.decompressobj(_GZIP)
        self._ready = bytearray()
        self.limits = limits
        self._most = min(
            limits.bytes + 2 * _RECORD * limits.entries, limits.ratio * len(payload) + _PADDING
        )
        self._unpacked = 0

    def read(self, size: int) -> bytes:
        """Return so many bytes, less at the end.  Raises UnsafeArchiveError."""
        while len(self._ready) < size and self._more():
            pass
        found = bytes(self._ready[:size])
        del self._ready[:size]
        return found

    def _more(self) -> bool:
        if self._unpacker.eof:
            return False
        given = self._unpacker.unconsumed_tail
        if not given:
            given = bytes(self._packed[self._at : self._at + _CHUNK])
            self._at += len(given)
        try:
            data = self._unpacker.decompress(given, _CHUNK)
        except zlib.error as error:
            raise UnsafeArchiveError(f"it is not packed by gzip, or damaged: {error}") from None
        if not given and not data and not self._unpacker.eof:
            raise UnsafeArchiveError("it is cut off")
        self._unpacked += len(data)
        if self._unpacked > self._most:
            raise UnsafeArchiveError(
                f"{len(self._packed):,} bytes of it unpack to more than {self._most:,}"
            )
        self._ready += data
        return True

    def finish(self) -> None:
        """Refuse what follows the last entry, unless it is padding.

        Raises UnsafeArchiveError.
        """
        left = _PADDING
        while data := self.read(_CHUNK):
            left -= len(data)
            if left < 0 or data.strip(b"\0"):
                raise UnsafeArchiveError("something follows its end")
        if self._unpacker.unused_data or self._at < len(self._packed):
            raise UnsafeArchiveError("something follows its end")


def _entry(stream: _Unpacked) -> tuple[Multihash, bytes] | None:
    """Return the name and the bytes of the next entry; None at the end."""
    header = stream.read(_RECORD)
    if not header.strip(b"\0"):
        return None
    if len(header) < _RECORD:
        raise UnsafeArchiveError("it is cut off")
    _check_header(header)
    hash = _hash(header)
    size = _octal(header[124:136])
    if size > min(_BLOCK_BYTES, stream.limits.bytes):
        raise UnsafeArchiveError(f"the block {hash} has {size:,} bytes")
    data = stream.read(size + -size % _RECORD)
    if len(data) < size + -size % _RECORD:
        raise UnsafeArchiveError(f"the block {hash} is cut off")
    return hash, data[:size]


def _check_header(header: bytes) -> None:
    as_blank = header[:148] + b" " * 8 + header[156:]
    if _octal(header[148:156]) != sum(as_blank):
        raise UnsafeArchiveError("the checksum of a header is wrong")
    if header[156:157] not in _PLAIN:
        raise UnsafeArchiveError("an entry of it is not a regular file")


def _hash(header: bytes) -> Multihash:
    name = header[:_LONGEST_NAME].rstrip(b"\0").decode("latin-1")
    prefix = header[345:500].strip(b"\0") if header[257:263] == b"ustar\0" else b""
    try:
        hash = Multihash.parse(name)
    except ProtocolError:
        hash = None
    if prefix or hash is None or hash.code != Multicodec.SHA3_256 or str(hash) != name:
        raise UnsafeArchiveError(f"an entry is called {excerpt(name, 100)!r}, which is no hash")
    return hash


def _octal(field: bytes) -> int:
    text = field.strip(b"\0 ")
    if not text or text.strip(b"01234567"):
        raise UnsafeArchiveError("a number in a header cannot be read")
    return int(text, 8)
