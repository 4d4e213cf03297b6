"""Steps that go as messages: they leave what they leave in this process, whatever their class."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, cast

import pyarrow as pa
import pytest

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.datafusion.engine import DataFusionEngine
from odfbuild.executors.engine.messages import EngineOperations, answered, answered_json
from odfbuild.executors.engine.messages.dataset_step import rows_of_step, step_request
from odfbuild.executors.engine.messages.provenance import MessageEngine
from odfbuild.executors.engine.protocol import Inputs, TransformWork, engine_version
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf import messages as msg
from odfbuild.odf.events import TransformSql
from odfbuild.odf.manifest import from_mapping
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.wire.blocks import decode_table, encode_table
from tests.executors.engine.datafusion.test_rule import ALL, DataFusionQuery
from tests.rule.check import check_number
from tests.rule.histories import history
from tests.rule.shapes.joins import JOINS
from tests.rule.shapes.keyed import KEYED
from tests.rule.shapes.linear import LINEAR
from tests.rule.shapes.shape import Shape
from tests.rule.shapes.state import STATE
from tests.rule.shapes.whole import WHOLE
from tests.rule.shapes.windows import WINDOWS
from tests.rule.steps import played
from tests.support.effort import examples

OF_EACH_CLASS = tuple(shapes[0] for shapes in (LINEAR, JOINS, KEYED, STATE, WHOLE, WINDOWS))


class ThroughMessages:
    """An engine whose transforms go as messages: as JSON, and as bytes, by turns."""

    def __init__(self, engine: MessageEngine) -> None:
        self._engine = engine
        self.asked = 0

    def transform(self, work: TransformWork) -> Frame:
        self.asked += 1
        made, kept = (work.staging / f"{name}-{self.asked}.parquet" for name in ("rows", "kept"))
        request = step_request(work, str, str(made), str(kept))
        operations = EngineOperations(self._engine, work.staging)
        if self.asked % 2:
            asked = from_mapping(msg.StepRequest, to_mapping(request))
            said = answered_json(operations, "ExecuteStep", to_mapping(asked))
            answer = from_mapping(msg.StepResponseRoot, said).value
        else:
            data = encode_table(request)
            assert decode_table(msg.StepRequest, data) == request
            answer = decode_table(
                msg.StepResponseRoot, answered(operations, "ExecuteStep", data)
            ).value
        assert isinstance(answer, msg.StepResponseSuccess), answer
        assert answer.new_checkpoint == kept.exists()
        if answer.new_checkpoint and work.new_checkpoint is not None:
            kept.rename(work.new_checkpoint)
        frame = rows_of_step(answer, made)
        assert frame.rows == answer.num_records
        return frame

    def results(self, work: TransformWork, many: Sequence[Inputs]) -> Sequence[pa.Table]:
        return self._engine.results(work, many)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        yield engine


@pytest.mark.spark
@pytest.mark.parametrize("shape", OF_EACH_CLASS, ids=str)
def test_steps_on_spark_leave_what_one_batch_query_gives(
    spark: SparkEngine, tmp_path: Path, shape: Shape
) -> None:
    through = ThroughMessages(spark)
    check_number(cast("SparkEngine", through), tmp_path, shape, 2)
    assert through.asked > 1


@pytest.mark.parametrize("query", ALL, ids=lambda query: query.text[:60])
def test_steps_in_this_process_have_the_same_slices_byte_for_byte(
    query: DataFusionQuery, tmp_path: Path
) -> None:
    for seed in range(examples(2, 50)):
        found = history(Random(f"{query.text} as a message {seed}"), query.inputs)
        logs = []
        for number, engine in enumerate((DataFusionEngine(), ThroughMessages(DataFusionEngine()))):
            folder = tmp_path / f"{seed}-{number}"
            folder.mkdir()
            steps = played(cast("SparkEngine", engine), folder, query, found)
            logs.append(
                [
                    (each.number, each.sealed.schema, [s.data for s in each.sealed.slices])
                    for each in steps
                ]
            )
        assert logs[0] == logs[1], f"seed {seed}"


def _request(folder: Path, transform: TransformSql) -> msg.StepRequest:
    query = DataFusionQuery("select * from a", "linear")
    found = history(Random(1), query.inputs)
    sent: list[msg.StepRequest] = []

    class Noting(DataFusionEngine):
        def transform(self, work: TransformWork) -> Frame:
            sent.append(step_request(work, str, str(folder / "rows"), str(folder / "kept")))
            return super().transform(work)

    list(played(cast("SparkEngine", Noting()), folder, query, found))
    return replace(sent[0], transform=transform)


@pytest.mark.parametrize("version", [None, "0.1", "49.0.0+odfbuild.99"])
def test_a_step_for_another_version_is_not_run(version: str | None, tmp_path: Path) -> None:
    sent = TransformSql(engine="datafusion", version=version, query="select * from a")
    operations = EngineOperations(DataFusionEngine(), tmp_path)
    answer = operations.execute_step(_request(tmp_path, sent))
    assert isinstance(answer, msg.StepResponseInternalError)
    assert f"the step is for datafusion {version}" in answer.message
    assert not (tmp_path / "rows").exists()


@pytest.mark.parametrize(
    ("query", "engine", "kind"),
    [
        ("select nothing from a", "datafusion", msg.StepResponseInvalidQuery),
        ("select", "datafusion", msg.StepResponseInvalidQuery),
        ("select * from a", "flink", msg.StepResponseInvalidQuery),
    ],
)
def test_a_wrong_query_is_an_answer(query: str, engine: str, kind: type, tmp_path: Path) -> None:
    sent = TransformSql(engine=engine, version=engine_version(engine), query=query)
    answer = EngineOperations(DataFusionEngine(), tmp_path).execute_step(_request(tmp_path, sent))
    assert isinstance(answer, kind)
