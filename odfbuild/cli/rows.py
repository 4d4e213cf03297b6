"""Rows of a dataset: the last ones by offset, as a table, JSON, NDJSON or CSV."""

import json
import math
import re
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TextIO

from odfbuild.cli.printable import printable, printable_json
from odfbuild.state.dataset import Dataset

__all__ = ["Rows", "last_rows", "write_rows"]

_PLAIN_CELL = re.compile(r'[^",\r\n]*')

Rows = tuple[Sequence[str], Sequence[Sequence[Any]]]


def last_rows(dataset: Dataset, limit: int) -> Rows:
    """Return column names and the last `limit` rows, oldest first, from as few slices as do."""
    from odfbuild.executors.slices import read_slices
    from odfbuild.odf.chain_schema import schema_of

    state = dataset.state()
    if state is None or state.schema is None:
        return (), ()
    paths: list[Path] = []
    missing = limit
    for piece, path in reversed(dataset.slices()):
        paths.insert(0, path)
        missing -= piece.offset_interval.end - piece.offset_interval.start + 1
        if missing <= 0:
            break
    table = read_slices(paths, schema=schema_of(state.schema))
    table = table.slice(max(0, table.num_rows - limit))
    columns = [column.to_pylist() for column in table.columns]
    return table.column_names, list(zip(*columns, strict=True))


def write_rows(rows: Rows, output: str, stream: TextIO) -> None:
    """Write rows in one of the formats table, json, ndjson, csv.

    What could steer a terminal is escaped, but for CSV that goes elsewhere: it has no escapes.
    """
    names, values = rows
    match output:
        case "json":
            records = [dict(zip(names, map(_plain, row), strict=True)) for row in values]
            stream.write(_json(records, indent=2))
        case "ndjson":
            for row in values:
                stream.write(_json(dict(zip(names, map(_plain, row), strict=True))))
        case "csv":
            shown = printable if stream.isatty() else str
            for line in (names, *values):
                stream.write(",".join(shown(_csv_cell(cell)) for cell in line) + "\n")
        case _:
            from odfbuild.cli.tables import print_table

            right = [_is_number([row[at] for row in values]) for at in range(len(names))]
            print_table(names, [[_text(cell) for cell in row] for row in values], right)


def _json(value: Any, indent: int | None = None) -> str:
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    return printable_json(text) + "\n"


def _csv_cell(value: Any) -> str:
    """Return a cell (RFC 4180): null is nothing, empty text is two quotes."""
    text = _text(value)
    if value is not None and (not text or not _PLAIN_CELL.fullmatch(text)):
        text = text.replace('"', '""')
        return f'"{text}"'
    return text


def _is_number(column: Sequence[Any]) -> bool:
    known = [cell for cell in column if cell is not None]
    return bool(known) and all(type(cell) in {int, float, Decimal} for cell in known)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; text where JSON has no such value."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime():
            return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case bytes():
            return value.hex()
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case _:
            return str(value)


def _text(value: Any) -> str:
    plain = _plain(value)
    match plain:
        case None:
            return ""
        case str():
            return plain
        case dict() | list() | bool():
            return json.dumps(plain, ensure_ascii=False)
        case _:
            return str(plain)
