"""Places of every key and value of a YAML document.

A place is kept as two character offsets; line, column and excerpt are worked out only for the few
places that an error names, so that reading a correct file pays next to nothing for them.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import field
from typing import TypeAlias

from odfbuild.errors import SourceSpan
from odfbuild.values import dataclass

KeyPath: TypeAlias = Sequence[str | int]


@dataclass(slots=True)
class Spot:
    """The half-open range of characters of one value, and what is below it (keys as well).

    Of a value that is taken from another file, the range holds that file's path.
    """

    start: int
    end: int
    items: "list[Spot] | None" = None
    keys: "dict[str, tuple[int, int, Spot]] | None" = None
    included: "SourceText | None" = None


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of one file, by whose offsets places are kept."""

    file: str
    text: str
    _starts: list[int] = field(default_factory=list, compare=False, repr=False)

    def span(self, start: int, end: int) -> SourceSpan:
        """Return the place of some characters; what goes over a line's end is cut there."""
        row = bisect_right(self._line_starts(), start) - 1
        first = self._starts[row]
        line = self._line(first)
        stop = min(end, first + len(line))
        return SourceSpan(
            file=self.file,
            line=row + 1,
            column=start - first + 1,
            length=max(1, stop - start),
            excerpt=line,
        )

    def line_at(self, row: int) -> tuple[int, str]:
        """Return where a 0-based line starts and its text; past the end, an empty last line."""
        starts = self._line_starts()
        first = starts[row] if row < len(starts) else len(self.text)
        return first, self._line(first)

    def row_of(self, offset: int) -> int:
        """Return the 0-based line that holds an offset."""
        return bisect_right(self._line_starts(), offset) - 1

    def _line(self, first: int) -> str:
        row = bisect_right(self._starts, first)
        stop = self._starts[row] if row < len(self._starts) else len(self.text)
        return self.text[first:stop].rstrip("\r\n")

    def _line_starts(self) -> list[int]:
        if not self._starts:
            self._starts.extend(_line_starts(self.text))
        return self._starts


@dataclass(frozen=True, slots=True)
class PlaceFinder:
    """Finds the place of a value or a key by its path from the top of one document."""

    source: SourceText
    root: Spot

    def value(self, path: KeyPath) -> SourceSpan:
        """Return where a value is written; of a path that is not there, its nearest ancestor."""
        spot = self.root
        for step in path:
            below = _below(spot, step)
            if below is None:
                break
            spot = below
        return self._span(spot)

    def key(self, path: KeyPath) -> SourceSpan:
        """Return where the key of a mapping entry is written; of anything else, the value."""
        parent = self._spot(path[:-1]) if path else None
        entry = parent.keys.get(str(path[-1])) if parent is not None and parent.keys else None
        return self.source.span(entry[0], entry[1]) if entry is not None else self.value(path)

    def inside(self, path: KeyPath, text: str, offset: int, length: int = 1) -> SourceSpan:
        """Return where a part of a text value is written, such as one name in a query.

        `text` is the value as read.  Literal blocks and texts written without escapes are followed
        exactly, and included files; of others the whole value is named.
        """
        spot = self._spot(path)
        if spot is not None and spot.included is not None and spot.included.text == text:
            return spot.included.span(offset, offset + length)
        start = None if spot is None else _written_at(self.source, spot, text, offset)
        return self.value(path) if start is None else self.source.span(start, start + length)

    def _spot(self, path: KeyPath) -> Spot | None:
        spot: Spot | None = self.root
        for step in path:
            spot = _below(spot, step) if spot is not None else None
        return spot

    def _span(self, spot: Spot) -> SourceSpan:
        """A block collection runs on to the next token, so its first sign stands for it."""
        sign = self.source.text[spot.start : spot.start + 1]
        if spot.keys and sign != "{":
            start, end, _ = next(iter(spot.keys.values()))
            return self.source.span(start, end)
        if sign in ("|", ">") or (spot.items is not None and sign == "-"):
            return self.source.span(spot.start, spot.start + 1)
        return self.source.span(spot.start, spot.end)


def _below(spot: Spot, step: str | int) -> Spot | None:
    if isinstance(step, str):
        entry = spot.keys.get(step) if spot.keys is not None else None
        return None if entry is None else entry[2]
    return spot.items[step] if spot.items is not None and step < len(spot.items) else None


def _written_at(source: SourceText, spot: Spot, text: str, offset: int) -> int | None:
    raw = source.text[spot.start : spot.end]
    if raw == text:
        return spot.start + offset
    if raw[1:-1] == text and raw[:1] in "'\"":
        return spot.start + 1 + offset
    return _in_literal_block(source, spot, text, offset) if raw.startswith("|") else None


def _in_literal_block(source: SourceText, spot: Spot, text: str, offset: int) -> int | None:
    """A literal block's n-th line is the n-th line below its header, indented."""
    before = text[:offset]
    column = offset - (before.rfind("\n") + 1)
    first, line = source.line_at(source.row_of(spot.start) + 1 + before.count("\n"))
    wanted = text.split("\n")[before.count("\n")]
    indent = len(line) - len(wanted)
    if indent < 0 or line[indent:] != wanted or line[:indent].strip(" "):
        return None
    return first + indent + column


def _line_starts(text: str) -> list[int]:
    starts, at = [0], 0
    for line in text.replace("\r\n", " \n").replace("\r", "\n").split("\n")[:-1]:
        at += len(line) + 1
        starts.append(at)
    return starts
