"""What a query asks of a session is asked of all its rows together, wherever it asks.

The sessions are those of a model: rows of a key that are no further apart than the gap, before any
condition.  Conditions of the query and the watermark choose among them.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.views import DatasetView
from odfbuild.executors.engine.protocol import RawQueryWork
from odfbuild.executors.engine.querier import QueryRequest
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.odf.timestamp import Timestamp
from tests.executors.engine.spark.tables import MILLIS, rows_of, sql, work_on
from tests.support.data.changelogs import SYSTEM, VOCAB

pytestmark = pytest.mark.spark

MINUTE = 60_000
GAP = 90
MARK, FROM = 4000, 2000  # minutes


class Session(NamedTuple):
    """A session: its key, and when it begins and ends, in minutes; how many rows it has."""

    key: str
    start: int
    end: int
    rows: int


SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("op", pa.int32()),
        ("system_time", MILLIS),
        ("event_time", MILLIS),
        ("k", pa.string()),
    ]
)
STORED = parse_ddl((*SYSTEM, "event_time TIMESTAMP NOT NULL", "k STRING"))
_CALL = "session_window(event_time, '90 minutes')"
_TIME = f"timestamp_millis({FROM * MINUTE}L)"
_LATER = f"> {_TIME}"
_ALL = f"select session_window.start as event_time, session_window.end as e, k, count(*) as n from a group by {_CALL}, k"  # noqa: E501
_BEHIND: Callable[[Session], bool] = lambda each: each.start > FROM  # noqa: E731
QUERIES: dict[str, tuple[str, Callable[[Session], bool]]] = {
    "watermark": (_ALL, lambda _: True),
    "SESSION": (
        _ALL.replace(_CALL, "session(event_time, interval '90' minutes)")
        .replace("session_window.start", "session_start(event_time, interval '90' minutes)")
        .replace("session_window.end", "session_end(event_time, interval '90' minutes)")
        + f" having session_start(event_time, interval '90' minutes) {_LATER}",
        _BEHIND,
    ),
    "HAVING": (f"{_ALL} having session_window.start {_LATER}", _BEHIND),
    "HAVING that ends with it": (f"{_ALL} having {_TIME} < session_window.start", _BEHIND),
    "HAVING of an aggregate": (f"{_ALL} having count(*) > 2", lambda each: each.rows > 2),
    "HAVING of a key": (f"{_ALL} having k = 'p'", lambda each: each.key == "p"),
    "WHERE around": (f"select * from ({_ALL}) where event_time {_LATER}", _BEHIND),
    "WHERE of a part": (
        "select w.start as event_time, w.end as e, k, n from (select session_window as w, k, "
        f"count(*) as n from a group by {_CALL}, k) where w.start {_LATER}",
        _BEHIND,
    ),
    "without an alias": (
        "select start as event_time, `end` as e, k, n from (select session_window.start, "
        f"session_window.end, k, count(*) as n from a group by {_CALL}, k) where start {_LATER}",
        _BEHIND,
    ),
    "a star of it": (
        "select start as event_time, `end` as e, k, n from (select session_window.*, k, "
        f"count(*) as n from a group by {_CALL}, k) where start {_LATER}",
        _BEHIND,
    ),
    "a join": (
        f"select x.* from ({_ALL}) x join (select {_TIME} as u) y on x.event_time > y.u",
        _BEHIND,
    ),
    "a semi join": (
        f"select x.* from ({_ALL}) x left semi join (select 'q' as k) y "
        f"on x.k = y.k and x.event_time {_LATER}",
        lambda each: each.start > FROM and each.key == "q",
    ),
}


def sessions(rows: list[tuple[str, int]]) -> Iterator[Session]:
    """Yield the sessions of rows, each a key and a time in minutes."""
    for key in sorted({key for key, _ in rows}):
        times = sorted(time for each, time in rows if each == key)
        first = 0
        for at, time in enumerate(times, 1):
            if at == len(times) or times[at] > time + GAP:
                yield Session(key, times[first], time + GAP, at - first)
                first = at


@pytest.mark.parametrize("form", QUERIES)
def test_conditions_choose_among_whole_sessions(
    form: str, either_way: SparkEngine, tmp_path: Path
) -> None:
    query, chosen = QUERIES[form]
    rows = _drawn(form)
    work = work_on(tmp_path, sql(query), a=[_table(rows)])
    found = rows_of(either_way.transform(replace(work, watermark=_at(MARK))))
    closed = [each for each in sessions(rows) if each.end <= MARK and chosen(each)]
    assert _seen(found) == _expected(closed)
    assert len(closed) > 1


@pytest.mark.parametrize("form", [each for each in QUERIES if each not in ("watermark", "SESSION")])
def test_so_they_do_where_no_watermark_closes_sessions(
    form: str, either_way: SparkEngine, tmp_path: Path
) -> None:
    query, chosen = QUERIES[form]
    rows = _drawn(form)
    expected = _expected([each for each in sessions(rows) if chosen(each)])
    table = _table(rows)
    raw = RawQueryWork(
        source=Frame.of(table),
        query=sql(query.replace(" from a group", " from input group")),
        staging=tmp_path,
    )
    assert _seen(rows_of(either_way.raw_query(raw))) == expected
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    view = DatasetView(paths=(path,), schema=STORED, vocab=VOCAB, log=True)
    asked = QueryRequest(text=query, views={"a": view}, staging=tmp_path)
    assert _seen(rows_of(either_way.query(asked))) == expected


def _drawn(form: str) -> list[tuple[str, int]]:
    """Draw rows, some of which are of sessions over the edges of the conditions."""
    drawn = random.Random(form)
    rows = [(drawn.choice("pq"), drawn.randrange(0, 5000)) for _ in range(160)]
    edges = (FROM - 1, FROM + 60, MARK - GAP - 10, MARK - GAP + 10)
    return rows + [(key, time) for key in "pq" for time in edges]


def _table(rows: list[tuple[str, int]]) -> pa.Table:
    given = [
        {"offset": at, "op": 0, "system_time": 0, "event_time": time * MINUTE, "k": key}
        for at, (key, time) in enumerate(rows)
    ]
    return pa.Table.from_pylist(given, SCHEMA)


def _seen(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((row["k"], row["event_time"], row["e"], row["n"]) for row in found)


def _expected(found: Iterable[Session]) -> list[tuple[Any, ...]]:
    return sorted((each.key, _text(each.start), _text(each.end), each.rows) for each in found)


def _at(minutes: int) -> Timestamp:
    return Timestamp.from_millis(minutes * MINUTE)


def _text(minutes: int) -> str:
    return f"1970-01-{1 + minutes // 1440:02}T{minutes // 60 % 24:02}:{minutes % 60:02}:00.000Z"
