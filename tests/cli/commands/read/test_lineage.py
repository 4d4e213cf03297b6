"""odfbuild lineage and impact: answers held against what the definitions say by hand."""

import csv
import io
import json
from pathlib import Path
from uuid import UUID

import pytest

from odfbuild.lineage.ids import node_id
from tests.support.process.within import Within
from tests.support.projects.market import dataset

FAR = "11111111-2222-3333-4444-555555555555"
DID = "did:odf:fed01" + "ab" * 32


@pytest.fixture
def ask(
    market: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    return Within(market, capsys, monkeypatch)


def test_both_directions_are_shown_with_the_aliases_of_inputs(ask: Within) -> None:
    assert ask("lineage", "out").out == "out\nmade of:\n└─ src: src\nused by:\n└─ src: report\n"


def test_one_direction_and_a_depth_may_be_asked_for(ask: Within) -> None:
    whole = "report\nmade of:\n└─ src: out\n   └─ src: src\n"
    assert ask("lineage", "report", "--up").out == whole
    assert ask("lineage", "--up", "report").out == whole
    assert ask("lineage", "show", "report", "--up").out == whole
    assert ask("lineage", "report", "--up", "--depth", "1").out == (
        "report\nmade of:\n└─ src: out  ...\n"
    )
    assert ask("lineage", "src", "--up").out == "src\nmade of:\n   nothing known\n"


def test_datasets_may_be_named_by_their_ids(ask: Within, market: Path) -> None:
    id = dataset(market, "out").id
    assert ask("lineage", str(id)).out == ask("lineage", "out").out
    assert ask("lineage", str(node_id(id))).out == ask("lineage", "OUT").out


def test_programs_get_datasets_and_relations(ask: Within, market: Path) -> None:
    found = json.loads(ask("lineage", "report", "--up", "--depth", "1", "-o", "json").out)
    names = {each["name"]: each for each in found["datasets"]}
    assert found["dataset"] == names["report"]["id"] == str(node_id(dataset(market, "report").id))
    assert (names["report"]["more"], names["out"]["more"]) == (False, True)
    assert names["out"]["did"] == str(dataset(market, "out").id)
    assert found["relations"] == [
        {"derived": names["report"]["id"], "source": names["out"]["id"], "classifier": "src"}
    ]


def test_tables_have_a_row_for_each_relation(ask: Within) -> None:
    rows = list(csv.DictReader(io.StringIO(ask("lineage", "out", "-o", "csv").out)))
    assert [(row["derived"], row["source"], row["classifier"]) for row in rows] == [
        ("out", "src", "src"),
        ("report", "out", "src"),
    ]


def test_graphs_go_from_sources_to_what_is_made_of_them(ask: Within) -> None:
    ask("lineage", "add", "src", FAR, "--as", 'a "b" <c>')
    dot = ask("lineage", "src", "--up", "-o", "dot").out
    assert '  n1 -> n0 [label="a \\"b\\" <c>"];' in dot
    assert f'  n1 [label="{FAR}"];' in dot
    mermaid = ask("lineage", "src", "--up", "-o", "mermaid").out
    assert '  n1 -- "a #quot;b#quot; #lt;c#gt;" --> n0' in mermaid


def test_what_chains_cannot_know_is_noted_and_taken_back(ask: Within) -> None:
    done = ask("lineage", "add", "src", FAR, "--as", "raw", "--home", "elsewhere")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"src is made of {FAR} (raw): is recorded\n"
    assert ask("lineage", "add", "src", FAR, "--as", "raw").out.endswith("was recorded already\n")
    assert ask("lineage", "report", "--up").out.endswith(f"      └─ raw: {FAR}  [elsewhere]\n")
    assert "└─ raw: src" in ask("lineage", FAR, "--down").out
    assert ask("lineage", "remove", "src", FAR).code == 0
    assert ask("lineage", "report", "--up").out.endswith("   └─ src: src\n")
    done = ask("lineage", "remove", "src", FAR)
    assert (done.code, "error[unknown-lineage]" in done.err) == (1, True)


def test_a_did_of_elsewhere_keeps_its_name(ask: Within) -> None:
    assert ask("lineage", "add", "src", DID).code == 0
    assert ask("lineage", "src", "--up").out == f"src\nmade of:\n└─ source: {DID}\n"


def test_a_home_is_set_shown_and_forgotten(ask: Within) -> None:
    assert ask("lineage", "home", "src").out == "src  no home\n"
    assert ask("lineage", "home", "src", "here").out == "src  here\n"
    assert "src  [here]" in ask("lineage", "src").out
    done = ask("lineage", "home", "src", "there")
    assert (done.code, "src is kept in here, not in there" in done.err) == (1, True)
    assert ask("lineage", "home", "src", "there", "--replace").out == "src  there\n"
    assert ask("lineage", "home", "src", "--clear").out == "src  no home\n"
    assert ask("lineage", "home", "src", "here", "--clear").code == 64


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["nothing.of.the.kind"], "state"),
        (["ouT1"], "state"),
        ([FAR], "unknown-lineage"),
        ([DID], "unknown-lineage"),
        (["did:odf:fed01"], "unknown-lineage"),
        (["add", "src", "report"], "inconsistent-lineage"),
        (["add", "src", "src"], "inconsistent-lineage"),
        (["add", "out", "src", "--as", "other"], "inconsistent-lineage"),
        (["add", "src", FAR, "--as", ""], "usage"),
        (["add", "src", FAR, "--home", " "], "usage"),
        (["home", "src", ""], "usage"),
        (["remove", "out", "src"], "recorded-lineage"),
        (["out", "--as-at", "1999-01-01", "--columns"], "usage"),
        (["out", "--as-at", "tomorrow"], "unknown-block"),
        ([FAR, "--as-at", "head"], "unknown-lineage"),
    ],
)
def test_what_cannot_be_is_named_and_changes_nothing(
    ask: Within, arguments: list[str], code: str
) -> None:
    before = ask("lineage", "out", "-o", "json").out
    done = ask("lineage", *arguments)
    assert done.code in (1, 64)
    assert f"error[{code}]" in done.err
    assert "Traceback" not in done.err
    assert ask("lineage", "out", "-o", "json").out == before


