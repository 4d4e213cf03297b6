"""Features of GeoJSON: properties, and the geometry as text (RFC 7946).

The column `geometry` is the geometry; it replaces a property of that name, as in the reference.
The `id` of a feature is in its record if requested and no property has that name.  `bbox` and
foreign members are left out.
"""

import codecs
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

from odfbuild.executors.ingest.read.geo.geometry import GEOMETRY, geometry_text, repeated_key
from odfbuild.executors.ingest.read.json_records import DECODER, RepeatedMembers, shown
from odfbuild.executors.ingest.read.problems import TWICE, InvalidSourceError, quoted
from odfbuild.executors.ingest.read.text import utf8_blocks
from odfbuild.host.files import open_regular
from odfbuild.values import dataclass

_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_TOKEN: Final = 16  # a name, escape or number that is cut off is cut within so many characters
_LARGEST: Final = 256 << 20
_KEPT: Final = 1 << 16


class NotJsonError(ValueError):
    """A text is not JSON, or has too large a value, at a line and character, both from 1."""

    def __init__(self, line: int, character: int, why: str) -> None:
        super().__init__(why)
        self.line = line
        self.character = character
        self.why = why


class JsonStream:
    """A parser of a text that comes in pieces.

    Each method first skips blanks.  Raises NotJsonError.
    """

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self._text = ""
        self._at = 0
        self._discarded = 0
        self._counted = 0  # lines are counted up to here; the current one, and where it begins
        self._line = 1
        self._line_start = 0

    @property
    def consumed(self) -> int:
        """The number of characters read."""
        return self._discarded + self._at

    def text_from(self, start: int) -> str:
        """Return the text read from a position on, in characters, that was not discarded."""
        return self._text[start - self._discarded : self._at]

    @property
    def line(self) -> int:
        """The line, from 1, of the next character that is not blank."""
        self.peek()
        self._count(self._at)
        return self._line

    def peek(self) -> str:
        """Return the next character that is not blank; an empty text at the end."""
        while True:
            blanks = _BLANKS.match(self._text, self._at)
            self._at = self._at if blanks is None else blanks.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def members(self) -> Iterator[str]:
        """Yield the keys of an object; the caller reads the value of each before the next."""
        self._expect("{")
        if self._accept("}"):
            return
        while True:
            if self.peek() != '"':
                raise self.broken("a key in double quotes expected")
            key = self.value()
            self._expect(":")
            yield key
            if self._accept("}"):
                return
            self._expect(",")

    def elements(self) -> Iterator[None]:
        """Yield before each element of an array; the caller reads it before the next."""
        self._expect("[")
        if self._accept("]"):
            return
        while True:
            yield
            if self._accept("]"):
                return
            self._expect(",")
            if self.peek() == "]":
                raise self.broken("a comma before the end")

    def value(self, decoder: json.JSONDecoder = DECODER) -> Any:
        """Return the next value."""
        self.peek()
        while True:
            try:
                found, end = decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if not (self._is_cut(error) and self._more()):
                    raise self.broken(error.msg, error.pos) from None
            except RecursionError:
                raise self.broken("nested too deeply") from None
            else:
                if end + _TOKEN < len(self._text) or not self._more():
                    self._at = end
                    return found

    def discard(self) -> None:
        """Discard the text that was read."""
        if self._at < _KEPT:
            return
        self._count(self._at)
        self._text = self._text[self._at :]
        self._discarded += self._at
        self._line_start -= self._at
        self._at = self._counted = 0

    def finish(self) -> None:
        """Check that nothing follows."""
        if self.peek():
            raise self.broken("text after the end of the document")

    def broken(self, why: str, at: int | None = None) -> NotJsonError:
        """Return the error of a text that is not JSON at a position, by default the current one."""
        place = self._at if at is None else at
        self._count(place)
        is_cut = place >= len(self._text.rstrip(" \t\r\n"))
        reason = "the document ends too early" if is_cut else why
        return NotJsonError(self._line, place - self._line_start + 1, reason)

    def _accept(self, sign: str) -> bool:
        """Consume a character if it is next; return whether it was."""
        is_next = self.peek() == sign
        self._at += is_next
        return is_next

    def _expect(self, sign: str) -> None:
        if not self._accept(sign):
            raise self.broken(f"'{sign}' expected")

    def _is_cut(self, error: json.JSONDecodeError) -> bool:
        near_end = error.pos + _TOKEN >= len(self._text)
        return near_end or error.msg.startswith("Unterminated")

    def _more(self) -> bool:
        """Append as much text as is buffered, so that no value is parsed many times."""
        wanted = len(self._text) - self._at
        if wanted > _LARGEST:
            raise self.broken(f"a value of more than {_LARGEST >> 20} MiB is not read")
        found = []
        while wanted >= 0 and (piece := next(self._pieces, "")):
            found.append(piece)
            wanted -= len(piece)
        self._text += "".join(found)
        return bool(found)

    def _count(self, at: int) -> None:
        """Count the lines up to a position, which is not before the last one counted."""
        lines = self._text.count("\n", self._counted, at)
        if lines:
            self._line_start = self._text.rfind("\n", self._counted, at) + 1
        self._line += lines
        self._counted = at


