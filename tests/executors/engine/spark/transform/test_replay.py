"""Steps that Spark ran give the same rows again: on one core, on two, in memory, through files."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.verify.history import RecordedHistories
from odfbuild.executors.verify.replay import replay
from odfbuild.odf.events import ExecuteTransform
from odfbuild.state.chain.dataset import Dataset
from tests.executors.engine.spark.replaying import QUERIES, Built, again, built
from tests.executors.engine.spark.standalone import cluster, needs_executors
from tests.planner.builders import sql
from tests.support.projects import REPOSITORY, environment

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        yield engine


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, spark: SparkEngine) -> Built:
    return built(tmp_path_factory.mktemp("built"), spark)


def rows(dataset: Dataset) -> list[int]:
    """Return how many rows each step of a dataset has."""
    events = [block.event for _, block in dataset.blocks()]
    found = [each.new_data for each in events if isinstance(each, ExecuteTransform)]
    pieces = [None if each is None else each.offset_interval for each in found]
    return [0 if each is None else each.end - each.start + 1 for each in pieces]


@pytest.mark.parametrize("way", ["in memory", "through files"])
@pytest.mark.parametrize("name", QUERIES)
def test_each_step_gives_its_rows_again(
    name: str, way: str, made: Built, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "through files":
        monkeypatch.setattr(spark, "_limit", -1)
    found = again(made, name, spark)
    assert [(each.findings, each.row) for each in found] == [((), None)] * 4
    assert [each.rows for each in found] == rows(made.dataset(name))
    assert sum(each.rows for each in found) > 0


def elsewhere(made: Built, master: str) -> dict[str, list[list[str]]]:
    """Return the findings of every step of a process whose Spark runs in another way."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.executors.engine.spark.replaying", master, str(made.folder)],
        cwd=REPOSITORY, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, list[list[str]]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_one_core_gives_what_two_gave(made: Built) -> None:
    assert elsewhere(made, "local[1]") == {name: [[]] * 4 for name in QUERIES}


@pytest.mark.slow
@needs_executors
def test_a_cluster_of_two_workers_gives_what_two_cores_gave(made: Built, tmp_path: Path) -> None:
    with cluster(tmp_path) as master:
        assert elsewhere(made, master) == {name: [[]] * 4 for name in QUERIES}


def test_another_sum_is_found_with_its_row(made: Built, spark: SparkEngine) -> None:
    past = RecordedHistories(made.workspace)
    step = made.recorded("grouped", past)[0]
    assert step.before.transform is not None
    query = QUERIES["grouped"][1].replace("sum(w) as w", "sum(w) + 1 as w")
    other = replace(step.before.transform, transform=sql(query))
    changed = replace(step, before=replace(step.before, transform=other))
    found = replay(changed, past, spark, made.workspace)
    assert found.row is not None
    assert (found.row.offset, found.row.columns) == (0, ("w",))
