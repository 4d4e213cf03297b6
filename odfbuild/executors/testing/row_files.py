"""Files of rows that fixtures name: CSV with a header, NDJSON, Parquet."""

import csv
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.errors import Diagnostic, SourceSpan
from odfbuild.json_text import parse_json
from odfbuild.project.links import leads_out
from odfbuild.project.testing.model import Rows
from odfbuild.project.testing.rows import FileRow, Typed, from_file, written_out
from odfbuild.regular_files import open_regular, read_regular

__all__ = ["rows_in"]

_MOST_BYTES: Final = 64 << 20


def rows_in(root: Path, rows: Rows, into: Typed) -> list[dict[str, Any]]:
    """Return rows that are written out or stand in a file; what is wrong goes into `into.found`."""
    if rows.file is None:
        return written_out(rows, into)
    path = root / rows.file
    try:
        if leads_out(root, path):
            raise OSError("the file is not inside the project")
        if path.stat().st_size > _MOST_BYTES:
            raise OSError(f"it has more than {_MOST_BYTES:,} bytes")
        return from_file(rows.file, _read(path), into)
    except (OSError, ValueError, pa.ArrowException, csv.Error) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        into.found.append(_unreadable(rows.file, said, rows.span))
        return []


def _read(path: Path) -> Iterator[FileRow]:
    name = path.name.lower()
    if name.endswith(".csv"):
        return _csv(path)
    return _parquet(path) if name.endswith(".parquet") else _ndjson(path)


def _csv(path: Path) -> Iterator[FileRow]:
    with _opened(path, newline="") as file:
        reader = csv.DictReader(file, strict=True)
        for row in reader:
            if None in row or None in row.values():
                raise ValueError(f"line {reader.line_num} has not as many values as the header")
            yield FileRow(reader.line_num, row, is_text=True)


def _ndjson(path: Path) -> Iterator[FileRow]:
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                row = parse_json(line)
                if not isinstance(row, dict):
                    raise ValueError(f"line {number} is not an object")
                yield FileRow(number, row)


def _opened(path: Path, newline: str | None = None) -> TextIOWrapper:
    return TextIOWrapper(open_regular(path), "utf-8-sig", newline=newline)


def _parquet(path: Path) -> Iterator[FileRow]:
    for row in pq.read_table(pa.BufferReader(read_regular(path))).to_pylist():
        yield FileRow(1, {name: _plain(value) for name, value in row.items()})


def _plain(value: Any) -> Any:
    """Return a value as a fixture would have it written out."""
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes():
            import base64

            return base64.b64encode(value).decode()
        case list():
            return [_plain(each) for each in value]
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case _:
            return value


def _unreadable(file: str, said: str, span: SourceSpan) -> Diagnostic:
    return Diagnostic(
        code="unreadable-file",
        what=f"the file {file} cannot be read: {said}",
        why="its rows are part of the fixture",
        fix="check its name, which is relative to the fixture, and what is in it",
        span=span,
    )
