"""odfbuild lineage -o html: the page says what the other formats say."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.page.parsed import parse
from tests.support.process.inside import lay_out
from tests.support.process.within import Within
from tests.support.projects.market import dataset

FAR = "11111111-2222-3333-4444-555555555555"
BAD = '</script><b>"&\u2028'


@pytest.fixture
def ask(
    market: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    return Within(market, capsys, monkeypatch)


def page(ask: Within, *arguments: str) -> dict[str, Any]:
    return parse(ask.done("lineage", *arguments, "-o", "html")).data()


def facts(box: dict[str, Any]) -> dict[str, str]:
    return {label: text for label, text in box["facts"]}  # noqa: C416


@pytest.mark.parametrize(
    "arguments",
    [
        ["out"],
        ["report", "--up"],
        ["report", "--up", "--depth", "1"],
        ["src", "--down"],
        [FAR],
        ["out", "--as-at", "2999-01-01"],
        ["out", "--as-at", "2001-01-01"],
    ],
    ids=" ".join,
)
def test_datasets_and_relations_are_those_of_json(ask: Within, arguments: list[str]) -> None:
    ask("lineage", "add", "src", FAR, "--as", "raw", "--home", "elsewhere")
    found = page(ask, *arguments)
    told = json.loads(ask.done("lineage", *arguments, "-o", "json"))
    boxes = [(facts(each), each) for each in found["boxes"]]
    assert [
        (fact["UUID"], fact.get("DID"), each["home"], each["more"]) for fact, each in boxes
    ] == [(each["id"], each["did"], each["home"], each["more"]) for each in told["datasets"]]
    names = [each["name"] or each["did"] or each["id"] for each in told["datasets"]]
    assert [each["name"] for _, each in boxes] == names
    ids = [fact["UUID"] for fact, _ in boxes]
    assert [
        {"derived": ids[derived], "source": ids[source], "classifier": classifier}
        for source, derived, classifier in found["edges"]
    ] == told["relations"]
    assert ids[found["root"]] == told["dataset"]


def test_the_drawn_formats_have_as_many_datasets_and_relations(ask: Within) -> None:
    found = page(ask, "out")
    dot = ask.done("lineage", "out", "-o", "dot")
    mermaid = ask.done("lineage", "out", "-o", "mermaid")
    rows = list(csv.reader(io.StringIO(ask.done("lineage", "out", "-o", "csv"))))
    edges = len(found["edges"])
    assert edges == dot.count(" -> ") == mermaid.count(" --> ") == len(rows) - 1 == 2
    assert len(found["boxes"]) == dot.count("[label=") - edges == 3


@pytest.mark.parametrize(
    "arguments",
    [["report"], ["report", "--up", "--depth", "1"], ["src", "--down"], ["out"]],
    ids=" ".join,
)
def test_columns_are_those_of_json(ask: Within, arguments: list[str]) -> None:
    found = page(ask, *arguments, "--columns")
    told = json.loads(ask.done("lineage", *arguments, "--columns", "-o", "json"))
    assert [
        {
            "dataset": box["name"],
            "columns": [
                {"name": name, "sources": [{"dataset": d, "column": c} for d, c in sources]}
                for name, sources in box["columns"]
            ],
            "rows": [{"dataset": d, "column": c} for d, c in box["rows"]],
        }
        for box in found["boxes"]
    ] == told


def test_columns_are_on_the_page_of_relations_too(ask: Within) -> None:
    plain = {each["name"]: each for each in page(ask, "report")["boxes"]}
    columns = page(ask, "report", "--columns")["boxes"]
    for each in columns:
        assert plain[each["name"]]["columns"] == each["columns"]
        assert plain[each["name"]]["rows"] == each["rows"]


def test_links_lead_from_column_to_column(ask: Within) -> None:
    found = page(ask, "report", "--columns")
    names = [each["name"] for each in found["boxes"]]

    def named(box: int, column: int) -> str:
        columns = found["boxes"][box]["columns"]
        return str(names[box]) + ("" if column < 0 else f".{columns[column][0]}")

    assert {(named(a, b), named(c, d), use) for a, b, c, d, use in found["links"]} == {
        ("src.t", "out.t", 0),
        ("src.k", "out.k", 0),
        ("src.v", "out.v", 0),
        ("out.t", "report.t", 0),
        ("out.k", "report.k", 0),
        ("out.v", "report.total", 0),
        ("out.v", "report", 1),
    }


def test_details_say_what_a_dataset_is_and_what_shapes_its_rows(ask: Within, market: Path) -> None:
    for arguments in (["report"], ["report", "--columns"]):
        found = {each["name"]: each for each in page(ask, *arguments)["boxes"]}
        assert (found["src"]["kind"], found["report"]["kind"]) == ("root", "derivative")
        assert facts(found["out"])["DID"] == str(dataset(market, "out").id)
        assert found["report"]["query"] == "select t, k, v as total from src where v > 0"
        assert (found["report"]["clauses"], found["out"]["clauses"]) == (["filter"], [])
        assert found["report"]["below"] == "derivative · asked for"


def test_as_of_a_time_there_are_no_columns_and_no_query(ask: Within) -> None:
    for each in page(ask, "out", "--as-at", "2999-01-01")["boxes"]:
        assert "columns" not in each
        assert each["query"] is None
    assert ask("lineage", "out", "--as-at", "2999-01-01", "--columns", "-o", "html").code == 64


def test_what_was_noted_cannot_leave_the_data(ask: Within) -> None:
    ask("lineage", "add", "src", FAR, "--as", BAD, "--home", BAD)
    text = ask.done("lineage", "src", "-o", "html")
    assert text.isascii()
    assert text.count("</script>") == 2
    assert parse(text).data()["edges"][0][2] == BAD.replace("\u2028", "\\u2028")


def test_what_is_no_longer_defined_is_shown_as_its_chain_has_it(ask: Within) -> None:
    lay_out(ask.folder, {"datasets/raw/src.yaml": None})
    for arguments in (["out"], ["out", "--columns"]):
        found = {each["name"]: each for each in page(ask, *arguments)["boxes"]}
        assert found["src"]["kind"] == "root"
        assert [name for name, _ in found["src"]["columns"]] == ["t", "k", "v"]
    told = json.loads(ask.done("lineage", "out", "--columns", "-o", "json"))
    assert [each["dataset"] for each in told] == ["out", "report"]


def test_what_cannot_be_drawn_is_told_as_by_the_other_formats(ask: Within) -> None:
    for output in ("json", "html"):
        done = ask("lineage", "nothing", "-o", output)
        assert (done.code, done.out, "no dataset named 'nothing'" in done.err) == (1, "", True)
