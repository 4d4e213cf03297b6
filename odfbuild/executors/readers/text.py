"""Read a text file as UTF-8 without byte order mark, block by block, whatever its encoding."""

import codecs
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from odfbuild.executors.readers.problems import InvalidSourceError, supported
from odfbuild.odf.read_options import encoding_of
from odfbuild.regular_files import open_regular

__all__ = ["BLOCK", "BlockFile", "WholeBlocks", "check_encoding", "utf8_blocks"]

BLOCK: Final = 1 << 20
_MAGIC: Final = {
    b"\x1f\x8b": ("gzip", "prepare: [{kind: Decompress, format: Gzip}]"),
    b"PK\x03\x04": ("zip", "prepare: [{kind: Decompress, format: Zip}]"),
    b"PAR1": ("Parquet", "read: {kind: Parquet}"),
}


class BlockFile(io.RawIOBase):
    """Blocks of bytes as a readable file."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview[int] | bytearray", /) -> int:  # type: ignore[override]
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = memoryview(block)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


class WholeBlocks(io.RawIOBase):
    """Blocks of bytes as a file whose every read gives one block, however much is asked for."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks

    def readable(self) -> bool:
        return True

    def read(self, _size: int = -1, /) -> bytes:
        return next(self._blocks, b"")


def check_encoding(encoding: str | None) -> str:
    """Return Python's name of an encoding; refuse one that Python does not know."""
    with supported():
        return encoding_of(encoding)


def utf8_blocks(path: Path, encoding: str, name: str) -> Iterator[bytes]:
    """Yield the file as UTF-8; UTF-8 itself is passed on unchecked.

    Raises InvalidSourceError for what is plainly no text of the encoding.
    """
    with open_regular(path) as source:
        first = source.read(BLOCK)
        _check_magic(first, encoding, name)
        raw = _blocks(first, source)
        if encoding == "utf-8":
            yield from _without_mark(raw)
        else:
            yield from _transcoded(raw, encoding, name)


def _blocks(first: bytes, source: io.BufferedReader) -> Iterator[bytes]:
    while first:
        yield first
        first = source.read(BLOCK)


def _without_mark(raw: Iterator[bytes]) -> Iterator[bytes]:
    for block in raw:
        yield block.removeprefix(codecs.BOM_UTF8)
        break
    yield from raw


def _transcoded(raw: Iterator[bytes], encoding: str, name: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)()
    line = 1
    try:
        for block in raw:
            text = decoder.decode(block)
            yield text.removeprefix("\ufeff").encode() if line == 1 else text.encode()
            line += text.count("\n")
        yield decoder.decode(b"", True).encode()
    except UnicodeError as error:
        raise InvalidSourceError(
            what=f"{name}: after line {line} there are bytes that are not {encoding}",
            why=str(error),
            fix="correct `read.encoding`",
        ) from None


def _check_magic(first: bytes, encoding: str, name: str) -> None:
    for magic, (kind, fix) in _MAGIC.items():
        if first.startswith(magic):
            raise InvalidSourceError(
                what=f"{name} is a {kind} file, not text",
                why=f"it begins with {magic!r}",
                fix=f"write `{fix}`",
            )
    if first[:64].lstrip().lower().startswith((b"<!doctype html", b"<html")):
        raise InvalidSourceError(
            what=f"{name} is an HTML page, not data",
            why="servers send such pages for errors and logins, also with status 200",
            fix="open the URL in a browser; correct `fetch.url` or its headers",
        )
    if encoding == "utf-8" and first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InvalidSourceError(
            what=f"{name} is UTF-16, not UTF-8",
            why="it begins with the byte order mark of UTF-16",
            fix="write `encoding: utf-16` in `read`",
        )
