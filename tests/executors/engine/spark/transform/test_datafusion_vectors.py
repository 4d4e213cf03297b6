"""Cases of the reference's DataFusion engine, by Spark and by DataFusion: rows, offsets, refusals.

Nullability is not compared: Spark calls every column of a result optional.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.data.seal import seal
from odfbuild.executors.engine.datafusion.engine import DataFusionEngine
from odfbuild.executors.engine.protocol import TransformInputFrame, TransformWork, query_over
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.events import DatasetKind, OffsetInterval, SqlQueryStep, TransformSql
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.intervals import PendingInput, bind
from odfbuild.planner.staleness import InputNow
from tests.executors.engine.spark.tables import VOCAB, table_of, written
from tests.planner.builders import Chain, schema
from tests.support.cases import load

CASES = load("transform-datafusion")["cases"]


@pytest.mark.spark
@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_a_case_of_the_reference_holds_on_spark(
    case: dict[str, Any], either_way: SparkEngine, tmp_path: Path
) -> None:
    check_case(case, either_way, work_of(case, tmp_path))


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_a_case_of_the_reference_holds_on_its_own_engine(
    case: dict[str, Any], tmp_path: Path
) -> None:
    check_case(case, DataFusionEngine(), work_of(case, tmp_path, "datafusion"))


def check_case(
    case: dict[str, Any], engine: SparkEngine | DataFusionEngine, work: TransformWork
) -> None:
    expected, folder = case["expect"], work.staging
    if expected.get("error") == "invalid query":
        with pytest.raises(InvalidQueryError):
            engine.transform(work)
        return
    frame = engine.transform(work)
    now = Timestamp.parse(case["systemTime"])
    sealed = seal(
        frame, vocab=VOCAB, system_time=now, event_time=now, start=case["nextOffset"],
        in_force=None, into=folder / "slice.parquet", retires=True,
    )  # fmt: skip
    if expected["data"] is None:
        assert (sealed.slices, expected["offsets"]) == ((), None)
        return
    assert plain(pq.read_table(folder / "slice.parquet")) == plain(table_of(expected["data"]))
    if "offsets" in expected:
        assert sealed.slice is not None
        interval = sealed.slice.offset_interval
        assert [interval.start, interval.end] == expected["offsets"]


def plain(table: pa.Table) -> tuple[list[tuple[str, pa.DataType]], list[dict[str, Any]]]:
    """Return what is compared: columns in order with their types, and rows in order."""
    return [(field.name, field.type) for field in table.schema], table.to_pylist()


def work_of(case: dict[str, Any], folder: Path, engine: str = "spark") -> TransformWork:
    inputs = []
    for each in case["inputs"]:
        tables = [table_of(piece) for piece in each["slices"]]
        inputs.append(
            TransformInputFrame(
                alias=each["alias"],
                paths=tuple(written(folder, table) for table in tables),
                interval=OffsetInterval(*each["offsetInterval"]),
                schema=from_arrow(tables[-1].schema),
                vocab=VOCAB,
            )
        )
    steps = [SqlQueryStep(alias=each["alias"], query=each["query"]) for each in case["queries"]]
    transform = TransformSql(engine=engine, queries=tuple(steps))
    return TransformWork(
        inputs=tuple(inputs),
        query=query_over(transform, inputs, VOCAB),
        vocab=VOCAB,
        staging=folder,
    )


@pytest.mark.parametrize(
    "case", [each for each in CASES if "watermark" in each["expect"]], ids=lambda c: str(c["id"])
)
def test_the_watermark_of_a_case_is_that_of_its_step(case: dict[str, Any]) -> None:
    """Watermarks are the chain's affair here; an engine is told where a step ends."""
    (source,) = case["inputs"]
    chain = Chain("in", DatasetKind.ROOT, [schema("a BIGINT")])
    first, last = source["offsetInterval"]
    chain.rows(last - first + 1)
    for watermark in source["watermarks"]:
        chain.rows(0, watermark)
    output = Chain("out", DatasetKind.DERIVATIVE, [schema("a BIGINT")])
    batch = bind(output.state, [PendingInput(InputNow("in", chain.state), tuple(chain.blocks))])
    assert batch is not None
    found = None if batch.watermark is None else str(batch.watermark)
    assert found == case["expect"]["watermark"]
