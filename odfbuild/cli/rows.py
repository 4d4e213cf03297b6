"""Rows of a dataset: the last ones by offset, as a table, JSON, NDJSON or CSV."""

import csv
import json
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TextIO

from odfbuild.state.dataset import Dataset

__all__ = ["Rows", "last_rows", "write_rows"]

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
    """Write rows in one of the formats table, json, ndjson, csv."""
    names, values = rows
    match output:
        case "json":
            records = [dict(zip(names, map(_plain, row), strict=True)) for row in values]
            stream.write(json.dumps(records, indent=2, ensure_ascii=False) + "\n")
        case "ndjson":
            for row in values:
                record = dict(zip(names, map(_plain, row), strict=True))
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")
        case "csv":
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(names)
            writer.writerows([_text(cell) for cell in row] for row in values)
        case _:
            from odfbuild.cli.tables import print_table

            print_table(names, [[_text(cell) for cell in row] for row in values])


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case date() | Decimal():
            return str(value)
        case bytes():
            return value.hex()
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case _:
            return value


def _text(value: Any) -> str:
    plain = _plain(value)
    match plain:
        case None:
            return ""
        case str():
            return plain
        case dict() | list():
            return json.dumps(plain, ensure_ascii=False)
        case _:
            return str(plain)
