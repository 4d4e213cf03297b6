"""What the columns of the first new Parquet file make certain is said at plan."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import root

WIDE = pa.array([Decimal(10) ** 39], pa.decimal256(40, 0))
DURATION = pa.array([1], pa.duration("s"))
OF_STRUCTS = pa.array([[{"a": 1}]])
TWICE = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
NULLS = pa.nulls(1)
REFUSED = {
    "wide": (WIDE, "error[invalid-source]", "DECIMAL(38,0)"),
    "a wide part": (pa.array([[Decimal(1)]], pa.list_(pa.decimal256(40, 0))), "invalid-source", ""),
    "a duration": (DURATION, "error[unhashable-type]", "preprocess"),
    "structs in a list": (OF_STRUCTS, "error[unhashable-type]", "preprocess"),
    "a name twice in a struct": (TWICE, "error[invalid-source]", "read.schema"),
    "nulls": (NULLS, "error[bad-input-schema]", "declare the column"),
    "a list of nulls": (pa.array([[None]]), "error[bad-input-schema]", "a part of no type"),
    "a view": (pa.array([[1]], pa.list_view(pa.int32())), "error[invalid-source]", "read.schema"),
}
READ = {
    "wide, as text": (WIDE, "schema: [x STRING]"),
    "wide, as a decimal": (WIDE, "schema: ['x DECIMAL(38,0)']"),
    "left out": (DURATION, "schema: [v INT]"),
    "small": (pa.array([Decimal(1)], pa.decimal256(38, 0)), ""),
}


SOURCE = """kind: DatasetSnapshot
version: 1
content:
  name: src
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {kind: FilesGlob, path: 'data/*.parquet'}
      read: {kind: Parquet%s}
      merge: {kind: Append}
    - kind: SetVocab
      eventTimeColumn: t
"""


def project(folder: Path, column: Any, schema: str = "") -> None:
    (folder / "data").mkdir(parents=True)
    times = pa.array([0], pa.timestamp("ms", "UTC"))
    pq.write_table(pa.table({"t": times, "v": [1], "x": column}), folder / "data/1.parquet")
    files = {
        "datasets/src.yaml": SOURCE % (f", {schema}" if schema else ""),
        "datasets/other.yaml": root("other", fetch="{kind: FilesGlob, path: 'more/*.csv'}"),
        "more/1.csv": "t,k,v\n2024-01-01,a,1\n",
    }
    lay_out(folder, files)


@pytest.mark.parametrize("name", REFUSED)
def test_a_column_that_no_step_can_store_is_refused_before_anything_is_written(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    column, code, way_on = REFUSED[name]
    project(tmp_path / "p", column)
    here = Inside(tmp_path / "p", capsys, monkeypatch, FakeEngine())
    planned = here("plan")
    assert planned.code == 1
    assert code in planned.out
    assert way_on in planned.out
    assert "datasets/src.yaml:" in planned.out
    assert "data/1.parquet" in planned.out or "'x'" in planned.out
    applied = here("apply", "--yes")
    assert applied.code == 4
    assert "Gate: passed for the rest: 1 error, 1 dataset left out.\n" in applied.out
    again = here("apply", "--yes")
    assert again.code == 1
    assert "No changes" not in again.out
    assert "Gate: passed for the rest: 1 error, 1 dataset left out.\n" in again.out
    (told,) = json.loads(here("apply", "--yes", "-o", "json").out)["notes"]
    assert told["level"] == "error"
    assert here("log", "src").code != 0  # no block of it
    assert here("log", "other").code == 0


@pytest.mark.parametrize("name", READ)
def test_a_column_is_judged_as_it_is_read(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    column, schema = READ[name]
    project(tmp_path / "p", column, schema)
    planned = Inside(tmp_path / "p", capsys, monkeypatch, FakeEngine())("plan")
    assert planned.code == 0, planned.out
