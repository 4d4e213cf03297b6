"""What rows are made of: it gives them by itself, and nothing of it can be left out."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.rule.provenance import MADE, Made, check_made
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.market import dataset
from tests.support.projects.texts import derivative, root

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("made", MADE[:-1], ids=lambda made: made.shape.name)
def test_rows_are_made_of_what_is_said(engine: SparkEngine, tmp_path: Path, made: Made) -> None:
    for number in range(9):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        if check_made(engine, folder, made, number, 1):
            return
    raise AssertionError("no history gives a row")


@pytest.mark.slow
@pytest.mark.parametrize("made", MADE, ids=lambda made: made.shape.name)
def test_rows_of_many_histories_are(engine: SparkEngine, tmp_path: Path, made: Made) -> None:
    for number in range(9, 15):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        check_made(engine, folder, made, number, 6)


# A chain of three, down to its files

FILES = {
    "datasets/src.yaml": root(columns="t TIMESTAMP NOT NULL, k STRING NOT NULL, v BIGINT",
                              merge="{kind: Ledger, primaryKey: [t, k]}"),
    "datasets/good.yaml": derivative(
        "good", "src", "select t, upper(k) as k, v from src where v > 0"
    ),
    "datasets/totals.yaml": derivative(
        "totals", "good", "select max(t) as t, k, sum(v) as s from src group by k"
    ),
    "datasets/big.yaml": derivative("big", "totals", "select t, k, s from src where s > 3"),
    "data/1.csv": "t,k,v\n2024-01-01,a,1\n2024-01-02,b,5\n2024-01-03,a,3\n2024-01-04,a,-3\n",
}  # fmt: skip
LATER = {"data/2.csv": "t,k,v\n2024-01-05,a,2\n2024-01-06,c,9\n"}


class _Kept:
    """An engine that outlives the commands that close it."""

    def __init__(self, engine: SparkEngine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def close(self) -> None:
        """Do nothing: others still need it."""


@pytest.fixture
def ask(
    engine: SparkEngine,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Inside:
    project = lay_out(tmp_path / "project", FILES)
    ask = Inside(project, capsys, monkeypatch, _Kept(engine))
    assert ask("apply", "--yes").code == 0
    lay_out(project, LATER)
    done = ask("apply", "--yes")
    assert done.code == 0, done.err
    return ask


def test_a_row_is_followed_through_three_datasets_to_its_files(ask: Inside) -> None:
    slices = [path for _, path in dataset(ask.project, "big").slices()]
    shown = [row for path in slices for row in pq.read_table(path).to_pylist()]
    (corrected,) = [each["offset"] for each in shown if each["op"] == 3]
    assert shown[corrected]["s"] == 6
    why = json.loads(ask("explain-row", "big", str(corrected), "-o", "json").out)["why"]
    assert why["exact"]
    rows = {(each["dataset"], each["offset"]): each for each in why["rows"]}
    made = {
        key: [(e["dataset"], o) for e in row["made_of"] for o in e["followed"]]
        for key, row in rows.items()
    }
    totals = made["big", corrected]
    assert [name for name, _ in totals] == ["totals"]
    good = made[totals[0]]
    assert good == [("good", 0), ("good", 2), ("good", 3)]
    assert [made[each] for each in good] == [[("src", 0)], [("src", 2)], [("src", 4)]]
    files = [rows["src", offset]["block"]["source_state"]["value"] for offset in (0, 2, 4)]
    assert files == ["1.csv", "1.csv", "2.csv"]
    assert [rows["src", offset]["row"]["v"] for offset in (0, 2, 4)] == [1, 3, 2]
    assert rows[totals[0]]["cause"]["offsets"] == {"src": [{"start": 3, "end": 3}]}
    assert rows[totals[0]]["made_of"][0]["of"] == 3
