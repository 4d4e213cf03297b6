"""Training run of everything that steps do, so that a class archive holds what they need.

Run as a module it makes the archive for the Java that is found; `archive` starts it.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.errors import EngineError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.protocol import (
    IngestRequest,
    TransformInputFrame,
    TransformWork,
    query_over,
)
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.jvm.archive import ATTENDED, archive_of, build
from odfbuild.executors.engine.spark.jvm.java import find_java
from odfbuild.executors.process.interrupt import kill_engines, stop
from odfbuild.odf.events import (
    DatasetVocabulary,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    OffsetInterval,
    TransformSql,
)
from odfbuild.odf.schema.arrow import from_arrow

_VOCAB = DatasetVocabulary(
    offset_column="offset",
    operation_type_column="op",
    system_time_column="system_time",
    event_time_column="event_time",
)
_PREPROCESS = "SELECT name, CAST(size AS BIGINT) AS size, upper(name) AS code FROM input"
_GROUPS = "SELECT name, max(event_time) AS event_time, sum(size) AS total FROM a GROUP BY name"
_QUERIES = (
    "SELECT event_time, name, size * 10 AS more, explode(split(name, ',')) AS part FROM a "
    "WHERE size > 0 UNION ALL SELECT event_time, name, size, code FROM a",
    "SELECT event_time, upper(name) AS name, CASE WHEN size > 1 THEN size END AS size FROM a",
    "SELECT event_time, name, row_number() OVER (PARTITION BY name ORDER BY size) AS n FROM a",
    "SELECT x.event_time, x.name, y.size FROM a AS x JOIN a AS y ON x.name = y.name",
    _GROUPS,
)


def train(folder: Path, java_options: Sequence[str]) -> None:
    """Run small steps, in memory and through files, on one Java started with these options."""
    history = _slice(folder)
    room, given = folder / "spark", tuple(java_options)
    with (
        SparkEngine(room, cores=1, java_options=given) as small,
        SparkEngine(room, cores=1, limit=-1, java_options=given) as large,
    ):
        for engine in (small, large):
            _work(engine, history, folder)


def _work(engine: SparkEngine, history: Path, folder: Path) -> None:
    strategies: tuple[MergeStrategy, ...] = (
        MergeStrategyAppend(),
        MergeStrategyLedger(primary_key=("name",)),
        MergeStrategySnapshot(primary_key=("name",), compare_columns=None),
    )
    for strategy in strategies:
        engine.ingest(_ingest(history, strategy, folder))
    for query in _QUERIES:
        engine.transform(_transform(history, folder, query))
    known, groups = folder / f"groups-{id(engine)}", _transform(history, folder, _GROUPS)
    engine.transform(replace(groups, new_checkpoint=known))
    engine.transform(replace(groups, checkpoint=known))


def _slice(folder: Path) -> Path:
    now = datetime(2020, 1, 1, tzinfo=UTC)
    moment = pa.timestamp("ms", tz="UTC")
    table = pa.table(
        {
            "offset": pa.array([0, 1], pa.int64()),
            "op": pa.array([0, 0], pa.int32()),
            "system_time": pa.array([now, now], moment),
            "event_time": pa.array([now, now], moment),
            "name": ["a,b", "c"],
            "size": pa.array([1, 2], pa.int64()),
            "code": ["A,B", "C"],
        }
    )
    path = folder / "slice.parquet"
    pq.write_table(table, path)
    return path


def _ingest(history: Path, strategy: MergeStrategy, folder: Path) -> IngestRequest:
    source = folder / "source.parquet"
    pq.write_table(pa.table({"name": ["a,b", "d"], "size": ["5", "6"]}), source)
    return IngestRequest(
        source=Frame.at(source),
        preprocess=TransformSql(
            engine="spark", version=None, query=_PREPROCESS, queries=None, temporal_tables=None
        ),
        merge=strategy,
        vocab=_VOCAB,
        history=(history,),
        in_force=from_arrow(pq.read_schema(history)),
        staging=folder,
        infer=False,
    )


def _transform(history: Path, folder: Path, query: str) -> TransformWork:
    source = TransformInputFrame(
        alias="a",
        paths=(history,),
        interval=OffsetInterval(start=0, end=1),
        schema=from_arrow(pq.read_schema(history)),
        vocab=_VOCAB,
    )
    return TransformWork(
        inputs=(source,),
        query=query_over(TransformSql(engine="spark", query=query), (source,), _VOCAB),
        vocab=_VOCAB,
        staging=folder,
    )


def main() -> int:
    """Make the archive for the Java that is found here, at low priority."""
    os.nice(10)
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, lambda *_: threading.Thread(target=_end).start())
    if ATTENDED in sys.argv[1:]:
        threading.Thread(target=_end_with_starter, daemon=True).start()
    try:
        build(archive_of(find_java()), train)
    except EngineError as error:
        sys.stderr.write(f"{error.what}: {error.why}\n")
        return 1
    return 0


def _end() -> None:
    """Kill what runs; the main thread, which waits for it, then clears its files away."""
    stop()
    kill_engines()


def _end_with_starter() -> None:
    """End when standard input does: however its other end was closed."""
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
