"""Rows that may be at fault are found in the footers of files, without reading the others."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.spark.frames import in_doubt


def _frame(folder: Path, files: list[list[int]], *, statistics: bool = True) -> Frame:
    paths = []
    for number, values in enumerate(files):
        paths.append(folder / f"{number}.parquet")
        texts = pa.array(["x"] * len(values), pa.string())
        table = pa.table({"a": texts, "op": pa.array(values, pa.int32())})
        pq.write_table(table, paths[-1], row_group_size=2, write_statistics=statistics)
    return Frame.at(*paths)


def _values(frame: Frame) -> list[int]:
    return [value for batch in frame.batches() for value in batch.column("op").to_pylist()]


def test_only_groups_that_reach_the_number_are_left(tmp_path: Path) -> None:
    frame = _frame(tmp_path, [[0, 1, 3, 0], [], [0, 0, 0, 9, 9], [1]])
    assert _values(in_doubt(frame, "op", 8)) == [0, 9, 9]
    assert in_doubt(frame, "op", 10).rows == 0


def test_files_that_say_nothing_are_in_doubt(tmp_path: Path) -> None:
    frame = _frame(tmp_path, [[0, 1], [3]], statistics=False)
    assert _values(in_doubt(frame, "op", 8)) == [0, 1, 3]


@given(files=st.lists(st.lists(st.integers(0, 12), max_size=9), min_size=1, max_size=4))
def test_none_that_reaches_it_is_left_out(
    files: list[list[int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    frame = _frame(tmp_path_factory.mktemp("files"), files)
    found = [value for value in _values(in_doubt(frame, "op", 8)) if value >= 8]
    assert found == [value for values in files for value in values if value >= 8]
