"""Samples of compressed files: their beginning, and the prepare step that unpacks them."""

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import Final

from odfbuild.executors.ingest.sample.model import Plain, UnsampledError
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class Packing:
    """A compression: its name, the end of file names that tells it, its prepare step."""

    name: str
    suffix: str
    prepare: Mapping[str, Plain]
    unpacked: Callable[[bytes, int], bytes]

    def beginning(self, data: bytes, most: int, name: str) -> bytes:
        """Return at most so many bytes of what the beginning of a file unpacks to."""
        try:
            return self.unpacked(data, most)
        except (zlib.error, lzma.LZMAError, EOFError, OSError, ValueError) as error:
            raise UnsampledError(
                what=f"{name} is no {self.name} file",
                why=str(error),
                fix="check the file",
            ) from None


def packing_of(data: bytes) -> Packing | None:
    """Return how a file is compressed, None if it is not."""
    return next((each for mark, each in _PACKINGS.items() if data.startswith(mark)), None)


def _zstd(data: bytes, most: int) -> bytes:
    import pyarrow as pa

    found = b""
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as source:
        while len(found) < most:
            try:
                block = source.read(min(1 << 16, most - len(found)))
            except OSError:
                if not found:
                    raise
                break  # of the beginning of a file, that is its end
            if not block:
                break
            found += block
    return found


def _pipe(program: str) -> Mapping[str, Plain]:
    return {"kind": "Pipe", "command": [program, "-dc"]}


_PACKINGS: Final[Mapping[bytes, Packing]] = {
    b"\x1f\x8b": Packing(
        "gzip",
        ".gz",
        {"kind": "Decompress", "format": "Gzip"},
        lambda data, most: zlib.decompressobj(wbits=31).decompress(data, most),
    ),
    b"BZh": Packing(
        "bzip2",
        ".bz2",
        _pipe("bzip2"),
        lambda data, most: bz2.BZ2Decompressor().decompress(data, most),
    ),
    b"\xfd7zXZ\x00": Packing(
        "xz",
        ".xz",
        _pipe("xz"),
        lambda data, most: lzma.LZMADecompressor().decompress(data, most),
    ),
    b"\x28\xb5\x2f\xfd": Packing("zstd", ".zst", _pipe("zstd"), _zstd),
}