GEOMETRY_COLUMN: Final = "geometry"
ID_COLUMN: Final = "id"


class NotAFeatureError(ValueError):
    """A JSON value that is not a feature; the text says why."""


def read_feature(stream: JsonStream, *, with_id: bool = False) -> dict[str, Any]:
    """Return the record of the next feature; an invalid one is read to its end.

    Raises NotAFeatureError, and NotJsonError.
    """
    if stream.peek() != "{":
        raise NotAFeatureError(f"{shown(stream.value())} is not a feature")
    members, twice = dict[str, Any](), set[str]()
    for key in stream.members():
        twice |= {key} & members.keys()
        members[key] = _geometry(stream) if key == "geometry" else stream.value()
    for key in ("type", "properties", "geometry", *([ID_COLUMN] if with_id else [])):
        if key in twice:
            raise NotAFeatureError(f"`{key}` {TWICE}")
    return _record(members, with_id=with_id)


def _geometry(stream: JsonStream) -> Any:
    try:
        return stream.value(GEOMETRY)
    except NotJsonError:
        raise
    except ValueError as error:
        raise stream.broken(str(error)) from None


def _record(members: dict[str, Any], *, with_id: bool) -> dict[str, Any]:
    if members.get("type") != "Feature":
        found = f"is {shown(members['type'])}" if "type" in members else "is missing"
        raise NotAFeatureError(f"`type` {found}, not 'Feature'")
    for name in ("properties", "geometry"):
        if name not in members:
            raise NotAFeatureError(f"the feature has no `{name}`")
        if not isinstance(members[name], dict | None):
            raise NotAFeatureError(f"`{name}` is not an object")
    properties = members["properties"] or {}
    named = {ID_COLUMN: members[ID_COLUMN]} if with_id and ID_COLUMN in members else {}
    record = {**named, **properties, GEOMETRY_COLUMN: _text(members["geometry"])}
    if isinstance(properties, RepeatedMembers):
        return RepeatedMembers(record, properties.twice - {GEOMETRY_COLUMN})
    return record


def _text(geometry: Any) -> str | None:
    if geometry is None:
        return None
    try:
        twice, text = repeated_key(geometry), geometry_text(geometry)
    except ValueError:
        raise NotAFeatureError("`geometry` has a number beyond the range of numbers") from None
    except RecursionError:
        raise NotAFeatureError("`geometry` is nested too deeply") from None
    if twice is not None:
        raise NotAFeatureError(f"in `geometry` the key {quoted(twice)} {TWICE}")
    return text


_LONGEST_LINE: Final = 256 << 20
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRecord:
    """A feature: its line, its size in characters, and its record, or the problem of it.

    `text` is its text in the file, empty unless requested.
    """

    line: int
    size: int
    text: bytes = b""
    record: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None


def collection_features(
    path: Path, name: str, *, keep: bool = False, with_id: bool = False
) -> Iterator[FeatureRecord]:
    """Yield the features of a FeatureCollection, whatever the order of its members.

    An empty file has none.  `keep` adds their texts, `with_id` their ids.  Raises
    InvalidSourceError for other documents.
    """
    stream = JsonStream(_texts(path, name))
    try:
        if stream.peek():
            yield from _collection(stream, name, keep, with_id)
            stream.finish()
    except NotJsonError as error:
        raise InvalidSourceError(
            what=f"{name}:{error.line}: not JSON at character {error.character}",
            why=error.why,
            fix="correct the file; one feature per line is `kind: NdGeoJson`",
        ) from None


