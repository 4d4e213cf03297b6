"""Merges in this process and those of Spark give the same slices, and the same errors."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odfbuild.executors.engine.datafusion.merging import ArrowMerger
from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.executors.engine.datafusion.merging.random_merges import (
    AS_OF_ENGINES,
    compare,
    draw,
)
from tests.support.effort import examples

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        yield engine


@pytest.mark.parametrize(
    "arrow",
    [ArrowMerger(), ArrowMerger(held=0), ArrowMerger(held=0, appended=0)],
    ids=["in memory", "as if much", "through files"],
)
def test_both_engines_make_the_same_of_every_history(
    arrow: ArrowMerger, spark: SparkEngine, tmp_path: Path
) -> None:
    for seed in range(examples(4, 60)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert compare(draw(seed), spark, arrow, folder) is None, seed


@pytest.mark.parametrize("large", [False, True], ids=["few rows", "much"])
def test_columns_may_have_names_that_engines_use(
    spark: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, large: bool
) -> None:
    monkeypatch.setattr(spark, "_limit", -1 if large else 1 << 30)
    arrow = ArrowMerger(held=0, appended=0) if large else ArrowMerger()
    for seed in range(examples(8, 60)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert compare(draw(seed, AS_OF_ENGINES), spark, arrow, folder) is None, seed
