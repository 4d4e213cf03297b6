"""The one rule on stars beside items that redefine a name."""

from pathlib import Path

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.rule.check import check_number
from tests.rule.shapes.shape import Shape
from tests.rule.shapes.stars import STARS

pytestmark = pytest.mark.spark

_LONG = {"star, anti join", "star, common table", "star, counts", "star, distinct", "star, step",
         "star, newest of a key in a subquery", "star, join using", "star, all groups"}  # fmt: skip


@pytest.mark.parametrize("shape", [each for each in STARS if each.name not in _LONG], ids=str)
def test_every_step_leaves_what_one_batch_query_gives(
    engine: SparkEngine, tmp_path: Path, shape: Shape
) -> None:
    check_number(engine, tmp_path, shape, 0)


@pytest.mark.slow
@pytest.mark.parametrize("shape", STARS, ids=str)
def test_many_histories_leave_what_one_batch_query_gives(
    engine: SparkEngine, tmp_path: Path, shape: Shape
) -> None:
    for number in range(1, 10):
        check_number(engine, tmp_path, shape, number)
