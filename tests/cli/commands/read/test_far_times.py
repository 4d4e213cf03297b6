"""Dates and instants outside of the years 1 to 9999, which Python has no values for."""

import csv
import io
import json
from pathlib import Path

import pytest

import odfbuild
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import derivative, root

FAR = (
    "select t, k, v, arrow_cast(cast(2932895 + v as int), 'Date32') as far, "
    "[arrow_cast(cast(2932895 + v as int), 'Date32')] as days, "
    "arrow_cast(-62135510400000 - v * 86400000, 'Timestamp(Millisecond, None)') as early from src"
)
SHOWN = {
    "a": ("9999-12-31", "0001-01-01T00:00:00.000Z"),
    "b": ("+10000-01-01", "0000-12-31T00:00:00.000Z"),
    "c": ("+10000-01-02", "0000-12-30T00:00:00.000Z"),
}


@pytest.fixture
def ask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    project = lay_out(
        tmp_path / "project",
        {
            "odfbuild.yaml": "odfbuild: 1\nengine: {ingest: arrow}\n",
            "datasets/src.yaml": root(merge="{kind: Snapshot, primaryKey: [k]}"),
            "datasets/far.yaml": derivative("far", query=f'"{FAR}"', engine="datafusion"),
            "data/1.csv": "t,k,v\n2024-01-01,a,1\n2024-01-01,b,2\n",
        },
    )
    inside = Inside(project, capsys, monkeypatch)
    assert inside("apply", "--yes").code == 0
    lay_out(project, {"data/2.csv": "t,k,v\n2024-01-01,a,1\n2024-01-01,c,3\n"})
    assert inside("apply", "--yes").code == 0
    return inside


def test_they_are_shown_in_every_format(ask: Inside) -> None:
    wanted = {key: SHOWN[key] for key in "ac"}
    rows = map(json.loads, ask("show", "far", "--current", "-o", "ndjson").out.splitlines())
    assert {row["k"]: (row["far"], row["early"]) for row in rows} == wanted
    text = ask("show", "far", "--current", "-o", "csv").out
    lines = csv.DictReader(io.StringIO(text))
    assert {row["k"]: (row["far"], row["early"]) for row in lines} == wanted
    table = ask("show", "far", "--log")
    assert (table.code, table.err) == (0, "")
    assert all(each in table.out for pair in SHOWN.values() for each in pair)
    asked = ask("sql", "--engine", "datafusion", "select far from far order by far", "-o", "json")
    assert [row["far"] for row in json.loads(asked.out)] == ["9999-12-31", "+10000-01-02"]


def test_their_rows_are_compared_and_explained(ask: Inside) -> None:
    found = ask("diff", "far", "--data")
    assert (found.code, found.err) == (0, "")
    assert "far=+10000-01-01" in found.out
    assert "far=+10000-01-02" in found.out
    offset = next(
        row["offset"]
        for row in map(json.loads, ask("show", "far", "--log", "-o", "ndjson").out.splitlines())
        if row["k"] == "c"
    )
    found = ask("explain-row", "far", str(offset))
    assert (found.code, found.err) == (0, "")
    assert "far=+10000-01-02" in found.out
    assert "file data/2.csv:3" in found.out


def test_a_notebook_shows_them(ask: Inside) -> None:
    page = odfbuild.open_project(ask.project).dataset("far")._repr_html_()
    assert "+10000-01-02" in page
    assert "0000-12-30" in page
    known = odfbuild.read("far", project=ask.project, as_of="2024-01-01", key=["t"])
    assert known.column("k").to_pylist() == ["c"]
