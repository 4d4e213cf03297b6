"""Build a root and a derivative on a given Spark, every step large; say what the chains hold.

A process of its own, because a process has one Spark: `python -m
tests.executors.engine.spark.building MASTER FOLDER [OBJECTS [HOME]]`, the source being
data/rows.csv in the folder, OBJECTS a prefix of a store for files of a cluster, HOME one for the
workspace.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from odfbuild.executors.engine.context import Site
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.verify.chain import verify
from odfbuild.odf.events import (
    DatasetKind,
    FetchStepFilesGlob,
    MergeStrategyAppend,
    ReadStepCsv,
    SetPollingSource,
    SetVocab,
)
from odfbuild.state.remote.cache import ObjectCache
from odfbuild.state.remote.workspace import BucketWorkspace
from tests.planner.builders import declare, derivative
from tests.support.workshop import Workshop

__all__ = ["SLICE_ROWS", "built_on", "main"]

SLICE_ROWS = 3_000
_QUERY = "select t as event_time, k, v * 2 as w from src where v % 3 > 0"


class _Works(Workshop):
    """Builds on Spark, in slices of a few rows."""

    def __init__(self, folder: Path, spark: SparkEngine, home: str | None = None) -> None:
        super().__init__(folder)
        self.spark = spark
        if home is not None:
            cache = ObjectCache(folder / "objects", 1 << 30)
            self.workspace = BucketWorkspace(home, cache=cache, root=folder / "local")

    def site(self) -> Site:
        return replace(super().site(), engine=self.spark, slice_rows=SLICE_ROWS)


Slices: TypeAlias = dict[str, list[tuple[str, int, int, str, int]]]


def main(master: str, folder: Path, objects: str | None = None, home: str | None = None) -> Slices:
    """Build, check the chains, and return hashes, offsets and size of every slice."""
    with SparkEngine(
        folder / "cache", master=master, memory="1g", limit=-1, objects=objects, home=home
    ) as spark:
        return built_on(spark, folder, home=home)


def built_on(
    spark: SparkEngine, folder: Path, query: str = _QUERY, *, home: str | None = None
) -> Slices:
    """Do so on an engine; raises the error of the first step that fails."""
    source = SetPollingSource(
        fetch=FetchStepFilesGlob(path="data/*.csv"),
        read=ReadStepCsv(ddl_schema=("t TIMESTAMP", "k STRING NOT NULL", "v BIGINT"), header=True),
        merge=MergeStrategyAppend(),
    )
    declared = [
        declare("src", DatasetKind.ROOT, (source, SetVocab(event_time_column="t"))),
        derivative("out", "src", query=query),
    ]
    works = _Works(folder, spark, home)
    for _, failed in works.apply(declared).failures:
        raise failed.error
    found = {}
    for name in ("src", "out"):
        assert verify(works.dataset(name)).findings == ()
        slices = [each for each, _ in works.dataset(name).slices()]
        found[name] = [
            (
                str(each.logical_hash),
                each.offset_interval.start,
                each.offset_interval.end,
                str(each.physical_hash),
                each.size,
            )
            for each in slices
        ]
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])))
