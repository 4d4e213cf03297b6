"""Merges in this process and those of Spark give the same slices, and the same errors."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odfbuild.executors.engine.datafusion.merging import ArrowMerger
from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.executors.engine.datafusion.merging.random_merges import compare, draw
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
