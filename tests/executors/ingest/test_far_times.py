"""Times of a Parquet file that no watermark, or no engine, can count: an error that names them."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.executors.data.conformance import conform
from odfbuild.odf.timestamp import InvalidTimestampError
from tests.support.effort import examples
from tests.support.process.inside import Inside, heads, lay_out

ROOT = """kind: DatasetSnapshot
version: 1
content:
  name: src
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {kind: FilesGlob, path: data/*.parquet, order: ByName}
      read: {kind: Parquet}
      merge: {kind: Append}
"""
ARROW = "odfbuild: 1\nengine: {ingest: arrow}\n"
FIRST, END = -62_135_596_800_000, 253_402_300_800_000  # ms: the year 1 begins, 9999 has ended
MICROS = 2**63 // 1000
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def expected(column: str, value: int) -> str | None:
    """Return what the error says of a value in ms, None where rows are to be committed."""
    if not -MICROS <= value <= MICROS:
        return f"data/2.parquet: {value} ms since 1970 is not a time that engines can count"
    if column == "event_time" and value >= END:
        return (
            f"data/2.parquet: the latest 'event_time', {value} ms since 1970, is not within "
            "the years 1 to 9999"
        )
    return None


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_out(
        tmp_path_factory.mktemp("far"), {"odfbuild.yaml": ARROW, "datasets/src.yaml": ROOT}
    )


@pytest.mark.parametrize("column", ["event_time", "other"])
@pytest.mark.parametrize(
    "value",
    [FIRST, FIRST - 1, END - 1, END, MICROS, MICROS + 1, -MICROS, -MICROS - 1, 2**62, -(2**62)],
)
def test_a_far_time_is_refused_by_its_name_or_committed(
    column: str,
    value: int,
    built: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = shutil.copytree(built, tmp_path / "project")
    (project / "data").mkdir()
    run = Inside(project, capsys, monkeypatch)
    kind = pa.timestamp("ms", "UTC")
    for number, time in enumerate((0, value), 1):
        columns = {"event_time": pa.array([1, 0], kind), "other": pa.array([1, 0], kind)}
        columns[column] = pa.array([time, 0], kind)
        pq.write_table(pa.table(columns), project / "data" / f"{number}.parquet")
        before = heads(project)
        done = run("apply", "--yes")
        if number == 1:
            assert done.code == 0, done.err
    says = expected(column, value)
    assert done.code == (says is not None), done.err
    assert (heads(project) == before) == (says is not None)
    if says is not None:
        assert f"error[invalid-timestamp]: src: {says}\n" in done.err


@st.composite
def columns(draw: st.DrawFn) -> tuple[str, str, list[int | None]]:
    """Draw a unit, a finer one, and ticks of which some are at the limits of the finer one."""
    unit, finer = draw(st.sampled_from([("s", "ms"), ("s", "us"), ("ms", "us"), ("us", "ns")]))
    limit = 2**63 * PER_SECOND[unit] // PER_SECOND[finer]
    at_limit = st.builds(int.__add__, st.sampled_from([-limit, limit]), st.integers(-2, 2))
    ticks = at_limit | st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)
    return unit, finer, draw(st.lists(ticks, max_size=3))


@settings(max_examples=examples(200, 2000))
@given(columns())
def test_a_finer_unit_counts_the_same_instants_or_names_the_furthest(
    drawn: tuple[str, str, list[int | None]],
) -> None:
    unit, finer, ticks = drawn
    array = pa.array(ticks, pa.int64()).view(pa.timestamp(unit, "UTC"))
    factor = PER_SECOND[finer] // PER_SECOND[unit]
    wanted = [None if each is None else each * factor for each in ticks]
    furthest = max((abs(each) for each in ticks if each is not None), default=0)
    if all(each is None or -(2**63) <= each < 2**63 for each in wanted):
        made = conform(array, pa.timestamp(finer, "UTC"))
        assert made.view(pa.int64()).to_pylist() == wanted
        return
    with pytest.raises(InvalidTimestampError) as refused:
        conform(array, pa.timestamp(finer, "UTC"))
    assert abs(int(refused.value.what.split(" ")[0])) == furthest
