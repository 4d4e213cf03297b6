"""Pushing from Python: tables, readers, DataFrames, files and streams."""

import io
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import odfbuild
from odfbuild.executors.engine.spark import engine as spark
from odfbuild.executors.ingest.push.push import BadPushError
from odfbuild.executors.ingest.push.spool import BadRowsGivenError
from odfbuild.executors.ingest.read.problems import InvalidSourceError
from odfbuild.odf.timestamp import InvalidTimestampError
from tests.support.engines import FakeEngine
from tests.support.process.inside import heads
from tests.support.projects.pushes import CSV, NDJSON, pushed_to

TABLE = pa.table({"k": ["x", "y"], "v": [1, 2]})


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pushed_to(tmp_path_factory.mktemp("api") / "project")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    engine = FakeEngine()
    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: engine)
    return engine


@pytest.fixture
def pusher(project: Path, engine: FakeEngine) -> Iterator[odfbuild.Pusher]:
    with odfbuild.Pusher(project) as pusher:
        yield pusher
    assert engine.started.count("prepare") <= 1


class Streamed:
    """Something that speaks Arrow's protocol, as DataFrames of several packages do."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def last_rows(pusher: odfbuild.Pusher, count: int) -> list[tuple[Any, ...]]:
    dataset = odfbuild.find_dataset(pusher.project, "readings")
    _, path = dataset.slices()[-1]
    table = pq.read_table(path).select(["k", "v"])
    found = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    assert len(found) == count
    return found


GIVEN: dict[str, Any] = {
    "table": lambda: TABLE,
    "batch": lambda: TABLE.to_batches()[0],
    "reader": TABLE.to_reader,
    "stream": lambda: Streamed(TABLE),
    "other types": lambda: pa.table(
        {
            "v": pa.array([1, 2], pa.int16()),
            "k": pa.array(["x", "y"]).dictionary_encode(),
        }
    ),
    "text numbers": lambda: pa.table(
        {"k": pa.array(["x", "y"], pa.large_string()), "v": ["1", "2"]}
    ),
    "bytes": lambda: io.BytesIO(b'{"k": "x", "v": 1}\n{"k": "y", "v": 2}\n'),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_rows_are_taken_in_whatever_holds_them(kind: str, pusher: odfbuild.Pusher) -> None:
    done = pusher.push("readings", GIVEN[kind]())
    assert (done.blocks >= 1, done.records, done.repeated) == (True, 2, False)
    assert last_rows(pusher, 2) == [("x", 1), ("y", 2)]
    dataset = odfbuild.find_dataset(pusher.project, "readings")
    assert dataset.head() == done.head
    assert odfbuild.verify(dataset).findings == ()


def test_paths_and_open_files_are_read_by_their_names(
    pusher: odfbuild.Pusher, tmp_path: Path
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(CSV)
    assert pusher.push("readings", path).records == 2
    assert pusher.push("readings", str(path)).records == 2
    with path.open("rb") as file:
        assert pusher.push("readings", file).name == "x.csv"
    done = pusher.push("readings", io.BytesIO(CSV.encode()), format="csv")
    assert (done.name, done.records) == ("standard input", 2)


def test_a_push_is_made_in_one_call(project: Path, engine: FakeEngine) -> None:
    at = datetime(2020, 1, 2, tzinfo=UTC)
    done = odfbuild.push(str(project), "pair", TABLE, source="left", event_time=at, id="1")
    assert (done.source, done.id, done.records) == ("left", "1", 2)
    opened = odfbuild.open_project(project)
    again = odfbuild.push(opened, "pair", TABLE, source="left", id="1")
    assert (again.repeated, again.blocks, again.records) == (True, 0, 0)
    assert again.head == done.head
    dataset = odfbuild.find_dataset(opened, "pair")
    table = pq.read_table(dataset.slices()[-1][1])
    assert {time.replace(tzinfo=UTC) for time in table.column("t").to_pylist()} == {at}
    assert engine.started.count("prepare") == 1  # the second push asked no engine


def test_the_index_of_a_pandas_data_frame_is_no_column(
    pusher: odfbuild.Pusher, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    class DataFrame:
        pass

    def from_pandas(frame: object, *, preserve_index: bool) -> pa.Table:
        assert preserve_index is False
        asked.append(frame)
        return TABLE

    DataFrame.__module__ = "pandas.core.frame"
    fake = SimpleNamespace(from_pandas=from_pandas, from_batches=pa.Table.from_batches)
    monkeypatch.setattr(pa, "Table", fake)
    frame = DataFrame()
    from odfbuild.executors.ingest.push.spool import spool_rows

    path = pusher.project.root / "frame.parquet"
    spool_rows(frame, path)
    monkeypatch.undo()
    assert asked == [frame]
    assert pq.read_table(path) == TABLE
    path.unlink()


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "unknown column": (
        pa.table({"k": ["x"], "w": [1]}),
        BadRowsGivenError,
        "declares no column w",
    ),
    "no cast": (pa.table({"k": ["x"], "v": ["one"]}), InvalidSourceError, "row 1: column v: 'one'"),
    "too large": (
        pa.table({"k": ["x"], "v": pa.array([2**63], pa.uint64())}),
        InvalidSourceError,
        "column v",
    ),
    "fractions": (pa.table({"k": ["x"], "v": [1.5]}), InvalidSourceError, "column v"),
    "null": (pa.table({"k": ["x", None]}), InvalidSourceError, "row 2: column k: no value"),
    "missing": (pa.table({"v": [1]}), InvalidSourceError, "lacks the required column k"),
    "twice": (
        pa.Table.from_arrays([pa.array(["x"])] * 2, names=["k", "k"]),
        BadRowsGivenError,
        "several columns k",
    ),
    "intervals": (
        pa.table({"k": ["x"], "v": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}),
        BadRowsGivenError,
        "cannot be pushed",
    ),
    "list": ([{"k": "x"}], BadRowsGivenError, "a value of type builtins.list"),
    "nothing": (None, BadRowsGivenError, "a value of type builtins.NoneType"),
    "text stream": (io.StringIO(NDJSON), BadRowsGivenError, "open as text"),
    "no bytes": (io.BytesIO(), BadPushError, "standard input is empty"),
    "no file": (Path("none.csv"), BadPushError, "none.csv cannot be read"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_rows_that_do_not_fit_are_refused_and_the_chain_untouched(
    case: str, pusher: odfbuild.Pusher, project: Path
) -> None:
    data, error, says = REFUSED[case]
    before = heads(project)
    with pytest.raises(error, match=says):
        pusher.push("readings", data)
    assert heads(project) == before
    staging = project / ".odfbuild" / "staging"
    assert not staging.exists() or list(staging.iterdir()) == []


def test_a_time_that_is_none_is_refused(pusher: odfbuild.Pusher) -> None:
    with pytest.raises(InvalidTimestampError, match="'soon' is not a time"):
        pusher.push("readings", TABLE, event_time="soon")


def test_a_reader_that_fails_is_refused(pusher: odfbuild.Pusher, project: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0]
        raise ValueError("the source of the rows is gone")

    before = heads(project)
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, batches())
    with pytest.raises(BadRowsGivenError) as caught:
        pusher.push("readings", reader)
    assert "the source of the rows is gone" in caught.value.why
    assert heads(project) == before
