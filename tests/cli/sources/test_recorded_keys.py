"""A Ledger leaves out rows whose key is recorded: how many is said, and whether they differ."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.ingest.reports.recorded_keys import left_out
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import GOOD, root

MERGES = {
    "Append": "{kind: Append}",
    "Snapshot": "{kind: Snapshot, primaryKey: [k]}",
}


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    files = {"datasets/src.yaml": root(), "data/1.csv": GOOD}
    here = Inside(lay_out(tmp_path / "shop", files), capsys, monkeypatch, FakeEngine())
    assert here("apply", "--yes").code == 0
    return here


def test_rows_that_are_recorded_are_a_note(run: Inside) -> None:
    lay_out(run.project, {"data/2.csv": GOOD + "2024-01-03,c,3\n"})
    done = run("apply", "--yes")
    assert done.code == 0
    said = "2 of 3 rows of data/2.csv left out: their keys are recorded, first k = 'a'\n"
    assert f"note[recorded-key]: {said}" in done.err
    records = (run.project / ".odfbuild" / "runs").rglob("*")
    texts = [path.read_text("utf-8") for path in records if path.is_file()]
    assert any('"left_out":"2 of 3 rows' in text for text in texts)


def test_a_row_that_differs_is_a_correction_that_is_lost(run: Inside) -> None:
    lay_out(run.project, {"data/2.csv": "t,k,v\n2024-01-01,a,1\n2024-01-02,b,5\n2024-01-03,c,3\n"})
    done = run("apply", "--yes")
    assert done.code == 0
    assert "warning[recorded-key]: 2 of 3 rows of data/2.csv left out" in done.err
    assert (
        "1 of the rows left out differs from what is recorded: at k = 'b', v is 5, recorded 2"
        in (done.err)
    )
    assert "UpsertStream" in done.err


def test_a_long_value_is_not_shown_whole(run: Inside) -> None:
    lay_out(run.project, {"data/2.csv": f"t,k,v\n2024-01-03,{'k' * 5000},1\n"})
    assert run("apply", "--yes").code == 0
    lay_out(run.project, {"data/3.csv": f"t,k,v\n2024-01-03,{'k' * 5000},2\n"})
    done = run("apply", "--yes")
    assert f"at k = '{'k' * 60}...', v is 2, recorded 1" in done.err
    assert "k" * 61 not in done.err


@pytest.mark.parametrize("dated", [True, False])
@pytest.mark.parametrize("dated_again", [True, False])
@pytest.mark.parametrize("value", [1, 2])
def test_a_correction_is_what_the_source_says_otherwise(
    dated: bool,
    dated_again: bool,
    value: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A time that a row lacks is filled in when it is recorded: the source did not say another."""

    def rows(*, dated: bool, value: int) -> str:
        return f"t,k,v\n{'2024-01-01' if dated else ''},a,{value}\n2024-01-01,z,1\n"

    source = root(columns="t DATE, k STRING NOT NULL, v BIGINT")
    files = {"datasets/src.yaml": source, "data/1.csv": rows(dated=dated, value=1)}
    run = Inside(lay_out(tmp_path / "shop", files), capsys, monkeypatch, FakeEngine())
    assert run("apply", "--yes").code == 0
    lay_out(run.project, {"data/2.csv": rows(dated=dated_again, value=value)})
    said = run("apply", "--yes").err
    assert "2 of 2 rows of data/2.csv left out" in said
    is_correction = value != 1 or (dated_again and not dated)
    assert ("corrections are lost" in said) == is_correction
    if not dated_again:
        assert "t is None" not in said


def test_many_inputs_are_one_note(run: Inside) -> None:
    lay_out(run.project, {f"data/{number}.csv": GOOD for number in range(2, 7)})
    done = run("apply", "--yes")
    assert done.err.count("recorded-key") == 1
    assert "so in 4 more of the inputs" in done.err


@pytest.mark.parametrize("merge", MERGES)
def test_other_strategies_leave_nothing_out(
    merge: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {"datasets/src.yaml": root(merge=MERGES[merge]), "data/1.csv": GOOD}
    here = Inside(lay_out(tmp_path / "shop", files), capsys, monkeypatch, FakeEngine())
    assert here("apply", "--yes").code == 0
    lay_out(here.project, {"data/2.csv": GOOD})
    assert "recorded-key" not in here("apply", "--yes").err


_KEYS = st.tuples(st.sampled_from([None, "a", "b", "c", "d"]), st.sampled_from([None, 1, 2]))


@given(st.lists(_KEYS), st.frozensets(_KEYS))
def test_what_is_left_out_is_what_a_ledger_leaves_out(
    rows: list[tuple[str | None, int | None]],
    recorded: frozenset[tuple[str | None, int | None]],
) -> None:
    schema = pa.schema([("k", pa.string()), ("x", pa.int64()), ("v", pa.int64())])
    given_rows = [{"k": k, "x": x, "v": at} for at, (k, x) in enumerate(rows)]
    lost = [r for r in given_rows if None not in r.values() and (r["k"], r["x"]) in recorded]
    merged = [row for row in given_rows if row not in lost]
    offered, kept = (Frame.of(pa.Table.from_pylist(r, schema)) for r in (given_rows, merged))
    found = left_out(offered, kept, ("k", "x"))
    if found is None:
        assert not lost
    else:
        assert (found.rows, found.of) == (len(lost), len(rows))
        assert found.first.to_pylist() == lost[:100]


@pytest.mark.spark
@pytest.mark.parametrize("files", [1, 3])
def test_rows_of_a_query_are_counted_in_the_merge(
    files: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    query = "select t, upper(k) as k, v from input where v < 9"
    first = {"datasets/src.yaml": root(query=query), "data/0.csv": GOOD}
    here = Inside(lay_out(tmp_path / "shop", first), capsys, monkeypatch)
    assert here("apply", "--yes").code == 0
    more = "t,k,v\n2024-01-02,a,5\n2024-01-03,z,10\n2024-01-03,c%d,3\n2024-01-04,x,%d\n"
    lay_out(here.project, {f"data/{n}.csv": more % (n, n) for n in range(1, files + 1)})
    done = here("apply", "--yes")
    assert done.code == 0, done
    said = "warning[recorded-key]: 1 of 3 rows of data/1.csv left out: their keys are recorded"
    assert f"{said}, first k = 'A'; 1 of the rows left out differs" in done.err
    assert ("so in 2 more of the inputs" in done.err) == (files == 3)
    rows = here("show", "src").out
    assert rows.count(" X ") == 1
