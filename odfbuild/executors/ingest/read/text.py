"""Texts of inputs: encodings, quotes, lines.

Inside a quoted value the escape character makes the quote, or itself, an ordinary character;
before anything else, and outside of quotes, it stands for itself (so `\\N` stays `\\N`).  Two
quotes in a quoted value are one, whatever the escape is.
"""

import codecs
import csv
import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from odfbuild.executors.ingest.read.problems import InvalidSourceError, counted, quoted, supported
from odfbuild.host.files import open_regular
from odfbuild.odf import read_options
from odfbuild.odf.events import ReadStepCsv
from odfbuild.odf.read_options import Dialect, encoding_of
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from _csv import Reader as _CsvReader


_LONGEST: Final = 1 << 24

# The last branch of a possessive group: where it fails, Python before 3.11.4 continues where the
# branch before had stopped looking, which may be behind the end of the match.
_NOTHING: Final = rb"(?!)"


@dataclass(frozen=True, slots=True)
class TextRecord:
    """The fields of one record, and the lines, from 1, on which it begins and ends."""

    line: int
    fields: list[str]
    last: int


def dialect_of(step: ReadStepCsv) -> Dialect:
    """Return the dialect that a read step declares; raises UnsupportedReadError."""
    with supported():
        return read_options.dialect_of(step)


def records(text: Iterable[str], dialect: Dialect, name: str) -> Iterator[TextRecord]:
    """Yield the records of lines of text; blank lines are skipped, escapes not interpreted."""
    rows = _reader(text, dialect)
    line = 1
    try:
        for fields in rows:
            if fields:
                yield TextRecord(line, fields, rows.line_num)
            line = rows.line_num + 1
    except csv.Error:
        raise _endless(f"{name}:{line}:") from None


def spans(lines: Sequence[str], dialect: Dialect) -> list[tuple[int, int]]:
    """Return the first and last line, from 0, of each record of a text of complete records."""
    rows = _reader(lines, dialect)
    ends = [rows.line_num if fields else -rows.line_num for fields in rows]
    starts = chain([0], map(abs, ends))
    return [(start, end - 1) for start, end in zip(starts, ends, strict=False) if end > 0]


def _reader(text: Iterable[str], dialect: Dialect) -> "_CsvReader":
    csv.field_size_limit(_LONGEST)
    if dialect.quote is None:
        return csv.reader(text, delimiter=dialect.separator, quoting=csv.QUOTE_NONE)
    return csv.reader(text, delimiter=dialect.separator, quotechar=dialect.quote)


def lines(source: io.RawIOBase) -> io.TextIOWrapper:
    """Return UTF-8 bytes as lines, ended by LF, CR LF or CR; bad bytes become surrogates."""
    buffered = io.BufferedReader(source)
    return io.TextIOWrapper(buffered, "utf-8", errors="surrogateescape", newline="")


def unescaped(
    blocks: Iterable[bytes], dialect: Dialect, name: str, *, before: bytes = b"\n"
) -> Iterator[bytes]:
    """Yield the blocks with escapes rewritten, so that a plain parser reads the same values.

    `before` is the byte before the first block.
    """
    if dialect.quote is None or dialect.escape is None:
        yield from blocks
        return
    yield from _split(_Rewriter(dialect, before), blocks, name)


class _RecordSplitter(Protocol):
    """Takes blocks, returns what is complete, and keeps the start of a value or record."""

    kept: bytes

    @property
    def line(self) -> int | None:
        """Return the line on which the kept text begins, if known."""

    def feed(self, block: bytes, /) -> bytes: ...

    def end(self) -> bytes: ...


