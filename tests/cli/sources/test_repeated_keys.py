"""A Ledger that meets one key several times in one input: both rows are kept, and it is said."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.ingest.reports.repeated_keys import (
    RepeatedKeyError,
    check_repeated_keys,
    repeated_key,
)
from odfbuild.odf.events import MergeStrategyAppend, MergeStrategyLedger, MergeStrategyUpsertStream
from odfbuild.planner.plan.policy import RepeatedKeys
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import derivative, root

REFUSE = 'odfbuild: 1\ndefaults:\n  "src": {repeated_keys: refuse}\n'
TWICE = "t,k,v\n2024-01-01,a,1\n2024-01-02,b,2\n2024-01-03,a,3\n"
SAID = "the key k = 'a' is 2 times in data/1.csv (rows 1, 3)"


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    files = {"datasets/src.yaml": root(), "datasets/out.yaml": derivative(), "data/1.csv": TWICE}
    return Inside(lay_out(tmp_path / "shop", files), capsys, monkeypatch, FakeEngine())


def test_both_rows_are_kept_with_a_warning(run: Inside) -> None:
    done = run("apply", "--yes")
    assert done.code == 0
    assert f"warning[repeated-key]: {SAID}" in done.err
    assert "repeated_keys: refuse" in done.err
    assert run("show", "src").out.count(" a ") == 2


def test_rows_without_a_key_are_told_of_each_time_they_are_appended(run: Inside) -> None:
    lay_out(run.project, {"datasets/src.yaml": root(columns="t DATE NOT NULL, k STRING, v BIGINT")})
    for day, rows in (("1", "2024-01-01,,1\n2024-01-02,b,2\n"), ("2", "2024-01-01,,1\n")):
        lay_out(run.project, {f"data/{day}.csv": f"t,k,v\n{rows}"})
        done = run("apply", "--yes")
        assert done.code == 0, done.err
        assert f"warning[null-key]: 1 of {3 - int(day)} row" in done.err
        assert f"data/{day}.csv adds without a value in the primary key, such as in 'k'" in done.err
    assert run("show", "src", "-o", "csv").out.count(",,1") == 2
    lay_out(run.project, {"data/3.csv": "t,k,v\n2024-01-03,c,1\n"})
    assert "null-key" not in run("apply", "--yes").err


def test_a_setting_refuses_the_input(run: Inside) -> None:
    lay_out(run.project, {"odfbuild.yaml": REFUSE})
    done = run("apply", "--yes")
    assert done.code == 4
    assert "error[repeated-key]" in done.err
    assert SAID in done.err
    assert "has no rows yet" in run("show", "src").out
    lay_out(run.project, {"data/1.csv": TWICE.replace("2024-01-03,a", "2024-01-03,c")})
    assert run("apply", "--yes").code == 0


def test_a_pushed_input_is_looked_at_as_well(run: Inside) -> None:
    pushed = root().replace("SetPollingSource", "AddPushSource").replace(
        "      fetch: {kind: FilesGlob, path: data/*.csv}\n", "      sourceName: default\n"
    )  # fmt: skip
    lay_out(run.project, {"datasets/src.yaml": pushed, "data/1.csv": TWICE})
    assert run("apply", "--yes").code == 0
    done = run("ingest", "src", str(run.project / "data" / "1.csv"))
    assert done.code == 0, done.err
    assert "repeated-key" in done.err


KEYS = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "b"]),
        st.sampled_from([None, 0.0, -0.0]),
        st.sampled_from([None, 0, 3_000_000, -800_000]),  # days, also of no year of Python
    )
)


@given(KEYS)
def test_what_is_told_is_what_a_count_tells(
    rows: list[tuple[str | None, float | None, int | None]],
) -> None:
    names = ("k", "x", "d")
    kinds = (pa.string(), pa.float64(), pa.int32())
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]
    table = pa.table([*columns[:2], columns[2].cast(pa.date32())], list(names))
    frame = Frame.of(table)
    counts = Counter(row for row in rows if None not in row)  # -0.0 == 0.0, as in a merge
    several = [row for row in counts if counts[row] > 1]
    ledger = MergeStrategyLedger(primary_key=names)
    said = repeated_key(ledger, frame, frame, "f")
    notes = check_repeated_keys(said, RepeatedKeys.WARN)
    assert bool(notes) == bool(several)
    for each in notes:
        first = several[0]
        assert each.what.startswith(f"the key k = {first[0]!r}, x = ")
        day = {0: "1970-01-01", 3_000_000: "+10183-09-21", -800_000: "-0221-09-04"}[first[2] or 0]
        assert f", d = {day} is {counts[first]} times in f" in each.what
        assert (f"in f (rows {rows.index(first) + 1}, " in each.what) is (first[2] == 0)
        assert (f"and {len(several) - 1} more keys" in each.what) == (len(several) > 1)
        with pytest.raises(RepeatedKeyError):
            check_repeated_keys(said, RepeatedKeys.REFUSE)
    for other in (MergeStrategyAppend(), MergeStrategyUpsertStream(primary_key=names)):
        assert repeated_key(other, frame, frame, "f") is None
