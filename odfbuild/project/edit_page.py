"""Where new values are written into a YAML text, and how they are laid out there."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from odfbuild.project.edit_text import block_lines, flow_text, scalar_text
from odfbuild.project.legacy_page import Page, Steps
from odfbuild.project.places import Source, Spot
from odfbuild.project.yaml import Document, Value

__all__ = ["EditPage"]

_COMMENT_LINE = re.compile(r"([ ]*)#|[ \t]*\r?(?:\n|\Z)")
_COMMA_BEHIND = re.compile(r"[ \t]*,[ \t]*")
_COMMA_BEFORE = re.compile(r"[ \t]*,[ \t]*\Z")


class EditPage(Page):
    """A text that values are put into and taken out of; `taken_out` are ranges of the old text."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.taken_out: list[tuple[int, int]] = []

    def replace_value(self, document: Document, path: Steps, value: Value) -> None:
        """Write another scalar in the place of one, in the same quotes, or anything for null."""
        spot = self._spot(document, path)
        if spot.keys is not None or spot.items is not None or not path:
            self.refuse(spot.start)
        if self.text[spot.start : spot.start + 1] in ("|", ">"):
            self.refuse(spot.start)
        parent = self._spot(document, path[:-1])
        flow = self._in_flow(document, path)
        if isinstance(value, Mapping | list) and value and not flow:
            self._open_block(parent, path, spot, value)
            return
        word = flow_text(value) if flow or isinstance(value, Mapping | list) else scalar_text(value)
        if isinstance(value, str) and self.text[spot.start : spot.end].rstrip()[:1] in ("'", '"'):
            word = scalar_text(value, like=self.text[spot.start])
        raw = self.text[spot.start : spot.end]
        if not raw:
            word = " " + word
        self.replace(spot.start, spot.end, word + raw[len(raw.rstrip()) :])

    def add_key(self, document: Document, path: Steps, key: str, value: Value) -> None:
        """Add an entry to the end of a mapping."""
        spot = self._spot(document, path)
        if spot.keys is None:
            self.refuse(spot.start)
        if self._in_flow(document, (*path, key)):
            self._into_flow(spot, flow_text({key: value})[1:-1])
            return
        first = next(iter(spot.keys.values()))[0]
        column = self.column(first)
        at = self._behind(spot) if path else spot.end
        self._insert_lines(at, column, block_lines({key: value}))

    def append(self, document: Document, path: Steps, value: Value) -> None:
        """Add an item to the end of a list."""
        spot = self._spot(document, path)
        if spot.items is None:
            self.refuse(spot.start)
        if self._in_flow(document, (*path, 0)):
            self._into_flow(spot, flow_text(value))
            return
        self._insert_lines(self._behind(spot), self.column(spot.start), block_lines([value]))

    def remove(self, document: Document, path: Steps) -> None:
        """Take out an entry or an item; the last one leaves an empty collection."""
        holder = self._spot(document, path[:-1])
        if self._in_flow(document, path):
            start, end = self._extent(holder, path[-1])
            start, end = self._with_comma(holder, start, end)
        else:
            start, end = self._lines_of(holder, path[-1])
        if len(holder.keys or holder.items or ()) == 1 and not self.is_flow(holder):
            self._empty(document, path[:-1], holder, end)
            return
        self.taken_out.append((start, end))
        self.replace(start, end, "")

    def _empty(self, document: Document, path: Steps, holder: Spot, end: int) -> None:
        """Leave [] or {} of a block that loses its only entry."""
        if not path or not isinstance(path[-1], str):
            self.refuse(holder.start)
        entry = self.entry(self._spot(document, path[:-1]), path[-1])
        self.value_start(entry)
        sign = "{}" if holder.keys is not None else "[]"
        start = self.line(holder.start)
        if start <= entry.start:
            self.refuse(holder.start)
        self.insert(self.colon_end(entry), f" {sign}")
        self.taken_out.append((start, end))
        self.replace(start, end, "")

    def _spot(self, document: Document, path: Steps) -> Spot:
        spot = document.places.root
        for step in path:
            below: Any = spot.keys if isinstance(step, str) else spot.items
            found = below[step]
            spot = found[2] if isinstance(step, str) else found
        return spot

    def _in_flow(self, document: Document, path: Steps) -> bool:
        """Tell whether a value stands in braces or brackets."""
        return any(self.is_flow(self._spot(document, path[:at])) for at in range(len(path)))

    def _open_block(self, parent: Spot, path: Steps, spot: Spot, value: Value) -> None:
        """Write a collection below the key of a null."""
        if not isinstance(path[-1], str):
            self.refuse(spot.start)
        entry = self.entry(parent, path[-1])
        behind = self.colon_end(entry)
        if self.text[behind : self.value_start(entry)].strip(" "):
            self.refuse(spot.start)
        self.replace(behind, spot.end, "")
        column = self.column(entry.start) + 2
        self._insert_lines(self.below(spot.end), column, block_lines(value))

    def _insert_lines(self, at: int, column: int, lines: Iterator[str] | Sequence[str]) -> None:
        text = "".join(f"{' ' * column}{line}{self.newline}" for line in lines)
        broken = at > 0 and self.text[at - 1] != "\n"
        self.insert(at, self.newline + text.removesuffix(self.newline) if broken else text)

    def _behind(self, spot: Spot) -> int:
        """Return where a new line of a block goes: behind its last entry and the comments there."""
        last = self._last_end(spot)
        at = last if self.text[last - 1] == "\n" else self.below(last)
        column = self.column(next(iter(spot.keys.values()))[0] if spot.keys else spot.start)
        end = at
        while at < len(self.text) and (found := _COMMENT_LINE.match(self.text, at)):
            if found[1] is not None and len(found[1]) < max(column, 1):
                break
            at = self.below(at)
            end = at if found[1] is not None else end
        return end

    def _last_end(self, spot: Spot) -> int:
        if spot.keys:
            return self.entry(spot, list(spot.keys)[-1]).end
        assert spot.items  # noqa: S101 - no block is empty
        return self.end_of(spot.start, spot.items[-1])

    def _into_flow(self, spot: Spot, text: str) -> None:
        if not spot.keys and not spot.items:
            self.insert(spot.end - 1, text)
            return
        last = self._last_end(spot)
        self.insert(last, f", {text}")

    def _extent(self, holder: Spot, step: str | int) -> tuple[int, int]:
        if isinstance(step, str):
            entry = self.entry(holder, step)
            return entry.start, entry.end
        assert holder.items is not None  # noqa: S101 - it has this item
        item = holder.items[step]
        return item.start, self.end_of(item.start, item)

    def _lines_of(self, holder: Spot, step: str | int) -> tuple[int, int]:
        if isinstance(step, str):
            return self.whole_lines(self.entry(holder, step))
        start, end = self._extent(holder, step)
        line = self.line(start)
        if self.text[line:start].strip(" ") != "-":
            self.refuse(start)
        return line, end if self.text[end - 1] == "\n" else self.below(end)

    def _with_comma(self, holder: Spot, start: int, end: int) -> tuple[int, int]:
        behind = _COMMA_BEHIND.match(self.text, end)
        if behind is not None:
            return start, behind.end()
        before = _COMMA_BEFORE.search(self.text, holder.start, start)
        return (start if before is None else before.start()), end
