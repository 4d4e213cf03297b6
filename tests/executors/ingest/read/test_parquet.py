"""Parquet: by name, cast without loss, not copied when nothing changes."""

import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.ingest.read import parquet, read
from odfbuild.executors.ingest.read.problems import InvalidSourceError
from odfbuild.odf.events import ReadStepParquet

UTC_MS = pa.timestamp("ms", "UTC")


def frame(table: pa.Table, folder: Path, *ddl: str, **options: Any) -> Frame:
    path = folder / "in.parquet"
    pq.write_table(table, path, **options)
    step = ReadStepParquet(ddl_schema=ddl or None)
    found = read(step, path, staging=folder, name="in.parquet")
    assert found is not None
    return found


def rows(table: pa.Table, folder: Path, *ddl: str) -> list[tuple[Any, ...]]:
    found = frame(table, folder, *ddl).table
    assert found is not None
    return [tuple(row.values()) for row in found.to_pylist()]


def test_columns_are_selected_by_name_and_missing_ones_are_null(tmp_path: Path) -> None:
    table = pa.table({"c": ["x"], "b": [2], "a": [1]})
    assert rows(table, tmp_path, "a INT", "d DATE", "c STRING") == [(1, None, "x")]


@pytest.mark.parametrize(
    ("values", "ddl", "expected"),
    [
        (pa.array([1, None], pa.int64()), "STRING", ["1", None]),
        (pa.array([1.0]), "BIGINT", [1]),
        (pa.array(["12", " 3 ", ""]), "INT", [12, 3, None]),
        (pa.array(["2020-01-01"]), "DATE", [date(2020, 1, 1)]),
        (pa.array(["a"]).dictionary_encode(), "STRING", ["a"]),
        (pa.array(["1"]).dictionary_encode(), "INT", [1]),
        (pa.array([1], pa.int32()), "DECIMAL(5,2)", [Decimal("1.00")]),
        (
            pa.array([-1, 1999], pa.timestamp("us")),
            "TIMESTAMP",
            [
                datetime(1969, 12, 31, 23, 59, 59, 999000, UTC),
                datetime(1970, 1, 1, 0, 0, 0, 1000, UTC),
            ],
        ),
        (
            pa.array([1_000_000], pa.timestamp("us", "America/New_York")),
            "TIMESTAMP",
            [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)],
        ),
    ],
)
def test_values_are_cast(tmp_path: Path, values: pa.Array, ddl: str, expected: list[Any]) -> None:
    assert [v for (v,) in rows(pa.table({"v": values}), tmp_path, f"v {ddl}")] == expected


