"""The one rule on queries that work row by row."""

from pathlib import Path

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.rule.check import NUMBERS, check_number
from tests.rule.shapes.linear import LINEAR
from tests.rule.shapes.shape import Shape

pytestmark = pytest.mark.spark


@NUMBERS
@pytest.mark.parametrize("shape", LINEAR, ids=str)
def test_every_step_leaves_what_one_batch_query_gives(
    engine: SparkEngine, tmp_path: Path, shape: Shape, number: int
) -> None:
    check_number(engine, tmp_path, shape, number)