def test_a_cycle_is_told_by_names(ask: Within) -> None:
    done = ask("lineage", "add", "src", "report")
    assert "report <- out <- src <- report" in done.err or "src <- report <- out" in done.err


def test_lineage_as_of_a_time_or_block_is_what_chains_said(ask: Within, market: Path) -> None:
    ask("lineage", "add", "src", FAR)
    assert "nothing known" in ask("lineage", "out", "--up", "--as-at", "2001-01-01").out
    assert ask("lineage", "out", "--as-at", "2999-01-01").out == (
        "out\nmade of:\n└─ src: src\nused by:\n└─ src: report\n"
    )
    blocks = [hash for hash, _ in dataset(market, "out").blocks()]
    assert "nothing" in ask("lineage", "out", "--up", "--as-at", str(blocks[0])).out
    assert "src: src" in ask("lineage", "out", "--up", "--as-at", str(blocks[-1])).out


def test_what_was_noted_has_no_time(ask: Within) -> None:
    ask("lineage", "add", "src", FAR, "--home", "elsewhere")
    ask("lineage", "home", "out", "here")
    assert "out  [here]" in ask("lineage", "out").out
    then = ask("lineage", "out", "--as-at", "2999-01-01").out
    assert then == "out\nmade of:\n└─ src: src\nused by:\n└─ src: report\n"
    for at in ("2999-01-01", "head"):
        done = ask("lineage", FAR, "--as-at", at)
        assert (done.code, done.out) == (1, "")
        assert f"error[unknown-lineage]: no chain names {FAR}, at any time" in done.err


def test_an_unapplied_project_has_no_lineage_yet(ask: Within, market: Path) -> None:
    (market / ".odfbuild").rename(market / "away")
    done = ask("lineage", "out")
    assert (done.code, "no dataset named 'out'" in done.err) == (1, True)
    assert not (market / ".odfbuild").exists()


def test_columns_are_those_that_the_queries_name(ask: Within) -> None:
    assert ask("lineage", "report", "--up", "--columns").out == (
        "src\n   t\n   k\n   v\n"
        "out\n   t <- src.t\n   k <- src.k\n   v <- src.v\n"
        "report\n   t <- out.t\n   k <- out.k\n   total <- out.v\n   rows by out.v\n"
    )
    near = ask("lineage", "src", "--down", "--columns", "--depth", "1").out
    assert [line for line in near.splitlines() if line[0] != " "] == ["src", "out"]


def test_columns_are_told_to_programs(ask: Within) -> None:
    found = json.loads(ask("lineage", "report", "--up", "--columns", "-o", "json").out)
    assert [each["dataset"] for each in found] == ["src", "out", "report"]
    assert found[2]["columns"][2] == {
        "name": "total",
        "sources": [{"dataset": "out", "column": "v"}],
    }
    assert found[2]["rows"] == [{"dataset": "out", "column": "v"}]
    text = ask("lineage", "report", "--up", "--columns", "-o", "csv").out
    assert "report,total,out,v,value\n" in text
    assert "report,,out,v,rows\n" in text
    assert "digraph" in ask("lineage", "report", "--columns", "-o", "dot").out
    assert "flowchart" in ask("lineage", "report", "--columns", "-o", "mermaid").out


def test_impact_follows_values_and_what_decides_on_rows(ask: Within) -> None:
    assert ask("impact", "src.v").out == (
        "A change of src.v affects 2 datasets:\n"
        "  out  columns: v\n"
        "  report  its rows, so all columns: t, k, total\n"
    )
    assert ask("impact", "SRC.K").out == (
        "A change of src.k affects 2 datasets:\n  out  columns: k\n  report  columns: k\n"
    )
    assert ask("impact", "report.total").out == (
        "A change of report.total affects no other dataset.\n"
    )
    found = json.loads(ask("impact", "out", "-o", "json").out)
    assert found == {
        "dataset": "out",
        "column": None,
        "affected": [
            {
                "dataset": "report",
                "columns": ["t", "k", "total"],
                "usage": ["value", "shape"],
                "unknown": False,
            }
        ],
        "noted": [],
    }


def test_impact_names_what_was_noted_elsewhere(ask: Within) -> None:
    assert ask("lineage", "add", FAR, "report", "--as", "figures").code == 0
    assert ask("lineage", "home", FAR, "board").code == 0
    done = ask("impact", "src")
    assert done.out.splitlines()[0] == "A change of src affects 3 datasets:"
    assert done.out.endswith(f"  {FAR} [board]  recorded by hand\n")
    noted = json.loads(ask("impact", "src", "-o", "json").out)["noted"]
    assert noted == [{"id": str(UUID(FAR)), "name": None, "home": "board"}]


def test_impact_of_what_there_is_not_is_refused(ask: Within) -> None:
    done = ask("impact", "sr")
    assert (done.code, "did you mean 'src'?" in done.err) == (1, True)
    done = ask("impact", "src.w")
    assert (done.code, "src has no column 'w'" in done.err) == (1, True)
