"""Rows as text: a table, JSON, NDJSON or CSV; all but a table a row at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, TextIO

from odfbuild.cli.terminal.console import printable, printable_json
from odfbuild.cli.terminal.streams import as_it_is
from odfbuild.errors import UsageRefusedError
from odfbuild.texts.json_values import plain

_LINE = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_INDENTED = json.JSONEncoder(ensure_ascii=False, allow_nan=False, indent=2)
_PLAIN_CELL = re.compile(r'[^",\r\n]*')
_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")  # noqa: RUF001 - programs take these, too
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

Rows = tuple[Sequence[str], Iterable[Sequence[Any]]]


def check_safe_csv(output: str, *, safe_csv: bool) -> None:
    """Raise UsageRefusedError if safe CSV is asked for, and the format is another."""
    if safe_csv and output != "csv":
        raise UsageRefusedError(
            what=f"--safe-csv does not go with {output}",
            why="it is about cells of CSV that a spreadsheet would take for formulas",
            fix="add -o csv, or leave it out",
        )


def write_rows(rows: Rows, output: str, stream: TextIO, *, safe_csv: bool = False) -> None:
    """Write rows in one of the formats table, json, ndjson, csv.

    What could steer a terminal is escaped, but for CSV that goes elsewhere: it has no escapes.
    With `safe_csv` texts that a spreadsheet would compute have an apostrophe in front.
    """
    names, values = rows
    match output:
        case "json":
            _write_json(rows, stream)
        case "ndjson":
            for row in values:
                stream.write(_json(_record(names, row), _LINE) + "\n")
        case "csv":
            shown = printable if stream.isatty() else str
            cell = _safe_cell if safe_csv else _csv_cell
            with as_it_is(not safe_csv):
                for row in chain((names,), values):
                    stream.write(",".join(shown(cell(each)) for each in row) + "\n")
        case _:
            from odfbuild.cli.terminal.console import print_table

            found = list(values)
            right = [_is_number([row[at] for row in found]) for at in range(len(names))]
            print_table(names, [[_table_cell(cell) for cell in row] for row in found], right)


def _write_json(rows: Rows, stream: TextIO) -> None:
    """Write one array of objects."""
    names, values = rows
    before = "[\n"
    for row in values:
        text = _json(_record(names, row), _INDENTED)
        stream.write(before + "\n".join(f"  {line}" for line in text.split("\n")))
        before = ",\n"
    stream.write("[]\n" if before == "[\n" else "\n]\n")


def _record(names: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(names, map(plain, row), strict=True))


def _json(value: Any, encoder: json.JSONEncoder) -> str:
    return printable_json(encoder.encode(value))


def _csv_cell(value: Any) -> str:
    """Return a cell (RFC 4180): null is nothing, empty text is two quotes."""
    text = value if type(value) is str else cell_text(value)
    if value is not None and (not text or not _PLAIN_CELL.fullmatch(text)):
        text = text.replace('"', '""')
        return f'"{text}"'
    return text


def _safe_cell(value: Any) -> str:
    """Return a cell that a spreadsheet shows; numbers stay, whether they are texts or not."""
    if type(value) in {int, float, Decimal}:
        return _csv_cell(value)
    text = value if type(value) is str else cell_text(value)
    if _FORMULA.match(text) and not _NUMBER.fullmatch(text):
        return _csv_cell(f"'{text}")
    return _csv_cell(value)


def _table_cell(value: Any) -> str:
    """Return a cell: nothing for null; quotes if it is empty, or has blanks or quotes at its ends.

    So a cell without anything in it is null, and quotes around one are not part of the value.
    """
    text = cell_text(value)
    if value is None or (text and text == text.strip() and text != f'"{text[1:-1]}"'):
        return text
    return json.dumps(text, ensure_ascii=False)


def _is_number(column: Sequence[Any]) -> bool:
    known = [cell for cell in column if cell is not None]
    return bool(known) and all(type(cell) in {int, float, Decimal} for cell in known)


def cell_text(value: Any, null: str = "") -> str:
    """Return a value as people read it."""
    found = plain(value)
    match found:
        case None:
            return null
        case str():
            return found
        case dict() | list() | bool():
            return json.dumps(found, ensure_ascii=False)
        case _:
            return str(found)
