"""Conversion of positions between the Language Server Protocol and spans of findings.

A span counts lines and characters from 1; a position counts both from 0, and along the line in the
units that client and server agreed on: those of UTF-16 unless the client requests others (LSP 3.17,
"Position").
"""

from __future__ import annotations

from functools import cached_property

from lsprotocol.types import Position, PositionEncodingKind, Range, TextEdit

from odfbuild.errors import SourceSpan
from odfbuild.project.yaml.places import SourceText

_ONE = {PositionEncodingKind.Utf8.value: "utf-8", PositionEncodingKind.Utf16.value: "utf-16-le"}


def units(text: str, encoding: str) -> int:
    """Return the length of a text in the units of a position encoding."""
    if text.isascii() or encoding not in _ONE:
        return len(text)
    size = len(text.encode(_ONE[encoding], "surrogatepass"))
    return size // 2 if encoding == PositionEncodingKind.Utf16.value else size


def characters(line: str, offset: int, encoding: str) -> int:
    """Return how many characters of a line are before an offset in units; all if it is beyond."""
    if line.isascii() or encoding not in _ONE:
        return min(offset, len(line))
    at = passed = 0
    while at < len(line) and passed < offset:
        passed += units(line[at], encoding)
        at += 1
    return at


def range_of(span: SourceSpan, line: str | None, encoding: str) -> Range:
    """Return the range of a span; `line` is the text of its line, if that is known.

    Without it, characters are taken for units.  A range beyond the line is cut at its end.
    """
    start, end = span.column - 1, span.column - 1 + span.length
    if line is not None:
        start = units(line[:start], encoding)
        end = max(start, units(line[:end], encoding))
    row = span.line - 1
    return Range(Position(row, start), Position(row, end))


def meet(one: Range, other: Range) -> bool:
    """Tell whether two ranges have a position in common, their ends included."""
    return one.start <= other.end and other.start <= one.end


class DocumentText:
    """A text with its lines, divided as by the protocol and YAML: by LF, CR LF and CR only."""

    def __init__(self, text: str, encoding: str) -> None:
        self.text = text
        self.encoding = encoding

    @cached_property
    def source(self) -> SourceText:
        return SourceText("", self.text)

    @cached_property
    def rows(self) -> list[str]:
        """The lines without their ends."""
        count = self.source.row_of(len(self.text)) + 1
        return [self.source.line_at(row)[1] for row in range(count)]

    def line(self, row: int) -> str:
        """Return a line, from 0, without its end; beyond the last one, an empty line."""
        return self.source.line_at(row)[1]

    def offset(self, position: Position) -> int:
        """Return the offset of a position in characters; beyond the end of a line, its end."""
        first, line = self.source.line_at(position.line)
        return first + characters(line, position.character, self.encoding)

    def position(self, offset: int) -> Position:
        """Return the position of an offset in characters."""
        row = self.source.row_of(offset)
        first, line = self.source.line_at(row)
        return Position(row, units(line[: offset - first], self.encoding))

    def range(self, start: int, end: int) -> Range:
        """Return the range of characters [start, end)."""
        return Range(self.position(start), self.position(end))


def difference(before: bytes, after: bytes, encoding: str, *, is_shown: bool) -> TextEdit:
    """Return the edit that changes a text to another: from the first line that differs to the last.

    A byte order mark is a part of a text that an editor shows with one (`is_shown`: the text is
    that of the editor), and not of a file that it will open.
    """
    old, new = (each.decode("utf-8" if is_shown else "utf-8-sig") for each in (before, after))
    lines, others = old.splitlines(keepends=True), new.splitlines(keepends=True)
    start = 0
    while start < min(len(lines), len(others)) and lines[start] == others[start]:
        start += 1
    end = 0
    most = min(len(lines), len(others)) - start
    while end < most and lines[len(lines) - 1 - end] == others[len(others) - 1 - end]:
        end += 1
    text = DocumentText(old, encoding)
    first = sum(map(len, lines[:start]))
    last = len(old) - sum(map(len, lines[len(lines) - end :]))
    return TextEdit(text.range(first, last), "".join(others[start : len(others) - end]))
