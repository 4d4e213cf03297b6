"""One JSON document into typed columns (ODF 0.34.1, "ReadStep::Json").

`subPath` is a path of keys, `a.b.c`, to an array of objects; without it the document is that
array.  The text is read into memory completely, its records a few thousand at a time.
"""

import json
import re
from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.ingest.read.json_records import (
    DECODER,
    build,
    check_buildable,
    infer_schema,
    not_an_object,
    sieve,
)
from odfbuild.executors.ingest.read.notes import BadRowFile, ReadNotes, drift_of
from odfbuild.executors.ingest.read.options import LARGE, collected, empty, formats_of
from odfbuild.executors.ingest.read.problems import (
    TWICE,
    InvalidSourceError,
    Rejected,
    UnsupportedReadError,
)
from odfbuild.executors.ingest.read.text import check_encoding, utf8_blocks
from odfbuild.executors.ingest.read.values import Formats
from odfbuild.odf.events import ReadStepJson
from odfbuild.odf.schema.arrow import declared_schema
from odfbuild.values import dataclass

_SAMPLE: Final = 1000
_TOGETHER: Final = 1 << 13
_LARGEST: Final = 512 << 20
_BLANK: Final = re.compile(r"[ \t\r\n]*")

_Item: TypeAlias = tuple[int, Any]
"""The position in the text of an element of the array, and its value."""


def read_json(
    step: ReadStepJson, path: Path, *, staging: Path, name: str, notes: ReadNotes
) -> Frame | None:
    """Return one row per element; None if there is no element and no schema.

    Raises InvalidSourceError with lines and columns, UnsupportedReadError for options.
    """
    encoding = check_encoding(step.encoding)
    schema = declared_schema(step)
    if schema is not None:
        check_buildable(schema)
    document = _Document(_text(path, encoding, name), name, lenient=notes.bad_rows is not None)
    if not document.text.strip():
        return None if schema is None else empty(schema)
    keys = step.sub_path.split(".") if step.sub_path else []
    first = [record for _, record in islice(document.records(keys), _SAMPLE)]
    first = [record for record in first if isinstance(record, dict)]
    if schema is None:
        schema = infer_schema(first)
        if not len(schema):
            return None
    else:
        notes.drift = drift_of(first, schema)
    reader = _DocumentReader(document, schema, formats_of(step), notes.bad_rows)
    if len(document.text) > LARGE:
        return collected(reader.tables(keys), schema, staging, notes.held)
    made = list(reader.tables(keys))
    return Frame.of(pa.concat_tables(made)) if made else empty(schema)


def json_record_lines(step: ReadStepJson, path: Path, name: str) -> Iterator[int]:
    """Yield the line, from 1, on which each element begins that is a record."""
    document = _Document(_text(path, check_encoding(step.encoding), name), name, lenient=True)
    keys = step.sub_path.split(".") if step.sub_path else []
    items = document.records(keys) if document.text.strip() else iter(())
    return (document.line(at) for at, _ in items)


def _text(path: Path, encoding: str, name: str) -> str:
    size = path.stat().st_size
    if size > _LARGEST:
        raise UnsupportedReadError(
            what=f"{name} is one JSON document of {size >> 20} MiB",
            why=f"a document is read as a whole, and {_LARGEST >> 20} MiB are the limit",
            fix="use newline-delimited JSON, which is read piece by piece (`kind: NdJson`)",
        )
    data = b"".join(utf8_blocks(path, encoding, name)) if size else b""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidSourceError(
            what=f"{name}:{line}: bytes that are not UTF-8",
            why=str(error),
            fix="set `encoding` in `read`",
        ) from None


@dataclass(frozen=True, slots=True)
class _DocumentReader:
    """Makes tables of the records of a document."""

    document: "_Document"
    schema: pa.Schema
    formats: Formats
    bad_rows: BadRowFile | None

    def tables(self, keys: list[str]) -> Iterator[pa.Table]:
        """Yield the rows, some thousand at a time."""
        items = self.document.records(keys)
        while some := list(islice(items, _TOGETHER)):
            yield (
                self._table(some)
                if self.bad_rows is None
                else self._sieved_table(some, self.bad_rows)
            )

    def _table(self, items: Sequence[_Item]) -> pa.Table:
        try:
            return self._built(items)
        except Rejected as rejected:
            document = self.document
            raise rejected.at_lines(document.name, lambda r: document.line(items[r][0])) from None

    def _sieved_table(self, items: Sequence[_Item], bad_rows: BadRowFile) -> pa.Table:
        bad = {
            row: [not_an_object(value)]
            for row, (_, value) in enumerate(items)
            if not isinstance(value, dict)
        }
        rest = [row for row in range(len(items)) if row not in bad]
        table, misfits = sieve([items[row][1] for row in rest], self.schema, self.formats)
        bad |= {rest[at]: list(reasons) for at, reasons in misfits.items()}
        for row, reasons in sorted(bad.items()):
            at = items[row][0]
            bad_rows.put(self.document.line(at), reasons, self.document.element(at).encode())
        return table

    def _built(self, items: Sequence[_Item]) -> pa.Table:
        return build([record for _, record in items], self.schema, self.formats)


