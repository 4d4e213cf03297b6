"""Rendered text: the result of a template, and the part of a file that made each part of it.

Most renderings are never asked where they come from, so the answer is worked out when it is: the
template runs once more, with a note of its place in everything that it writes.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import field, replace

from odfbuild.errors import SourceSpan
from odfbuild.project.yaml.places import SourceText
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of output and the part of a template that wrote it.

    A literal is copied sign by sign; anything else is the result of a whole expression.
    """

    text: str
    source: SourceText
    start: int
    end: int
    literal: bool


@dataclass(frozen=True, slots=True)
class LineOrigin:
    """Where a line of output comes from; no column unless it starts with text of the file."""

    file: str
    line: int
    column: int | None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class RenderedSource(SourceText):
    """The output of a template: its places are places in the template.

    `trace` runs the template once more and gives the pieces of its output.
    """

    instance: str | None = None
    trace: Callable[[], tuple[Piece, ...]] = field(default=tuple, compare=False, repr=False)
    _traced: "list[_Trace]" = field(default_factory=list, compare=False, repr=False)

    def span(self, start: int, end: int) -> SourceSpan:
        """Return the place in the template that some characters of the output come from."""
        found = self._tracing().span(start, end)
        if found is None:
            found = SourceSpan(file=self.file, line=1)
        return replace(found, instance=self.instance)

    def origin(self, offset: int) -> LineOrigin:
        """Return where the character at an offset comes from."""
        at = self._tracing().at(offset)
        if at is None:
            return LineOrigin(self.file, 1, None)
        piece, behind = at
        place = piece.source.span(piece.start + (behind if piece.literal else 0), piece.end)
        return LineOrigin(place.file, place.line, place.column if piece.literal else None)

    def _tracing(self) -> "_Trace":
        if not self._traced:
            self._traced.append(_Trace(self.text, self.trace()))
        return self._traced[0]


@dataclass(frozen=True, slots=True)
class Rendering:
    """One file of definitions after templating; plain files are as they are."""

    source: SourceText

    @property
    def file(self) -> str:
        return self.source.file

    @property
    def instance(self) -> str | None:
        return self.source.instance if isinstance(self.source, RenderedSource) else None

    @property
    def text(self) -> str:
        return self.source.text

    @property
    def is_templated(self) -> bool:
        return isinstance(self.source, RenderedSource)

    def line_map(self) -> tuple[LineOrigin, ...]:
        """Return for each line of the text where its first visible character comes from."""
        origins = []
        for row in range(self.text.count("\n") + (not self.text.endswith("\n"))):
            start, line = self.source.line_at(row)
            at = start + len(line) - len(line.lstrip())
            if isinstance(self.source, RenderedSource):
                origins.append(self.source.origin(at))
            else:
                origins.append(LineOrigin(self.file, row + 1, at - start + 1))
        return tuple(origins)


class _Trace:
    """The pieces of one output, by offset; empty if running again did not give the same text."""

    def __init__(self, text: str, pieces: tuple[Piece, ...]) -> None:
        self._pieces = [piece for piece in pieces if piece.text]
        self._starts: list[int] = []
        at = 0
        for piece in self._pieces:
            self._starts.append(at)
            at += len(piece.text)
        if "".join(piece.text for piece in self._pieces) != text:
            self._pieces.clear()

    def at(self, offset: int) -> tuple[Piece, int] | None:
        """Return the piece that holds an offset and how far in it stands, None of no pieces."""
        if not self._pieces:
            return None
        number = bisect_right(self._starts, offset) - 1
        return self._pieces[number], offset - self._starts[number]

    def span(self, start: int, end: int) -> SourceSpan | None:
        first, last = self.at(start), self.at(max(start, end - 1))
        if first is None or last is None:
            return None
        piece, behind = first
        begin = piece.start + behind if piece.literal else piece.start
        stop = _stop(*last)
        if last[0].source is not piece.source or stop <= begin:
            stop = piece.end
        return piece.source.span(begin, stop)


def _stop(piece: Piece, behind: int) -> int:
    return piece.start + behind + 1 if piece.literal else piece.end
