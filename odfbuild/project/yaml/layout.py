"""A YAML document that is being rewritten: edits that keep comments, order, quotes and layout.

What is left out stays in the file as a comment, with the reason above it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NoReturn

from odfbuild.errors import Diagnostic, Level
from odfbuild.project.yaml.places import SourceText, Spot
from odfbuild.values import dataclass


class ClashError(Exception):
    """Two edits want the same characters; nothing sensible can be made of both."""


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replace the half-open range by a text; an empty range inserts."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMove:
    """Take a range out, with the edits inside of it, and put it elsewhere, between two texts."""

    start: int
    end: int
    to: int
    before: str = ""
    after: str = ""


def apply_edits(text: str, edits: Sequence[TextEdit], moves: Sequence[TextMove] = ()) -> str:
    """Return the text with all edits made; those at one place in their order, moved text first.

    Raises ClashError when two of them overlap.
    """
    return _render(text, 0, len(text), sorted(_steps(edits, moves), key=_place))


@dataclass(frozen=True, slots=True)
class _TextStep:
    """`rank` orders what happens at one place: text moved in, text moved out, edits."""

    start: int
    end: int
    rank: int
    text: str = ""
    moved: TextMove | None = None


def _steps(edits: Sequence[TextEdit], moves: Sequence[TextMove]) -> Iterator[_TextStep]:
    for move in moves:
        yield _TextStep(move.to, move.to, 0, moved=move)
        yield _TextStep(move.start, move.end, 1)
    for edit in edits:
        yield _TextStep(edit.start, edit.end, 2, edit.text)


def _place(step: _TextStep) -> tuple[int, int, bool]:
    return step.start, step.rank, step.end > step.start


def _render(text: str, start: int, end: int, steps: list[_TextStep]) -> str:
    parts: list[str] = []
    at, gone = start, start
    for step in steps:
        if step.start < at:
            if step.start < gone:
                continue
            raise ClashError
        parts.append(text[at : step.start])
        at = step.end
        if step.rank == 1:
            gone = step.end
        parts.append(step.text if step.moved is None else _move_text(text, step.moved, steps))
    parts.append(text[at:end])
    return "".join(parts)


def _move_text(text: str, move: TextMove, steps: list[_TextStep]) -> str:
    inside = [
        step for step in steps
        if move.start <= step.start
        and step.end <= move.end
        and step.rank == 2
        and (step.start < move.end or step.start == move.start)
    ]  # fmt: skip
    return move.before + _render(text, move.start, move.end, inside) + move.after


Steps = tuple[str | int, ...]

_MARK = "\0"  # in no YAML
_BETWEEN = re.compile(r"[ \t]*:(?:\s|#[^\n]*)*")
_TO_COMMA = re.compile(r"(?:\s|#[^\n]*)*,")
_BLANK = re.compile(r"[ \t]*\r?(?:\n|\Z)")
_LEAD = re.compile(r"(?:[ \t]|- )*")


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """What was rewritten, at a path of the old document; `needed` unless it was valid as well."""

    path: Steps
    start: int
    end: int
    what: str
    needed: bool = True


@dataclass(frozen=True, slots=True)
class Loss:
    """What has no equal today, at a path of the old document."""

    path: Steps
    found: Diagnostic


class UnusualLayoutError(Exception):
    """The document is laid out in a way that is not rewritten; holds the offset where."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at


@dataclass(frozen=True, slots=True)
class MappingEntry:
    """A key and its value in a mapping; `end` is where the text of the value ends."""

    key: str
    start: int
    key_end: int
    value: Spot
    end: int


