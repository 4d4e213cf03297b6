"""The one rule on histories of every shape of query: a share of what `tests.rule.check` can run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odfbuild.executors.spark.engine import SparkEngine
from tests.rule.check import check, seeded
from tests.rule.shapes import SHAPES

pytestmark = pytest.mark.spark

ROUNDS = 4


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        yield engine


@pytest.mark.parametrize("shape", range(len(SHAPES)), ids=[each.name for each in SHAPES])
def test_every_step_leaves_what_one_batch_query_gives(
    engine: SparkEngine, tmp_path: Path, shape: int
) -> None:
    for number in range(ROUNDS):
        seed = number * len(SHAPES) + shape
        folder = tmp_path / str(seed)
        folder.mkdir()
        query, portions = seeded(seed)
        check(engine, folder, query, portions)
