"""Strict reader of YAML, which keeps the place of every key and value.

Plain scalars follow the core schema of YAML 1.2: `NO`, `12:30` and dates are texts, `014` is 14.
Duplicate keys, merge keys, keys that are not text and tags but !include are refused.  Aliases are
followed within bounds, so that no small file becomes a large value.
"""

import re
from typing import Any, NoReturn, Protocol, TypeAlias

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from odfbuild.errors import Diagnostic, ProjectErrors
from odfbuild.project.yaml.errors import not_text, syntax_problem
from odfbuild.project.yaml.places import PlaceFinder, SourceText, Spot
from odfbuild.project.yaml.rules import (
    ALIAS_KEY,
    COLLECTION_KEY,
    DUPLICATE_KEY,
    ENDLESS_ALIAS,
    INCLUDED_KEY,
    KEY_NOT_TEXT,
    MAX_ALIASED,
    MAX_DEPTH,
    MERGE_KEY,
    TAG,
    TOO_DEEP,
    TOO_MANY_ALIASED,
    UNKNOWN_ALIAS,
    YamlRule,
)
from odfbuild.values import dataclass

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"

MAX_DIGITS = 1_000
INCLUDE = "!include"

_CONSTANTS: dict[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **{sign + word: float("inf") for sign in ("", "+") for word in (".inf", ".Inf", ".INF")},
    **{"-" + word: float("-inf") for word in (".inf", ".Inf", ".INF")},
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_NUMERIC = frozenset("+-.0123456789")
_INT = re.compile(r"[-+]?[0-9]+", re.ASCII)
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_PROPERTY = re.compile(r"[&!]\S*\s*")


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file: its number from 0, its value, and where everything in it stands."""

    index: int
    value: Value
    places: PlaceFinder


class RefusedIncludeError(Exception):
    """A file cannot be taken in; the rule says why."""

    def __init__(self, rule: YamlRule) -> None:
        super().__init__(rule.what)
        self.rule = rule


class Include(Protocol):
    """Gives the file that a value is included from."""

    def __call__(self, path: str) -> SourceText:
        """Return a file by its path as written; RefusedIncludeError or ProjectErrors if not."""


def decode(data: bytes, file: str) -> str:
    """Return the text of a file, without its byte order mark; ProjectErrors if it is not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProjectErrors([not_text(data, file, error.start)]) from None


def read_documents(text: str, file: str) -> tuple[Document, ...]:
    """Return the documents of a file; ProjectErrors with everything that is wrong in it."""
    return read_source(SourceText(file, text))


def read_source(source: SourceText, include: Include | None = None) -> tuple[Document, ...]:
    """Return the documents of a text, as read_documents does.

    With `include`, the tag !include before a path stands for the text of that file.
    """
    reader = _ValueBuilder(source, include)
    try:
        reader.read()
    except _StopReading:
        pass
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        reader.found.append(syntax_problem(reader.source, error))
    if reader.found:
        raise ProjectErrors(reader.found)
    return tuple(reader.documents)


def resolve_plain(text: str) -> bool | int | float | str | None:
    """Return the value of a plain scalar ("YAML 1.2", 10.3.2 "Tag Resolution")."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _NUMERIC or len(text) > MAX_DIGITS:
        return text
    if _INT.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text):
        return int(text, 8)
    if _HEX.fullmatch(text):
        return int(text, 16)
    return float(text) if _FLOAT.fullmatch(text) else text


class _StopReading(Exception):
    """The rest of the file cannot be read; the reason is among the findings."""


class _BadKey:
    """Stands for a key that was refused, so that its value is read and dropped."""


_BAD_KEY = _BadKey()


class _Open:
    """A collection that is being read; `size` and `height` count what is in it, aliases too."""

    __slots__ = ("anchor", "height", "size", "spot")

    def __init__(self, spot: Spot, anchor: str | None) -> None:
        self.spot = spot
        self.anchor = anchor
        self.size = 1
        self.height = 1


class _OpenList(_Open):
    __slots__ = ("spots", "value")

    def __init__(self, spot: Spot, anchor: str | None) -> None:
        super().__init__(spot, anchor)
        self.value: list[Value] = []
        self.spots: list[Spot] = []
        spot.items = self.spots


class _OpenMapping(_Open):
    """`key` is the one whose value is awaited, None before a key."""

    __slots__ = ("key", "key_range", "spots", "value")

    def __init__(self, spot: Spot, anchor: str | None) -> None:
        super().__init__(spot, anchor)
        self.value: dict[str, Value] = {}
        self.spots: dict[str, tuple[int, int, Spot]] = {}
        spot.keys = self.spots
        self.key: str | _BadKey | None = None
        self.key_range = (0, 0)


@dataclass(frozen=True, slots=True)
class _Anchored:
    value: Value
    spot: Spot
    size: int
    height: int


class _ValueBuilder:
    """Builds values from parser events with a stack of its own: no input can exhaust Python's."""

    def __init__(self, source: SourceText, include: Include | None) -> None:
        self.source = source
        self.include = include
        self.documents: list[Document] = []
        self.found: list[Diagnostic] = []
        self.stack: list[_OpenList | _OpenMapping] = []
        self.anchors: dict[str, _Anchored | None] = {}
        self.aliased = 0

    def read(self) -> None:
        parser = parser_of(self.source.text)
        while (event := parser.get_event()) is not None:
            kind = type(event)
            if kind is ScalarEvent:
                self._scalar(event)
            elif kind is MappingStartEvent:
                self._open(event, _OpenMapping)
            elif kind is SequenceStartEvent:
                self._open(event, _OpenList)
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                self._close(event)
            elif kind is AliasEvent:
                self._alias(event)
            elif kind is DocumentStartEvent:
                self.anchors = {}

    def _scalar(self, event: Any) -> None:
        start, end = event.start_mark.index, event.end_mark.index
        included: SourceText | None = None
        if event.tag is not None or event.anchor is not None:
            allowed = None if self.include is None else INCLUDE
            start = min(self._behind_properties(start, allowed), end)
        value: Value = event.value
        if event.tag == INCLUDE and self.include is not None:
            if (holder := self._key_holder()) is not None:
                self._refuse_key(holder, INCLUDED_KEY, start, end)
                return
            included = self._included_file(self.include, event.value, start, end)
            value = None if included is None else included.text
        # a plain scalar has style '' in the C parser and None in the Python one
        elif not event.style:
            if value == "<<" and (holder := self._key_holder()) is not None:
                self._refuse_key(holder, MERGE_KEY, start, end)
                return
            value = resolve_plain(event.value)
        spot = Spot(start, end, included=included)
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchored(value, spot, 1, 1)
        self._put(value, spot, 1, 1)

    def _included_file(
        self, include: Include, path: str, start: int, end: int
    ) -> SourceText | None:
        """Return the file that a value is included from; None if it is refused."""
        try:
            return include(path)
        except RefusedIncludeError as refused:
            self._refuse(refused.rule, start, end)
        except ProjectErrors as errors:
            self.found += errors.found
        return None

    def _open(self, event: Any, kind: "type[_OpenList | _OpenMapping]") -> None:
        start = event.start_mark.index
        if len(self.stack) >= MAX_DEPTH:
            self._stop(TOO_DEEP, start, start + 1)
        if event.tag is not None or event.anchor is not None:
            start = self._behind_properties(start)
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        self.stack.append(kind(Spot(start, start + 1), event.anchor))

    def _close(self, event: Any) -> None:
        done = self.stack.pop()
        done.spot.end = max(done.spot.end, event.end_mark.index)
        holder = self._key_holder()
        if holder is not None:
            self._refuse_key(holder, COLLECTION_KEY, done.spot.start, done.spot.start + 1)
            return
        if done.anchor is not None:
            self.anchors[done.anchor] = _Anchored(done.value, done.spot, done.size, done.height)
        self._put(done.value, done.spot, done.size, done.height)

    def _alias(self, event: Any) -> None:
        start, end = event.start_mark.index, event.end_mark.index
        if (holder := self._key_holder()) is not None:
            self._refuse_key(holder, ALIAS_KEY, start, end)
            return
        if event.anchor not in self.anchors:
            self._refuse(UNKNOWN_ALIAS, start, end)
            self._put(None, Spot(start, end), 1, 1)
            return
        target = self.anchors[event.anchor]
        if target is None:
            self._stop(ENDLESS_ALIAS, start, end)
        self.aliased += target.size
        if self.aliased > MAX_ALIASED:
            self._stop(TOO_MANY_ALIASED, start, end)
        if len(self.stack) + target.height > MAX_DEPTH:
            self._stop(TOO_DEEP, start, end)
        self._put(target.value, target.spot, target.size, target.height)

    def _put(self, value: Value, spot: Spot, size: int, height: int) -> None:
        """Give a finished value to what holds it: as key, as a mapping's value, or as an item."""
        if not self.stack:
            self.documents.append(
                Document(len(self.documents), value, PlaceFinder(self.source, spot))
            )
            return
        holder = self.stack[-1]
        if isinstance(holder, _OpenList):
            holder.value.append(value)
            holder.spots.append(spot)
        elif holder.key is None:
            self._key(holder, value, spot)
            return
        else:
            if isinstance(holder.key, str):
                holder.value[holder.key] = value
                holder.spots[holder.key] = (*holder.key_range, spot)
            holder.key = None
        holder.size += size
        if height >= holder.height:
            holder.height = height + 1

    def _key(self, holder: _OpenMapping, key: Value, spot: Spot) -> None:
        if not isinstance(key, str):
            self._refuse_key(holder, KEY_NOT_TEXT, spot.start, spot.end)
        elif key in holder.value:
            self._refuse_key(holder, DUPLICATE_KEY, spot.start, spot.end)
        else:
            holder.key = key
            holder.key_range = (spot.start, spot.end)

    def _key_holder(self) -> _OpenMapping | None:
        """Return the mapping that the next value is a key of."""
        holder = self.stack[-1] if self.stack else None
        return holder if isinstance(holder, _OpenMapping) and holder.key is None else None

    def _behind_properties(self, start: int, allowed: str | None = None) -> int:
        """Return where the value behind its tag and anchor starts; other tags are refused."""
        at = start
        while self.source.text[at : at + 1] in ("&", "!"):
            found = _PROPERTY.match(self.source.text, at)
            if found is None:
                break
            if found[0][0] == "!" and found[0].rstrip() != allowed:
                self._refuse(TAG, at, at + len(found[0].rstrip()))
            at = found.end()
        return at

    def _refuse_key(self, holder: _OpenMapping, rule: YamlRule, start: int, end: int) -> None:
        self._refuse(rule, start, end)
        holder.key = _BAD_KEY

    def _refuse(self, rule: YamlRule, start: int, end: int) -> None:
        text = self.source.text[start:end].strip()
        self.found.append(
            Diagnostic(
                code=rule.code,
                what=rule.what.replace("{text}", text),
                why=rule.why,
                fix=rule.fix.replace("{text}", text),
                span=self.source.span(start, end),
            )
        )

    def _stop(self, rule: YamlRule, start: int, end: int) -> NoReturn:
        self._refuse(rule, start, end)
        raise _StopReading


def parser_of(text: str) -> Any:
    """Return a source of tokens or of events: libyaml's when PyYAML was built with it."""
    try:
        from yaml.cyaml import CParser  # type: ignore[attr-defined]
    except ImportError:
        return _PythonParser(text)
    return CParser(text)


class _PythonParser(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser):
    def __init__(self, text: str) -> None:
        yaml.reader.Reader.__init__(self, text)
        yaml.scanner.Scanner.__init__(self)
        yaml.parser.Parser.__init__(self)
