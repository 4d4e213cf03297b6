"""A history that was cut down to the keys of the new rows merges as the whole."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.arrow.merging.history import narrowed_history
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.ingest.history import fits_in_memory
from odfbuild.odf.events import (
    MergeStrategy,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategyUpsertStream,
)
from tests.executors.engine.spark.tables import MILLIS, ingest_request, rows_of

KEY = ("k", "n")
DATA = pa.schema([("event_time", MILLIS), ("k", pa.string()), ("n", pa.int64())])
STORED = pa.schema([("offset", pa.int64()), ("op", pa.int32()), ("system_time", MILLIS), *DATA])
TIME = datetime(2030, 1, 1, tzinfo=UTC)
OLD = pa.Table.from_pylist(
    [
        {"offset": at, "op": 0, "event_time": TIME, "k": key, "n": number}
        for at, (key, number) in enumerate([("a", 1), ("a", 2), ("b", 1), ("c", 3), ("d", 4)])
    ],
    schema=STORED,
)
NEW = pa.Table.from_pylist(
    [{"event_time": TIME, "k": key, "n": number} for key, number in [("a", 1), ("b", 2), ("z", 1)]],
    schema=DATA,
)


def test_of_a_ledger_only_keys_are_kept(tmp_path: Path) -> None:
    request = ingest_request(tmp_path, NEW, MergeStrategyLedger(primary_key=KEY), [OLD])
    cut = narrowed_history(request, Frame.of(NEW))
    assert cut is not None
    (path,) = cut.history
    kept = pq.read_table(path).to_pylist()
    assert kept == [{"k": "a", "n": 1}, {"k": "a", "n": 2}, {"k": "b", "n": 1}]
    assert fits_in_memory(cut.history)


def test_of_other_strategies_all_but_the_system_time_is_kept(tmp_path: Path) -> None:
    request = ingest_request(tmp_path, NEW, MergeStrategyUpsertStream(primary_key=KEY), [OLD])
    cut = narrowed_history(request, Frame.of(NEW))
    assert cut is not None
    kept = pq.read_table(cut.history[0])
    assert kept.schema.names == ["offset", "op", "event_time", "k", "n"]
    assert kept.column("offset").to_pylist() == [0, 1, 2]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "appended"),
    [
        (MergeStrategyLedger, [("b", 2), ("z", 1)]),
        (MergeStrategyUpsertStream, [("b", 2), ("z", 1)]),
        (MergeStrategyChangelogStream, [("a", 1), ("b", 2), ("z", 1)]),
    ],
)
@pytest.mark.parametrize("query", [None, "SELECT * FROM input"])
def test_what_is_new_is_new_to_the_whole_history(
    kind: Callable[..., MergeStrategy],
    appended: list[tuple[str, int]],
    query: str | None,
    either_way: SparkEngine,
    tmp_path: Path,
) -> None:
    source = NEW
    if kind is MergeStrategyChangelogStream:
        source = NEW.append_column("op", pa.array([0, 0, 0], pa.int32()))
    request = ingest_request(tmp_path, source, kind(primary_key=KEY), [OLD], preprocess=query)
    rows = rows_of(either_way.ingest(request))
    assert [(row["op"], row["k"], row["n"]) for row in rows] == [(0, *key) for key in appended]
