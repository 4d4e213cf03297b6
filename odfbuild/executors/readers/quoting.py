"""The dialect of a CSV file, its records as Python reads them, and escapes made doubled quotes.

Inside a quoted value the escape character makes the quote, or itself, an ordinary character;
before anything else, and outside of quotes, it stands for itself (so `\\N` stays `\\N`).  Two
quotes in a quoted value are one, whatever the escape is.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final, Protocol

from odfbuild.executors.readers.problems import InvalidSourceError, supported
from odfbuild.odf import read_options
from odfbuild.odf.events import ReadStepCsv
from odfbuild.odf.read_options import Dialect

if TYPE_CHECKING:
    from _csv import Reader as _CsvReader

__all__ = [
    "Dialect",
    "Record",
    "dialect_of",
    "lines",
    "records",
    "spans",
    "unescaped",
    "whole_records",
]

_LONGEST: Final = 1 << 24
# The last branch of a possessive group: where it fails, Python before 3.11.4 goes on from wherever
# the branch before had looked, which may be behind the end of the match.
_NOTHING: Final = rb"(?!)"


@dataclass(frozen=True, slots=True)
class Record:
    """The fields of one record, the line that it begins on, from 1, and the one that it ends on."""

    line: int
    fields: list[str]
    last: int


def dialect_of(step: ReadStepCsv) -> Dialect:
    """Return the dialect that a read step declares; raises UnsupportedReadError."""
    with supported():
        return read_options.dialect_of(step)


def records(text: Iterable[str], dialect: Dialect, name: str) -> Iterator[Record]:
    """Yield the records of lines of text; blank lines are passed over, escapes are not known."""
    rows = _reader(text, dialect)
    line = 1
    try:
        for fields in rows:
            if fields:
                yield Record(line, fields, rows.line_num)
            line = rows.line_num + 1
    except csv.Error:
        raise _endless(f"{name}:{line}:") from None


def spans(lines: Sequence[str], dialect: Dialect) -> list[tuple[int, int]]:
    """Return for each record of whole ones the lines, from 0, that it begins and ends on."""
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


def unescaped(blocks: Iterable[bytes], dialect: Dialect, name: str) -> Iterator[bytes]:
    """Yield the blocks with escapes rewritten, so that a plain parser reads the same values."""
    if dialect.quote is None or dialect.escape is None:
        yield from blocks
        return
    yield from _fed(_Rewriter(dialect), blocks, name)


class _Reader(Protocol):
    """Takes blocks, gives back what is sure, and keeps the start of a value or record."""

    kept: bytes
    line: int | None  # on which what is kept begins, if it is known

    def feed(self, block: bytes, /) -> bytes: ...

    def end(self) -> bytes: ...


def _fed(reader: _Reader, blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yield what a reader makes of the blocks, joined to at least the length of what it keeps.

    What is kept is read again with the next block, so a long value costs two passes, not one for
    each of its blocks.
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


def whole_records(blocks: Iterable[bytes], dialect: Dialect, name: str) -> Iterator[bytes]:
    """Cut blocks anew, each ending with a record: Arrow loses its way over any other seam.

    (Its chunker takes some newlines of a quoted value for ends of records when a block ends
    within that value, and drops an LF at the start of a block after a CR.)
    """
    return filter(None, _fed(_Cutter(dialect), blocks, name))


class _Cutter:
    """Cuts after the last record that is whole."""

    def __init__(self, dialect: Dialect) -> None:
        self._end = _record_end(dialect)
        self.kept = b""
        self.line: int | None = 1

    def feed(self, block: bytes) -> bytes:
        text = self.kept + block
        end = self._end(text)
        if end and self.line is not None:
            self.line += text.count(b"\n", 0, end) or text.count(b"\r", 0, end)
        self.kept = text[end:]
        return text[:end]

    def end(self) -> bytes:
        return self.kept


def _record_end(dialect: Dialect) -> Callable[[bytes], int]:
    """Return a function that finds the end of the last record of a text that begins with one.

    It walks over closed values only, so it stops where an open one begins, many of them a stride;
    then it looks for the end of a record from the last stride back.  So every text is read at most
    twice.
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

    def find(text: bytes) -> int:
        stop = _without_return(text)
        marks = [0]
        while found := stride.match(text, marks[-1], stop):
            marks.append(found.end())
        for end, begin in pairwise(reversed(marks)):
            if found := ended.match(text, begin, end):
                return found.end()
        return 0

    return find


def _without_return(text: bytes) -> int:
    """Return the length of the text, less a CR at its end, whose LF may be still to come."""
    return len(text) - text.endswith(b"\r")


def _line_end(text: bytes, stop: int) -> int:
    return max(text.rfind(b"\n", 0, stop), text.rfind(b"\r", 0, stop)) + 1


class _Rewriter:
    """Finds quoted values over the seams of blocks: an open one is kept for the next block."""

    line: int | None = None

    def __init__(self, dialect: Dialect) -> None:
        self._quote = (dialect.quote or "").encode()
        self._escape = (dialect.escape or "").encode()
        quote, escape = re.escape(self._quote), re.escape(self._escape)
        start = rb"(?<=[\r\n" + re.escape(dialect.separator.encode()) + rb"])" + quote
        inside = (
            rb"(?:[^" + quote + escape + rb"]++|" + quote * 2 + rb"|" + escape + rb"(?:.|\Z))*+"
        )
        self._value = re.compile(start + inside + rb"(?:" + quote + rb"|\Z)", re.DOTALL)
        self._escaped = re.compile(escape + rb"([" + quote + escape + rb"])")
        self._before = b"\n"
        self.kept = b""

    def feed(self, block: bytes) -> bytes:
        """Return what is sure so far; a value that touches the end of the block is not."""
        text = self._before + self.kept + block
        self.kept = b""
        whole = self._value.sub(lambda found: self._keep_last(found, len(text)), text)
        self._before = whole[-1:]
        return whole[1:]

    def end(self) -> bytes:
        return self._mend(self.kept)

    def _keep_last(self, found: "re.Match[bytes]", end: int) -> bytes:
        self.kept = found.group() if found.end() == end else b""
        return b"" if self.kept else self._mend(found.group())

    def _mend(self, value: bytes) -> bytes:
        if self._escape not in value:
            return value
        return self._escaped.sub(self._plain, value)

    def _plain(self, found: "re.Match[bytes]") -> bytes:
        return self._quote * 2 if found.group(1) == self._quote else self._escape
