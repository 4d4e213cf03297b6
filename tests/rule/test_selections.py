"""Many selections of rows that are tried in one run are counted as each of them is by itself."""

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.data.seal import Sealed
from odfbuild.executors.engine.protocol import TransformWork
from odfbuild.executors.engine.provenance.logs import read_logs
from odfbuild.executors.engine.provenance.selections import Alone, BatchedRuns, selections
from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.rule.histories import history
from tests.rule.shapes import SHAPES, Shape
from tests.rule.steps import played, sealed

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("shape", [each for each in SHAPES if not each.by_row], ids=str)
def test_what_is_tried_at_once_is_counted_as_what_is_tried_alone(
    engine: SparkEngine, tmp_path: Path, shape: Shape
) -> None:
    draw = Random(shape.name)

    def step(engine: SparkEngine, work: TransformWork, start: int) -> Sealed:
        done = sealed(engine, work, start)
        if done.path is not None:
            table = pq.read_table(done.path)
            row = table.slice(draw.randrange(table.num_rows), 1)
            check(engine, work, row.drop_columns(["offset", "op", "system_time"]), draw)
        return done

    for _ in played(engine, tmp_path, shape, history(draw, shape.inputs, (1, 2, 4)), step):
        pass


def check(engine: SparkEngine, work: TransformWork, row: pa.Table, draw: Random) -> None:
    logs = read_logs(work, row, most=1 << 26)
    counting = selections(engine, work, logs.keyed, row)
    if not isinstance(counting, BatchedRuns):
        return
    many = []
    for _ in range(4):
        chosen = {}
        for log in logs.each:
            current = log.current_rows(log.new)
            kept = [at for at in range(current.num_rows) if draw.random() < 0.7]
            chosen[log.alias] = current.take(pa.array(kept, pa.int64()))
        many.append(logs.seen(chosen))
    assert counting.counts(work, many) == Alone(engine, row).counts(work, many)
