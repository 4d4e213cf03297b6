"""Joins with versions of tables: after every step the result is what plain Python makes of it."""

from pathlib import Path
from random import Random

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.sql.analysis.classes import query_class
from odfbuild.sql.text.steps import steps_of
from tests.rule.histories import begun, history
from tests.rule.inputs import drawn_schema
from tests.rule.rows import counted
from tests.rule.rows import standing as left
from tests.rule.steps import played
from tests.rule.temporal import TEMPORAL, Temporal

_EACH = pytest.mark.parametrize("shape", TEMPORAL, ids=str)


@_EACH
def test_a_query_has_its_class(shape: Temporal) -> None:
    known = {name: from_arrow(drawn_schema(Random(0), name)) for name in shape.inputs}
    assert query_class(steps_of(shape.transform), known).name == shape.kind


@pytest.mark.spark
@_EACH
def test_every_step_leaves_the_rows_that_met_their_versions(
    engine: SparkEngine, tmp_path: Path, shape: Temporal
) -> None:
    check(engine, tmp_path, shape, 0)


@pytest.mark.spark
@pytest.mark.slow
@_EACH
def test_many_histories_leave_the_rows_that_met_their_versions(
    engine: SparkEngine, tmp_path: Path, shape: Temporal
) -> None:
    for number in range(1, 20):
        folder = tmp_path / str(number)
        folder.mkdir()
        check(engine, folder, shape, number)


def check(engine: SparkEngine, folder: Path, shape: Temporal, number: int) -> None:
    """Run the steps of a random history, and hold each against the meaning of the query."""
    drawn = history(Random(f"{shape.name} {number}"), shape.inputs)
    found = drawn if number else begun(drawn)
    for step in played(engine, folder, shape, found):
        logs = {name: log.records for name, log in step.inputs.items()}
        told = counted(left(step.output, step.columns), step.columns)
        meant = counted(shape.meaning(logs, step.watermark), step.columns)
        assert told == meant, f"{shape.name}, history {number}, step {step.number}"
