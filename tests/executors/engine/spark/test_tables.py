"""Tables and files on their way into Spark keep all their rows, whatever they are cut into."""

import struct
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.frames import from_files, from_table
from odfbuild.executors.engine.spark.settings import StepSize

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("n", pa.int64()), ("l", pa.list_(pa.float64()))])


def part(*numbers: int) -> pa.Table:
    return pa.table([list(numbers), [[None, 1.5]] * len(numbers)], SCHEMA)


@pytest.mark.parametrize(
    "parts",
    [[()], [(), ()], [(), (), (1,)], [(1,), (), (2, 3)], [(), (1, 2), ()], [(1,), (2,), (3,)]],
)
def test_rows_behind_empty_chunks_are_kept(engine: SparkEngine, parts: list[list[int]]) -> None:
    table = pa.concat_tables([part(*each) for each in parts])
    engine._sessions.start(0)
    found = from_table(engine._sessions.session(StepSize.SMALL), table).toArrow()
    assert found.column("n").to_pylist() == [number for each in parts for number in each]


@pytest.mark.parametrize("size", StepSize)
@pytest.mark.parametrize("pages", [False, True], ids=["groups", "pages"])
def test_no_row_is_passed_over_by_what_a_file_says_of_it(
    engine: SparkEngine, size: StepSize, pages: bool, tmp_path: Path
) -> None:
    rows = pa.table(
        {
            "n": [1, 77],
            "d": [1.0, 77.0],
            "m": pa.array([Decimal(1), Decimal(77)], pa.decimal128(9, 0)),
            "s": [{"x": 1}, {"x": 77}],
        }
    )
    path = tmp_path / "false.parquet"
    pq.write_table(
        rows, path, use_dictionary=False, compression="none", write_page_index=pages,
        store_decimal_as_integer=True,
    )  # fmt: skip
    data = path.read_bytes()
    values = rows.nbytes  # plain values come first, and are left as they are
    for form in "<q", "<d", "<i":
        true, false = struct.pack(form, 77), struct.pack(form, 1)
        length = bytes([len(true)])
        data = data[:values] + data[values:].replace(length + true, length + false)
    path.write_bytes(data)
    engine._sessions.start(0)
    frame = from_files(engine._sessions.session(size), [path], rows.schema)
    for condition in "n > 5", "d > 5", "m > 5", "s.x > 5":
        assert frame.where(condition).count() == 1, condition
