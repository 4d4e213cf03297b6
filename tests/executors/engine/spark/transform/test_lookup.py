"""Steps that read what they need only: their slices are those of steps that read everything."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from odfbuild.executors.data.seal import Sealed
from odfbuild.executors.engine.arrow import joins as weighing
from odfbuild.executors.engine.arrow import keyed
from odfbuild.executors.engine.arrow.keyed import TouchedStates
from odfbuild.executors.engine.protocol import TransformWork
from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.rule.bits import hashes
from tests.rule.check import numbered
from tests.rule.shapes import SHAPES
from tests.rule.shapes.joins import JOINS
from tests.rule.shapes.shape import Shape
from tests.rule.steps import Step, sealed

pytestmark = pytest.mark.spark

Twin = Callable[[SparkEngine, TransformWork], tuple[SparkEngine, TransformWork]]
_ONCE = [each for each in JOINS if "self" not in each.name]


def _twice(first: Twin, second: Twin) -> Step:
    """Return how to run a step in two ways, which must give the same slice."""

    def step(engine: SparkEngine, work: TransformWork, start: int) -> Sealed:
        apart = work.staging / "again"
        apart.mkdir(exist_ok=True)
        done = sealed(*first(engine, work), start)
        again = sealed(*second(engine, replace(work, staging=apart)), start)
        one, other = (
            None if each.slice is None else (each.slice.offset_interval, each.slice.logical_hash)
            for each in (done, again)
        )
        assert one == other
        return done

    return step


def _unbroken(engine: SparkEngine, work: TransformWork) -> tuple[SparkEngine, TransformWork]:
    return engine, replace(work, unbroken=True)


def _plain(engine: SparkEngine, work: TransformWork) -> tuple[SparkEngine, TransformWork]:
    return engine, work


@pytest.mark.parametrize("shape", _ONCE, ids=str)
def test_joins_add_up_what_is_new(
    engine: SparkEngine, tmp_path: Path, shape: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[TouchedStates | None] = []
    original = weighing.weighted

    def weighted(*args: Any, **more: Any) -> TouchedStates | None:
        taken.append(original(*args, **more))
        return taken[-1]

    monkeypatch.setattr(weighing, "weighted", weighted)
    for number in range(20, 30):
        folder = tmp_path / str(number)
        folder.mkdir()
        hashes(engine, folder, shape, numbered(shape, number), _twice(_unbroken, _plain))
        if any(each is not None for each in taken):
            return
    pytest.fail("no history has a step that adds to old rows")


@pytest.mark.parametrize("name", ["sliding window", "long windows"])
def test_windows_read_the_time_that_they_span(
    engine: SparkEngine, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[bool] = []
    original = keyed._KeyedRead.by_window

    def by_window(reading: keyed._KeyedRead) -> TouchedStates | None:
        found = original(reading)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(keyed._KeyedRead, "by_window", by_window)
    shape = next(each for each in SHAPES if each.name == name)
    for number in range(40, 43):
        folder = tmp_path / str(number)
        folder.mkdir()
        hashes(engine, folder, shape, numbered(shape, number), _twice(_unbroken, _plain))
    assert sum(taken) > 3
    assert not all(taken)


@pytest.mark.parametrize("name", ["left join", "tumbling window"])
def test_steps_by_key_are_those_that_scan(
    engine: SparkEngine, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scanning(one: SparkEngine, work: TransformWork) -> tuple[SparkEngine, TransformWork]:
        monkeypatch.setattr(one, "_limit", -1)
        return one, work

    def finding(one: SparkEngine, work: TransformWork) -> tuple[SparkEngine, TransformWork]:
        monkeypatch.setattr(one, "_limit", 1 << 20)
        return one, work

    shape = next(each for each in SHAPES if each.name == name)
    hashes(engine, tmp_path, shape, numbered(shape, 22), _twice(finding, scanning))


def test_a_step_that_touches_too_many_keys_reads_everything(
    engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def limited(one: SparkEngine, work: TransformWork) -> tuple[SparkEngine, TransformWork]:
        monkeypatch.setattr(keyed, "MOST_KEYS", 0)
        return one, work

    def free(one: SparkEngine, work: TransformWork) -> tuple[SparkEngine, TransformWork]:
        monkeypatch.setattr(keyed, "MOST_KEYS", 100)
        return one, work

    shape = next(each for each in SHAPES if each.name == "distinct aggregate")
    hashes(engine, tmp_path, shape, numbered(shape, 23), _twice(free, limited))
