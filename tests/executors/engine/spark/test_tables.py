"""Tables on their way into Spark keep all their rows, however they are cut."""

import pyarrow as pa
import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.frames import from_table
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
