"""The one rule on event-time windows."""

from pathlib import Path
from random import Random

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.rule.bits import as_a_whole
from tests.rule.check import NUMBERS, check, check_number
from tests.rule.histories import History, Portion
from tests.rule.inputs import HOUR, drawn_schema
from tests.rule.shapes.shape import Shape
from tests.rule.shapes.windows import WINDOWS

pytestmark = pytest.mark.spark


@NUMBERS
@pytest.mark.parametrize("shape", WINDOWS, ids=str)
def test_every_step_leaves_what_one_batch_query_gives(
    engine: SparkEngine, tmp_path: Path, shape: Shape, number: int
) -> None:
    check_number(engine, tmp_path, shape, number)


def test_a_window_closes_long_after_its_rows_came(engine: SparkEngine, tmp_path: Path) -> None:
    """Its rows lie almost as far behind the watermark of before as the window is long."""
    (shape,) = (each for each in WINDOWS if each.name == "long windows by a key")
    row = {"op": 0, "event_time": 0, "k": "p", "n": 1, "m": 1, "x": 0.5}
    later = {**row, "event_time": 3 * HOUR, "k": "q"}
    portions = (
        Portion({"a": [row]}, HOUR),
        Portion({"a": []}, 7 * HOUR // 2),
        Portion({"a": [later]}, 4 * HOUR),
        Portion({"a": []}, 7 * HOUR),
    )
    found = History({"a": drawn_schema(Random(0), "a")}, portions)
    check(engine, tmp_path, shape, found, as_a_whole)
