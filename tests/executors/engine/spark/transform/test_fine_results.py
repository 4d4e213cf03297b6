"""Times in the results of queries that are finer than datasets keep: told, or refused in keys."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.seal import Sealed, seal
from odfbuild.executors.engine.protocol import TransformInputFrame, TransformWork, query_over
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.events import OffsetInterval, TransformSql
from odfbuild.odf.schema.arrow import from_arrow, to_arrow
from odfbuild.odf.timestamp import Timestamp
from tests.executors.engine.spark.tables import VOCAB, ingest_request, strategy_of
from tests.support.process.inside import Inside, heads, lay_out
from tests.support.projects.texts import derivative, root

pytestmark = pytest.mark.spark

NOW = Timestamp.parse("2024-06-01T00:00:00Z")
TEXTS = pa.table(
    {"x": ["2024-01-01T00:00:00.000002Z", "2024-01-01T00:00:00.000001Z"], "k": ["a", "b"]}
)
QUERY = "select to_timestamp(x) as event_time, k from input"


class Lent:
    """The engine of all tests, which a command may use but not end."""

    def __init__(self, engine: SparkEngine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def close(self) -> None:
        """Leave it running."""


@pytest.fixture
def run(
    engine: SparkEngine,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Inside:
    project = lay_out(tmp_path / "shop", {})
    return Inside(project, capsys, monkeypatch, Lent(engine))


def sealed(frame: Frame, folder: Path) -> Sealed:
    return seal(
        frame,
        vocab=VOCAB,
        system_time=NOW,
        event_time=NOW,
        start=0,
        in_force=None,
        into=folder / "slice.parquet",
    )


@pytest.mark.parametrize("kind", ["Append", "Ledger", "Snapshot", "UpsertStream"])
def test_rows_keep_their_order_and_what_is_cut_shows(
    either_way: SparkEngine, tmp_path: Path, kind: str
) -> None:
    merge = strategy_of({"kind": kind, "primaryKey": ["k"]})
    frame = either_way.ingest(ingest_request(tmp_path, TEXTS, merge, preprocess=QUERY))
    found = sealed(frame, tmp_path)
    assert [(each.column, each.value[-8:]) for each in found.cut] == [("event_time", ".000002Z")]
    table = pq.read_table(found.slices[0].path)
    assert table.column("k").to_pylist() == ["a", "b"]


@pytest.mark.parametrize("kind", ["Snapshot", "UpsertStream"])
def test_a_time_that_is_stored_alike_is_no_change(
    either_way: SparkEngine, tmp_path: Path, kind: str
) -> None:
    merge = strategy_of({"kind": kind, "primaryKey": ["k"]})
    first = sealed(
        either_way.ingest(ingest_request(tmp_path, TEXTS, merge, preprocess=QUERY)), tmp_path
    )
    history = pq.read_table(first.slices[0].path)
    again = ingest_request(tmp_path, TEXTS, merge, [history], preprocess=QUERY)
    assert either_way.ingest(again).rows == 0


STATEFUL = {
    "aggregate": "select k, max(to_timestamp(x)) as t, max(event_time) as event_time from s "
    "group by k",
    "window": "select event_time, k, max(to_timestamp(x)) over (partition by k) as t from s",
    "join": "select s.event_time, s.k, to_timestamp(r.x) as t from s join s2 r on s.k = r.k",
    "share": "select k, min(event_time) + (max(event_time) - min(event_time)) / 7 as t, "
    "max(event_time) as event_time from s group by k",
    "nested": "select k, max(struct(to_timestamp(x))) as t, max(event_time) as event_time "
    "from s group by k",
}
PLAIN = {
    "plain": "select k, max(event_time) as event_time, min(event_time) as t from s group by k",
    "hours": "select max(event_time) + interval 1 hour as event_time, k from s group by k",
}
LITERALS = {
    "whole": ("timestamp'2020-01-01 00:00:00'", False),
    "with a zone": ("TIMESTAMP '2020-01-01T00:00:00 +01:00'", False),
    "of milliseconds": ("timestamp'2020-01-01 00:00:00.001'", False),
    "fine": ("timestamp'2020-01-01 00:00:00.000001'", True),
    "escaped": ("timestamp'2020-01-01 00:00:00\\u002e000001'", True),
    "in double quotes": ('timestamp "2020-01-01 00:00:00.000001"', True),
}
SCHEMA = from_arrow(
    pa.schema(
        [
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("op", pa.int32(), nullable=False),
            pa.field("system_time", pa.timestamp("ms", "UTC"), nullable=False),
            pa.field("event_time", pa.timestamp("ms", "UTC"), nullable=False),
            pa.field("k", pa.string()),
            pa.field("x", pa.string()),
        ]
    )
)


def stateful(engine: SparkEngine, folder: Path, query: str, *, in_full: bool = False) -> Frame:
    """Return the changes of a first step over two rows of one key, a millisecond apart."""
    rows = [
        {"offset": n, "op": 0, "system_time": 0, "event_time": n, "k": "a",
         "x": f"2024-01-01T00:00:00.00000{n + 1}Z"}
        for n in range(2)
    ]  # fmt: skip
    path = folder / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(rows, to_arrow(SCHEMA)), path)
    inputs = tuple(
        TransformInputFrame(
            alias=alias, paths=(path,), interval=OffsetInterval(0, 1), schema=SCHEMA, vocab=VOCAB
        )
        for alias in ("s", "s2")
        if alias in query.split()
    )
    transform = TransformSql(engine="spark", query=query)
    return engine.transform(
        TransformWork(
            inputs=inputs,
            query=query_over(transform, inputs, VOCAB),
            vocab=VOCAB,
            staging=folder,
            in_full=in_full,
        )
    )


@pytest.mark.parametrize("query", STATEFUL.values(), ids=STATEFUL)
def test_times_that_a_query_over_many_rows_cuts_show(
    either_way: SparkEngine, tmp_path: Path, query: str
) -> None:
    frame = stateful(either_way, tmp_path, query)
    assert [each.column for each in frame.cut] == ["t"]
    assert [each.column for each in sealed(frame, tmp_path).cut] == ["t"]


@pytest.mark.parametrize("in_full", [False, True], ids=["a step", "all of it again"])
def test_times_that_a_query_of_the_event_log_cuts_show(
    either_way: SparkEngine, tmp_path: Path, *, in_full: bool
) -> None:
    query = "select op, event_time, k, to_timestamp(x) as t from s"
    frame = stateful(either_way, tmp_path, query, in_full=in_full)
    assert [each.column for each in sealed(frame, tmp_path).cut] == ["t"]


@pytest.mark.parametrize("query", PLAIN.values(), ids=PLAIN)
def test_a_query_that_makes_no_times_cuts_none(
    either_way: SparkEngine, tmp_path: Path, query: str
) -> None:
    assert stateful(either_way, tmp_path, query).cut == ()


@pytest.mark.parametrize("literal", LITERALS)
def test_literals_are_cut_where_they_are_fine(
    engine: SparkEngine, tmp_path: Path, literal: str
) -> None:
    text, is_fine = LITERALS[literal]
    query = f"select k, max(event_time) as event_time, max({text}) as t from s group by k"
    frame = stateful(engine, tmp_path, query)
    assert [each.column for each in frame.cut] == (["t"] if is_fine else [])


def test_a_query_with_literals_of_whole_seconds_is_asked_once(
    engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: object) -> str:
        raise AssertionError("the result is asked for the least of its times")

    monkeypatch.setattr("odfbuild.executors.engine.spark.transform.fine_times.in_utc", asked)
    query = (
        "select k, coalesce(max(event_time), timestamp'2020-01-01 00:00:00') as event_time "
        "from s group by k"
    )
    assert stateful(engine, tmp_path, query).rows == 1


def test_results_tell_and_keys_refuse(run: Inside) -> None:
    to_time = "select to_timestamp(x) as t, k from input"
    src = root(columns="x STRING, k STRING", query=to_time, merge="{kind: Append}")
    out = derivative(query='"select t + interval 1 microsecond as t, k from src"')
    lay_out(
        run.project,
        {
            "datasets/src.yaml": src,
            "datasets/out.yaml": out,
            "data/1.csv": "x,k\n2024-01-01T00:00:00.000001Z,a\n2024-01-01T00:00:00.000002Z,b\n",
        },
    )
    done = run("apply", "--yes")
    assert done.code == 0, done.err
    assert "warning[times-cut]: data/1.csv has times finer than" in done.err
    assert "warning[times-cut]: the result of out has times finer than" in done.err
    assert done.err.count("2024-01-01 00:00:00.000001Z") == 2

    keyed = root("keyed", columns="x STRING, k STRING", query=to_time,
                 merge="{kind: Ledger, primaryKey: [t]}")  # fmt: skip
    lay_out(run.project, {"datasets/keyed.yaml": keyed})
    done = run("apply", "--yes")
    assert done.code != 0
    assert ": data/1.csv: the key column 't'" in done.err
    assert len(heads(run.project)) == 3
    assert run("show", "keyed").out.count("2024-01-01") == 0
