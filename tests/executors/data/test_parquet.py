"""Writers of Parquet files end once, whatever the disk does, and say what went wrong."""

import ast
import gc
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.data import parquet
from odfbuild.executors.data.parquet import FileWriter, SliceWriter
from odfbuild.state.chain.checked_files import GrowingHash
from odfbuild.state.chain.objects import hash_file
from tests.test_layers import MODULES, name_of, tree_of

OPENED = Path("/proc/self/fd")
TABLE = pa.table({"n": range(1000)})


def _cut_off(path: Path) -> None:
    """Take the file from whoever has it open: what it does next fails."""
    for each in [*OPENED.iterdir()]:
        if each.is_symlink() and each.readlink() == path:
            os.close(int(each.name))


def _fails(writer: Any, path: Path) -> None:
    with pytest.raises(OSError, match=r"failed|clos"), writer:
        _cut_off(path)


@pytest.fixture
def unraisable(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return what Python prints as ignored, from here on."""
    found: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: found.append(each.exc_value))
    return found


@pytest.mark.skipif(not OPENED.is_dir(), reason="the system lists no open files")
def test_a_writer_that_cannot_end_is_no_traceback_later(
    tmp_path: Path, unraisable: list[object]
) -> None:
    path = tmp_path / "some.parquet"
    _fails(pq.ParquetWriter(path, TABLE.schema), path)
    gc.collect()
    assert unraisable, "pyarrow closes a writer once only by now: ours has no reason"
    unraisable.clear()
    _fails(FileWriter(path, TABLE.schema), path)
    _fails(SliceWriter(path, TABLE.schema, plain="n"), path)
    gc.collect()
    assert unraisable == []


_ROWS = 400_000
_DIFFERENT = {
    "few": [number % 7 for number in range(_ROWS)],
    "many": [number * 7919 % _ROWS for number in range(_ROWS)],
    "rising": [*range(_ROWS)],
    "runs": [number // 4 for number in range(_ROWS)],
    "some": [number * 7919 % 50_000 for number in range(_ROWS)],
    "gaps": [number if number % 40 == 0 else None for number in range(_ROWS)],
    "texts": [f"{number * 7919 % _ROWS:032x}" for number in range(_ROWS)],
    "codes": [f"{number * 7919 % 5000:032x}" for number in range(_ROWS)],
    "nothing": pa.nulls(_ROWS, pa.int64()),
    "offset": [*range(_ROWS)],
}


def _dictionaries(path: Path) -> set[str]:
    """Return the columns of which all row groups have a dictionary."""
    footer = pq.read_metadata(path)
    chunks = [
        footer.row_group(group).column(at)
        for group in range(footer.num_row_groups)
        for at in range(footer.num_columns)
    ]
    without = {each.path_in_schema for each in chunks if not each.has_dictionary_page}
    return {each.path_in_schema for each in chunks} - without


@pytest.mark.parametrize("batch", [5000, 131_072, _ROWS])
def test_columns_whose_values_fit_into_no_dictionary_have_none(tmp_path: Path, batch: int) -> None:
    table, path = pa.table(_DIFFERENT), tmp_path / "some.parquet"
    with SliceWriter(path, table.schema, plain="offset") as writer:
        for each in table.to_batches(max_chunksize=batch):
            writer.write(each)
    assert pq.read_table(path).equals(table)
    assert _dictionaries(path) == {"few", "runs", "some", "gaps", "codes", "nothing"}


def test_a_slice_is_hashed_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, path = pa.table(_DIFFERENT), tmp_path / "some.parquet"
    monkeypatch.setattr(parquet, "GROUP_ROWS", 100_000)
    looked: list[int] = []

    def noted(growing: GrowingHash, end: int) -> None:
        looked.append(end)
        go_on(growing, end)

    go_on = GrowingHash.go_on
    monkeypatch.setattr(GrowingHash, "go_on", noted)
    with SliceWriter(path, table.schema, plain="offset", hashed=True) as writer:
        for each in table.to_batches(max_chunksize=30_000):
            writer.write(each)
        writer.write(table.slice(0, 30_000).combine_chunks().to_batches()[0])
    groups = pq.read_metadata(path)
    ends = [_end(groups.row_group(number)) for number in range(4)]
    assert looked == ends
    hash, mark = writer.hash()
    assert looked == [*ends, path.stat().st_size]
    assert hash == hash_file(path)
    assert mark is not None
    assert mark.still_holds(path)


def _end(group: pq.RowGroupMetaData) -> int:
    last = group.column(group.num_columns - 1)
    start = last.dictionary_page_offset or last.data_page_offset
    return int(start + last.total_compressed_size)


def test_columns_of_few_rows_have_dictionaries(tmp_path: Path) -> None:
    table, path = pa.table(_DIFFERENT).slice(0, 10_000), tmp_path / "some.parquet"
    with SliceWriter(path, table.schema, plain="offset") as writer:
        writer.write(table.combine_chunks().to_batches()[0])
    assert _dictionaries(path) == {*_DIFFERENT} - {"offset"}


def test_a_file_without_rows_has_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "some.parquet"
    with SliceWriter(path, TABLE.schema, plain="n"):
        pass
    assert pq.read_table(path).equals(TABLE.slice(0, 0))


def test_all_parquet_files_are_written_by_such_writers() -> None:
    found = {
        name_of(module)
        for module in MODULES
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Attribute) and node.attr == "ParquetWriter"
    }
    assert found == {"executors/data/parquet.py"}
