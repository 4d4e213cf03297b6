"""Rows without an event time get that of their source or of the run, which is reported."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.ingest.reports.event_times import TimelessRows
from odfbuild.odf.timestamp import Timestamp
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import GOOD, root

CODE = "no-event-time-in-rows"
COLUMNS = "t TIMESTAMP, k STRING, v BIGINT"
EMPTY = "t,k,v\n2031-01-01T00:00:00Z,a,1\n,b,2\n,c,3\n"
MERGES = {
    "Append": "{kind: Append}",
    "Ledger": "{kind: Ledger, primaryKey: [k]}",
    "Snapshot": "{kind: Snapshot, primaryKey: [k]}",
    "UpsertStream": "{kind: UpsertStream, primaryKey: [k]}",
}
SELECT = "select t, k, v from input"
NOW = Timestamp.parse("2024-05-01T00:00:00Z")


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(lay_out(tmp_path / "shop", {}), capsys, monkeypatch, FakeEngine())


@pytest.mark.parametrize("merge", MERGES.values(), ids=MERGES)
@pytest.mark.parametrize("query", ["", SELECT], ids=["as read", "preprocessed"])
def test_empty_times_are_a_warning(run: Inside, merge: str, query: str) -> None:
    source = root(columns=COLUMNS, merge=merge, query=query)
    lay_out(run.project, {"datasets/src.yaml": source, "data/1.csv": EMPTY})
    done = run("apply", "--yes")
    assert done.code == 0, done.err
    said = f"warning[{CODE}]: 2 of 3 rows of data/1.csv without an event time in 't', first "
    assert said + ("k = 'b', v = 2: given 2" if query else "row 2: given 2") in done.err
    assert ", the time of this run; the watermark is 2031-01-01T00:00:00Z" in done.err
    assert done.err.count(CODE) == 1
    assert "WHERE t IS NOT NULL" in done.err
    records = (run.project / ".odfbuild" / "runs").rglob("*")
    texts = [path.read_text("utf-8") for path in records if path.is_file()]
    assert any('"no_event_time":"2 of 3 rows' in text for text in texts)


@pytest.mark.parametrize("query", ["", "select k, v from input"], ids=["as read", "preprocessed"])
def test_a_source_without_the_column_gives_none(run: Inside, query: str) -> None:
    source = root(columns="k STRING, v BIGINT", merge=MERGES["Snapshot"], query=query)
    lay_out(run.project, {"datasets/src.yaml": source, "data/1.csv": "k,v\na,1\nb,2\n"})
    assert CODE not in run("apply", "--yes").err
    lay_out(run.project, {"data/2.csv": "k,v\na,5\nc,3\n"})
    done = run("apply", "--yes")
    assert done.code == 0, done.err
    assert CODE not in done.err


def test_the_watermark_that_follows_is_named(run: Inside) -> None:
    lay_out(run.project, {"datasets/src.yaml": root(columns=COLUMNS, merge=MERGES["Append"])})
    lay_out(run.project, {"data/1.csv": "t,k,v\n2024-01-01T00:00:00Z,a,1\n,b,2\n"})
    err = run("apply", "--yes").err
    given = err.split("given ")[1].split(",")[0]
    assert f"the watermark is {given}" in err


def test_a_pushed_input_is_looked_at_as_well(run: Inside) -> None:
    pushed = root(columns=COLUMNS).replace("SetPollingSource", "AddPushSource").replace(
        "      fetch: {kind: FilesGlob, path: data/*.csv}\n", "      sourceName: default\n"
    )  # fmt: skip
    lay_out(run.project, {"datasets/src.yaml": pushed, "data/1.csv": EMPTY})
    assert run("apply", "--yes").code == 0
    file = str(run.project / "data" / "1.csv")
    done = run("ingest", "src", file, "--event-time", "2020-01-01T00:00:00Z")
    assert done.code == 0, done.err
    assert CODE in done.err
    assert "given 2020-01-01T00:00:00Z, the time of the source" in done.err


def test_many_inputs_are_one_warning(run: Inside) -> None:
    files = {f"data/{number}.csv": f"t,k,v\n,{number},1\n" for number in range(2, 7)}
    lay_out(run.project, {"datasets/src.yaml": root(columns=COLUMNS), **files})
    done = run("apply", "--yes")
    assert done.err.count(CODE) == 1
    assert "so in 4 more of the inputs" in done.err


def test_times_that_are_all_there_are_none(run: Inside) -> None:
    lay_out(run.project, {"datasets/src.yaml": root(), "data/1.csv": GOOD})
    assert CODE not in run("apply", "--yes").err


@given(st.lists(st.booleans(), max_size=20))
def test_the_count_and_the_first_row_are_those_of_the_input(there: list[bool]) -> None:
    """A merge puts rows without a time first; the number is that of the input."""
    time = datetime(2024, 1, 1, tzinfo=UTC)
    times = pa.array([time if each else None for each in there], pa.timestamp("ms", "UTC"))
    source = Frame.of(pa.table({"t": times, "k": list(range(len(there)))}))
    assert source.table is not None
    merged = source.table.sort_by([("t", "ascending")]).add_column(0, "op", [[0] * len(there)])
    found = TimelessRows.among(Frame.of(merged), "t")
    assert (found is None) == all(there)
    if found is not None:
        what = found.report("a.csv", found.number_in(source), "a time", NOW).what
        assert what.startswith(f"{there.count(False)} of {len(there)} row")
        assert f"first row {there.index(False) + 1}: given a time" in what
