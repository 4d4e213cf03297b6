"""The slices of a step are the same bits on any number of cores, rows in memory or in files."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.executors.engine.spark.standalone import cluster, needs_executors
from tests.rule.bits import hashes, in_every_way, long_history, seed_of
from tests.rule.shapes import SHAPES, Shape
from tests.rule.steps import Step, sealed
from tests.support.projects import REPOSITORY, environment

pytestmark = pytest.mark.spark

SOME = ("interval join", "sums that need order")
MORE = ("row before", "session window")


@pytest.fixture(scope="module")
def big(engine: SparkEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    """Return an engine in the same JVM for which every step is a big one."""
    with SparkEngine(tmp_path_factory.mktemp("big"), limit=-1) as big:
        yield big


def in_folder(
    engine: SparkEngine, folder: Path, shape: Shape, number: int, step: Step = sealed
) -> list[str | None]:
    """Return the hashes of a long history that is played in a folder of its own."""
    own = folder / f"{shape.name} {number}"
    own.mkdir()
    return hashes(engine, own, shape, long_history(shape, number), step)


def elsewhere(folder: Path, master: str, seeds: Sequence[int]) -> list[list[str | None]]:
    """Return the hashes of a process of its own, in which Spark runs in another way."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.rule.bits", master, str(folder), *map(str, seeds)],
        cwd=REPOSITORY, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[list[str | None]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("names", [SOME, pytest.param(MORE, marks=pytest.mark.slow)])
def test_rows_in_files_on_four_threads_give_what_rows_in_memory_give(
    engine: SparkEngine, tmp_path: Path, names: tuple[str, ...]
) -> None:
    chosen = [shape for shape in SHAPES if shape.name in names]
    ours = [in_folder(engine, tmp_path, shape, 0) for shape in chosen]
    assert all(any(found) for found in ours)
    seeds = [seed_of(shape, 0) for shape in chosen]
    assert elsewhere(tmp_path / "other", "local[4]", seeds) == ours


@pytest.mark.slow
@needs_executors
def test_one_thread_and_a_cluster_of_two_workers_give_the_same_slices(
    engine: SparkEngine, tmp_path: Path
) -> None:
    ours = [in_folder(engine, tmp_path, shape, 1) for shape in SHAPES]
    seeds = [seed_of(shape, 1) for shape in SHAPES]
    assert elsewhere(tmp_path / "alone", "local[1]", seeds) == ours
    with cluster(tmp_path) as master:
        assert elsewhere(tmp_path / "cluster", master, seeds) == ours


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_more_histories_give_the_same_slices_in_every_way(
    engine: SparkEngine, big: SparkEngine, tmp_path: Path, shape: Shape
) -> None:
    for number in range(2, 5):
        in_folder(engine, tmp_path, shape, number, in_every_way(big))