def features_by_line(
    path: Path, name: str, *, keep: bool = False, with_id: bool = False
) -> Iterator[FeatureRecord]:
    """Yield the feature of each line that is not blank, with options as `collection_features`.

    Raises InvalidSourceError for a file that is evidently not text.
    """
    for number, line in _lines(path, name):
        if line.strip():
            found = _of_line(number, line, with_id)
            yield replace(found, text=line.removesuffix(b"\r")) if keep else found


def _collection(
    stream: JsonStream, name: str, keep: bool, with_id: bool
) -> Iterator[FeatureRecord]:
    """Yield the features of the next object, and check that it is a collection."""
    if stream.peek() != "{":
        raise _wrong_form(f"{name}:{stream.line}: {shown(stream.value())} is not an object")
    lacking = {"type", "features"}
    for key in stream.members():
        if key in {"type", "features"} - lacking:
            raise _wrong_form(f"{name}:{stream.line}: `{key}` {TWICE}")
        if key == "features" and key in lacking:
            yield from _elements(stream, name, keep, with_id)
        else:
            line, value = stream.line, stream.value()
            if key == "type" and value != "FeatureCollection":
                raise _wrong_form(
                    f"{name}:{line}: `type` is {shown(value)}, not 'FeatureCollection'"
                )
        lacking.discard(key)
    if lacking:
        raise _wrong_form(f"{name}: the document has no `{max(lacking)}`")


def _elements(stream: JsonStream, name: str, keep: bool, with_id: bool) -> Iterator[FeatureRecord]:
    if stream.peek() != "[":
        raise _wrong_form(f"{name}:{stream.line}: `features` is not an array")
    for _ in stream.elements():
        line, start = stream.line, stream.consumed
        found = _feature(stream, line, with_id)
        yield replace(found, text=stream.text_from(start).encode()) if keep else found
        stream.discard()


def _feature(stream: JsonStream, line: int, with_id: bool) -> FeatureRecord:
    start = stream.consumed
    try:
        record = read_feature(stream, with_id=with_id)
    except NotAFeatureError as error:
        return FeatureRecord(line=line, size=stream.consumed - start, problem=str(error))
    return FeatureRecord(line=line, size=stream.consumed - start, record=record)


def _of_line(number: int, line: bytes, with_id: bool) -> FeatureRecord:
    try:
        stream = JsonStream(iter([line.decode()]))
        found = _feature(stream, number, with_id)
        stream.finish()
    except UnicodeDecodeError as error:
        problem = f"byte {error.start + 1} is not UTF-8"
    except NotJsonError as error:
        problem = f"not JSON at character {error.character}: {error.why}"
    else:
        return found
    return FeatureRecord(line=number, size=len(line), problem=problem)


def _texts(path: Path, name: str) -> Iterator[str]:
    """Yield the text of a file in pieces, none of them empty."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    try:
        for block in _blocks(path, name):
            text = decoder.decode(block)
            line += text.count("\n")
            if text:
                yield text
        decoder.decode(b"", True)
    except UnicodeDecodeError as error:
        raise InvalidSourceError(
            what=f"{name}: after line {line} there are bytes that are not UTF-8",
            why=error.reason,
            fix="GeoJSON is UTF-8 (RFC 7946); write the file again in it",
        ) from None


def _lines(path: Path, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with their numbers, from 1."""
    number, size = 1, 0
    buffered: list[bytes] = []
    for block in _blocks(path, name):
        first, *others = block.split(b"\n")
        buffered.append(first)
        size += len(first)
        if size > _LONGEST_LINE:
            raise _wrong_form(f"{name}:{number}: a line of more than {_LONGEST_LINE >> 20} MiB")
        for line in others:
            yield number, b"".join(buffered)
            buffered, size = [line], len(line)
            number += 1
    yield number, b"".join(buffered)


def _blocks(path: Path, name: str) -> Iterator[bytes]:
    with open_regular(path) as source:
        is_utf_16 = source.read(2) in _UTF_16
    if is_utf_16:
        raise InvalidSourceError(
            what=f"{name} is UTF-16, not UTF-8",
            why="it begins with the byte order mark of UTF-16",
            fix="GeoJSON is UTF-8 (RFC 7946); write the file again in it",
        )
    return utf8_blocks(path, "utf-8", name)


def _wrong_form(what: str) -> InvalidSourceError:
    return InvalidSourceError(
        what=what,
        why="GeoJson is one FeatureCollection (ODF 0.34.1), NdGeoJson one Feature per line",
        fix="set the `kind` that fits the file; records of another form are `kind: Json` or NdJson",
    )