class DocumentEdits:
    """Collects the edits of one document.

    New lines are indented like the old line that they are written into, wherever that goes: a mark
    in them is replaced at the end, when it is known how far each line is shifted.
    """

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.text = source.text
        self.newline = "\r\n" if "\r\n" in self.text else "\n"
        self._edits: list[TextEdit] = []
        self.moves: list[TextMove] = []
        self.changes: list[LayoutChange] = []
        self.losses: list[Loss] = []
        self._indents: list[TextEdit] = []
        self._removed: set[int] = set()
        self._shifted: list[tuple[int, int, int]] = []

    @property
    def edits(self) -> tuple[TextEdit, ...]:
        """The edits made so far: indentation before all else that is inserted at a place."""
        return (*self._indents, *map(self._shifted_edit, self._edits))

    def _shifted_edit(self, edit: TextEdit) -> TextEdit:
        if _MARK not in edit.text:
            return edit
        shift = " " * sum(by for start, end, by in self._shifted if start <= edit.start < end)
        return replace(edit, text=edit.text.replace(_MARK, shift))

    def change(self, path: Steps, start: int, end: int, what: str, *, needed: bool = True) -> None:
        """Say what is changed, and where."""
        self.changes.append(LayoutChange(path, start, end, what, needed))

    def lose(
        self, path: Steps, start: int, end: int, what: str, why: str, fix: str, *, code: str
    ) -> None:
        """Say what cannot be expressed, and where."""
        span = self.source.span(start, end)
        found = Diagnostic(
            code=code, what=what, why=why, fix=fix, span=span, level=Level.WARNING
        )  # fmt: skip
        self.losses.append(Loss(path, found))

    def replace(self, start: int, end: int, text: str) -> None:
        self._edits.append(TextEdit(start, end, text))

    def insert(self, at: int, text: str) -> None:
        self._edits.append(TextEdit(at, at, text))

    def move(self, start: int, end: int, to: int, before: str = "", after: str = "") -> None:
        self.moves.append(TextMove(start=start, end=end, to=to, before=before, after=after))

    def is_flow(self, spot: Spot) -> bool:
        """Tell whether a mapping or a list is written in braces or brackets."""
        return self.text[spot.start : spot.start + 1] in ("{", "[")

    def column(self, at: int) -> int:
        """Return the 0-based column of a place."""
        return at - self.line(at)

    def line(self, at: int) -> int:
        """Return where the line of a place starts."""
        return self.text.rfind("\n", 0, at) + 1

    def below(self, at: int) -> int:
        """Return where the next line starts, or the end of the text."""
        found = self.text.find("\n", at)
        return len(self.text) if found < 0 else found + 1

    def new_line(self, column: int) -> str:
        """Return a line break and the indentation of a new line, which follows its old one."""
        return self.newline + _MARK + " " * column

    def entry(self, mapping: Spot, key: str) -> MappingEntry:
        """Return an entry of a mapping."""
        assert mapping.keys is not None  # noqa: S101 - it has this key
        start, end, value = mapping.keys[key]
        return MappingEntry(key, start, end, value, self.end_of(end, value))

    def entries(self, mapping: Spot) -> list[MappingEntry]:
        """Return all entries of a mapping in their order."""
        return [self.entry(mapping, key) for key in mapping.keys or ()]

    def value_start(self, entry: MappingEntry) -> int:
        """Return where a value starts that has no anchor and is no alias; refuse others."""
        found = _BETWEEN.match(self.text, entry.key_end)
        empty = entry.value.start == entry.value.end
        if found is None or not (empty or found.end() == entry.value.start):
            self.refuse(entry.start)
        return entry.value.start

    def colon_end(self, entry: MappingEntry) -> int:
        """Return the place behind the colon of an entry."""
        return self.text.index(":", entry.key_end) + 1

    def refuse(self, at: int) -> NoReturn:
        raise UnusualLayoutError(at)

    def in_style_of(self, word: str, at: int) -> str:
        """Return a word in the quotes of what is at a place."""
        sign = self.text[at : at + 1]
        return f"{sign}{word}{sign}" if sign in ("'", '"') else word

    def rename(self, entry: MappingEntry, key: str) -> None:
        """Give an entry another key."""
        self.replace(entry.start, entry.key_end, self.in_style_of(key, entry.start))

    def rewrite(self, spot: Spot, word: str) -> None:
        """Write another word for a text value, in the same quotes."""
        raw = self.text[spot.start : spot.end]
        tail = raw[len(raw.rstrip()) :]
        self.replace(spot.start, spot.end, self.in_style_of(word, spot.start) + tail)

    def remove_line(self, at: int) -> None:
        """Remove the line that starts at a place."""
        self._removed.add(at)
        self.replace(at, self.below(at), "")

    def shift(self, start: int, end: int, by: int) -> None:
        """Indent all lines of a range, which starts with a line, by some columns more."""
        self.follow(start, end, by)
        at = start
        while by > 0 and at < end:
            if at not in self._removed and not _BLANK.match(self.text, at):
                self._indents.append(TextEdit(at, at, " " * by))
            at = self.below(at)

    def follow(self, start: int, end: int, by: int) -> None:
        """Indent the new lines that are written into a range by some columns more."""
        self._shifted.append((start, end, by))

    def lines_of_entry(self, entry: MappingEntry) -> tuple[int, int]:
        """Return the lines of an entry of a block mapping; refuse if it shares the first one."""
        start = self.line(entry.start)
        if self.text[start : entry.start].strip(" "):
            self.refuse(entry.start)
        end = entry.end if entry.end and self.text[entry.end - 1] == "\n" else self.below(entry.end)
        return start, end

    def leave_out(self, mapping: Spot, key: str, reason: str) -> None:
        """Turn an entry into a comment, with the reason above it."""
        entry = self.entry(mapping, key)
        if self.is_flow(mapping):
            self._leave_out_of_flow(entry, reason)
            return
        line, column = self.line(entry.start), self.column(entry.start)
        if _LEAD.fullmatch(self.text, line, entry.start) is None:
            self.refuse(entry.start)
        self.insert(entry.start, f"# {reason}{self.new_line(column)}# ")
        at = self.below(entry.start)
        while at < entry.end:
            if not _BLANK.match(self.text, at):
                self.insert(at + min(column, self._indent(at)), "# ")
            at = self.below(at)

    def _leave_out_of_flow(self, entry: MappingEntry, reason: str) -> None:
        comma = _TO_COMMA.match(self.text, entry.end)
        end = comma.end() if comma else entry.end
        lines = [reason, *(line.strip() for line in self.text[entry.start : end].splitlines())]
        broken = self.new_line(self.column(entry.start))
        self.replace(entry.start, end, "".join(f"{broken}# {line}" for line in lines) + broken)

    def _indent(self, at: int) -> int:
        line = self.text[at : self.below(at)]
        return len(line) - len(line.lstrip(" "))

    def end_of(self, key_end: int, value: Spot) -> int:
        """Return where a value's text ends; of an alias, which stands elsewhere, its line's end."""
        if value.start < key_end:
            return len(self.text[: self.below(key_end)].rstrip("\r\n"))
        if not self.is_flow(value):
            if value.keys:
                _, last_end, last = list(value.keys.values())[-1]
                return self.end_of(last_end, last)
            if value.items:
                last = value.items[-1]
                if last.start < value.start:
                    return len(self.text[: value.end].rstrip())
                return self.end_of(last.start, last)
        return value.end