@pytest.mark.parametrize(
    ("values", "ddl", "what"),
    [
        (
            pa.array([1, 2**40]),
            "v INT",
            "in.parquet: column v: int64 cannot be converted to int32: ",
        ),
        (pa.array([1.5]), "v INT", "in.parquet: column v: double cannot be converted to int32: "),
        (
            pa.array([[1]]),
            "v INT",
            "in.parquet: column v: list<element: int64> cannot be converted to ",
        ),
        (
            pa.array(["1", "x"]),
            "v INT",
            "in.parquet: row 2: column v: 'x' is not an integer from -2147483648 to 2147483647",
        ),
        (
            pa.array([1, None]),
            "v INT NOT NULL",
            "in.parquet: row 2: column v: no value, but the column is required",
        ),
        (pa.array([1]), "w INT NOT NULL", "in.parquet lacks the required column w"),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, values: pa.Array, ddl: str, what: str
) -> None:
    with pytest.raises(InvalidSourceError) as caught:
        frame(pa.table({"v": values}), tmp_path, ddl)
    assert caught.value.what.startswith(what)


def not_utf8(*places: int) -> pa.Array:
    """Return texts, of which some have bytes that are none."""
    plain = pa.array([b"\xff" if row in places else b"ok" for row in range(5)], pa.binary())
    return pa.Array.from_buffers(pa.string(), 5, plain.buffers())


@pytest.mark.parametrize("ddl", [(), ("v STRING",)])
@pytest.mark.parametrize("places", [(0,), (4,), (2, 3)])
def test_bytes_that_are_no_text_are_refused(
    tmp_path: Path, places: tuple[int, ...], ddl: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidSourceError) as caught:
        frame(pa.table({"v": not_utf8(*places)}), tmp_path, *ddl)
    row = places[0] + 1
    assert caught.value.what == f"in.parquet: row {row}: column v: a text that is not UTF-8"
    assert "BINARY" in caught.value.fix
    found = rows(pa.table({"v": not_utf8(*places)}), tmp_path, "v BINARY")
    assert found[places[0]] == (b"\xff",)


@pytest.mark.parametrize(
    "column",
    [
        pa.StructArray.from_arrays([not_utf8(3)], ["x"]),
        pa.ListArray.from_arrays([0, 1, 2, 3, 4, 5], not_utf8(3)),
        pa.MapArray.from_arrays([0, 1, 2, 3, 4, 5], not_utf8(3), not_utf8()),
    ],
    ids=["struct", "list", "map"],
)
def test_bytes_that_are_no_text_are_found_wherever_they_are(
    tmp_path: Path, column: pa.Array
) -> None:
    with pytest.raises(InvalidSourceError, match="row 4: column v: a text that is not UTF-8"):
        frame(pa.table({"v": column}), tmp_path)


ENCODED = {
    "plain": lambda texts: texts,
    "large": lambda texts: pa.Array.from_buffers(
        pa.large_string(), 5, texts.cast(pa.binary()).cast(pa.large_binary()).buffers()
    ),
    "dictionary": lambda texts: pa.DictionaryArray.from_arrays(range(5), texts),
} | {
    f"dictionary by {of}": lambda texts, of=of: pa.DictionaryArray.from_arrays(
        pa.array(range(5), of), texts
    )
    for of in (pa.int8(), pa.int64(), pa.uint16())
}


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("encoded", ENCODED.values(), ids=ENCODED)
@pytest.mark.parametrize("ddl", ["STRING", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP", "BOOLEAN",
                                 "DECIMAL(10,2)", "UUID", "TIME"])  # fmt: skip
def test_bytes_that_are_no_text_are_found_in_every_encoding_and_for_every_type(
    ddl: str, encoded: Any, large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(parquet, "LARGE", -1)
    with pytest.raises(InvalidSourceError, match="column v: a text that is not UTF-8"):
        frame(pa.table({"v": encoded(not_utf8(3))}), tmp_path, f"v {ddl}")


def test_without_a_schema_times_are_milliseconds_in_utc_and_the_rest_as_it_is(
    tmp_path: Path,
) -> None:
    table = pa.table(
        {
            "i": pa.array([1], pa.uint16()),
            "t": pa.array([1_999_999], pa.timestamp("ns")),
            "s": pa.array(["a"]).dictionary_encode(),
        }
    ).replace_schema_metadata({"pandas": "{}"})
    found = frame(table, tmp_path)
    assert found.schema == pa.schema({"i": pa.uint16(), "t": UTC_MS, "s": pa.string()})
    assert found.schema.metadata is None


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(InvalidSourceError, match=r"in\.parquet has 2 columns a"):
        frame(table, tmp_path, "a INT")


def test_no_bytes_are_an_empty_table_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    path.touch()
    assert read(ReadStepParquet(), path, staging=tmp_path, name="x") is None
    found = read(ReadStepParquet(ddl_schema=("a INT",)), path, staging=tmp_path, name="x")
    assert found is not None
    assert (found.rows, found.schema.names) == (0, ["a"])


def test_a_file_cut_or_damaged_anywhere_is_an_error_or_right(tmp_path: Path) -> None:
    table = pa.table({"a": list(range(2000)), "b": [str(i) for i in range(2000)]})
    path = tmp_path / "whole.parquet"
    pq.write_table(table, path, write_page_checksum=True)
    whole = path.read_bytes()
    broken = tmp_path / "broken.parquet"
    for length in range(0, len(whole), len(whole) // 40):
        broken.write_bytes(whole[:length])
        if length == 0:
            continue
        with pytest.raises(InvalidSourceError, match="is not a complete Parquet file"):
            read(ReadStepParquet(), broken, staging=tmp_path, name="x")


class TestLarge:
    @pytest.fixture(autouse=True)
    def _all_are_large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(parquet, "LARGE", 0)

    def test_a_file_that_needs_no_change_is_not_copied(self, tmp_path: Path) -> None:
        table = pa.table({"a": [1, 2], "t": pa.array([0, 1], UTC_MS)})
        found = frame(table, tmp_path)
        assert found.files[0].path == tmp_path / "in.parquet"
        assert found.rows == 2
        assert os.listdir(tmp_path) == ["in.parquet"]  # noqa: PTH208

    def test_another_is_written_piece_by_piece(self, tmp_path: Path) -> None:
        table = pa.table({"a": list(range(1000))})
        found = frame(table, tmp_path, "a INT", row_group_size=64)
        assert found.parts
        assert found.files[0].path != tmp_path / "in.parquet"
        got = pa.Table.from_batches(list(found.batches()))
        assert got == pa.table({"a": pa.array(range(1000), pa.int32())})

    def test_rows_are_counted_over_the_pieces(self, tmp_path: Path) -> None:
        values = [str(i) for i in range(200_000)] + ["x"]
        with pytest.raises(InvalidSourceError, match="row 200001: column a: 'x'"):
            frame(pa.table({"a": values}), tmp_path, "a INT")
