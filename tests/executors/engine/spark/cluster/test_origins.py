"""Slices of a workspace in a store, read by tasks there: no byte of them is sent a second time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine.spark.cluster.executors import Executors
from odfbuild.executors.engine.spark.cluster.objects import ClusterObjects, objects_of
from odfbuild.executors.engine.spark.cluster.providers import OBJECTS, ClusterProvider
from odfbuild.executors.engine.spark.cluster.task_errors import ClusterObjectError
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.errors import spark_errors
from odfbuild.executors.engine.spark.frames import from_files
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.state.remote.cache import ObjectCache
from odfbuild.state.remote.workspace import BucketWorkspace
from tests.support.servers.object_proxy import ObjectProxy, proxying
from tests.support.servers.object_store import BUCKET, ObjectServer
from tests.support.workshop import Workshop, ledger

pytestmark = pytest.mark.spark

ROWS = 3_000


class Slices:
    """A dataset in a store behind a proxy, seen by a machine that has its only slice."""

    def __init__(self, folder: Path, proxy: ObjectProxy, objects: str) -> None:
        self.proxy = proxy
        self.home = _by(proxy, objects).replace("objects-", "home-")
        shop = Workshop(folder)
        cache = ObjectCache(folder / "cache", 1 << 30)
        shop.workspace = BucketWorkspace(self.home, cache=cache, root=folder / "local")
        shop.file("1.csv", *(f"2024-01-01,k{row:05},{row}" for row in range(ROWS)))
        assert not shop.apply([ledger("src")]).failures
        dataset = shop.dataset("src")
        ((self.slice, self.path),) = dataset.slices()
        self.key = f"datasets/{dataset.id.multibase}/data/{self.slice.physical_hash}"
        proxy.moved.clear()

    def values(self, session: Any) -> int:
        """Return the sum of a column, read by tasks."""
        rows = from_files(session, [self.path], pa.schema([("v", pa.int64())]))
        with spark_errors("run the query"):
            (row,) = rows.selectExpr("sum(v) AS v").collect()
        return int(row["v"])

    def sent(self) -> int:
        """Return how many bytes of objects were sent since the slice was there."""
        return sum(up for method, _, up, _ in self.proxy.moved if method in {"PUT", "POST"})

    def read(self, key: str) -> int:
        """Return how many bytes of an object were answered."""
        return sum(n for method, path, _, n in self.proxy.moved if method == "GET" and key in path)


def _by(proxy: ObjectProxy, objects: str) -> str:
    return f"s3+http://127.0.0.1:{proxy.port}/{BUCKET}/{objects.partition(f'/{BUCKET}/')[2]}"


@pytest.fixture
def slices(
    engine: SparkEngine, store: ObjectServer, objects: str, tmp_path: Path
) -> Iterator[Slices]:
    """Yield a dataset in the store that the tasks of the session exchange files by."""
    session = engine._sessions.session(StepSize.BIG)
    with proxying(store.port) as proxy:
        session.conf.set(OBJECTS, _by(proxy, objects))
        yield Slices(tmp_path, proxy, objects)


@pytest.fixture
def session(engine: SparkEngine, slices: Slices) -> Any:
    return engine._sessions.session(StepSize.BIG)


def of(session: Any) -> ClusterObjects:
    found = objects_of(session)
    assert found is not None
    return found


def test_a_slice_is_read_where_it_is_if_executors_may(session: Any, slices: Slices) -> None:
    of(session).readable = frozenset({slices.home})
    assert slices.values(session) == sum(range(ROWS))
    assert slices.sent() == 0
    assert {method for method, *_ in slices.proxy.moved} == {"HEAD", "GET"}
    assert 0 < slices.read(slices.key) < slices.path.stat().st_size


def test_a_slice_is_copied_by_the_store_if_executors_may_not_read_it(
    session: Any, slices: Slices
) -> None:
    of(session).readable = frozenset()
    assert slices.values(session) == sum(range(ROWS))
    assert slices.sent() == 0
    assert slices.read(slices.key) == 0
    assert 0 < slices.read(f"files/{slices.slice.physical_hash}") < slices.path.stat().st_size


def test_a_slice_of_another_bucket_is_sent(
    session: Any, slices: Slices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odfbuild.state.remote.store.bucket.Bucket.copy", lambda *_: False)
    of(session).readable = frozenset()
    assert slices.values(session) == sum(range(ROWS))
    assert slices.sent() == slices.path.stat().st_size


def test_a_slice_that_is_gone_from_the_store_is_sent(
    session: Any, slices: Slices, store: ObjectServer
) -> None:
    of(session).readable = frozenset({slices.home})
    obstore.delete(store.store(_prefix(slices)), slices.key)
    assert slices.values(session) == sum(range(ROWS))
    assert slices.sent() == slices.path.stat().st_size


def test_a_file_that_is_no_copy_of_the_object_is_sent_under_its_own_hash(
    session: Any, slices: Slices
) -> None:
    """As one that was written again with the same rows (`verify` allows it of derivatives)."""
    of(session).readable = frozenset()
    table = pq.read_table(slices.path)
    slices.path.unlink()
    pq.write_table(table, slices.path, compression="none")
    assert slices.values(session) == sum(range(ROWS))
    assert slices.sent() == slices.path.stat().st_size
    assert slices.read(str(slices.slice.physical_hash)) == 0


@pytest.mark.parametrize("harm", ["flip", "gone"])
def test_a_damaged_slice_gives_no_rows_and_is_not_to_be_deleted(
    session: Any, slices: Slices, store: ObjectServer, harm: str
) -> None:
    of(session).readable = frozenset({slices.home})
    rows = from_files(session, [slices.path], pa.schema([("v", pa.int64())]))
    there = store.store(_prefix(slices))
    if harm == "gone":
        obstore.delete(there, slices.key)
    else:
        data = bytearray(bytes(obstore.get(there, slices.key).bytes()))
        data = bytearray(each ^ 0x55 for each in data)
        obstore.put(there, slices.key, bytes(data))
    with pytest.raises(ClusterObjectError) as caught, spark_errors("run the query"):
        rows.collect()
    assert slices.key in caught.value.what
    assert "odfbuild verify" in caught.value.fix


@pytest.mark.parametrize("may", [True, False])
def test_executors_that_may_not_read_the_workspace_are_found(
    session: Any, slices: Slices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, may: bool
) -> None:
    """The probe's own tasks, on the Spark of this process: it has no executors but itself."""
    url = _by(slices.proxy, session.conf.get(OBJECTS))
    provider = ClusterProvider(master="spark://h:7077", objects=url)
    if not may:
        slices.proxy.alters = lambda _, path, status, data: (
            (403, b"<Code>AccessDenied</Code>") if "/home-" in path else (status, data)
        )
    ours = Executors(session, provider, tmp_path, tmp_path / "jvm.log", "ours", slices.home)
    monkeypatch.setattr(
        "odfbuild.executors.engine.spark.cluster.executors.check_reports", lambda *_: None
    )
    of(session).readable = frozenset()
    ours._probe()
    assert of(session).readable == (frozenset({slices.home}) if may else frozenset())


def _prefix(slices: Slices) -> str:
    return slices.home.partition(f"/{BUCKET}/")[2].rstrip("/")
