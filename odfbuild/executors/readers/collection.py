"""Find the features in a file: those of one collection, or one a line."""

import codecs
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from odfbuild.executors.readers.features import NotAFeatureError, read_feature
from odfbuild.executors.readers.json_stream import JsonStream, NotJsonError
from odfbuild.executors.readers.problems import InvalidSourceError
from odfbuild.executors.readers.records import shown
from odfbuild.executors.readers.text import utf8_blocks
from odfbuild.regular_files import open_regular

__all__ = ["Found", "collected", "features_by_line"]

_LONGEST_LINE: Final = 256 << 20
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A feature: its line, its size in characters, and its record or why there is none.

    `text` is what stands in the file, empty unless it was asked for.
    """

    line: int
    size: int
    text: bytes = b""
    record: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None


def collected(
    path: Path, name: str, *, keep: bool = False, with_id: bool = False
) -> Iterator[Found]:
    """Yield the features of a FeatureCollection, whatever the order of its members.

    An empty file has none.  `keep` asks for their texts, `with_id` for their ids.  Raises
    InvalidSourceError for what is no collection.
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
            fix="correct the file; one feature a line is `kind: NdGeoJson`",
        ) from None


def features_by_line(
    path: Path, name: str, *, keep: bool = False, with_id: bool = False
) -> Iterator[Found]:
    """Yield the feature of each line that is not blank, asked for as by `collected`.

    Raises InvalidSourceError for what is plainly no text.
    """
    for number, line in _lines(path, name):
        if line.strip():
            found = _of_line(number, line, with_id)
            yield replace(found, text=line.removesuffix(b"\r")) if keep else found


def _collection(stream: JsonStream, name: str, keep: bool, with_id: bool) -> Iterator[Found]:
    """Yield the features of the object that is next, and check that it is a collection."""
    if stream.peek() != "{":
        raise _astray(f"{name}:{stream.line}: {shown(stream.value())} is not an object")
    lacking = {"type", "features"}
    for key in stream.members():
        if key == "features" and key in lacking:
            yield from _elements(stream, name, keep, with_id)
        else:
            line, value = stream.line, stream.value()
            if key == "type" and value != "FeatureCollection":
                raise _astray(f"{name}:{line}: `type` is {shown(value)}, not 'FeatureCollection'")
        lacking.discard(key)
    if lacking:
        raise _astray(f"{name}: the document has no `{max(lacking)}`")


def _elements(stream: JsonStream, name: str, keep: bool, with_id: bool) -> Iterator[Found]:
    if stream.peek() != "[":
        raise _astray(f"{name}:{stream.line}: `features` is not an array")
    for _ in stream.elements():
        line, start = stream.line, stream.consumed
        found = _feature(stream, line, with_id)
        yield replace(found, text=stream.since(start).encode()) if keep else found
        stream.forget()


def _feature(stream: JsonStream, line: int, with_id: bool) -> Found:
    start = stream.consumed
    try:
        record = read_feature(stream, with_id=with_id)
    except NotAFeatureError as error:
        return Found(line=line, size=stream.consumed - start, problem=str(error))
    return Found(line=line, size=stream.consumed - start, record=record)


def _of_line(number: int, line: bytes, with_id: bool) -> Found:
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
    return Found(line=number, size=len(line), problem=problem)


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
            fix="GeoJSON is UTF-8 (RFC 7946); write the file anew in it",
        ) from None


def _lines(path: Path, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with their numbers, from 1."""
    number, size = 1, 0
    held: list[bytes] = []
    for block in _blocks(path, name):
        first, *others = block.split(b"\n")
        held.append(first)
        size += len(first)
        if size > _LONGEST_LINE:
            raise _astray(f"{name}:{number}: a line of more than {_LONGEST_LINE >> 20} MiB")
        for line in others:
            yield number, b"".join(held)
            held, size = [line], len(line)
            number += 1
    yield number, b"".join(held)


def _blocks(path: Path, name: str) -> Iterator[bytes]:
    with open_regular(path) as source:
        is_utf_16 = source.read(2) in _UTF_16
    if is_utf_16:
        raise InvalidSourceError(
            what=f"{name} is UTF-16, not UTF-8",
            why="it begins with the byte order mark of UTF-16",
            fix="GeoJSON is UTF-8 (RFC 7946); write the file anew in it",
        )
    return utf8_blocks(path, "utf-8", name)


def _astray(what: str) -> InvalidSourceError:
    return InvalidSourceError(
        what=what,
        why="GeoJson is one FeatureCollection (ODF 0.34.1), NdGeoJson one Feature a line",
        fix="choose the `kind` of the file; records of another form are `kind: Json` or NdJson",
    )
