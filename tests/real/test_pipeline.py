"""Derivatives of derivatives on real tables: after every portion each holds its batch result."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.real.batch import batch
from tests.real.pipeline import DERIVED, Pipeline, arrivals
from tests.real.replay import Table, bag, replay

PORTIONS = 4


@pytest.fixture(scope="module")
def fed(engine: SparkEngine, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    return feed(tmp_path_factory.mktemp("pipeline") / "project", PORTIONS)


def feed(root: Path, portions: int) -> Pipeline:
    """Build the pipeline, a portion at a time."""
    pipeline, before = Pipeline.at(root), None
    for number, now in enumerate(arrivals(portions)):
        pipeline.feed_portion(number, before, now)
        done = pipeline.apply().done
        assert done.code == 0, f"{done.out}{done.err}"
        before = now
    return pipeline


@cache
def expected(portions: int) -> list[Mapping[str, Table]]:
    """Return what every derivative must hold after each of so many portions."""
    return [
        {name: bag(rows) for name, rows in batch(arrived).items()} for arrived in arrivals(portions)
    ]


def standing(pipeline: Pipeline, name: str, step: int) -> Table:
    """Return what a dataset holds after a step."""
    return replay(pipeline.rows(name)[: pipeline.steps[step].rows[name]])


def test_the_pipeline_is_deep_and_wide() -> None:
    assert len(DERIVED) >= 10
    assert {each.level for each in DERIVED.values()} == {1, 2, 3, 4}


@pytest.mark.parametrize("name", DERIVED)
def test_a_derivative_is_its_batch_result_after_every_portion(name: str, fed: Pipeline) -> None:
    for step, tables in enumerate(expected(PORTIONS)):
        assert standing(fed, name, step) == tables[name], f"portion {step}"
    assert tables[name]


def test_corrections_and_late_rows_went_all_the_way_down(fed: Pipeline) -> None:
    """The portions prove little if nothing that was derived was ever taken back."""
    taken_back = {name for name in DERIVED if {row["op"] for row in fed.rows(name)} - {0}}
    assert {DERIVED[name].level for name in taken_back} == {1, 2, 3, 4}
    assert len(taken_back) >= 10


@pytest.mark.slow
def test_the_pipeline_holds_day_by_day(engine: SparkEngine, tmp_path: Path) -> None:
    days = 38
    pipeline = feed(tmp_path / "project", days)
    for step, tables in enumerate(expected(days)):
        for name in DERIVED:
            assert standing(pipeline, name, step) == tables[name], f"{name}, day {step}"
