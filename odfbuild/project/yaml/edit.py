"""Edits of YAML as text: comments, order, quotes and layout of the rest are kept.  Pure.

An edit that cannot be made so is refused: the new text is read again, and has to hold the value
that was asked for and every comment of the old one.

Lists stand two columns further in than their key; texts are bare where nothing could take them for
something else.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from odfbuild.errors import ProjectError, ProjectErrors, SourceSpan
from odfbuild.odf.manifest.yaml import yaml_text
from odfbuild.project.yaml import Document, Value, decode, read_source
from odfbuild.project.yaml.comments import comments_of
from odfbuild.project.yaml.layout import (
    ClashError,
    DocumentEdits,
    Steps,
    UnusualLayoutError,
    apply_edits,
)
from odfbuild.project.yaml.places import SourceText, Spot
from odfbuild.values import dataclass

_OF_FLOW = frozenset(",[]{}")


def scalar_text(value: Any, *, like: str = "", flow: bool = False) -> str:
    """Return a scalar in one line; a text in the quotes that `like` is, if it can be in them."""
    if not isinstance(value, str):
        return yaml_text(value).removesuffix("\n")
    if "\n" in value or not value.isprintable() or like == '"':
        return _quote(value)
    bare = yaml_text(value).removesuffix("\n")
    if like == "'" or (flow and not _OF_FLOW.isdisjoint(value)):
        return "'" + value.replace("'", "''") + "'"
    return bare


def flow_text(value: Any) -> str:
    """Return a value in braces and brackets, in one line."""
    if isinstance(value, Mapping):
        entries = (f"{flow_text(key)}: {flow_text(item)}" for key, item in value.items())
        return f"{{{', '.join(entries)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(flow_text, value))}]"
    return scalar_text(value, flow=True)


def block_lines(value: Any) -> Iterator[str]:
    """Yield the lines of a value, each entry of a collection in its own."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _under(f"{scalar_text(key)}:", item)
    elif isinstance(value, list | tuple) and value:
        for item in value:
            first, *rest = block_lines(item)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield flow_text(value) if isinstance(value, Mapping | list | tuple) else scalar_text(value)


def _under(key: str, value: Any) -> Iterator[str]:
    lines = block_lines(value)
    if isinstance(value, Mapping | list | tuple) and value:
        yield key
        yield from (f"  {line}" for line in lines)
    else:
        yield f"{key} {next(lines)}"


def _quote(text: str) -> str:
    """Return a text in double quotes, with escapes for what cannot be seen."""
    plain = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in plain)


_COMMENT_LINE = re.compile(r"([ ]*)#|[ \t]*\r?(?:\n|\Z)")
_COMMA_BEHIND = re.compile(r"[ \t]*,[ \t]*")
_COMMA_BEFORE = re.compile(r"[ \t]*,[ \t]*\Z")


class EditPage(DocumentEdits):
    """A text that values are put into and taken out of; `taken_out` are ranges of the old text."""

    def __init__(self, source: SourceText) -> None:
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
        """Tell whether a value is in braces or brackets."""
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
            return self.lines_of_entry(self.entry(holder, step))
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


_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SetValue:
    """Give a place a value: a scalar is changed where it stands, a key that is missing is added."""

    path: Steps
    value: Value
    document: int = 0


@dataclass(frozen=True, slots=True)
class Add:
    """Add an item to the end of a list; a list that is missing is made."""

    path: Steps
    value: Value
    document: int = 0


@dataclass(frozen=True, slots=True)
class Remove:
    """Take out an entry of a mapping or an item of a list; comments beside it go with it."""

    path: Steps
    document: int = 0


Change: TypeAlias = SetValue | Add | Remove


class UneditableError(ProjectError):
    """The layout of a file cannot be edited safely; nothing was changed."""

    code = "unusual-layout"


def edited(text: str, file: str, changes: Sequence[Change]) -> str:
    """Return the text with all changes made; paths are those of the text as it is given.

    Raises UneditableError when the layout allows no edit, ProjectErrors when it is no YAML.
    """
    documents = read_as_written(text, file)
    wanted = _wanted_values([each.value for each in documents], changes)
    page = EditPage(documents[0].places.source)
    try:
        for each in changes:
            _write(page, documents[each.document], each)
        result = apply_edits(page.text, page.edits)
    except UnusualLayoutError as unusual:
        raise _refusal(page.source.span(unusual.at, page.below(unusual.at))) from None
    except ClashError:
        raise _refusal(_place(documents, changes[0])) from None
    if not _holds(result, wanted, _comments_left(text, page)):
        raise _refusal(_place(documents, changes[0]))
    return result


