"""Executors of a cluster: waited for in bounded time, missed when they are gone, looked at."""

import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from odfbuild.errors import EngineFailedError
from odfbuild.executors.engine.spark.cluster import executors as module
from odfbuild.executors.engine.spark.cluster.driver import java_property
from odfbuild.executors.engine.spark.cluster.executors import ClusterLostError, Executors
from odfbuild.executors.engine.spark.cluster.probe import (
    ClusterMismatchError,
    own_versions,
    probe_folder,
    report,
)
from odfbuild.executors.engine.spark.cluster.providers import ClusterProvider
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.executors.process.interrupt import StoppedError

MASTER = "spark://h:7077"


class Cluster:
    """A cluster in words: which executors are there, and which jobs are active or cancelled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ids: tuple[str, ...] = ()
        self.stopped = False
        self.active = [1]
        self.cancelled: list[str] = []
        self.asked: list[int] = []
        self.version = "4.3.0"
        self.sparkContext = SimpleNamespace(
            statusTracker=lambda: SimpleNamespace(getActiveJobsIds=lambda: self.active),
            cancelJobsWithTag=self.cancelled.append,
        )
        monkeypatch.setattr(module, "executor_ids", lambda _: self.ids)
        monkeypatch.setattr(module, "ask_for_executor", lambda _: self.asked.append(1))
        monkeypatch.setattr(module, "is_stopped", lambda _: self.stopped)
        monkeypatch.setattr(module, "_WATCH", 0.02)

    def executors(self, folder: Path, wait: float = 0.2) -> Executors:
        session: Any = self
        provider = ClusterProvider(master=MASTER, wait=wait)
        return Executors(session, provider, folder, folder / "jvm.log", "ours")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def test_a_cluster_that_gives_no_executors_is_left_in_time(
    cluster: Cluster, tmp_path: Path
) -> None:
    with pytest.raises(ClusterLostError, match="provided no executors") as caught:
        cluster.executors(tmp_path, wait=0.3)._wait(lambda: None)
    assert "`wait` in odfbuild.yaml" in caught.value.why
    assert cluster.asked == [1]
    assert str(tmp_path / "jvm.log") in caught.value.fix


def test_an_application_that_the_cluster_ends_is_not_waited_for(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.stopped = True
    began = time.monotonic()
    with pytest.raises(ClusterLostError):
        cluster.executors(tmp_path, wait=60)._wait(lambda: None)
    assert time.monotonic() - began < 30


def test_waiting_ends_when_the_run_is_given_up(cluster: Cluster, tmp_path: Path) -> None:
    def give_up() -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        cluster.executors(tmp_path, wait=60)._wait(give_up)


def test_work_of_a_cluster_without_executors_is_cancelled_and_named(
    cluster: Cluster, tmp_path: Path
) -> None:
    ours = cluster.executors(tmp_path)
    assert ours.lost("Spark failed to run the query") is None
    watch = threading.Thread(target=ours._watch, daemon=True)
    watch.start()
    until = time.monotonic() + 30
    while not cluster.cancelled and time.monotonic() < until:
        time.sleep(0.01)
    found = ours.lost("Spark failed to run the query")
    ours.stop()
    watch.join(30)
    assert found is not None
    assert found.what == f"Spark failed to run the query: {MASTER} has no executors"
    assert set(cluster.cancelled) == {"ours"}


@pytest.mark.parametrize(("ids", "active"), [(("0",), [1]), ((), [])])
def test_a_cluster_with_executors_or_without_work_is_left_alone(
    cluster: Cluster, tmp_path: Path, ids: tuple[str, ...], active: list[int]
) -> None:
    cluster.ids, cluster.active = ids, active
    ours = cluster.executors(tmp_path, wait=0.05)
    watch = threading.Thread(target=ours._watch, daemon=True)
    watch.start()
    time.sleep(0.5)
    ours.stop()
    watch.join(30)
    assert cluster.cancelled == []
    assert ours.lost("x") is None


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in "
            "driver: 3.11, PySpark cannot run",
            "they run Python 3.9, but this process 3.11",
        ),
        ('java.io.IOException: Cannot run program "/x": error=2', "they have no program /x"),
        ("ModuleNotFoundError: No module named 'pyspark'", "No module named 'pyspark'"),
        ("java.io.InvalidClassException: local class incompatible", "their Spark is not 4.3.0"),
    ],
)
def test_a_probe_that_cannot_run_says_what_differs(
    cluster: Cluster, tmp_path: Path, said: str, why: str
) -> None:
    found = cluster.executors(tmp_path)._probe_failure(said)
    assert isinstance(found, ClusterMismatchError)
    assert why in found.why


def test_any_other_failure_of_a_probe_is_shown(cluster: Cluster, tmp_path: Path) -> None:
    found = cluster.executors(tmp_path)._probe_failure("\n  it broke\n at x")
    assert type(found) is EngineFailedError
    assert found.why == "it broke"


@pytest.mark.spark
def test_what_a_task_says_of_itself_is_what_this_machine_runs(
    engine: SparkEngine, tmp_path: Path
) -> None:
    """The probe's own tasks, on the Spark of this process: it has no executors but itself."""
    session = engine._sessions.session(StepSize.SMALL)
    provider = ClusterProvider(master=MASTER)
    ours = Executors(session, provider, tmp_path, tmp_path / "jvm.log", "ours")
    here = own_versions(
        spark=session.version, java=java_property(session, "java.specification.version")
    )
    with probe_folder(tmp_path) as folder:
        found = ours._reports(partial(report, folder))
        assert {(folder.path / each.answer).read_text("ascii") for each in found} == {folder.token}
    assert len(found) >= 2
    assert {each.folder for each in found} == {""}
    assert all(each.versions == here for each in found)
