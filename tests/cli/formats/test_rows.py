"""Rows on their way out: what is written in any format reads back as it was."""

import csv
import io
import json
import math
import os
import tempfile
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.cli.formats.rows import Destination, RowFormat, destination, write_out
from odfbuild.errors import UsageRefusedError

SCHEMA = pa.schema(
    [
        pa.field("i", pa.int64()),
        pa.field("x", pa.float64()),
        pa.field("s", pa.string()),
        pa.field("b", pa.bool_()),
        pa.field("d", pa.decimal128(9, 2)),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("l", pa.list_(pa.int64())),
        pa.field("y", pa.binary()),
    ]
)
rows = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-(2**63), 2**63 - 1),
        "x": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "s": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        "b": st.none() | st.booleans(),
        "d": st.none() | st.decimals(-1000, 1000, places=2),
        "day": st.none() | st.dates(date(1900, 1, 1)),
        "at": st.none() | st.datetimes(datetime(1900, 1, 1), timezones=st.just(UTC)),
        "l": st.none() | st.lists(st.none() | st.integers(0, 9), max_size=3),
        "y": st.none() | st.binary(max_size=3),
    }
)
Rows = list[dict[str, Any]]


def written(found: list[Rows], output: RowFormat) -> bytes:
    """Write batches of rows to a file and return its bytes."""
    batches = [pa.RecordBatch.from_pylist(each, schema=SCHEMA) for each in found]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        write_out(Destination(output, path), SCHEMA, iter(batches))
        assert [each.name for each in Path(folder).iterdir()] == ["rows"]
        return path.read_bytes()


def table_of(found: list[Rows]) -> pa.Table:
    return pa.Table.from_pylist([row for each in found for row in each], schema=SCHEMA)


def from_json(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of plain JSON as it was."""
    return {
        **row,
        "d": None if row["d"] is None else Decimal(row["d"]),
        "day": None if row["day"] is None else date.fromisoformat(row["day"]),
        "at": None if row["at"] is None else datetime.fromisoformat(row["at"]),
        "y": None if row["y"] is None else bytes.fromhex(row["y"]),
    }


tables = st.lists(st.lists(rows, max_size=4), max_size=3)


@given(tables)
def test_parquet_and_arrow_read_back_equal(found: list[Rows]) -> None:
    expected = table_of(found)
    parquet = pq.read_table(pa.BufferReader(written(found, RowFormat.PARQUET)))
    assert parquet.equals(expected)
    arrow = pa.ipc.open_file(pa.BufferReader(written(found, RowFormat.ARROW))).read_all()
    assert arrow.equals(expected)


@given(tables)
def test_json_and_ndjson_read_back_equal(found: list[Rows]) -> None:
    expected = [row for each in found for row in each]
    text = written(found, RowFormat.JSON).decode()
    assert [from_json(row) for row in json.loads(text)] == expected
    lines = written(found, RowFormat.NDJSON).decode().split("\n")
    assert [from_json(json.loads(line)) for line in lines[:-1]] == expected
    assert lines[-1] == ""


@given(tables)
def test_csv_reads_back_equal(found: list[Rows]) -> None:
    text = written(found, RowFormat.CSV).decode()
    names, *cells = read_csv(text)
    assert names == SCHEMA.names
    expected = [row for each in found for row in each]
    for row, line in zip(expected, cells, strict=True):
        plain = dict(zip(SCHEMA.names, line, strict=True))
        parsed = {
            name: json.loads(cell) if name in "ixbl" and cell is not None else cell
            for name, cell in plain.items()
        }
        assert from_json(parsed) == row


def read_csv(text: str) -> Iterator[list[str | None]]:
    """Read CSV that tells nothing from empty text: the one is not in quotes."""
    null, inside, start = "\x00null", False, 0
    marked = []
    for at, sign in enumerate(text):
        inside ^= sign == '"'
        if not inside and sign in ",\n":
            marked.append((text[start:at] or null) + sign)
            start = at + 1
    for line in csv.reader(io.StringIO("".join(marked), newline="")):
        yield [None if cell == null else cell for cell in line]


@pytest.mark.parametrize(
    ("name", "output"),
    [("a.csv", "csv"), ("a.JSONL", "ndjson"), ("a.parquet", "parquet"), ("a.feather", "arrow")],
)
def test_the_end_of_a_name_tells_the_format(name: str, output: str) -> None:
    assert destination(None, Path(name)).output == output
    assert destination(RowFormat.JSON, Path(name)).output == "json"


@pytest.mark.parametrize(
    ("output", "name", "said"),
    [(None, "rows.txt", "no format for a file"), (RowFormat.TABLE, "a.csv", "is no file format")],
)
def test_files_without_a_format_are_refused(output: RowFormat | None, name: str, said: str) -> None:
    with pytest.raises(UsageRefusedError, match=said):
        destination(output, Path(name))


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("before")

    def failing() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([{"x": math.pi}], schema=SCHEMA)
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        write_out(Destination(RowFormat.CSV, path), SCHEMA, failing())
    assert path.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir()] == ["rows.csv"]
    write_out(Destination(RowFormat.CSV, path), SCHEMA, [])
    assert path.read_text() == ",".join(SCHEMA.names) + "\n"


def test_a_pipe_is_written_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.ndjson"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    schema = pa.schema([pa.field("a", pa.int64())])
    batch = pa.RecordBatch.from_pylist([{"a": 1}], schema=schema)
    write_out(destination(None, pipe), schema, [batch])
    assert os.read(reading, 100) == b'{"a": 1}\n'
    os.close(reading)
    assert pipe.is_fifo()


def test_a_file_in_no_folder_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(UsageRefusedError, match="there is no folder"):
        destination(None, tmp_path / "none" / "rows.csv")
    (tmp_path / "some").symlink_to(tmp_path)
    assert destination(None, tmp_path / "some" / "rows.csv").output is RowFormat.CSV