def edited_bytes(data: bytes, file: str, changes: Sequence[Change]) -> bytes:
    """Return the bytes of a file with all changes made; a byte order mark stays."""
    mark = _BOM if data.startswith(_BOM) else b""
    return mark + edited(decode(data, file), file, changes).encode()


def read_as_written(text: str, file: str) -> tuple[Document, ...]:
    """Return the documents of a file in which !include stands for itself."""
    return read_source(SourceText(file, text), lambda path: SourceText(path, f"!include {path}"))


def _write(page: EditPage, document: Document, change: Change) -> None:
    if isinstance(change, Remove):
        page.remove(document, change.path)
        return
    known = _known_steps(document.value, change.path)
    rest = change.path[known:]
    value = change.value
    if isinstance(change, Add) and (rest or _at(document.value, change.path) is None):
        value = [value]
    elif isinstance(change, Add):
        page.append(document, change.path, value)
        return
    for step in reversed(rest[1:]):
        value = {str(step): value}
    if not rest:
        page.replace_value(document, change.path, value)
    elif _at(document.value, change.path[:known]) is None and known:
        page.replace_value(document, change.path[:known], {str(rest[0]): value})
    else:
        page.add_key(document, change.path[:known], str(rest[0]), value)


def _known_steps(value: Any, path: Steps) -> int:
    """Return how many steps of a path are there."""
    for count, step in enumerate(path):
        inside = isinstance(value, dict) and step in value
        inside = inside or (isinstance(value, list) and isinstance(step, int) and step < len(value))
        if not inside:
            return count
        value = value[step]
    return len(path)


def _at(value: Any, path: Steps) -> Any:
    for step in path:
        value = value[step]
    return value


def _wanted_values(values: list[Value], changes: Sequence[Change]) -> list[Value]:
    """Return the values that the documents are to have; removals come last, from the back."""
    wanted: Any = _deep_copy(values)
    for each in changes:
        if not isinstance(each, Remove):
            _put(wanted, (each.document, *each.path), each)
    removed = [(each.document, *each.path) for each in changes if isinstance(each, Remove)]
    for path in sorted(removed, key=_from_the_back, reverse=True):
        del _at(wanted, path[:-1])[path[-1]]
    return list(wanted)


def _from_the_back(path: Steps) -> list[tuple[int, str]]:
    return [(step, "") if isinstance(step, int) else (-1, step) for step in path]


def _put(values: Any, path: Steps, change: SetValue | Add) -> None:
    inside = values
    for at, step in enumerate(path[:-1]):
        if isinstance(inside, dict) and inside.get(str(step)) is None:
            inside[str(step)] = {}
        inside = inside[step]
        if not isinstance(inside, dict | list):
            raise KeyError(path[: at + 1])
    last: Any = path[-1]
    if isinstance(change, SetValue):
        inside[last] = _deep_copy(change.value)
    elif isinstance(inside, dict) and inside.get(last) is None:
        inside[last] = [_deep_copy(change.value)]
    else:
        inside[last].append(_deep_copy(change.value))


def _deep_copy(value: Any) -> Any:
    """Return a value in which nothing is shared, as aliases are."""
    if isinstance(value, dict):
        return {key: _deep_copy(item) for key, item in value.items()}
    return [_deep_copy(item) for item in value] if isinstance(value, list) else value


def _comments_left(text: str, page: EditPage) -> Counter[str]:
    """Return the comments outside of what was taken out."""
    return Counter(
        each.text
        for each in comments_of(text)
        if not any(start <= each.start < end for start, end in page.taken_out)
    )


def _holds(text: str, wanted: list[Value], comments: Counter[str]) -> bool:
    try:
        values = [each.value for each in read_as_written(text, "")]
    except ProjectErrors:
        return False
    return _exact(values) == _exact(wanted) and comments == Counter(
        each.text for each in comments_of(text)
    )


def _exact(values: list[Value]) -> str:
    """Return a text that tells values apart which Python calls equal, and NaN from nothing."""
    return json.dumps(values, default=repr)


def _place(documents: Sequence[Document], change: Change) -> SourceSpan:
    return documents[change.document].places.value(change.path)


def _refusal(span: SourceSpan) -> UneditableError:
    return UneditableError(
        what=f"{span.file} cannot be edited here without other changes",
        why="it has anchors, aliases, or several entries in one line",
        fix="simplify this part, one entry a line, and run the command again",
        span=span,
    )
