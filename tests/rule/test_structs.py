"""The one rule on structs with required members that may be null."""

from pathlib import Path

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.rule.check import NUMBERS, check_number
from tests.rule.shapes.shape import Shape
from tests.rule.shapes.structs import STRUCTS

pytestmark = pytest.mark.spark


@NUMBERS
@pytest.mark.parametrize("shape", STRUCTS, ids=str)
def test_every_step_leaves_what_one_batch_query_gives(
    engine: SparkEngine, tmp_path: Path, shape: Shape, number: int
) -> None:
    check_number(engine, tmp_path, shape, number)
