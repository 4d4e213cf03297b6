"""Tests of datasets on the real engine: fixtures of several kinds of queries, queries of checks."""

import shutil
from pathlib import Path

import pytest

from tests.support.process.inside import Inside, lay_out
from tests.support.projects import EXAMPLES

pytestmark = pytest.mark.spark

NUMBERS = """\
kind: DatasetSnapshot
version: 1
content:
  name: water.{name}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{{datasetRef: water.levels, alias: levels}}]
      transform:
        kind: Sql
        engine: spark
        query: |
          {query}
    - {{kind: SetVocab, eventTimeColumn: time}}
"""
DAILY = (
    "select window(time, '1 day').end as time, count(*) as readings from levels "
    "group by window(time, '1 day')"
)
BEST = (
    "select time, station, level_cm from (select *, row_number() over "
    "(partition by station order by level_cm desc, time) as n from levels) where n = 1"
)
WINDOWS = """\
dataset: water.daily
batches:
  - inputs:
      water.levels:
        rows:
          - {time: "2031-04-01T06:00:00Z", station: a}
          - {time: "2031-04-01T07:00:00Z", station: b}
        watermark: 2031-04-01T20:00:00Z
    expect: []
  - inputs: {water.levels: {watermark: 2031-04-02}}
    expect: [{time: "2031-04-02", readings: 2}]
    adds: [{readings: 2}]
"""
TOP = """\
dataset: water.best
batches:
  - inputs: {levels: {file: levels.ndjson}}
    expect: [{station: a, level_cm: 7}, {station: b, level_cm: 1}]
  - inputs: {levels: [{time: "2031-04-02", station: a, level_cm: 9}]}
    expect: [{station: a, level_cm: 9}, {station: b, level_cm: 1}]
    adds:
      - {op: -C, station: a, level_cm: 7}
      - {op: +C, station: a, level_cm: 8}
"""
LEVELS = """\
{"time": "2031-04-01", "station": "a", "level_cm": 5}
{"time": "2031-04-01", "station": "b", "level_cm": 1}
{"time": "2031-04-02", "station": "a", "level_cm": 7}
"""
GATE = """\
dataset: water.levels
checks:
  - sql: "select offset, station, level_cm from `water.levels` where level_cm > 900"
    name: no flood
    on: new-rows
"""
FLOOD = "time,station,level_cm,flow_m3s\n2031-05-01T06:00:00Z,mill-weir,901,60\n"


@pytest.fixture
def water(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    project = shutil.copytree(EXAMPLES / "water-levels", tmp_path / "water")
    return Inside(project, capsys, monkeypatch)


def test_fixtures_run_as_steps_do_and_all_at_once_give_the_same(water: Inside) -> None:
    lay_out(
        water.project,
        {
            "datasets/daily.yaml": NUMBERS.format(name="daily", query=DAILY),
            "datasets/best.yaml": NUMBERS.format(name="best", query=BEST),
            "tests/unit/daily.yaml": WINDOWS,
            "tests/unit/top.yaml": TOP,
            "tests/unit/levels.ndjson": LEVELS,
        },
    )
    done = water("test", "--unit", "--batches")
    assert done.code == 7
    assert done.out.splitlines() == [
        "ok      unit  water.daily  daily: 2 batches",
        "ok      unit  water.peaks  peaks: 2 batches",
        "FAILED  unit  water.best   top: batch 2, adds: 1 row missing, 1 row unexpected",
        "  tests/unit/top.yaml:8:7: batch 2, adds: 1 row missing, 1 row unexpected",
        "      op | station | level_cm",
        "    - +C | a       | 8          expected",
        "    + +C | a       | 9          came, differs in level_cm",
        "3 tests: 2 passed, 1 failed.",
    ]
    assert not any((water.project / ".odfbuild" / "datasets").glob("*"))


def test_a_query_over_new_rows_holds_them_back_before_they_are_committed(water: Inside) -> None:
    settings = (water.project / "odfbuild.yaml").read_text("utf-8")
    lay_out(
        water.project,
        {
            "odfbuild.yaml": f"{settings}gates: {{data: error}}\n",
            "tests/data/gate.yaml": GATE,
            "data/levels/2031-05-01.csv": FLOOD,
        },
    )
    applied = water("apply", "--yes", "water.levels", "water.stations")
    assert applied.code == 4
    assert "check no flood: 1 new row fails" in applied.err
    assert "  offset 9: station=mill-weir, level_cm=901" in applied.err
    tested = water("test", "--data")
    assert tested.code == 0, tested.out
    assert "ok      data  water.levels  no flow without a level: no rows" in tested.out
    assert "ok      data  water.levels  no flood: no rows" in tested.out
