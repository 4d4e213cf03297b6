"""Which versions a log holds, and from when until when: every rule of it by an example."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odfbuild.executors.changelog import InvalidChangelogError
from odfbuild.executors.spark.engine import SparkEngine
from odfbuild.executors.spark.replay import Replaying, in_vain
from odfbuild.executors.spark.settings import Size
from odfbuild.executors.spark.versions import in_force, logged
from odfbuild.odf.events import DatasetVocabulary
from tests.executors.spark.tables import MILLIS, written

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("op", pa.int32()),
        ("event_time", MILLIS),
        ("k", pa.string()),
        ("v", pa.int64()),
        ("u", pa.int64()),
    ]
)
A, R, FROM, TO = 0, 1, 2, 3
Log = list[tuple[int, int, str | None, int | None]]
"""Operation, event time in milliseconds, key, value; a last column is minus the value."""
LOGS: dict[str, tuple[Log, str]] = {
    "one after the other": ([(A, 1, "p", 7), (A, 3, "p", 8), (A, 2, "q", 9)], "p1-3:7 p3:8 q2:9"),
    "in any order": ([(A, 3, "p", 8), (A, 1, "p", 7)], "p1-3:7 p3:8"),
    "another time is a version more": (
        [(A, 1, "p", 7), (FROM, 1, "p", 7), (TO, 2, "p", 8)],
        "p1-2:7 p2:8",
    ),
    "also an earlier one": ([(A, 3, "p", 7), (FROM, 3, "p", 7), (TO, 2, "p", 8)], "p2-3:8 p3:7"),
    "the same time replaces": ([(A, 1, "p", 7), (FROM, 1, "p", 7), (TO, 1, "p", 8)], "p1:8"),
    "the last of several goes": (
        [(A, 1, "p", 7), (FROM, 1, "p", 7), (TO, 2, "p", 8), (R, 2, "p", 8)],
        "p1:7",
    ),
    "another key is another row": ([(A, 1, "p", 7), (FROM, 1, "p", 7), (TO, 1, "q", 7)], "q1:7"),
    "another key at another time too": (
        [(A, 1, "p", 7), (FROM, 1, "p", 7), (TO, 2, "q", 7)],
        "q2:7",
    ),
    "the greatest of one time": ([(A, 1, "p", 7), (A, 1, "p", 9), (A, 1, "p", 8)], "p1:9"),
    "null is the least": ([(A, 1, "p", -1), (A, 1, "p", None)], "p1:-1"),
    "one of two equal rows goes": ([(A, 1, "p", 7), (A, 1, "p", 7), (R, 1, "p", 7)], "p1:7"),
    "both go": ([(A, 1, "p", 7), (A, 1, "p", 7), (R, 1, "p", 7), (R, 1, "p", 7)], ""),
    "null is a key": ([(A, 1, None, 7), (FROM, 1, None, 7), (TO, 2, None, 8)], "-1-2:7 -2:8"),
    "it comes again": (
        [(A, 1, "p", 7), (FROM, 1, "p", 7), (TO, 2, "p", 8), (FROM, 2, "p", 8), (TO, 3, "p", 7)],
        "p1-2:7 p2-3:8 p3:7",
    ),
}


def versions(engine: SparkEngine, folder: Path, log: Log) -> str:
    """Return the versions in a log as words: key, from when, until when, value."""
    rows: list[dict[str, Any]] = [
        {"offset": at, "op": op, "event_time": time, "k": k, "v": v, "u": -(v or 0)}
        for at, (op, time, k, v) in enumerate(log)
    ]
    path = written(folder, pa.Table.from_pylist(rows, SCHEMA))
    with in_vain(), engine._views("read versions", Size.SMALL, 0) as (session, views):
        replaying = Replaying(session=session, views=views, size=Size.SMALL)
        columns = ["event_time", "k", "v", "u"]
        found = logged(replaying, [path], SCHEMA, columns, DatasetVocabulary(), ["k"], "log")
        frame = in_force(replaying, found, ["k"], "event_time", "versions")
        told = frame.selectExpr(
            "unix_millis(__odf_from) f", "unix_millis(__odf_to) t", "__odf_row.k", "__odf_row.v"
        ).toArrow()
    words = [
        f"{row['k'] or '-'}{row['f']}{'' if row['t'] is None else -row['t']}:{row['v']}"
        for row in told.to_pylist()
    ]
    return " ".join(sorted(words))


@pytest.mark.parametrize("name", LOGS)
def test_a_log_holds_versions(engine: SparkEngine, tmp_path: Path, name: str) -> None:
    log, expected = LOGS[name]
    assert versions(engine, tmp_path, log) == expected


def test_a_version_that_is_not_there_cannot_be_taken_back(
    engine: SparkEngine, tmp_path: Path
) -> None:
    log: Log = [(A, 1, "p", 7), (FROM, 1, "p", 7), (TO, 2, "p", 8), (R, 1, "p", 7)]
    with pytest.raises(InvalidChangelogError, match="offset 3"):
        versions(engine, tmp_path, log)
