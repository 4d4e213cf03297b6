"""Which versions a log holds, and from when until when: every rule of it by an example.

Random logs are read by both ways of reading them, Spark's and the one without an engine.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from odfbuild.executors.data.changelog import InvalidChangelogError
from odfbuild.executors.data.versions import in_force as plain_in_force
from odfbuild.executors.engine.spark.changelog import ChangelogReplay, in_vain
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.executors.engine.spark.transform.versions import in_force, logged
from odfbuild.odf.events import DatasetVocabulary
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.odf.timestamp import Timestamp
from tests.executors.engine.spark.tables import MILLIS, written
from tests.support.data.changelogs import VOCAB
from tests.support.data.changelogs import written as slices
from tests.support.data.version_logs import TIMES, plain, random_log
from tests.support.data.version_logs import in_force as wanted
from tests.support.data.version_logs import versions as reading

pytestmark = pytest.mark.spark

MANY = pa.schema(
    [
        ("offset", pa.int64()),
        ("op", pa.int32()),
        ("system_time", MILLIS),
        ("event_time", MILLIS),
        ("g", pa.int64()),
        ("k", pa.string()),
        ("v", pa.float64()),
    ]
)
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
    "an earlier one replaces": ([(A, 3, "p", 7), (FROM, 3, "p", 7), (TO, 2, "p", 8)], "p2:8"),
    "the same time replaces": ([(A, 1, "p", 7), (FROM, 1, "p", 7), (TO, 1, "p", 8)], "p1:8"),
    "the last of several goes": (
        [(A, 1, "p", 7), (FROM, 1, "p", 7), (TO, 2, "p", 8), (R, 2, "p", 8)],
        "p1-2:7",
    ),
    "the end is that of its own correction": (
        [(A, 1, "p", 7), (FROM, 1, "p", 7), (TO, 5, "p", 8), (FROM, 5, "p", 8), (TO, 3, "p", 9)],
        "p1-3:7 p3:9",
    ),
    "none between": (
        [
            (A, 1, "p", 7),
            (FROM, 1, "p", 7),
            (TO, 2, "p", 8),
            (FROM, 2, "p", 8),
            (TO, 4, "p", 9),
            (R, 4, "p", 9),
            (A, 6, "p", 1),
        ],
        "p1-2:7 p2-4:8 p6:1",
    ),
    "another that stands comes back": (
        [(A, 1, "p", 7), (A, 2, "p", 8), (FROM, 2, "p", 8), (TO, 4, "p", 9), (R, 4, "p", 9)],
        "p1-2:7 p2-4:8 p4:7",
    ),
    "one that goes on comes back": (
        [
            (A, 1, "p", 7),
            (FROM, 1, "p", 7),
            (TO, 9, "p", 1),
            (A, 2, "p", 8),
            (FROM, 2, "p", 8),
            (TO, 4, "p", 9),
            (R, 4, "p", 9),
        ],
        "p1-2:7 p2-4:8 p4-9:7 p9:1",
    ),
    "of equal ones one stands": (
        [(A, 1, "p", 7), (A, 1, "p", 7), (FROM, 1, "p", 7), (TO, 3, "p", 8), (R, 3, "p", 8)],
        "p1:7",
    ),
    "of two ends the later": (
        [
            (A, 1, "p", 7),
            (FROM, 1, "p", 7),
            (TO, 2, "p", 8),
            (FROM, 2, "p", 8),
            (TO, 1, "p", 7),
            (FROM, 1, "p", 7),
            (TO, 5, "p", 9),
            (R, 5, "p", 9),
        ],
        "p1-5:7",
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


def spans(
    engine: SparkEngine, paths: Sequence[Path], schema: pa.Schema, key: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the versions in a log with from and to, in milliseconds."""
    with in_vain(), engine._views("read versions", StepSize.SMALL, 0) as (session, views):
        replaying = ChangelogReplay(session=session, views=views, size=StepSize.SMALL)
        columns = [name for name in schema.names if name not in ("offset", "op", "system_time")]
        found = logged(replaying, paths, schema, columns, DatasetVocabulary(), key, "log")
        frame = in_force(replaying, found, key, "event_time", "versions")
        shown = frame.selectExpr(
            "unix_millis(__odf_from) f", "unix_millis(__odf_to) t", "__odf_row.*"
        )
        rows: list[dict[str, Any]] = shown.toArrow().to_pylist()
    return rows


def versions(engine: SparkEngine, folder: Path, log: Log) -> str:
    """Return the versions in a log as words: key, from when, until when, value."""
    rows: list[dict[str, Any]] = [
        {"offset": at, "op": op, "event_time": time, "k": k, "v": v, "u": -(v or 0)}
        for at, (op, time, k, v) in enumerate(log)
    ]
    path = written(folder, pa.Table.from_pylist(rows, SCHEMA))
    words = [
        f"{row['k'] or '-'}{row['f']}{'' if row['t'] is None else -row['t']}:{row['v']}"
        for row in spans(engine, [path], SCHEMA, ["k"])
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


@pytest.mark.parametrize(
    ("first", "count"), [(0, 300), pytest.param(300, 20_000, marks=pytest.mark.slow)]
)
def test_random_logs_are_read_alike(
    engine: SparkEngine, tmp_path: Path, first: int, count: int
) -> None:
    """Random logs, each under a key of its own, so that one run reads them all."""
    logs = {
        number: random_log(Random(f"versions {number}")) for number in range(first, first + count)
    }
    records = [(op, {"g": number, **row}) for number, log in logs.items() for op, row in log]
    schema = from_arrow(MANY)
    paths = slices(tmp_path, [records[:97], records[97:]], schema)
    found = {number: reading(log, ["k"]) for number, log in logs.items()}
    seen: dict[tuple[int, int], list[str]] = defaultdict(list)
    for span in spans(engine, paths, MANY, ["g", "k"]):
        until = span["t"] if span["t"] is not None else TIMES + 1
        for at in range(span["f"], until):
            seen[span["g"], at].append(shown(span))
    for at in range(-1, TIMES + 1):
        rows = plain_in_force(paths, schema, VOCAB, ["g", "k"], Timestamp.from_millis(at))
        plainly: dict[int, list[str]] = defaultdict(list)
        for row in (row for batch in rows for row in batch.to_pylist()):
            plainly[row["g"]].append(shown(row))
        for number, log in logs.items():
            meant = sorted(map(shown, wanted(found[number], ["k"], at)))
            assert sorted(seen[number, at]) == meant, f"Spark, log {number} at {at}: {log}"
            assert sorted(plainly[number]) == meant, f"no engine, log {number} at {at}: {log}"


def shown(row: Mapping[str, Any]) -> str:
    time = row["event_time"]
    millis = time if isinstance(time, int) else round(time.timestamp() * 1000)
    return repr((millis, plain(row["k"]), plain(row["v"])))
