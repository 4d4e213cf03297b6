"""A watermark that moves to the end of a window, and no further, finds the first row of it.

The window began where that row is, as long ago as a window can be; no key gets new rows.
"""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from odfbuild.executors.engine.protocol import TransformWork
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.events import DataSchema, TemporalTable
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.odf.timestamp import Timestamp
from odfbuild.sql.analysis.keys.key_columns import key_columns
from odfbuild.sql.text.steps import steps_of
from tests.executors.engine.spark.tables import MILLIS, rows_of, sql, work_on, written

pytestmark = pytest.mark.spark

HOUR = 3_600_000
SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("op", pa.int32()),
        ("system_time", MILLIS),
        ("event_time", MILLIS),
        ("k", pa.string()),
    ]
)
_COUNT = "select {}.start as event_time, k, count(*) as n from a group by {}, k"
WINDOWS = {
    "tumbling": ("window(event_time, '90 minutes')", "window", 1.5),
    "sliding": ("window(event_time, '3 hours', '1 hour')", "window", 3),
    "HOP": ("hop(event_time, interval '1' hour, interval '4' hours)", "window", 4),
    "session": ("session_window(event_time, '25 minutes')", "session_window", 5 / 12),
}
STARTS = 36 * HOUR  # a multiple of every length


def step(folder: Path, query: str, before: int, mark: int) -> TransformWork:
    """Return a step without new rows, after one that read a row of one key."""
    row = {"offset": 0, "op": 0, "system_time": 0, "event_time": STARTS, "k": "p"}
    table = pa.Table.from_pylist([row], SCHEMA)
    transform = replace(sql(query), temporal_tables=(TemporalTable("b", ("k",)),))
    made = work_on(folder, transform, a=SCHEMA, b=SCHEMA)
    past = (written(folder, table),)
    assert key_columns(steps_of(transform), _seen()) is not None, "it works key by key"
    return replace(
        made,
        inputs=tuple(replace(each, past=past) for each in made.inputs),
        watermark=Timestamp.from_millis(mark),
        watermark_before=Timestamp.from_millis(before),
    )


def _seen() -> dict[str, DataSchema]:
    schema = from_arrow(pa.schema([SCHEMA.field("event_time"), SCHEMA.field("k")]))
    return {"a": schema, "b": schema}


@pytest.mark.parametrize("form", WINDOWS)
def test_a_window_closes_when_its_end_is_reached(
    form: str, either_way: SparkEngine, tmp_path: Path
) -> None:
    call, column, hours = WINDOWS[form]
    query, end = _COUNT.format(column, call), STARTS + round(hours * HOUR)
    if form == "HOP":
        query = query.replace(f"{column}.start", call.replace("(", "_start(", 1))
    at = datetime.fromtimestamp(STARTS / 1000, UTC).isoformat(timespec="milliseconds")
    row = {"op": 0, "event_time": at.replace("+00:00", "Z"), "k": "p", "n": 1}
    assert row in rows_of(either_way.transform(step(tmp_path, query, end - 1, end)))


def test_a_window_stays_open_until_its_end(engine: SparkEngine, tmp_path: Path) -> None:
    query, end = _COUNT.format("window", "window(event_time, '1 hour')"), STARTS + HOUR
    assert rows_of(engine.transform(step(tmp_path, query, end - 2, end - 1))) == []


def test_a_row_meets_its_version_when_its_time_is_reached(
    either_way: SparkEngine, tmp_path: Path
) -> None:
    query = "select a.* from a join b for system_time as of a.event_time as r on r.k = a.k"
    assert rows_of(either_way.transform(step(tmp_path, query, STARTS - 2, STARTS - 1))) == []
    (row,) = rows_of(either_way.transform(step(tmp_path, query, STARTS - 1, STARTS)))
    assert (row["op"], row["k"]) == (0, "p")
