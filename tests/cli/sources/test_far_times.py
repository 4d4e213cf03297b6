"""Rows with dates and instants outside of the years 1 to 9999: what is said of them names them."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import root

_DAY = 86_400_000
_LATE, _EARLY = 3_000_000, -800_000  # days since 1970
LATE = "d = +10183-09-21, i = +10183-09-21T00:00:00.000Z"
EARLY = "d = -0221-09-04, i = -0221-09-04T00:00:00.000Z"
NO_NAME = f"k = null, {LATE}"
KEY = "primaryKey: [k, d, i]"

Row = tuple[int | None, str | None, int, int]
"""An event time, a name, a day, and a value."""

FIRST: list[Row] = [(0, "a", _LATE, 1), (0, "a", _LATE, 2), (None, "b", _EARLY, 3)]
AGAIN: list[Row] = [(0, "a", _LATE, 5), (0, "z", 0, 4)]
KEYLESS: list[Row] = [(0, None, _LATE, 5)]


def _parquet(rows: list[Row]) -> bytes:
    times, names, days, values = zip(*rows, strict=True)
    table = pa.table(
        {
            "t": pa.array(times, pa.int64()).cast(pa.timestamp("ms", "UTC")),
            "k": pa.array(names, pa.string()),
            "d": pa.array(days, pa.int32()).cast(pa.date32()),
            "i": pa.array([each * _DAY for each in days]).cast(pa.timestamp("ms", "UTC")),
            "v": pa.array(values),
        }
    )
    out = pa.BufferOutputStream()
    pq.write_table(table, out)
    return bytes(out.getvalue())


@pytest.mark.parametrize("is_prepared", [False, True], ids=["as read", "preprocessed"])
@pytest.mark.parametrize(
    ("merge", "said"),
    [
        ("Append", [[], [], []]),
        (
            f"Ledger, {KEY}",
            [
                [f"repeated-key]: the key k = 'a', {LATE} is 2 times in data/0.parquet"],
                [f"left out differs from what is recorded: at k = 'a', {LATE}, v is 5, recorded 2"],
                ["null-key]"],
            ],
        ),
        (
            f"Snapshot, {KEY}",
            [[f"merge-input]: src: the key k = 'a', {LATE} is in the source more than once"]],
        ),
        (
            f"UpsertStream, {KEY}",
            [
                [],
                [],
                [f"merge-input]: src: a source row has no value in its primary key: {NO_NAME}"],
            ],
        ),
    ],
    ids=["Append", "Ledger", "Snapshot", "UpsertStream"],
)
def test_messages_about_rows_show_them(
    merge: str,
    said: list[list[str]],
    is_prepared: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    query = "select t, k, d, i, v from input" if is_prepared else ""
    columns = "t TIMESTAMP, k STRING, d DATE, i TIMESTAMP, v BIGINT"
    source = root(columns=columns, merge=f"{{kind: {merge}}}", query=query)
    for old, new in (
        ("kind: Csv, header: true", "kind: Parquet"),
        ("*.csv", "*.parquet"),
        ("engine: spark", "engine: datafusion"),
    ):
        source = source.replace(old, new)
    files = {
        "odfbuild.yaml": "odfbuild: 1\nengine: {ingest: arrow}\n",
        "datasets/src.yaml": source,
    }
    run = Inside(lay_out(tmp_path / "shop", files), capsys, monkeypatch)
    for at, (rows, texts) in enumerate(zip((FIRST, AGAIN, KEYLESS), said, strict=False)):
        lay_out(run.project, {f"data/{at}.parquet": _parquet(rows)})
        done = run("apply", "--yes")
        assert "error[internal]" not in done.err
        assert all(each in done.err for each in texts), done.err
        refused = any("merge-input" in each for each in texts)
        assert (done.code == 0) is not refused, done.err
        if at == 0 and not refused:
            first = f"first k = 'b', {EARLY}: given" if is_prepared else "first row 3: given"
            assert f"without an event time in 't', {first}" in done.err
    shown = [json.loads(each) for each in run("show", "src", "-o", "ndjson").out.splitlines()]
    assert all(each["d"] in ("+10183-09-21", "-0221-09-04", "1970-01-01") for each in shown)
    assert bool(shown) is not merge.startswith("Snapshot")
