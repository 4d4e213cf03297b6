"""Rows of large steps as objects: the same as through files, or an error that names the object."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.arrow.merging.plain_types import plain_schema
from odfbuild.executors.engine.objects.bucket import BucketPlace
from odfbuild.executors.engine.objects.files import JobFile
from odfbuild.executors.engine.spark.cluster import objects as objects_module
from odfbuild.executors.engine.spark.cluster.objects import objects_of
from odfbuild.executors.engine.spark.cluster.shared_files import written_parts
from odfbuild.executors.engine.spark.cluster.task_errors import ClusterObjectError
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.errors import spark_errors
from odfbuild.executors.engine.spark.frames import POSITION, from_files, from_frame, gather
from odfbuild.executors.engine.spark.ingest.history import stored_once
from odfbuild.executors.engine.spark.session import Views
from odfbuild.executors.engine.spark.settings import StepSize
from tests.support.effort import examples
from tests.support.servers.object_store import BUCKET, ObjectServer
from tests.support.values.arrow_types import array, types, values

pytestmark = pytest.mark.spark

UNREAD = ("COLUMN_DATA_TYPE_MISMATCH", "Illegal Parquet type", "ALREADY_EXISTS")
"""What Spark says of files that it does not read: with times in seconds, or a name twice."""


@pytest.fixture
def session(engine: SparkEngine, objects: str) -> Any:
    """Return a session whose files are objects."""
    return engine._sessions.session(StepSize.BIG)


def kinds() -> st.SearchStrategy[Any]:
    """Draw a type that Parquet and Spark have."""
    return types.filter(is_of_spark)


def is_of_spark(kind: Any) -> bool:
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    try:
        to_arrow_schema(from_arrow_schema(plain_schema(pa.schema([("x", kind)]))), timezone="UTC")
    except (PySparkException, pa.ArrowException, ValueError):
        return False
    return not any(word in str(kind) for word in ("duration", "null", "[ns", "time32"))


@st.composite
def columns(draw: st.DrawFn) -> pa.Table:
    """Draw a table of some columns with a few rows."""
    rows = draw(st.integers(0, 12))
    found = {}
    for at in range(draw(st.integers(1, 4))):
        kind = draw(kinds())
        given = draw(st.lists(values(kind), min_size=rows, max_size=rows))
        try:
            found[f"c.{at}"] = array(kind, given)
            pq.write_table(pa.table({"x": found[f"c.{at}"]}), pa.BufferOutputStream())
        except (pa.ArrowException, TypeError, ValueError, OverflowError, AssertionError):
            found[f"c.{at}"] = pa.array(range(rows), pa.int64())
    return pa.table(found)


@settings(
    max_examples=examples(6, 200),
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(columns(), st.integers(1, 5), st.integers(0, 1 << 40), st.randoms(use_true_random=False))
def test_objects_have_the_rows_of_files_in_whichever_groups_and_columns(
    session: Any, tmp_path: Path, table: pa.Table, group: int, first: int, draw: random.Random
) -> None:
    path = tmp_path / f"{draw.getrandbits(60)}.parquet"
    pq.write_table(table, path, row_group_size=group, use_dictionary=draw.random() < 0.5)
    names = [name for name in table.column_names if draw.random() < 0.7]
    wanted = pa.schema([*(table.schema.field(name) for name in names), ("none", pa.string())])
    try:
        here = by_position(without_objects(session, [path], wanted, first))
    except (Py4JJavaError, PySparkException) as error:
        assert any(each in str(error) for each in UNREAD)
        return
    found = by_position(from_files(session, [path], wanted, first))
    assert found.schema.equals(here.schema)
    assert found.equals(here) or found.to_pylist() == here.to_pylist()
    assert found.column(POSITION).to_pylist() == list(range(first, first + table.num_rows))


@settings(
    max_examples=examples(4, 100),
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(columns(), st.integers(1, 3), st.integers(1, 400))
def test_tasks_write_the_rows_that_they_are_given_in_order(
    session: Any, tmp_path: Path, table: pa.Table, partitions: int, group_bytes: int
) -> None:
    frame = Frame.of(table.select([n for n, c in zip_columns(table) if is_plain(c.type)]))
    rows = from_frame(session, Views(session), frame, StepSize.SMALL)
    given_ = rows.repartitionByRange(partitions, POSITION).sortWithinPartitions(POSITION)
    folder = tmp_path / f"written-{uuid4().hex}"
    objects = objects_of(session)
    assert objects is not None
    parts = objects.written(given_, folder, group_bytes)
    found = pa.concat_tables([pq.read_table(part) for part in parts])
    assert found.column(POSITION).to_pylist() == list(range(table.num_rows))
    here = gather(rows, StepSize.SMALL, tmp_path, frame.schema.names, lambda batches: batches)
    assert here.table is not None
    assert found.select(frame.schema.names).cast(here.table.schema).to_pylist() == (
        here.table.to_pylist()
    )


def test_a_frame_without_partitions_has_a_part_without_rows(session: Any, tmp_path: Path) -> None:
    none = session.range(0, 0, 1, 1).selectExpr("CAST(id AS STRING) AS k", "id").where("false")
    (part,) = written_parts(none, refuse, tmp_path / "none", group_bytes=1 << 20)
    assert pq.read_schema(part).names == ["k", "id"]
    assert pq.read_metadata(part).num_rows == 0


def test_a_file_is_sent_once_and_what_tasks_wrote_is_deleted(
    session: Any, store: ObjectServer, objects: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"k": ["a", "b"]}), path)
    schema = pa.schema([("k", pa.string())])
    for at in range(2):
        rows = from_files(session, [path], schema)
        written_parts(rows, refuse, tmp_path / f"out{at}", group_bytes=1 << 20)
    (key,) = keys(store, objects)
    assert key.startswith("files/f1620")
    modified = obstore.head(store.store(prefix(objects)), key)["last_modified"]
    from_files(session, [path], schema).collect()
    assert obstore.head(store.store(prefix(objects)), key)["last_modified"] == modified


def test_files_of_steps_are_in_stores_of_other_kinds(
    engine: SparkEngine, other_objects: Any, tmp_path: Path
) -> None:
    session = engine._sessions.session(StepSize.BIG)
    path = tmp_path / "rows.parquet"
    table = pa.table({"k": [f"{at:09}" for at in range(5000)]})
    pq.write_table(table, path, compression="none")
    rows = from_files(session, [path], table.schema)
    (part,) = written_parts(rows, refuse, tmp_path / "out", group_bytes=1 << 20)
    assert pq.read_table(part).equals(table)
    (key,) = [each["path"] for page in obstore.list(other_objects) for each in page]
    key = key[key.index("files/") :]
    data = bytes(obstore.get(other_objects, key).bytes())
    assert data == path.read_bytes()
    obstore.put(other_objects, key, data.replace(b"000000123", b"000000923"))
    with pytest.raises(ClusterObjectError) as caught, spark_errors("run the query"):
        written_parts(rows, refuse, tmp_path / "again", group_bytes=1 << 20)
    assert key in caught.value.what


def test_rows_of_a_source_are_in_the_store_until_the_step_is_over(
    session: Any, store: ObjectServer, objects: str, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{number}.parquet" for number in range(2)]
    for number, path in enumerate(paths):
        pq.write_table(pa.table({"v": range(number * 10, number * 10 + 10)}), path)
    source = Frame.at(*paths).slice(5, 9)
    with Views(session) as views:
        rows = from_frame(session, views, source, StepSize.BIG)
        assert sorted(rows.collect()) == [(5 + at, at) for at in range(9)]
        assert [key.partition("-")[0] for key in keys(store, objects)] == ["engine", "engine"]
    assert keys(store, objects) == []


@pytest.mark.parametrize("harm", ["flip", "cut", "gone", "another"])
def test_a_task_refuses_an_object_with_other_bytes(
    session: Any, store: ObjectServer, objects: str, tmp_path: Path, harm: str
) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"k": [f"{at:09}" for at in range(5000)]}), path, compression="none")
    rows = from_files(session, [path], pa.schema([("k", pa.string())]))
    (key,) = keys(store, objects)
    below = store.store(prefix(objects))
    data = bytes(obstore.get(below, key).bytes())
    match harm:
        case "flip":
            at = data.index(b"000000123")
            obstore.put(below, key, data[:at] + b"9" + data[at + 1 :])
        case "cut":
            obstore.put(below, key, data[: len(data) // 2])
        case "gone":
            obstore.delete(below, key)
        case "another":
            pq.write_table(pa.table({"k": ["x"] * 5000}), path)
            obstore.put(below, key, path.read_bytes())
    with pytest.raises(ClusterObjectError) as caught, spark_errors("run the query"):
        written_parts(rows, refuse, tmp_path / "out", group_bytes=1 << 20)
    assert key in caught.value.what
    assert "Traceback" not in f"{caught.value.what} {caught.value.why}"
    assert not list((tmp_path / "out").glob("*"))


def test_a_page_that_was_damaged_before_it_was_stored_gives_no_rows(
    session: Any, tmp_path: Path
) -> None:
    path = tmp_path / "rows.parquet"
    texts = pa.table({"k": [f"{at:09}" for at in range(500)]})
    pq.write_table(texts, path, compression="none", write_page_checksum=True)
    path.write_bytes(path.read_bytes().replace(b"000000123", b"900000123", 1))
    rows = from_files(session, [path], texts.schema)
    with pytest.raises(ClusterObjectError, match="checksum"), spark_errors("run the query"):
        written_parts(rows, refuse, tmp_path / "out", group_bytes=1 << 20)


def test_row_groups_without_rows_and_without_dictionaries_are_read(
    session: Any, tmp_path: Path
) -> None:
    path = tmp_path / "rows.parquet"
    some = pa.table({"k": ["a"]})
    with pq.ParquetWriter(path, some.schema, use_dictionary=False) as writer:
        for each in (some.slice(0, 0), some, some.slice(0, 0)):
            writer.write_table(each)
    assert from_files(session, [path], some.schema).collect() == [("a",)]


def test_each_task_is_a_partition_and_rows_that_are_wide_come_in_several_batches(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects_module, "_TASK_BYTES", 1)
    path = tmp_path / "rows.parquet"
    wide = pa.table({"k": ["x" * 100_000] * 2000})
    pq.write_table(wide, path, row_group_size=50)
    rows = from_files(session, [path], wide.schema)
    assert rows.rdd.getNumPartitions() == 40
    table = objects_module._table(pieces_of(session, path)[0], wide.schema)
    assert table.nbytes > 4_000_000
    assert rows.selectExpr("count(*)", "sum(length(k))").collect() == [(2000, 200_000_000)]


def test_a_file_that_was_stored_a_while_ago_is_looked_for_again(
    session: Any, store: ObjectServer, objects: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"k": ["a", "b"]}), path)
    schema = pa.schema([("k", pa.string())])
    assert from_files(session, [path], schema).count() == 2
    (key,) = keys(store, objects)
    obstore.delete(store.store(prefix(objects)), key)
    monkeypatch.setattr(objects_module, "_SURE", -1.0)
    assert from_files(session, [path], schema).count() == 2
    assert keys(store, objects) == [key]


def test_rows_that_are_stored_once_keep_the_types_of_the_query(
    session: Any, tmp_path: Path
) -> None:
    given_ = session.sql(
        "select collate(k, 'UTF8_LCASE') as k, cast(t as timestamp_ntz) as t "
        "from values ('a', '2024-01-01'), ('A', '2024-01-02') as v(k, t)"
    )
    read, stored = stored_once(given_, tmp_path)
    assert read.schema == given_.schema
    assert stored.rows == 2
    assert read.groupBy("k").count().count() == 1


@pytest.mark.parametrize("harm", ["flip", "cut"])
def test_what_a_task_wrote_is_refused_if_it_changed(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    made = BucketPlace.made

    def harmed(place: BucketPlace, file: JobFile, folder: Path) -> Path:
        data = place.get(file.stored)
        assert data is not None
        place.replace(file.stored, data[:-1] if harm == "cut" else b"X" + data[1:])
        return made(place, file, folder)

    monkeypatch.setattr(BucketPlace, "made", harmed)
    with pytest.raises(ClusterObjectError) as caught:
        written_parts(session.range(10), refuse, tmp_path / "out", group_bytes=1 << 20)
    assert "engine-spark-" in caught.value.what


# What is compared


def by_position(rows: Any) -> pa.Table:
    """Return rows in the order of their positions, without pandas."""
    ordered = rows.orderBy(POSITION)
    return pa.Table.from_batches(ordered._collect_as_arrow(empty_list_if_zero_records=False))


def without_objects(session: Any, paths: list[Path], schema: pa.Schema, first: int) -> Any:
    """Return what Spark itself reads of files."""
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = session.read.schema(from_arrow_schema(plain_schema(schema)))
    found = rows.parquet(*(path.as_uri() for path in paths))
    return found.selectExpr("*", f"_metadata.row_index + {first} AS `{POSITION}`")


def pieces_of(session: Any, path: Path) -> list[Any]:
    """Return the row groups of a file, as tasks get them."""
    found = objects_of(session)
    assert found is not None
    return list(found._kept(path).pieces(["k"]))


def zip_columns(table: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    yield from zip(table.column_names, table.columns, strict=True)


def is_plain(kind: pa.DataType) -> bool:
    """Tell whether a type is one that Spark gives back as it is."""
    return not pa.types.is_nested(kind) and not pa.types.is_time(kind)


def refuse(_: Any) -> None:
    raise AssertionError("Spark is not to write files")


def prefix(objects: str) -> str:
    return objects.partition(f"/{BUCKET}/")[2].rstrip("/")


def keys(store: ObjectServer, objects: str) -> list[str]:
    """Return the keys of all objects below a prefix."""
    pages = obstore.list(store.store(prefix(objects)))
    return [each["path"].removeprefix(f"{prefix(objects)}/") for page in pages for each in page]
