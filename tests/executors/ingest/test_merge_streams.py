"""UpsertStream and ChangelogStream without a JVM: the worked cases, and whole rounds."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.verify.chain import verify
from odfbuild.odf.events import (
    AddData,
    DatasetKind,
    DatasetVocabulary,
    FetchStepFilesGlob,
    MergeStrategy,
    MergeStrategyChangelogStream,
    MergeStrategyUpsertStream,
    ReadStepCsv,
    SetPollingSource,
    SetVocab,
)
from odfbuild.planner.declared import Declared
from tests.executors.engine.spark.tables import ingest_request, rows_of, strategy_of, table_of
from tests.planner.builders import declare
from tests.support.cases import load
from tests.support.engines import FakeEngine
from tests.support.workshop import Workshop

CASES = [
    case
    for name in ("merge-upsert-stream", "merge-changelog-stream")
    for case in load(name)["cases"]
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_vectors_hold_for_the_engine_of_the_tests(case: dict[str, Any], tmp_path: Path) -> None:
    request = ingest_request(
        tmp_path,
        table_of(case["input"]),
        strategy_of(case["strategy"]),
        [] if case["existing"] is None else [table_of(case["existing"])],
        vocab=DatasetVocabulary(event_time_column=case["vocab"]["eventTimeColumn"]),
    )
    expected = table_of(case["expect"]["output"])
    merged = FakeEngine().ingest(request)
    assert merged.schema.names == expected.schema.names
    assert rows_of(merged) == expected.to_pylist()


def changes(merge: MergeStrategy) -> Declared:
    """Declare a root that reads operations, day, key and value."""
    ddl = ("op INT", "t DATE NOT NULL", "k STRING NOT NULL", "v BIGINT")
    source = SetPollingSource(
        fetch=FetchStepFilesGlob(path="data/*.csv"),
        read=ReadStepCsv(ddl_schema=ddl, header=True),
        merge=merge,
    )
    return declare("src", DatasetKind.ROOT, (source, SetVocab(event_time_column="t")))


def play(workshop: Workshop, merge: MergeStrategy, *files: tuple[str, ...]) -> list[Any]:
    """Apply after each file; return operation, key and value of all rows."""
    for number, rows in enumerate(files):
        workshop.file(f"{number}.csv", *rows, header="op,t,k,v")
        report = workshop.apply([changes(merge)])
        assert not report.failures
    assert verify(workshop.dataset("src")).findings == ()
    return [row[1:] for row in workshop.rows("src")]


def test_upserts_become_corrections_and_retractions(tmp_path: Path) -> None:
    found = play(
        Workshop(tmp_path),
        MergeStrategyUpsertStream(primary_key=("k",)),
        ("0,2024-01-01,a,1", "0,2024-01-01,b,2"),
        ("0,2024-01-02,a,5", "1,2024-01-02,b,", "1,2024-01-02,c,", "0,2024-01-01,d,1"),
    )
    assert found == [
        *[(0, "a", 1), (0, "b", 2)],
        *[(2, "a", 1), (3, "a", 5), (1, "b", 2), (0, "d", 1)],
    ]


def test_upserts_that_change_nothing_make_no_rows(tmp_path: Path) -> None:
    workshop, same = Workshop(tmp_path), ("0,2024-01-01,a,1",)
    play(workshop, MergeStrategyUpsertStream(primary_key=("k",)), same, same)
    *_, block = [each.event for _, each in workshop.dataset("src").blocks()]
    assert isinstance(block, AddData)
    assert block.new_data is None
    assert workshop.rows("src") == [(0, 0, "a", 1)]


def test_a_changelog_is_recorded_as_it_stands(tmp_path: Path) -> None:
    found = play(
        Workshop(tmp_path),
        MergeStrategyChangelogStream(primary_key=("k",)),
        ("0,2024-01-01,b,2", "0,2024-01-01,a,1"),
        ("2,2024-01-01,a,1", "3,2024-01-02,a,5", "1,2024-01-01,b,2"),
    )
    assert found == [
        *[(0, "a", 1), (0, "b", 2)],
        *[(2, "a", 1), (3, "a", 5), (1, "b", 2)],
    ]


def test_operations_are_stored_as_those_of_the_dataset(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    play(workshop, MergeStrategyUpsertStream(primary_key=("k",)), ("0,2024-01-01,a,1",))
    schema = pq.read_schema(workshop.dataset("src").slices()[0][1])
    assert schema.names == ["offset", "op", "system_time", "t", "k", "v"]
    assert schema.field("op").type == pa.int32()


@pytest.mark.parametrize(
    "rows",
    [
        ("2,2024-01-01,a,1", "3,2024-01-02,c,1", "0,2024-01-02,b,1"),
        ("2,2024-01-01,d,1", "3,2024-01-02,c,1"),
        ("2,2024-01-01,a,1", "0,2024-01-02,a,2"),
        ("3,2024-01-02,a,2",),
        ("3,2024-01-02,a,2", "2,2024-01-01,a,1"),
    ],
    ids=["between", "before", "no +C", "no -C", "turned around"],
)
def test_a_correction_of_two_keys_is_refused_with_the_order_of_the_rows(
    tmp_path: Path, rows: tuple[str, ...]
) -> None:
    workshop, merge = Workshop(tmp_path), MergeStrategyChangelogStream(primary_key=("k",))
    play(workshop, merge, ("0,2024-01-01,a,1", "0,2024-01-01,d,1"))
    workshop.file("1.csv", *rows, header="op,t,k,v")
    ((_, failed),) = workshop.apply([changes(merge)]).failures
    assert failed.error.code == "invalid-changelog"
    assert "in the order of its primaryKey (k)" in failed.error.why
    assert "-R (1) with the old key and +A (0) with the new one" in failed.error.fix
    assert len(workshop.rows("src")) == 2
