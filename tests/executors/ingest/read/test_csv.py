"""CSV: dialects, binding, nulls, inference, encodings, line ends."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odfbuild.executors.ingest.read import csv, read, text
from odfbuild.executors.ingest.read.problems import InvalidSourceError
from odfbuild.odf.events import ReadStepCsv
from tests.executors.ingest.read.reading import frame_of, rows_of, table_of

D = ("id INT", "name STRING")
CSV = ReadStepCsv(header=True, ddl_schema=D)
BARE = ReadStepCsv(ddl_schema=D)


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("id,name", [(1, "a")]),
        (" id , name ", [(1, "a")]),
        ("x,y", [(1, "a")]),
        ("id,y", [(1, "a")]),
    ],
)
def test_columns_bind_in_order_when_order_and_names_do_not_disagree(
    header: str, rows: list[Any]
) -> None:
    assert rows_of(CSV, f"{header}\n1,a\n") == rows


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        ("name,id\na,1\n", [(1, "a")]),
        ("name,x,id,y\na,,1,\n", [(1, "a")]),
        ("id,name,\n1,a,\n", [(1, "a")]),
        ("x,x,id,name\n,,1,a\n", [(1, "a")]),
        ("id\n1\n", [(1, None)]),
        ("name\na\n", [(None, "a")]),
    ],
)
def test_columns_bind_by_name_when_one_set_contains_the_other(data: str, rows: list[Any]) -> None:
    assert rows_of(CSV, data) == rows


def test_an_unquoted_empty_cell_is_null_and_a_quoted_one_is_the_empty_text() -> None:
    data = 'id,name\n1,""\n"",\n,\n" ",a\n'
    assert rows_of(CSV, data) == [(1, ""), (None, None), (None, None), (None, "a")]


def test_the_null_value_is_null_unquoted_and_text_quoted_in_text_columns() -> None:
    step = ReadStepCsv(header=True, ddl_schema=D, null_value="NA")
    data = 'id,name\nNA,NA\n"NA","NA"\n,\n'
    assert rows_of(step, data) == [(None, None), (None, "NA"), (None, None)]


def test_a_null_value_that_would_fit_the_type_is_null_also_when_quoted() -> None:
    step = ReadStepCsv(ddl_schema=D, null_value="-999")
    assert rows_of(step, '-999,a\n"-999",b\n-998,c\n') == [(None, "a"), (None, "b"), (-998, "c")]


def test_escapes_stand_for_quote_and_themselves_in_quoted_values_only() -> None:
    data = '1,"a\\"b"\n2,"\\\\"\n3,\\N\n4,"\\N"\n5,a\\"b\n6,"say ""hi"" \\" "\n7,C:\\\\x\n'
    names = ['a"b', "\\", "\\N", "\\N", 'a\\"b', 'say "hi" " ', "C:\\\\x"]
    assert rows_of(BARE, data) == list(enumerate(names, start=1))


def test_an_empty_escape_leaves_backslashes_alone() -> None:
    step = ReadStepCsv(ddl_schema=D, escape="")
    assert rows_of(step, '1,"a\\"\n2,"\\\\"\n') == [(1, "a\\"), (2, "\\\\")]


def test_a_quote_that_is_its_own_escape_means_doubled_quotes() -> None:
    step = ReadStepCsv(ddl_schema=D, escape='"')
    assert rows_of(step, '1,"a""b\\"\n') == [(1, 'a"b\\')]


def test_an_empty_quote_turns_quoting_off() -> None:
    step = ReadStepCsv(ddl_schema=D, quote="")
    assert rows_of(step, '1,"a\n2,b"c\\"\n') == [(1, '"a'), (2, 'b"c\\"')]


@pytest.mark.parametrize("separator", [";", "\t", "|", " ", "e", "\x04", "\x01"])
def test_any_one_character_separates(separator: str) -> None:
    step = ReadStepCsv(ddl_schema=D, separator=separator)
    assert rows_of(step, f"1{separator}a\n2{separator}b\n") == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
def test_all_line_ends_are_read_with_or_without_the_last(end: str, last: bool) -> None:
    data = end.join(["id,name", '1,"a', 'b"', "", "2,c"]) + end * last
    assert rows_of(CSV, data) == [(1, f"a{end}b"), (2, "c")]


def test_a_quote_inside_of_a_value_is_text() -> None:
    assert rows_of(BARE, '1,5" pipe\n2,a"b"c\n') == [(1, '5" pipe'), (2, 'a"b"c')]


@pytest.mark.parametrize("encoding", [None, "utf8", "UTF-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_a_byte_order_mark_is_dropped(encoding: str | None) -> None:
    step = ReadStepCsv(header=True, ddl_schema=D, encoding=encoding)
    codec = encoding if encoding in {"utf-16", "utf-16-le"} else "utf-8-sig"
    plain = "id,name\n1,zürich\n"
    data = ("\ufeff" + plain if codec == "utf-16-le" else plain).encode(codec)
    assert rows_of(step, data) == [(1, "zürich")]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16-be", "shift_jis", "cp037"])
def test_other_encodings_are_transcoded(encoding: str) -> None:
    step = ReadStepCsv(ddl_schema=D, encoding=encoding)
    data = '1,"a \\"quoted\\" word"\n2,plain\n'
    assert rows_of(step, data.encode(encoding)) == [(1, 'a "quoted" word'), (2, "plain")]


@pytest.mark.parametrize("data", ["", "\n\r\n\n", "\ufeff"])
def test_nothing_at_all_is_an_empty_table_or_nothing(data: str) -> None:
    assert table_of(CSV, data).num_rows == 0
    assert table_of(CSV, data).schema == table_of(CSV, "id,name\n1,a\n").schema
    assert frame_of(ReadStepCsv(header=True), data) is None


@pytest.mark.parametrize("data", ["id,name", "id,name\n", "id,name\r\n\r\n"])
def test_a_header_alone_is_an_empty_table(data: str) -> None:
    assert table_of(CSV, data).num_rows == 0
    assert table_of(ReadStepCsv(header=True), data).schema.names == ["id", "name"]


def test_without_schema_columns_are_text_named_by_header_or_number() -> None:
    assert table_of(ReadStepCsv(header=True), "a, ,b\n1,,x\n").to_pylist() == [
        {"a": "1", "column_2": None, "b": "x"}
    ]
    assert table_of(ReadStepCsv(), "1,2\n").to_pylist() == [{"column_1": "1", "column_2": "2"}]


def test_inference_takes_the_narrowest_type_that_fits() -> None:
    step = ReadStepCsv(header=True, infer_schema=True)
    data = (
        "a,b,c,d,e,f,g\n1,1,true,2020-01-01,2020-01-01T00:00:00Z,x,\n2,2.5,FALSE,,2020-01-01,1,\n"
    )
    assert table_of(step, data).schema.types == [
        pa.int64(),
        pa.float64(),
        pa.bool_(),
        pa.date32(),
        pa.timestamp("ms", "UTC"),
        pa.string(),
        pa.string(),
    ]


def test_inference_looks_at_a_thousand_rows_and_holds_to_what_it_saw() -> None:
    step = ReadStepCsv(infer_schema=True)
    assert table_of(step, "1\n" * 999 + "x\n").schema.types == [pa.string()]
    with pytest.raises(InvalidSourceError, match="in:1001: column column_1: 'x' is not an integer"):
        frame_of(step, "1\n" * 1000 + "x\n")


@pytest.mark.parametrize("form", ["%d/%m/%Y", "dd/MM/yyyy"])
def test_dates_may_have_a_format_of_their_own(form: str) -> None:
    step = ReadStepCsv(ddl_schema=("v DATE",), date_format=form)
    assert rows_of(step, "31/01/2020\n 1/2/2020\n") == [(date(2020, 1, 31),), (date(2020, 2, 1),)]
    with pytest.raises(
        InvalidSourceError, match=f"'31/02/2020' is not a date of the form {form}|%d"
    ):
        frame_of(step, "31/02/2020\n")


def test_timestamps_may_have_a_format_of_their_own() -> None:
    step = ReadStepCsv(ddl_schema=("v TIMESTAMP",), timestamp_format="%d.%m.%Y %H:%M:%S.%f %z")
    at = datetime(2019, 12, 31, 23, 0, 0, 999000, UTC)
    assert rows_of(step, "01.01.2020 01:00:00.999999 +0200\n") == [(at,)]


def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every file for a large one, and read it in small blocks."""
    monkeypatch.setattr(csv, "LARGE", 0)
    monkeypatch.setattr(text, "BLOCK", 1 << 10)


