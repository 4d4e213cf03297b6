"""The reference's chain of a root and a derivative, whole, and what verifying says of its files.

Spark calls every result column optional, so data columns are compared without nullability.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.verify import chain
from odfbuild.executors.verify.chain import Verified
from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DatasetKind,
    DataTypeInt32,
    DataTypeString,
    ExecuteTransform,
    FetchStepFilesGlob,
    MergeStrategySnapshot,
    ReadStepCsv,
    SetPollingSource,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.dataset import Dataset
from tests.executors.ingest.rounds import ARROW_NAMES, Rounds, rows_of
from tests.support.cases import load

(CASE,) = load("transform-chain")["cases"]
MUTATIONS = {each["mutation"]: each["expect"] for each in CASE["verify"]}

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        yield engine


@pytest.fixture
def rounds(tmp_path: Path, engine: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> Rounds:
    return Rounds(tmp_path, engine, monkeypatch)


def verify(dataset: Dataset) -> Verified:
    """Verify a chain in 2050, where the reference has its blocks."""
    return chain.verify(dataset, now=lambda: Timestamp.parse("2050-02-01T00:00:00Z"))


def test_vector_corrections_go_down_the_chain(rounds: Rounds) -> None:
    root, derivative = lay_out(rounds)
    kinds: list[str] = [type(block.event).__name__ for _, block in derivative.blocks()]
    for given in CASE["rounds"]:
        added = play(given, rounds, root, derivative)
        expected = given["expect"]
        if "derivBlocks" in expected:
            assert kinds + added == expected["derivBlocks"]
        else:
            assert added == expected["derivBlocksAdded"]
        table = pq.read_table(last_file(derivative))
        assert rows_of(table) == expected["data"]["rows"]
        assert [(field.name, ARROW_NAMES[field.type]) for field in table.schema] == [
            (each["name"], each["type"]) for each in expected["data"]["columns"]
        ]
        required = [field.name for field in table.schema if not field.nullable]
        assert required == ["offset", "op", "system_time", "event_time"]
    assert verify(root).findings == verify(derivative).findings == ()


def test_vector_a_file_encoded_anew_is_still_the_derivative(rounds: Rounds) -> None:
    derivative = built(rounds)[1]
    rewrite(last_file(derivative), lambda table: table)
    found = verify(derivative)
    assert (
        outcome(found)
        == MUTATIONS["re-encode the last slice as another Parquet file with equal rows"]
    )
    assert found.reencoded == 1


def test_vector_a_derivative_with_changed_values_is_refused(rounds: Rounds) -> None:
    derivative = built(rounds)[1]
    rewrite(last_file(derivative), changed)
    assert outcome(verify(derivative)) == MUTATIONS["change values in the last slice"]


def test_a_root_is_its_bytes_because_nobody_can_make_it_again(rounds: Rounds) -> None:
    root = built(rounds)[0]
    rewrite(last_file(root), lambda table: table)
    (finding,) = verify(root).findings
    assert "has other bytes" in finding.what


@pytest.mark.parametrize(
    ("damage", "said"), [(lambda data: data[:-9], "has other bytes"), (lambda _: None, "missing")]
)
def test_a_damaged_or_missing_file_of_a_derivative_is_found(
    damage: Any, said: str, rounds: Rounds
) -> None:
    derivative = built(rounds)[1]
    path = last_file(derivative)
    left = damage(path.read_bytes())
    path.unlink()
    if left is not None:
        path.write_bytes(left)
    (finding,) = verify(derivative).findings
    assert said in finding.what


# --- the two datasets ------------------------------------------------------------------------


def lay_out(rounds: Rounds) -> tuple[Dataset, Dataset]:
    columns = (DataField("city", DataTypeString()), DataField("population", DataTypeInt32()))
    source = SetPollingSource(
        fetch=FetchStepFilesGlob(path="played"),
        read=ReadStepCsv(schema=DataSchema(columns), header=True),
        merge=MergeStrategySnapshot(primary_key=tuple(CASE["root"]["merge"]["primaryKey"])),
    )
    root = rounds.create("root", DatasetKind.ROOT, [source])
    sql = TransformSql(engine="spark", queries=(SqlQueryStep(query=CASE["query"]),))
    inputs = (TransformInput(dataset_ref=root.id, alias="root"),)
    events = [SetTransform(inputs=inputs, transform=sql)]
    return root, rounds.create("derivative", DatasetKind.DERIVATIVE, events)


def play(given: dict[str, Any], rounds: Rounds, root: Dataset, derivative: Dataset) -> list[str]:
    """Do one round of the root and one step of the derivative; return the kinds it added."""
    rounds.now = Timestamp.parse(given["rootSystemTime"])
    rounds.ingest(root, given["rootCsv"])
    rounds.now = Timestamp.parse(given["derivSystemTime"])
    return [type(event).__name__ for event in rounds.transform(derivative)]


def built(rounds: Rounds) -> tuple[Dataset, Dataset]:
    datasets = lay_out(rounds)
    for given in CASE["rounds"]:
        play(given, rounds, *datasets)
    assert outcome(verify(datasets[1])) == "valid"
    return datasets


def last_file(dataset: Dataset) -> Path:
    return dataset.slices()[-1][1]


def rewrite(path: Path, change: Any) -> None:
    before = path.read_bytes()
    table = change(pq.read_table(path))
    path.unlink()
    pq.write_table(table, path, compression="zstd", version="2.6", row_group_size=2)
    assert path.read_bytes() != before


def changed(table: pa.Table) -> pa.Table:
    at = table.schema.get_field_index("population_x10")
    more = pc.add(table.column(at), pa.scalar(1, pa.int32()))
    return table.set_column(at, table.schema.field(at), more)


def outcome(found: Verified) -> str:
    return "data not reproducible" if found.findings else "valid"


def test_the_steps_are_recorded_with_what_they_read(rounds: Rounds) -> None:
    root, derivative = built(rounds)
    steps = [b.event for _, b in derivative.blocks() if isinstance(b.event, ExecuteTransform)]
    read = [step.query_inputs[0] for step in steps]
    assert [(each.prev_offset, each.new_offset) for each in read] == [(None, 2), (2, 7)]
    assert read[0].prev_block_hash is None
    assert read[1].prev_block_hash == read[0].new_block_hash
    assert read[1].new_block_hash == root.head()
    assert [str(step.new_watermark) for step in steps] == [
        "2050-01-01T12:00:00Z",
        "2050-01-02T12:00:00Z",
    ]
