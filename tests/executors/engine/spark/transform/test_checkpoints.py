"""Datasets that keep what groups counted: checkpoints in their chains, lost and damaged ones."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine.context import Site
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.ingest.manual_watermark import move_watermark
from odfbuild.executors.transform.checkpoint import LostCheckpointError
from odfbuild.executors.transform.step import transform
from odfbuild.executors.verify.chain import verify
from odfbuild.executors.verify.history import RecordedHistories
from odfbuild.executors.verify.replay import recorded_steps, replay
from odfbuild.odf.events import (
    Checkpoint,
    DatasetKind,
    ExecuteTransform,
    SetTransform,
    SetVocab,
    TransformInput,
)
from odfbuild.odf.hashing import physical_hash
from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from tests.planner.builders import sql
from tests.support.workshop import Workshop, ledger

pytestmark = pytest.mark.spark

QUERY = "select max(t) as t, g, count(1) as n, sum(v) as s, min(v) as lo from src group by g"
HIDING = f"{QUERY} having count(1) > 100"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        yield engine


class Grouped(Workshop):
    """A root, and a derivative of the class `state`."""

    def __init__(self, folder: Path, spark: SparkEngine, query: str = QUERY) -> None:
        super().__init__(folder)
        self.spark, self.query, self.number = spark, query, 0

    def site(self) -> Site:
        return replace(super().site(), engine=self.spark)

    @property
    def out(self) -> Dataset:
        return self.dataset("out")

    def day(self, *rows: str) -> None:
        """Bring rows into the root, and run a step of the derivative."""
        self.number += 1
        self.now = Timestamp.parse(f"2025-01-{self.number:02}T00:00:00Z")
        self.file(f"{self.number}.csv", *rows, header="t,k,g,v")
        columns = ("t DATE NOT NULL", "k STRING NOT NULL", "g STRING", "v BIGINT")
        assert not self.apply([ledger("src", *columns)]).failures
        if self.number == 1:
            inputs = (TransformInput(self.dataset("src").id, "src"),)
            events = (SetTransform(inputs, sql(self.query)), SetVocab(event_time_column="t"))
            self.workspace.create(
                DatasetAlias.parse("out"), DatasetKind.DERIVATIVE, CommitRequest(events, self.now)
            )
        self.step()

    def step(self) -> None:
        transform(self.site(), self.out, lambda _: None)

    def steps(self) -> list[ExecuteTransform]:
        events = [block.event for _, block in self.out.blocks()]
        return [each for each in events if isinstance(each, ExecuteTransform)]

    def checkpoint(self) -> Path:
        state = self.out.state()
        assert state is not None
        assert state.checkpoint is not None
        return self.out.checkpoint_path(state.checkpoint)

    def replayed(self) -> list[tuple[str, ...]]:
        past = RecordedHistories(self.workspace)
        history = past.history(self.out.id)
        assert history is not None
        return [
            replay(each, past, self.spark, self.workspace).findings
            for each in recorded_steps(history)
        ]


def left(step: ExecuteTransform) -> Multihash | None:
    return None if step.new_checkpoint is None else step.new_checkpoint.physical_hash


def test_each_step_leaves_a_checkpoint_and_continues_from_the_last(
    tmp_path: Path, spark: SparkEngine
) -> None:
    works = Grouped(tmp_path, spark)
    works.day("2024-01-01,a,x,1", "2024-01-01,b,y,2")
    works.day("2024-01-02,c,x,5")
    first, second = works.steps()
    assert (first.prev_checkpoint, second.prev_checkpoint) == (None, left(first))
    assert None not in (left(first), left(second))
    assert left(first) != left(second)
    groups = pq.read_table(works.checkpoint()).to_pylist()
    assert [(each["__odf_k0"], each["__odf_n"]) for each in groups] == [("x", 2), ("y", 1)]

    # a watermark alone: nothing is counted, the same checkpoint is named again
    src = works.dataset("src")
    move_watermark(src, Timestamp.parse("2025-01-01T00:00:00Z"), now=works.now, source="default")
    works.step()
    third = works.steps()[-1]
    assert third.new_data is None
    assert (third.prev_checkpoint, left(third)) == (left(second), left(second))
    assert verify(works.out).findings == ()
    assert works.replayed() == [()] * 3


@pytest.mark.parametrize("damage", ["a byte", "gone"])
def test_a_checkpoint_that_is_not_as_committed_is_never_trusted(
    damage: str, tmp_path: Path, spark: SparkEngine
) -> None:
    works = Grouped(tmp_path, spark)
    works.day("2024-01-01,a,x,1", "2024-01-01,b,y,2")
    path, head = works.checkpoint(), works.out.head()
    whole = path.read_bytes()
    path.unlink()
    if damage == "a byte":
        path.write_bytes(whole[:50] + bytes([whole[50] ^ 1]) + whole[51:])
    (finding,) = verify(works.out).findings
    assert f"checkpoint {path.name}" in finding.what
    with pytest.raises(LostCheckpointError) as caught:
        works.day("2024-01-02,c,x,5")
    assert "odfbuild rebuild out " in caught.value.fix
    assert works.out.head() == head
    path.unlink(missing_ok=True)
    path.write_bytes(whole)
    works.step()
    assert verify(works.out).findings == ()
    rows = pq.read_table(works.out.slices()[-1][1]).to_pylist()
    assert [(row["op"], row["g"], row["n"]) for row in rows] == [(2, "x", 1), (3, "x", 2)]


def test_a_step_that_shows_no_row_records_what_it_counted(
    tmp_path: Path, spark: SparkEngine
) -> None:
    works = Grouped(tmp_path, spark, HIDING)
    works.day("2024-01-01,a,x,1")
    works.day("2024-01-01,b,x,2")
    counted = [(each.new_data, left(each) is None) for each in works.steps()]
    assert counted[-1] == (None, False)
    state = works.out.state()
    assert state is not None
    assert [each.new_offset for each in state.progress.values()] == [1]
    assert works.replayed() == [()] * len(counted)


def false_counts(works: Grouped, folder: Path) -> Checkpoint:
    """Put a checkpoint beside the one in force that counts other rows of the same groups."""
    table = pq.read_table(works.checkpoint())
    at = table.schema.get_field_index("__odf_n")
    counts = pa.array([9] * table.num_rows, pa.int64())
    forged = folder / "forged.parquet"
    pq.write_table(table.set_column(at, table.schema.field(at), counts), forged)
    hash = physical_hash(forged)
    works.out.checkpoint_path(hash).write_bytes(forged.read_bytes())
    return Checkpoint(hash, forged.stat().st_size)


def lied(works: Grouped, kept: Checkpoint) -> tuple[str, ...]:
    """Return what a replay finds of the last step, if its block named this checkpoint."""
    past = RecordedHistories(works.workspace)
    history = past.history(works.out.id)
    assert history is not None
    step = recorded_steps(history)[-1]
    event = step.event
    lying = ExecuteTransform(
        query_inputs=event.query_inputs, prev_checkpoint=event.prev_checkpoint,
        prev_offset=event.prev_offset, new_data=event.new_data,
        new_checkpoint=kept, new_watermark=event.new_watermark,
    )  # fmt: skip
    return replay(replace(step, event=lying), past, works.spark, works.workspace).findings


def test_what_another_counted_is_found(tmp_path: Path, spark: SparkEngine) -> None:
    """The bytes are those that the block names, but not the groups that its step counts."""
    works = Grouped(tmp_path, spark)
    works.day("2024-01-01,a,x,1", "2024-01-01,b,y,2")
    kept = false_counts(works, tmp_path)
    assert [each for each in lied(works, kept) if "came out otherwise" in each]

    # a step that counts nothing names the checkpoint before it, and no other one
    src = works.dataset("src")
    move_watermark(src, Timestamp.parse("2025-01-01T00:00:00Z"), now=works.now, source="default")
    works.step()
    last = works.steps()[-1].new_checkpoint
    assert last is not None and lied(works, last) == ()
    (found,) = lied(works, kept)
    assert (
        found == f"the checkpoint is {kept.physical_hash}, and the step leaves {last.physical_hash}"
    )


def test_a_checkpoint_that_no_step_can_read_is_found(tmp_path: Path, spark: SparkEngine) -> None:
    """It has the bytes that the block names, so without a replay nothing shows it."""
    works = Grouped(tmp_path, spark)
    works.day("2024-01-01,a,x,1", "2024-01-01,b,y,2")
    kept = Path(works.checkpoint()).read_bytes()
    for data in (b"", b"something", kept[:-1], kept[: len(kept) // 2]):
        forged = tmp_path / "forged.parquet"
        forged.write_bytes(data)
        hash = physical_hash(forged)
        works.out.checkpoint_path(hash).write_bytes(data)
        assert lied(works, Checkpoint(hash, len(data))) == (
            f"the checkpoint {hash} is not one that can be read: the next step counts all rows "
            "again",
        )


def test_a_checkpoint_of_a_step_that_leaves_none_is_found(
    tmp_path: Path, spark: SparkEngine
) -> None:
    folders = tmp_path / "one", tmp_path / "other"
    for each in folders:
        each.mkdir()
    works = Grouped(folders[0], spark)
    works.day("2024-01-01,a,x,1")
    kept = false_counts(works, tmp_path)
    other = Grouped(folders[1], spark, "select t, g, v from src")
    other.day("2024-01-01,a,x,1")
    assert other.steps()[-1].new_checkpoint is None
    assert lied(other, kept) == (
        f"the checkpoint is {kept.physical_hash}, and the step leaves none",
    )
