"""Rows that tasks leave in a store, and the slices that they make of them: those made here."""

import gc
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.executors.data import parquet
from odfbuild.executors.data import seal as seal_module
from odfbuild.executors.data.frames import FilePart, Frame
from odfbuild.executors.data.seal import NullValuesError, Sealed, seal
from odfbuild.executors.engine.objects.bucket import BucketPlace
from odfbuild.executors.engine.objects.files import JobFile
from odfbuild.executors.engine.spark.cluster import spread as spread_module
from odfbuild.executors.engine.spark.cluster.providers import OBJECTS
from odfbuild.executors.engine.spark.cluster.spread import has_stored_rows
from odfbuild.executors.engine.spark.cluster.stored_rows import (
    StoredPart,
    described_by,
    summary,
)
from odfbuild.executors.engine.spark.cluster.task_errors import ClusterObjectError
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.frames import from_parts, gather_checked, in_doubt
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.odf.events import DatasetVocabulary
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.odf.timestamp import Timestamp
from tests.executors.engine.spark.cluster.test_objects import keys
from tests.support.effort import examples
from tests.support.servers.object_proxy import proxying
from tests.support.servers.object_store import BUCKET, ObjectServer

NOW = Timestamp.parse("2025-01-01T00:00:00Z")
VOCAB = DatasetVocabulary(
    offset_column="offset",
    operation_type_column="op",
    system_time_column="system_time",
    event_time_column="event_time",
)
NAMES = ["op", "event_time", "k", "v"]
ROWS = 5_000


@pytest.fixture
def session(engine: SparkEngine, objects: str) -> Any:
    return engine._sessions.session(StepSize.BIG)


def left(session: Any, folder: Path, rows: int = ROWS, partitions: int = 3) -> Frame:
    """Return rows that tasks leave in the store, in order of time."""
    found = session.range(0, rows, 1, partitions).selectExpr(
        "0 AS op",
        "timestamp_millis(1700000000000 + id * 1000) AS event_time",
        "concat('k', id % 7) AS k",
        "id AS v",
    )
    return gather_checked(found, StepSize.BIG, folder, NAMES, lambda each: each, ("op", 4))


def sealed(frame: Frame, folder: Path, spread: Any = None) -> Sealed:
    """Return the slices of a frame."""
    folder.mkdir()
    return seal(
        frame,
        vocab=VOCAB,
        system_time=NOW,
        event_time=NOW,
        start=100,
        in_force=None,
        into=folder / "slice.parquet",
        slice_rows=900,
        spread=spread,
    )


@pytest.mark.spark
def test_slices_that_tasks_make_are_those_made_here(
    engine: SparkEngine, session: Any, store: ObjectServer, objects: str, tmp_path: Path
) -> None:
    rows = left(session, tmp_path)
    assert len(rows.parts) == 3
    assert all(isinstance(each, StoredPart) for each in rows.parts)
    assert not list(tmp_path.iterdir())
    there = sealed(rows, tmp_path / "there", engine.spread)
    table = pa.Table.from_batches(rows.batches(), rows.schema)
    assert table.column("v").to_pylist() == list(range(ROWS))
    here = sealed(Frame.of(table), tmp_path / "here")
    assert [each.data for each in there.slices] == [each.data for each in here.slices]
    assert there.records == ROWS
    for one, other in zip(there.slices, here.slices, strict=True):
        assert one.path.read_bytes() == other.path.read_bytes()
        assert (one.watermark, one.first, one.last) == (other.watermark, other.first, other.last)
    assert keys(store, objects)
    del rows, there, one
    gc.collect()
    assert keys(store, objects) == []


@pytest.mark.spark
def test_rows_come_here_once_and_are_not_sent(
    engine: SparkEngine, store: ObjectServer, session: Any, objects: str, tmp_path: Path
) -> None:
    """Of what tasks wrote only the slices come here: the rows of the merge stay in the store."""
    with proxying(store.port) as proxy:
        below = objects.partition(f"/{BUCKET}/")[2]
        session.conf.set(OBJECTS, f"s3+http://127.0.0.1:{proxy.port}/{BUCKET}/{below}")
        rows = left(session, tmp_path)
        written = [(path, up) for method, path, up, _ in proxy.moved if method == "PUT"]
        assert len(written) == 3
        proxy.moved.clear()
        made = sealed(rows, tmp_path / "there", engine.spread)
        slices = {str(each.data.physical_hash): each.data.size for each in made.slices}
        sent = {path.rpartition("/")[2]: up for m, path, up, _ in proxy.moved if m == "PUT"}
        assert sent == slices
        brought = [
            (path.rpartition("/")[2], down)
            for method, path, _, down in proxy.moved
            if method == "GET" and path.rpartition("/")[2] in slices
        ]
        assert sorted(brought) == sorted(slices.items())
        del rows, made
        gc.collect()  # their objects are deleted by way of the proxy


