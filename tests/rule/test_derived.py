"""What rows are made of: it gives them by itself, and nothing of it can be left out."""

from pathlib import Path

import pytest

from odfbuild.executors.spark.engine import SparkEngine
from tests.rule.derived import MADE, Made, check_made

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("made", MADE[:-1], ids=lambda made: made.shape.name)
def test_rows_are_made_of_what_is_said(engine: SparkEngine, tmp_path: Path, made: Made) -> None:
    for number in range(9):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        if check_made(engine, folder, made, number, 1):
            return
    raise AssertionError("no history gives a row")


@pytest.mark.slow
@pytest.mark.parametrize("made", MADE, ids=lambda made: made.shape.name)
def test_rows_of_many_histories_are(engine: SparkEngine, tmp_path: Path, made: Made) -> None:
    for number in range(9, 15):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        check_made(engine, folder, made, number, 6)
