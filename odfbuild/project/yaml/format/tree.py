"""Layout tree of a YAML text: its nodes as they are written, without comments yet."""

import re
from collections.abc import Iterator
from dataclasses import field
from itertools import pairwise
from typing import Any, TypeAlias

from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from odfbuild.project.yaml import parser_of
from odfbuild.project.yaml.comments import Marks, marks_of
from odfbuild.project.yaml.layout import UnusualLayoutError
from odfbuild.values import dataclass

_PROPERTIES = re.compile(r"(?:[&!]\S*\s*(?:#[^\n]*\s*)*)*")
_WORD = re.compile(r"[&!]\S*")
_BREAKS = re.compile("[\x85\u2028\u2029]")


@dataclass(slots=True, kw_only=True)
class Scalar:
    """A scalar or an alias as it is written; `style` is its first sign if that has a meaning."""

    start: int
    end: int
    raw: str
    properties: str = ""
    style: str = ""
    value: str = ""


@dataclass(slots=True, kw_only=True)
class Flow:
    """A collection in braces or brackets; `entries` hold a key each if it is a mapping."""

    start: int
    end: int
    raw: str
    properties: str = ""
    entries: "list[tuple[Scalar | None, Node]]" = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Block:
    """A collection of lines; `tail` are comments behind its last entry, blank lines as ''."""

    start: int
    column: int
    properties: str = ""
    entries: "list[BlockEntry]" = field(default_factory=list)
    tail: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class BlockEntry:
    """One entry of a block, without a key in a list; `lead` is above it, `aside` beside it."""

    start: int
    column: int
    key: Scalar | None
    value: "Node"
    lead: list[str] = field(default_factory=list)
    aside: str = ""


Node: TypeAlias = Scalar | Flow | Block


@dataclass(slots=True, kw_only=True)
class YamlDocument:
    """One document; `above` stands over its ---, `head` and `tail` around its content."""

    explicit: bool
    start: int
    end: int
    root: Node
    above: list[str] = field(default_factory=list)
    aside: str = ""
    head: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)


def read_pages(text: str) -> tuple[list[YamlDocument], Marks]:
    """Return the documents of a text that is YAML with \\n as only line end, and its marks.

    Raises UnusualLayoutError for directives, explicit keys and line ends of other alphabets.
    """
    marks = marks_of(text)
    other = _BREAKS.search(text)
    if other is not None or not marks.plain:
        raise UnusualLayoutError(0 if other is None else other.start())
    return _TreeBuilder(text, marks).pages(), marks


class _TreeBuilder:
    def __init__(self, text: str, marks: Marks) -> None:
        self.text = text
        self.events = _events(text)
        self.dashes = iter(marks.dashes)
        self.starts = iter(marks.starts)

    def pages(self) -> list[YamlDocument]:
        pages: list[YamlDocument] = []
        for event in self.events:
            if isinstance(event, DocumentStartEvent):
                start = next(self.starts) if event.explicit else 0
                root = self.node(next(self.events))
                pages.append(
                    YamlDocument(
                        explicit=bool(event.explicit), start=start, end=len(self.text), root=root
                    )
                )
        for page, following in pairwise(pages):
            page.end = following.start
        return pages

    def node(self, event: Any) -> Node:
        start, end = event.start_mark.index, event.end_mark.index
        if isinstance(event, AliasEvent):
            return Scalar(start=start, end=end, raw=self.text[start:end])
        found = _PROPERTIES.match(self.text, start)
        assert found is not None  # noqa: S101 - it matches nothing, too
        given = event.anchor is not None or event.tag is not None
        properties = " ".join(_WORD.findall(found[0])) if given else ""
        inside = min(found.end(), end) if given else start
        if isinstance(event, ScalarEvent):
            return self.scalar(event, inside, end, properties)
        if self.text[inside : inside + 1] in ("[", "{") or event.flow_style:
            return self.flow(event, inside, properties)
        if isinstance(event, SequenceStartEvent):
            return self.items(properties)
        return self.mapping(properties)

    def scalar(self, event: Any, start: int, end: int, properties: str) -> Scalar:
        raw = self.text[start:end]
        style = event.style or ""
        if style not in ("|", ">"):
            raw = raw.rstrip()
        return Scalar(
            start=start,
            end=end,
            raw=raw,
            properties=properties,
            style=style,
            value=event.value,
        )

    def flow(self, first: Any, start: int, properties: str) -> Flow:
        made = Flow(start=start, end=start, raw="", properties=properties)
        is_mapping = isinstance(first, MappingStartEvent)
        for event in self.events:
            if isinstance(event, MappingEndEvent | SequenceEndEvent):
                mark: Any = event.end_mark
                made.end = mark.index
                break
            key = self.key(event) if is_mapping else None
            made.entries.append((key, self.node(next(self.events) if is_mapping else event)))
        made.raw = self.text[start : made.end]
        return made

    def items(self, properties: str) -> Block:
        entries = []
        for event in self.events:
            if isinstance(event, SequenceEndEvent):
                break
            dash = next(self.dashes)
            column = self.column(dash)
            entries.append(BlockEntry(start=dash, column=column, key=None, value=self.node(event)))
        return _block(entries, properties)

    def mapping(self, properties: str) -> Block:
        entries = []
        for event in self.events:
            if isinstance(event, MappingEndEvent):
                break
            key = self.key(event)
            column = self.column(key.start)
            value = self.node(next(self.events))
            entries.append(BlockEntry(start=key.start, column=column, key=key, value=value))
        return _block(entries, properties)

    def key(self, event: Any) -> Scalar:
        made = self.node(event)
        if not isinstance(made, Scalar) or made.start == made.end or made.properties:
            raise UnusualLayoutError(made.start)
        return made

    def column(self, at: int) -> int:
        return at - (self.text.rfind("\n", 0, at) + 1)


def _block(entries: list[BlockEntry], properties: str) -> Block:
    first = entries[0]
    return Block(start=first.start, column=first.column, properties=properties, entries=entries)


def _events(text: str) -> Iterator[Any]:
    parser = parser_of(text)
    while (event := parser.get_event()) is not None:
        yield event