def _split(reader: _RecordSplitter, blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yield what a splitter returns for the blocks, joined to at least the length of its rest.

    The text that it keeps is scanned again with the next block; so a long value takes two passes,
    not one per block.
    """
    found: list[bytes] = []
    size = 0
    for block in blocks:
        found.append(block)
        size += len(block)
        if size < len(reader.kept):
            continue
        yield reader.feed(b"".join(found))
        found, size = [], 0
        if len(reader.kept) > _LONGEST:
            raise _endless(f"{name}:" if reader.line is None else f"{name}:{reader.line}:")
    yield reader.feed(b"".join(found))
    yield reader.end()


def _endless(place: str) -> InvalidSourceError:
    return InvalidSourceError(
        what=f"{place} a value has more than {_LONGEST >> 20} MiB",
        why="it is longer than a value may be; if it is quoted, its closing quote may be missing, "
        "or escaped by accident",
        fix="correct or shorten it, or set `escape: ''` or `quote: ''` in `read`",
    )


def record_blocks(
    blocks: Iterable[bytes],
    dialect: Dialect,
    name: str,
    again: Callable[[], Iterable[bytes]] | None = None,
) -> Iterator[bytes]:
    """Yield the text in blocks that end with a record: Arrow misreads some that do not.

    (Its chunker takes some newlines of a quoted value for ends of records when a block ends
    within that value, and drops an LF at the start of a block after a CR.)  `again` returns the
    text once more, to count the lines up to a value that is too long.
    """
    return filter(None, _split(_Cutter(dialect, again), blocks, name))


class _Cutter:
    """Cuts after the last complete record."""

    def __init__(
        self, dialect: Dialect, again: Callable[[], Iterable[bytes]] | None = None
    ) -> None:
        self._end = _record_end(dialect)
        self._mark = None if dialect.quote is None else dialect.quote.encode()
        self._again = again
        self._passed = 0
        self.kept = b""

    @property
    def line(self) -> int | None:
        return None if self._again is None else 1 + _line_count(self._again(), self._passed)

    def feed(self, block: bytes) -> bytes:
        whole = self._without_quotes(block)
        if whole is None:
            text = self.kept + block
            end = self._end(text)
            whole, self.kept = text[:end], text[end:]
        self._passed += len(whole)
        return whole

    def _without_quotes(self, block: bytes) -> bytes | None:
        """Return the complete records, copied once; None if there are quotes, or no record ends."""
        if self._mark is not None and (self._mark in block or self._mark in self.kept):
            return None
        end = _line_end(block, _without_return(block))
        if not end:
            return None
        whole = b"".join((self.kept, memoryview(block)[:end]))
        self.kept = block[end:]
        return whole

    def end(self) -> bytes:
        return self.kept


def _line_count(blocks: Iterable[bytes], size: int) -> int:
    """Count the lines that end within so many bytes of a text."""
    found = {b"\n": 0, b"\r": 0}
    for block in blocks:
        for end in found:
            found[end] += block.count(end, 0, size)
        size -= len(block)
        if size <= 0:
            break
    return found[b"\n"] or found[b"\r"]


def _record_end(dialect: Dialect) -> Callable[[bytes], int]:
    """Return a function that finds the end of the last record of a text that begins with one.

    It skips closed values only, up to 1000 per match, and so stops where an open one begins; then
    it looks for the end of a record backwards, from the last match on.  So every text is scanned at
    most twice.
    """
    if dialect.quote is None:
        return lambda text: _line_end(text, _without_return(text))
    quote, separator = re.escape(dialect.quote.encode()), re.escape(dialect.separator.encode())
    value = quote + rb"(?:[^" + quote + rb"]++|" + quote * 2 + rb")*+" + quote
    start = rb"(?:\A|(?<=[" + separator + rb"\r\n]))"
    stray = rb"(?<=[^" + separator + rb"\r\n])" + quote
    quoted = start + value + rb"|" + stray + rb"|" + _NOTHING
    stride = re.compile(rb"(?:[^" + quote + rb"]++|" + quoted + rb"){1,1000}+")
    lines = rb"[^" + quote + rb"]*[\r\n]"
    record = rb"(?:[^" + quote + rb"\r\n]++|" + quoted + rb")++[\r\n]"
    ended = re.compile(rb"(?:" + lines + rb"|" + record + rb"|" + _NOTHING + rb")++")

    mark = dialect.quote.encode()

    def find(text: bytes) -> int:
        stop = _without_return(text)
        if mark not in text:
            return _line_end(text, stop)
        marks = [0]
        while found := stride.match(text, marks[-1], stop):
            marks.append(found.end())
        for end, begin in pairwise(reversed(marks)):
            if found := ended.match(text, begin, end):
                return found.end()
        return 0

    return find


def _without_return(text: bytes) -> int:
    """Return the length of the text without a final CR, whose LF may be in the next block."""
    return len(text) - text.endswith(b"\r")


def _line_end(text: bytes, stop: int) -> int:
    return max(text.rfind(b"\n", 0, stop), text.rfind(b"\r", 0, stop)) + 1


class _Rewriter:
    """Rewrites quoted values across blocks: an open one is kept for the next block."""

    line: int | None = None

    def __init__(self, dialect: Dialect, before: bytes) -> None:
        self._quote = (dialect.quote or "").encode()
        self._escape = (dialect.escape or "").encode()
        quote, escape = re.escape(self._quote), re.escape(self._escape)
        start = rb"(?<=[\r\n" + re.escape(dialect.separator.encode()) + rb"])" + quote
        inside = (
            rb"(?:[^" + quote + escape + rb"]++|" + quote * 2 + rb"|" + escape + rb"(?:.|\Z))*+"
        )
        self._value = re.compile(start + inside + rb"(?:" + quote + rb"|\Z)", re.DOTALL)
        self._escaped = re.compile(escape + rb"([" + quote + escape + rb"])")
        self._before = before
        self.kept = b""

    def feed(self, block: bytes) -> bytes:
        """Return the complete text so far, without a value that touches the end of the block."""
        text = self._before + self.kept + block
        self.kept = b""
        whole = self._value.sub(lambda found: self._keep_last(found, len(text)), text)
        self._before = whole[-1:]
        return whole[1:]

    def end(self) -> bytes:
        return self._unescape(self.kept)

    def _keep_last(self, found: "re.Match[bytes]", end: int) -> bytes:
        self.kept = found.group() if found.end() == end else b""
        return b"" if self.kept else self._unescape(found.group())

    def _unescape(self, value: bytes) -> bytes:
        if self._escape not in value:
            return value
        return self._escaped.sub(self._plain, value)

    def _plain(self, found: "re.Match[bytes]") -> bytes:
        return self._quote * 2 if found.group(1) == self._quote else self._escape


BLOCK: Final = 1 << 20
_GROWTH: Final = 4
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


def check_encoding(encoding: str | None) -> str:
    """Return Python's name of an encoding; refuse one that Python does not know."""
    with supported():
        return encoding_of(encoding)


def utf8_blocks(path: Path, encoding: str, name: str) -> Iterator[bytes]:
    """Yield the file as UTF-8; UTF-8 itself is passed on unchecked.

    Raises InvalidSourceError for a file that is evidently not text of the encoding.
    """
    with open_regular(path) as source:
        first = source.read(BLOCK)
        _check_magic(first, encoding, name)
        raw = _blocks(first, source)
        if encoding == "utf-8":
            yield from _without_mark(raw)
        else:
            yield from _transcode(raw, encoding, name)


def _blocks(block: bytes, source: io.BufferedReader) -> Iterator[bytes]:
    """Yield what is read of a file; further on in larger blocks, each of which costs the same."""
    size = BLOCK
    while block:
        yield block
        size = min(2 * size, _GROWTH * BLOCK)
        block = source.read(size)


def _without_mark(raw: Iterator[bytes]) -> Iterator[bytes]:
    for block in raw:
        yield block.removeprefix(codecs.BOM_UTF8)
        break
    yield from raw


def _transcode(raw: Iterator[bytes], encoding: str, name: str) -> Iterator[bytes]:
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


@dataclass(frozen=True, slots=True)
class CsvText:
    """A CSV file as plain UTF-8 text, to be read as often as needed."""

    path: Path
    name: str
    encoding: str
    dialect: Dialect

    def blocks(self) -> Iterator[bytes]:
        """Yield the text with escapes rewritten.

        They are looked for from the first quote on: they count in quoted values only.
        """
        blocks = utf8_blocks(self.path, self.encoding, self.name)
        if self.dialect.quote is None or self.dialect.escape is None:
            yield from blocks
            return
        quote, before = self.dialect.quote.encode(), b"\n"
        for block in blocks:
            if quote in block:
                rest: Iterator[bytes] = chain([block], blocks)
                if self._has_escapes():
                    rest = unescaped(rest, self.dialect, self.name, before=before)
                yield from rest
                return
            yield block
            before = block[-1:] or before

    def records(self, ending: bytes = b"") -> Iterator[TextRecord]:
        """Yield the records, with a text appended to the file."""
        text = lines(BlockFile(chain(self.blocks(), [ending])))
        return records(text, self.dialect, self.name)

    def lines(self) -> Iterator[list[bytes]]:
        """Yield the lines as they are in the file, ends included, many at a time."""
        again = partial(utf8_blocks, self.path, self.encoding, self.name)
        whole = record_blocks(again(), replace(self.dialect, quote=None), self.name, again)
        return (block.splitlines(keepends=True) for block in whole)

    def _has_escapes(self) -> bool:
        if self.dialect.escape is None:
            return False
        if self.encoding != "utf-8":
            return True
        escape = self.dialect.escape.encode()
        with open_regular(self.path) as file:
            return any(escape in block for block in iter(lambda: file.read(BLOCK), b""))


def problem_of(record: TextRecord, width: int, bound: Collection[int] | None = None) -> str | None:
    """Return the problem of a record before its fields are typed, None if there is none.

    `bound` are the positions, from 0, of the fields that are read, by default all.
    """
    if len(record.fields) != width:
        return f"{counted(len(record.fields), 'field')} instead of {width}"
    for position, field in enumerate(record.fields, start=1):
        if (bound is None or position - 1 in bound) and any(
            "\udc80" <= char <= "\udcff" for char in field
        ):
            shown = quoted(field.encode("utf-8", "surrogateescape").decode("latin-1"))
            return f"field {position} has bytes that are not UTF-8: {shown}"
    return None