@pytest.mark.spark
def test_an_error_of_a_slice_that_a_task_makes_is_that_of_one_made_here(
    engine: SparkEngine, session: Any, tmp_path: Path
) -> None:
    rows = left(session, tmp_path)
    fields = [
        pa.field("v", pa.int64(), nullable=False) if f.name == "v" else f for f in rows.schema
    ]
    nulls = session.range(0, 2000, 1, 2).selectExpr(
        "0 AS op", "timestamp_millis(id) AS event_time", "'k' AS k", "nullif(id, 1500) AS v"
    )
    found = gather_checked(nulls, StepSize.BIG, tmp_path, NAMES, lambda each: each, ("op", 4))
    in_force = from_arrow(
        pa.schema(
            [
                pa.field("offset", pa.int64(), nullable=False),
                pa.field("op", pa.int32(), nullable=False),
                pa.field("system_time", pa.timestamp("ms", tz="UTC"), nullable=False),
                pa.field("event_time", pa.timestamp("ms", tz="UTC")),
                *fields[2:],
            ]
        )
    )
    with pytest.raises(NullValuesError) as caught:
        seal(
            found, vocab=VOCAB, system_time=NOW, event_time=NOW, start=0, in_force=in_force,
            into=tmp_path / "slice.parquet", slice_rows=900, spread=engine.spread,
        )  # fmt: skip
    assert caught.value.column == "v"


@pytest.mark.spark
@pytest.mark.parametrize("harm", ["flip", "cut", "gone"])
def test_a_slice_with_other_bytes_than_its_task_wrote_is_refused(
    engine: SparkEngine,
    session: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    harm: str,
) -> None:
    made = BucketPlace.made

    def harmed(place: BucketPlace, file: JobFile, folder: Path) -> Path:
        data = place.get(file.stored)
        assert data is not None
        if harm == "gone":
            place.clear()
        else:
            place.replace(file.stored, data[:-1] if harm == "cut" else b"X" + data[1:])
        return made(place, file, folder)

    rows = left(session, tmp_path)
    monkeypatch.setattr(BucketPlace, "made", harmed)
    with pytest.raises(ClusterObjectError) as caught:
        sealed(rows, tmp_path / "there", engine.spread)
    assert "engine-spark-" in caught.value.what


@pytest.mark.spark
@pytest.mark.parametrize("harm", ["flip", "gone", "another"])
def test_rows_that_changed_in_the_store_give_no_slice(
    engine: SparkEngine,
    session: Any,
    store: ObjectServer,
    objects: str,
    tmp_path: Path,
    harm: str,
) -> None:
    rows = left(session, tmp_path)
    below = store.store(objects.partition(f"/{BUCKET}/")[2].rstrip("/"))
    for key in keys(store, objects):
        data = bytes(obstore.get(below, key).bytes())
        if harm == "gone":
            obstore.delete(below, key)
        elif harm == "flip":
            obstore.put(below, key, bytes(each ^ 1 for each in data))
        else:
            pq.write_table(pa.table({"v": range(9)}), tmp_path / "another")
            obstore.put(below, key, (tmp_path / "another").read_bytes())
    with pytest.raises(ClusterObjectError) as caught:
        sealed(rows, tmp_path / "there", engine.spread)
    assert "engine-spark-" in caught.value.what