class _Document:
    """A parser of a document, from left to right; parts that are not read are only checked."""

    def __init__(self, text: str, name: str, *, lenient: bool) -> None:
        self.text = text
        self.name = name
        self._lenient = lenient
        self._counted = (0, 1)  # a position and its line

    def line(self, position: int) -> int:
        """Return the line, from 1, of a position in the text."""
        at, line = self._counted if self._counted[0] <= position else (0, 1)
        self._counted = (position, line + self.text.count("\n", at, position))
        return self._counted[1]

    def element(self, at: int) -> str:
        """Return the text of the value at a position."""
        return self.text[at : DECODER.raw_decode(self.text, at)[1]]

    def records(self, keys: list[str]) -> Iterator[_Item]:
        """Yield the objects of the array that the keys lead to, each with its position.

        A lenient document also yields other elements.
        """
        try:
            end = yield from self._below(self._skip(0), keys, 0)
        except json.JSONDecodeError as error:
            raise self._broken(error.pos, error.msg) from None
        except RecursionError:
            raise self._broken(0, "nested too deeply") from None
        rest = self._skip(end)
        if rest < len(self.text):
            raise self._broken(rest, "text after the end of the document")

    def _below(self, at: int, keys: list[str], depth: int) -> Generator[_Item, None, int]:
        """Yield the elements below a value; return where the value ends."""
        if depth == len(keys):
            return (yield from self._elements(at, keys))
        if self.text[at : at + 1] != "{":
            raise self._wrong_path(at, keys, depth, "is not an object")
        found = False
        at = self._skip(at + 1)
        while self.text[at : at + 1] != "}":
            if self.text[at : at + 1] != '"':
                raise self._broken(at, "a key in double quotes expected")
            key, at = self._value(at)
            at = self._after(at, ":")
            if key == keys[depth]:
                if found:
                    raise self._wrong_path(at, keys, depth + 1, TWICE)
                found = True
                at = self._skip((yield from self._below(at, keys, depth + 1)))
            else:
                _, at = self._value(at)
            at = self._next(at, "}")
        if not found:
            raise self._wrong_path(at, keys, depth + 1, "does not exist")
        return at + 1

    def _elements(self, at: int, keys: list[str]) -> Generator[_Item, None, int]:
        if self.text[at : at + 1] != "[":
            raise self._wrong_path(at, keys, len(keys), "is not an array")
        at = self._skip(at + 1)
        while self.text[at : at + 1] != "]":
            value, end = self._value(at)
            if not isinstance(value, dict) and not self._lenient:
                raise InvalidSourceError(
                    what=f"{self.name}:{self.line(at)}: {not_an_object(value)}",
                    why="each element of the array is one record",
                    fix="correct `subPath`, or make objects of the elements",
                )
            yield at, value
            at = self._next(self._skip(end), "]")
        return at + 1

    def _value(self, at: int) -> tuple[Any, int]:
        """Return the value at a position and the next position that is not blank."""
        value, end = DECODER.raw_decode(self.text, at)
        return value, self._skip(end)

    def _next(self, at: int, closing: str) -> int:
        """Step over a comma to the next member, or stay at the closing bracket."""
        if self.text[at : at + 1] == closing:
            return at
        at = self._after(at, ",")
        if self.text[at : at + 1] == closing:
            raise self._broken(at, "a comma before the end")
        return at

    def _after(self, at: int, sign: str) -> int:
        if self.text[at : at + 1] != sign:
            raise self._broken(at, f"'{sign}' expected")
        return self._skip(at + 1)

    def _skip(self, at: int) -> int:
        blank = _BLANK.match(self.text, at)
        return at if blank is None else blank.end()

    def _broken(self, at: int, why: str) -> InvalidSourceError:
        column = at - (self.text.rfind("\n", 0, at) + 1) + 1
        is_cut = at >= len(self.text.rstrip())
        return InvalidSourceError(
            what=f"{self.name}:{self.line(at)}: not JSON at character {column}",
            why="the document ends too early" if is_cut else why,
            fix="correct the file; one object per line is `kind: NdJson`",
        )

    def _wrong_path(self, at: int, keys: list[str], depth: int, why: str) -> InvalidSourceError:
        path = ".".join(keys[:depth]) or "the document"
        return InvalidSourceError(
            what=f"{self.name}:{self.line(at)}: {path} {why}",
            why="`subPath` leads to an array of objects"
            if keys
            else "without `subPath` the document is an array of objects",
            fix="correct `subPath`" if keys else "set `subPath` to the keys of the array: a.b.c",
        )
