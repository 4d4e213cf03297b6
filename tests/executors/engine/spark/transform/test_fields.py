"""A struct upstream gains a field: a query sees the fields that were there when it first ran."""

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine.context import Site
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.verify.history import RecordedHistories
from odfbuild.executors.verify.replay import recorded_steps, replay
from odfbuild.odf.events import (
    DatasetKind,
    FetchStepFilesGlob,
    MergeStrategyLedger,
    ReadStepNdJson,
    SetPollingSource,
    SetTransform,
    SetVocab,
    TransformInput,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from tests.planner.builders import declare, sql
from tests.support.workshop import Workshop

pytestmark = pytest.mark.spark

QUERIES = {
    "linear": "select * from src",
    "named": "select t, k, s from src where v > 0",
    "keyed": "select distinct * from src",
    "inside": "select t, k, s.x as s, s as whole from src",
}


class _Works(Workshop):
    def __init__(self, folder: Path, spark: SparkEngine) -> None:
        super().__init__(folder)
        self.spark = spark

    def site(self) -> Site:
        return replace(super().site(), engine=self.spark)

    def built(self, number: int, fields: str, text: str) -> None:
        """Bring a line, and build everything from it."""
        line = f'{{"t": "2024-01-0{number}", "k": "k{number}", "v": 1, "s": {text}}}'
        self.file(f"{number}.json", header=line)
        made = [_made(name, query) for name, query in QUERIES.items()]
        report = self.apply([_src(fields), *made], jobs=1)
        assert not report.failures, [each.error.what for _, each in report.failures]

    def fields(self, name: str) -> list[str]:
        """Return the fields within the struct that the last slice of a dataset has."""
        schema = pq.read_schema(self.dataset(name).slices()[-1][1])
        column = "whole" if "whole" in schema.names else "s"
        return [each.name for each in schema.field(column).type.field("i").type]


def _src(fields: str) -> Declared:
    ddl = ("t DATE NOT NULL", "k STRING", "v BIGINT", f"s STRUCT<x: BIGINT, i: STRUCT<{fields}>>")
    source = SetPollingSource(
        fetch=FetchStepFilesGlob(path="data/*.json"),
        read=ReadStepNdJson(ddl_schema=ddl),
        merge=MergeStrategyLedger(primary_key=("k",)),
    )
    return declare("src", DatasetKind.ROOT, (source, SetVocab(event_time_column="t")))


def _made(name: str, query: str) -> Declared:
    transform = SetTransform((TransformInput(DatasetAlias.parse("src"), "src"),), sql(query))
    return declare(name, DatasetKind.DERIVATIVE, (transform, SetVocab(event_time_column="t")))


def test_a_field_that_comes_upstream_stays_there(either_way: SparkEngine, tmp_path: Path) -> None:
    works = _Works(tmp_path, either_way)
    works.built(1, "y: BIGINT", '{"x": 1, "i": {"y": 1}}')
    for number in (2, 3):  # at once, and in every later step
        works.built(number, "y: BIGINT, z: STRING", '{"x": 1, "i": {"y": 2, "z": "new"}}')
    assert works.fields("src") == ["y", "z"]
    past = RecordedHistories(works.workspace)
    for name in QUERIES:
        assert works.fields(name) == ["y"], name
        assert len(works.rows(name)) == 3
        history = past.history(works.dataset(name).id)
        assert history is not None
        for step in recorded_steps(history):
            assert replay(step, past, either_way, works.workspace).findings == ()
