"""Samples of CSV: a guess of separator, header, nulls, types."""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from odfbuild.executors.ingest.read.values import Formats, infer
from odfbuild.executors.ingest.sample.model import Sample, SampledColumn, UnsampledError

_ROWS: Final = 20_000
_START: Final = 65_536
_SEPARATORS: Final = (",", ";", "\t", "|")
_NULLS: Final = ("\\N", "NA", "N/A", "NULL", "null", "None", "nan", "NaN", "-", "?")
_DATES: Final = ("%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y")
_PLAIN: Final = Formats()

_Cells = Sequence[str | None]


def sample_csv(data: bytes, name: str, *, whole: bool) -> Sample:
    """Return what the records show; a last one that is cut off is left out."""
    text, encoding = _decode(data, name, whole=whole)
    separator = _separator(text, name)
    records = _records(text, separator, whole=whole)
    if not records:
        raise UnsampledError(
            what=f"{name} holds no records",
            why="types and key are guessed from them",
            fix="name a file that has some",
        )
    header = _has_header(records)
    width = len(records[0])
    body = [record for record in records[header:] if len(record) == width]
    first = records[0] if header else [""] * width
    names = _names(first)
    cells = [[record[at] or None for record in body] for at in range(width)]
    columns, found = columns_of(names, cells)
    options: dict[str, Any] = {"kind": "Csv"}
    options |= {"separator": separator} if separator != "," else {}
    options |= {"encoding": encoding} if encoding else {}
    options |= {"header": True} if header else {}
    options |= found
    return Sample(
        read=options,
        columns=columns,
        rows=len(body),
        notes=tuple(
            _notes(
                header=first if header else None,
                ragged=len(records) - header - len(body),
                form=found.get("dateFormat"),
            )
        ),
    )


def columns_of(
    names: Sequence[str], cells: Sequence[_Cells], null: str | None = None
) -> tuple[tuple[SampledColumn, ...], dict[str, Any]]:
    """Return columns of cells with their types, and the options of `read` that these need.

    `null` is a text that is known to stand for null.
    """
    null = _null(cells) if null is None else null
    cells = [[None if cell == null else cell for cell in column] for column in cells]
    form = _date_format(cells)
    formats = Formats(date=form)
    columns = tuple(
        SampledColumn(name=each, type=_type(column, formats), values=column)
        for each, column in zip(names, cells, strict=True)
    )
    options = {"nullValue": null} if null is not None else {}
    return columns, options | ({"dateFormat": form} if form is not None else {})


def _decode(data: bytes, name: str, *, whole: bool) -> tuple[str, str | None]:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data[: len(data) // 2 * 2].decode("utf-16", "replace"), "utf-16"
    if b"\0" in data[:4096]:
        raise UnsampledError(
            what=f"{name} is no text",
            why="it holds bytes that no text has",
            fix="name a CSV, TSV, JSON, NDJSON, GeoJSON or Parquet file",
        )
    try:
        return data.decode("utf-8-sig"), None
    except UnicodeDecodeError as error:
        if not whole and error.start > len(data) - 4:
            return data[: error.start].decode("utf-8-sig"), None
        return data.decode("cp1252", "replace"), "cp1252"


def _records(text: str, separator: str, *, whole: bool, most: int = _ROWS) -> list[list[str]]:
    try:
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        found = [record for record in islice(lines, most + 1) if record]
    except csv.Error:
        return []
    return found[:most] if whole or len(found) > most else found[:-1] or found


def _separator(text: str, name: str) -> str:
    """Return the separator by which most records have the same number of fields, and several."""
    if name.lower().endswith(".tsv"):
        return "\t"
    best, most = ",", (0.5, 1)
    for separator in _SEPARATORS:
        if len(text) <= _START and not _closes(text, separator):
            continue
        widths = Counter(map(len, _records(text[:_START], separator, whole=True, most=200)))
        for width, count in widths.most_common(1):
            shared = (count / widths.total(), width)
            if width > 1 and shared > most:
                best, most = separator, shared
    return best


def _closes(text: str, separator: str) -> bool:
    """Tell whether all quotes are closed, if fields end at this separator."""
    try:
        return bool(
            list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
        )
    except csv.Error:
        return False


def _has_header(records: Sequence[Sequence[str]]) -> bool:
    """Tell whether the first record names columns, none of them as a number or a time.

    When all columns are texts, they must also be all named, differently, and as names are written.
    """
    first = [cell.strip() for cell in records[0]]
    if len(records) == 1 or not any(first):
        return False
    if any(cell and _type([cell], _PLAIN) != pa.string() for cell in first):
        return False
    below = [[record[at] or None for record in records[1:] if at < len(record)]
             for at in range(len(first))]  # fmt: skip
    typed = any(_type(column, _PLAIN) != pa.string() for column in below if any(column))
    if typed:
        return True
    named = all(cell.replace("_", "a").isidentifier() and cell.islower() for cell in first)
    return named and len(set(first)) == len(first)


def _names(header: Sequence[str]) -> list[str]:
    """Return names for columns; those that share a name get their positions, by which they bind."""
    cells = [cell.strip() for cell in header]
    names: list[str] = []
    for at, cell in enumerate(cells, 1):
        name = f"{cell}_{at}" if cells.count(cell) > 1 else cell
        name = name if cell else f"column_{at}"
        names.append(f"{name}_{at}" if name in names else name)
    return names


def _type(column: _Cells, formats: Formats) -> Any:
    """Return the type of some cells; codes with zeros in front and very long digits are texts."""
    known = [cell.strip() for cell in column if cell is not None]
    if any(_is_code(cell) for cell in known):
        return pa.string()
    return infer(pa.array(column, pa.string()), formats)


def _is_code(cell: str) -> bool:
    digits = cell.lstrip("+-")
    return digits.isdecimal() and ((len(digits) > 1 and digits[0] == "0") or len(digits) > 18)


def _null(columns: Sequence[_Cells]) -> str | None:
    """Return the text that stands for null, if leaving it out gives some column a better type."""
    texts = [column for column in columns if _type(column, _PLAIN) == pa.string()]
    for null in _NULLS:
        for column in texts:
            rest = [cell for cell in column if cell != null]
            if len(rest) < len(column) and any(rest) and _type(rest, _PLAIN) != pa.string():
                return null
    return None


def _date_format(columns: Sequence[_Cells]) -> str | None:
    """Return the form of dates that are not written as YYYY-MM-DD, if all dates have that form."""
    if any(_type(column, _PLAIN) == pa.date32() for column in columns):
        return None
    texts = [column for column in columns if any(column) and _type(column, _PLAIN) == pa.string()]
    for form in _DATES:
        if any(_type(column, Formats(date=form)) == pa.date32() for column in texts):
            return form
    return None


def _notes(*, header: Sequence[str] | None, ragged: int, form: str | None) -> list[str]:
    notes = []
    if header is None:
        notes.append("the file has no header: give the columns better names")
    else:
        cells = [cell.strip() for cell in header]
        if twice := sorted({cell for cell in cells if cell and cells.count(cell) > 1}):
            notes.append(f"several columns are called {', '.join(twice)}: give each a better name")
        if "" in cells:
            notes.append("the header leaves a column without a name: give it a better one")
    if ragged:
        notes.append(f"{ragged} of its records have another number of fields and will be refused")
    if form in ("%d/%m/%Y", "%m/%d/%Y"):
        notes.append(f"dates are taken as {form}")
    return notes
