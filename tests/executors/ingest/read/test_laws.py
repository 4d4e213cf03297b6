"""Laws: what Python writes is read back, wherever the seams of the blocks fall."""

import csv
import gzip
import io
import json
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.ingest.prepare import DamagedArchiveError, prepare
from odfbuild.executors.ingest.read import csv as csv_reader
from odfbuild.executors.ingest.read import ndjson, read, text
from odfbuild.executors.ingest.read.notes import ReadNotes
from odfbuild.executors.ingest.read.options import collected
from odfbuild.executors.ingest.read.problems import InvalidSourceError
from odfbuild.executors.ingest.read.text import BlockFile, lines, records, unescaped
from odfbuild.odf.events import CompressionFormat, PrepStepDecompress, ReadStepCsv, ReadStepNdJson
from odfbuild.odf.read_options import Dialect
from tests.executors.ingest.read.reading import rows_of, table_of

CELLS = st.text(st.sampled_from("ab,;\"\\ \n\r'é\u20ac\U0001f600\t\x00N"), max_size=6)
TABLES = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=1, max_size=9)
)


def written(rows: list[list[str]], **options: Any) -> str:
    out = io.StringIO()
    csv.writer(out, **options).writerows(rows)
    return out.getvalue()


@contextmanager
def seams(block: int, *, is_large: bool = True, held: int = 0) -> Iterator[None]:
    """Read in blocks of so many bytes, and take every file for a large one.

    Of a large one, `held` bytes of rows stay in memory.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "BLOCK", block)
        for module in (csv_reader, ndjson):
            patch.setattr(module, "collected", partial(_collected, held))
        patch.setattr(csv_reader, "LARGE", 0 if is_large else 1 << 20)
        patch.setattr(ndjson, "_PIECE", block)
        patch.setattr(ndjson, "LARGE", 0)
        yield


def _collected(
    held: int, pieces: Iterable[pa.Table], schema: pa.Schema, staging: Path, _: int
) -> Frame:
    return collected(pieces, schema, staging, held)


def python_rows(data: str) -> list[tuple[str | None, ...]]:
    plain = csv.reader(io.StringIO(data, newline=""))
    return [tuple(row) for row in plain if row]


HELD = st.sampled_from([0, 60, 1 << 20])


@given(TABLES, st.integers(1, 40), HELD)
def test_quoted_cells_come_back_over_any_seam(rows: list[list[str]], block: int, held: int) -> None:
    data = written(rows, quoting=csv.QUOTE_ALL)
    step = ReadStepCsv(escape="")
    assert rows_of(step, data) == [tuple(row) for row in rows]
    for is_large in (True, False):
        with seams(block, is_large=is_large, held=held):
            assert rows_of(step, data) == [tuple(row) for row in rows]


@given(TABLES, st.integers(1, 40))
def test_minimal_quoting_comes_back_with_empty_cells_as_null(
    rows: list[list[str]], block: int
) -> None:
    data = written(rows, quoting=csv.QUOTE_MINIMAL)
    assume(len(rows[0]) > 1)
    expected = [tuple(cell or None for cell in row) for row in rows]
    with seams(block):
        assert rows_of(ReadStepCsv(escape=""), data) == expected


@given(TABLES, st.integers(1, 40))
def test_escaped_quotes_come_back_over_any_seam(rows: list[list[str]], block: int) -> None:
    quoted = [['"' + c.replace("\\", "\\\\").replace('"', '\\"') + '"' for c in r] for r in rows]
    data = "".join(",".join(row) + "\n" for row in quoted)
    with seams(block):
        assert rows_of(ReadStepCsv(), data) == [tuple(row) for row in rows]


@given(st.text('a",\n\r\\', max_size=30), st.integers(1, 12), HELD)
def test_any_text_is_read_as_python_reads_it_or_refused(data: str, block: int, held: int) -> None:
    plain = python_rows(data)
    assume(plain and len({len(row) for row in plain}) == 1)
    step = ReadStepCsv(escape="")
    with seams(block, held=held):
        try:
            found = rows_of(step, data)
        except InvalidSourceError as error:
            assert "never closed" in error.what
            assert data.count('"') % 2 or '"' in data
            return
    assert [tuple(cell or "" for cell in row) for row in found] == plain


@given(st.text('a",\n\\', max_size=30), st.integers(1, 12))
def test_escapes_are_rewritten_alike_whatever_the_blocks(data: str, block: int) -> None:
    dialect = Dialect(",", '"', "\\")
    raw = data.encode()
    pieces = [raw[at : at + block] for at in range(0, len(raw), block)]
    assert b"".join(unescaped(pieces, dialect, "in")) == b"".join(unescaped([raw], dialect, "in"))


@given(TABLES)
def test_records_know_the_lines_that_they_begin_on(rows: list[list[str]]) -> None:
    data = written(rows, quoting=csv.QUOTE_ALL, lineterminator="\n")
    found = records(lines(BlockFile(iter([data.encode()]))), Dialect(",", '"', None), "in")
    at = 1
    for record, row in zip(found, rows, strict=True):
        assert record.line == at
        assert record.fields == row
        text_of = written([row], quoting=csv.QUOTE_ALL, lineterminator="\n")
        at += len(io.StringIO(text_of, newline="").readlines())


FINE = st.sampled_from(["2024-01-01", "2024-01-01T00:00:00.001Z", "2024-01-01T00:00:00.0015Z"])


@given(st.lists(st.tuples(FINE, FINE), min_size=1, max_size=20), st.integers(1, 80), HELD)
def test_the_first_time_that_is_cut_is_known_by_its_row(
    rows: list[tuple[str, str]], block: int, held: int
) -> None:
    data = "a,b\n" + "".join(f"{a},{b}\n" for a, b in rows)
    step = ReadStepCsv(header=True, ddl_schema=("a TIMESTAMP", "b TIMESTAMP"))
    notes = ReadNotes()
    with seams(block, held=held), tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "in.csv")
        path.write_text(data)
        read(step, path, staging=Path(folder), name="in.csv", notes=notes)
    expected = {}
    for at, name in enumerate("ab"):
        cut = [(row[at], n) for n, row in enumerate(rows, 1) if row[at].endswith("5Z")]
        if cut:
            expected[name] = cut[0]
    assert {n: (e.value, e.row) for n, e in notes.fine_times.first.items()} == expected


FAULTS = st.sampled_from(["x", "", '"', '"x"', "b\0", "\ufffd", "5,6", "7\n"])


@st.composite
def faulty_rows(draw: st.DrawFn) -> str:
    """Draw records with one or two kinds of faults."""
    cells = st.sampled_from(["1", "23", '"4"', *draw(st.lists(FAULTS, min_size=1, max_size=2))])
    rows = draw(st.lists(st.tuples(cells, cells), min_size=4, max_size=30))
    return "".join(f"{a},{b}\n" for a, b in rows)


@given(faulty_rows(), st.integers(1, 80))
def test_the_problems_of_a_file_do_not_depend_on_its_blocks(rows: str, block: int) -> None:
    data = f"a,b\n{rows}".encode().replace("\ufffd".encode(), b"\xff")
    step = ReadStepCsv(header=True, ddl_schema=("a INT", "b INT NOT NULL"))
    assert _outcome(step, data, block) == _outcome(step, data, 1 << 20)


def _outcome(step: ReadStepCsv, data: bytes, block: int) -> list[Any]:
    with seams(block, is_large=False):
        try:
            return rows_of(step, data)
        except InvalidSourceError as error:
            return [error.what, error.why, error.fix]


ZONES = st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m)))
NAIVE = st.datetimes(datetime(1000, 1, 2), datetime(9999, 12, 30))
TIMES = NAIVE | st.builds(lambda at, zone: at.replace(tzinfo=zone), NAIVE, ZONES | st.just(UTC))
TYPED = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-(2**63), 2**63 - 1),
        "f": st.none() | st.floats(allow_nan=False),
        "b": st.none() | st.booleans(),
        "d": st.none() | st.dates(),
        "t": st.none() | TIMES,
        "n": st.none() | st.decimals(-(10**6), 10**6, places=3),
        "s": st.none() | st.text(max_size=8),
    }
)
DDL = (
    "i BIGINT",
    "f DOUBLE",
    "b BOOLEAN",
    "d DATE",
    "t TIMESTAMP",
    "n DECIMAL(10,3)",
    "s STRING",
)


def floored(at: datetime | None) -> datetime | None:
    if at is None:
        return None
    utc = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000)


def as_read(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"t": floored(row["t"])}


@given(st.lists(TYPED, min_size=1, max_size=12), st.integers(1, 200))
def test_typed_values_come_back_from_csv(rows: list[dict[str, Any]], block: int) -> None:
    out = [",".join("idsbftn")]
    for row in rows:
        cells = {k: "" if v is None else str(v) for k, v in row.items()}
        if row["f"] is not None:
            cells["f"] = repr(row["f"])
        if row["s"] is not None:
            cells["s"] = '"' + row["s"].replace('"', '""') + '"'
        out.append(",".join(cells[k] for k in "idsbftn"))
    step = ReadStepCsv(header=True, escape="", ddl_schema=DDL)
    with seams(block):
        assert table_of(step, "\n".join(out)).to_pylist() == [as_read(row) for row in rows]


def _default(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal | date) else None


@given(st.lists(TYPED, min_size=1, max_size=12), st.integers(1, 200), st.booleans())
def test_typed_values_come_back_from_ndjson(
    rows: list[dict[str, Any]], block: int, is_text: bool
) -> None:
    given_rows = [
        {**r, "i": str(r["i"]) if is_text and r["i"] is not None else r["i"]} for r in rows
    ]
    assume(all(row["f"] is None or abs(row["f"]) != float("inf") for row in rows))
    data = "\n".join(json.dumps(row, default=_default) for row in given_rows)
    with seams(block):
        found = table_of(ReadStepNdJson(ddl_schema=DDL), data).to_pylist()
    assert found == [as_read(row) for row in rows]


@pytest.mark.parametrize("form", [CompressionFormat.GZIP, CompressionFormat.ZIP])
def test_a_packed_table_cut_anywhere_is_an_error_and_never_a_shorter_table(
    form: CompressionFormat,
) -> None:
    plain = b"id,name\n" + b"".join(b"%d,name number %d\n" % (i, i * 7919) for i in range(300))
    if form is CompressionFormat.GZIP:
        whole = gzip.compress(plain)
    else:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.csv", plain)
        whole = out.getvalue()
    step = ReadStepCsv(header=True, ddl_schema=("id INT", "name STRING"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in"
        for length in [*range(0, len(whole), 50), len(whole)]:
            path.write_bytes(whole[:length])
            try:
                unpacked = prepare((PrepStepDecompress(format=form),), path, Path(folder))
            except DamagedArchiveError:
                assert length < len(whole)
                continue
            found = read(step, unpacked, staging=Path(folder), name="in")
            assert found is not None
            assert found.table is not None
            assert found.table.column("id") == pa.chunked_array([pa.array(range(300), pa.int32())])