def test_a_large_file_becomes_one_parquet_file_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_pieces(monkeypatch)
    path = tmp_path / "big.csv"
    path.write_text("id,name\n" + "".join(f'{i},"n\n{i}"\n' for i in range(5000)))
    found = read(CSV, path, staging=tmp_path, name="big.csv")
    assert found is not None
    assert found.parts
    assert found.files[0].path.parent == tmp_path
    assert found.rows == 5000
    rows = [row for batch in found.batches() for row in batch.to_pylist()]
    assert rows == [{"id": i, "name": f"n\n{i}"} for i in range(5000)]


def test_lines_are_right_far_into_a_large_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_pieces(monkeypatch)
    path = tmp_path / "big.csv"
    path.write_text("id,name\n" + "".join(f'{i},"n\n{i}"\n' for i in range(5000)) + "x,y\n")
    with pytest.raises(InvalidSourceError, match=r"^big\.csv:10002: column id: 'x'"):
        read(CSV, path, staging=tmp_path, name="big.csv")


def test_a_record_longer_than_a_block_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_pieces(monkeypatch)
    path = tmp_path / "big.csv"
    path.write_text("id,name\n" + "1,a\n" * 1000 + '2,"' + "long\n" * 9000 + '"\n' + "3,b\n")
    found = read(CSV, path, staging=tmp_path, name="big.csv")
    assert found is not None
    assert found.rows == 1002


@pytest.mark.parametrize("tail", ['3,"open\n', "4\n"])
def test_the_end_of_a_large_file_is_checked_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tail: str
) -> None:
    small_pieces(monkeypatch)
    path = tmp_path / "big.csv"
    path.write_text("id,name\n" + "1,a\n" * 5000 + tail)
    with pytest.raises(InvalidSourceError, match=r"^big\.csv:5002: "):
        read(CSV, path, staging=tmp_path, name="big.csv")
    assert not [p for p in tmp_path.iterdir() if p != path]


@pytest.mark.parametrize("is_large", [False, True])
def test_a_header_may_have_quoted_line_ends(
    monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    if is_large:
        small_pieces(monkeypatch)
    data = '"a\nb","c""d"\r\n1,x\r\n2,y\r\n'
    assert table_of(ReadStepCsv(header=True), data).to_pylist() == [
        {"a\nb": "1", 'c"d': "x"},
        {"a\nb": "2", 'c"d': "y"},
    ]
    with pytest.raises(InvalidSourceError, match="in:4: column id: 'y'"):
        frame_of(
            ReadStepCsv(header=True, ddl_schema=("name STRING", "id INT")),
            '"a\nb",id\r\n1,2\r\n3,y\r\n',
        )