@pytest.mark.spark
def test_rows_that_hash_to_something_else_than_their_task_said_are_refused(
    engine: SparkEngine, session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = left(session, tmp_path)
    other = sealed(left(session, tmp_path, 10), tmp_path / "other").slices[0].data.logical_hash
    monkeypatch.setattr(spread_module, "logical_hash", lambda *_: other)
    with pytest.raises(ClusterObjectError, match="a task wrote hash to"):
        sealed(rows, tmp_path / "there", engine.spread)


@pytest.mark.spark
@pytest.mark.parametrize(("share", "count"), [(16, 1), (4, 2), (1, 6)])
def test_of_many_bytes_the_rows_of_a_share_are_hashed_again(
    engine: SparkEngine,
    session: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    share: int,
    count: int,
) -> None:
    looked: list[Path] = []
    real = parquet.logical_hash

    def look(path: Path, schema: pa.Schema) -> Any:
        looked.append(path)
        return real(path, schema)

    monkeypatch.setattr(spread_module, "logical_hash", look)
    monkeypatch.setattr(spread_module, "_ALL_BYTES", 0)
    monkeypatch.setattr(spread_module, "_SHARE", share)
    made = sealed(left(session, tmp_path), tmp_path / "there", engine.spread)
    assert len(made.slices) == 6
    assert len(looked) == len(set(looked)) == count


@pytest.mark.spark
def test_rows_in_doubt_are_found_by_the_footers_of_objects(session: Any, tmp_path: Path) -> None:
    rows = left(session, tmp_path)
    few = in_doubt(rows, "v", ROWS - 1)
    assert 0 < few.rows < ROWS
    assert ROWS - 1 in pa.Table.from_batches(few.batches(), few.schema).column("v").to_pylist()
    assert in_doubt(rows, "v", ROWS).rows == 0
    assert not any(each.may_have_nulls("v") for each in rows.parts)


@pytest.mark.spark
def test_rows_in_the_store_are_read_by_tasks_again(session: Any, tmp_path: Path) -> None:
    rows = left(session, tmp_path)
    found = from_parts(session, rows, pa.schema([rows.schema.field("v")]))
    assert found.selectExpr("sum(v)").collect() == [(sum(range(ROWS)),)]


@pytest.mark.spark
def test_a_frame_without_rows_is_one(session: Any, tmp_path: Path) -> None:
    rows = left(session, tmp_path, 0)
    assert rows.rows == 0
    assert rows.schema.names == NAMES
    assert sealed(rows, tmp_path / "none").slices == ()


class Folder:
    """A store that is a folder, in place of a bucket."""

    def __init__(self, url: str) -> None:
        self.folder = Path(url)

    def ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        data = (self.folder / key).read_bytes()
        return [data[start:end] for start, end in ranges]


@settings(max_examples=examples(60, 1500), deadline=None)
@given(st.data())
def test_parts_of_an_object_have_the_rows_of_parts_of_its_file(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("part")
    draw = random.Random(data.draw(st.integers(0, 1 << 30)))
    rows = data.draw(st.integers(1, 60))
    table = pa.table(
        {
            "a.b": pa.array([draw.choice([None, n]) for n in range(rows)], pa.int64()),
            "a": [{"b": n, "c": [str(n)] * draw.randint(0, 2)} for n in range(rows)],
            "n": range(rows),
        }
    )
    path = folder / "rows"
    pq.write_table(table, path, row_group_size=data.draw(st.integers(1, 25)))
    last, digests = summary(path)
    stored = described_by(last, digests, path.stat().st_size, str(folder), "rows")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("odfbuild.executors.engine.spark.cluster.stored_rows._bucket", Folder)
        part = StoredPart(stored=stored, last=last, start=0, rows=rows)
        like = FilePart.of_file(path)
        for _ in range(data.draw(st.integers(0, 3))):
            first, end = data.draw(st.integers(-3, rows + 3)), data.draw(st.integers(-3, rows + 3))
            part, like = part.cut(first, end), like.cut(first, end)
        names = draw.sample(table.column_names, data.draw(st.integers(1, 3)))
        assert part.rows == like.rows
        assert rows_of(part, names) == rows_of(like, names)
        least = data.draw(st.integers(0, rows))
        there = [
            row["n"] for each in part.groups_reaching("n", least) for row in rows_of(each, ["n"])
        ]
        assert [n for n in there if n >= least] == [
            row["n"] for row in rows_of(like, ["n"]) if row["n"] >= least
        ]
        assert part.may_have_nulls("a.b") or None not in table.column("a.b").to_pylist()


def rows_of(part: Any, names: Sequence[str]) -> list[dict[str, Any]]:
    found: Iterator[pa.RecordBatch] = part.batches(names, 7)
    return [row for batch in found for row in batch.select(names).to_pylist()]


def test_only_slices_whose_rows_are_in_objects_are_made_by_tasks(tmp_path: Path) -> None:
    table = pa.table({"op": [0], "event_time": [NOW.millis], "k": ["a"]})
    columns: Any = None
    in_memory = seal_module.SlicePiece(
        frame=Frame.of(table), columns=columns, start=0, into=tmp_path
    )
    assert not has_stored_rows(in_memory)
    pq.write_table(table, tmp_path / "rows")
    in_file = Frame.at(tmp_path / "rows")
    here = seal_module.SlicePiece(frame=in_file, columns=columns, start=0, into=tmp_path)
    assert not has_stored_rows(here)
    assert not has_stored_rows("an item")
