"""odfbuild docs build: what is on the page, of projects in every state."""

import json
from pathlib import Path

import pytest

from tests.cli.page.catalogue.projects import RICH, Taken, taken, transform
from tests.support.process.inside import lay_out
from tests.support.process.within import Within
from tests.support.projects.market import dataset
from tests.support.projects.texts import GOOD, derivative, root


@pytest.fixture
def ask(
    market: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    return Within(market, capsys, monkeypatch)


def folder_of(ask: Within, name: str) -> Path:
    id = str(dataset(ask.folder, name).id).removeprefix("did:odf:")
    return ask.folder / ".odfbuild/datasets" / id


def built(ask: Within, *arguments: str, code: int = 0) -> Taken:
    done = ask("docs", "build", "--out", "-", *arguments)
    assert done.code == code, done.err
    return taken(done.out)


def test_the_page_says_what_status_and_log_say(ask: Within) -> None:
    found = built(ask)
    status = {each["dataset"]: each for each in json.loads(ask.done("status", "-o", "json"))}
    assert set(found.names) == set(status)
    for name in found.names:
        row, detail, known = found.row(name), found.detail(name), status[name]
        assert (detail["did"], detail["head"]) == (known["id"], known["head"])
        assert (detail["blocks"], row[7]) == (known["blocks"], known["records"])
        assert [each[5] for each in detail["history"]] == [
            line.split()[1][-8:]
            for line in ask.done("log", name).splitlines()
            if line.startswith("block ")
        ]
        slices = [each[3] for each in detail["history"] if each[3] is not None]
        assert sum(slices) == known["records"]
    assert {found.state(each) for each in ("src", "acme/side")} == {"applied"}
    assert {found.state(each) for each in ("out", "report")} == {"up to date"}
    assert found.index["applied"] is True
    schemas = found.detail("src")["schemas"]
    assert [each[2] for each in schemas] == [["4 columns in force from here on"]] or schemas


def test_it_is_the_same_each_time_and_writes_nothing_else(ask: Within) -> None:
    before = sorted(ask.folder.rglob("*"))
    first = ask("docs", "build", "--out", "-").out
    assert ask("docs", "build", "--out", "-").out == first
    assert sorted(ask.folder.rglob("*")) == before


def test_the_file_is_written_at_once_and_its_size_is_said(ask: Within) -> None:
    done = ask("docs", "build")
    page = (ask.folder / "catalogue.html").read_text("ascii")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("catalogue.html: 4 datasets, ")
    assert page == ask("docs", "build", "--out", "-").out
    wrong = ask("docs", "build", "--out", "none/x.html")
    assert wrong.code == 1
    assert "there is no folder none" in wrong.err


def test_fewer_blocks_are_shown_and_the_rest_is_counted(ask: Within) -> None:
    detail = built(ask, "--blocks", "1").detail("src")
    assert len(detail["history"]) == 1
    assert detail["older"] == detail["blocks"] - 1
    assert "history" not in built(ask, "--blocks", "0").detail("src")


def test_what_is_chosen_is_shown_and_nothing_else(ask: Within) -> None:
    assert built(ask, "+out").names == ["src", "out"]
    assert built(ask, "--exclude", "report", "out+").names == ["out"]
    assert ask("docs", "build", "nobody").code != 0


def test_news_of_an_input_and_a_failed_step_are_seen(ask: Within) -> None:
    lay_out(ask.folder, {"datasets/report.yaml": None})
    found = built(ask)
    assert found.state("report") == "not declared"
    assert found.row("report")[2] == -1
    assert found.detail("report")["query"][0][1].startswith("select")


def test_a_definition_that_is_not_in_force_is_seen(ask: Within) -> None:
    lay_out(ask.folder, {"datasets/out.yaml": derivative(query="select t, k, v + 1 as v from src")})
    assert built(ask).state("out") == "changed"
    assert built(ask).state("src") == "applied"


@pytest.mark.parametrize("part", ["head", "block", "earlier block", "name"])
def test_a_damaged_dataset_is_shown_as_that_and_the_others_stay(ask: Within, part: str) -> None:
    hashes = [str(hash) for hash, _ in dataset(ask.folder, "src").blocks()]
    folder = folder_of(ask, "src")
    path = {
        "head": folder / "refs/head",
        "block": folder / "blocks" / hashes[-1],
        "earlier block": folder / "blocks" / hashes[1],
        "name": ask.folder / ".odfbuild/names/src",
    }[part]
    path.write_bytes(b"nonsense")
    found = built(ask, code=1)
    assert set(found.names) == {"src", "acme/side", "out", "report"}
    assert found.state("src") == "damaged"
    (problem,) = found.detail("src")["problems"]
    assert problem[0] == "damaged"
    assert str(ask.folder) not in json.dumps(problem)
    assert len(found.detail("src").get("history", [])) == (
        len(hashes) - 2 if part == "earlier block" else 0
    )
    assert found.state("acme/side") == "applied"
    assert found.detail("acme/side")["history"]


def test_wrong_definitions_are_shown_as_that_and_the_others_stay(ask: Within) -> None:
    lay_out(
        ask.folder,
        {
            "datasets/a.yaml": derivative("a", "b"),
            "datasets/b.yaml": derivative("b", "a"),
            "datasets/c.yaml": root("c").replace("Ledger", "Leger"),
            "datasets/d.yaml": "kind: [",
            "tests/data/x.yaml": "dataset: src\nchecks:\n  - not_nul: [k]\n",
        },
    )
    found = built(ask, code=1)
    assert {found.state(each) for each in ("a", "b", "c")} == {"wrong definition"}
    assert found.state("src") == "applied"
    assert "cycle" in json.dumps(found.detail("a")["problems"])
    said = json.dumps(found.index["problems"])
    assert "datasets/d.yaml" in said
    assert "not_nul" in said


def test_a_project_that_nobody_applied_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = Within(lay_out(tmp_path / "new", RICH), capsys, monkeypatch)
    done = ask("docs", "build")
    assert done.err.startswith("catalogue.html: 4 datasets, none of them applied yet, ")
    assert not (ask.folder / ".odfbuild").exists()


# results of tests


def test_outcomes_of_tests_are_shown_without_rows(ask: Within) -> None:
    lay_out(
        ask.folder,
        {
            "tests/data/src.yaml": "dataset: src\nchecks:\n  - range: {column: v, max: 1}\n"
            "    name: small\n  - not_null: [k]\n"
        },
    )
    assert built(ask).state("src") == "applied"
    assert ask("test", "--data", "--report", "json=t.json").code == 7
    found = built(ask, "--tests", "t.json")
    assert found.state("src") == "test failed"
    assert [(each[1], each[5], each[6]) for each in found.detail("src")["tests"]] == [
        ("small", "failed", "1 of 2 rows"),
        ("not_null(k)", "passed", ""),
    ]
    assert found.state("acme/side") == "applied"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"tests": [1]}', '{"tests": [{"kind": "x"}]}'], ids=str
)
def test_what_has_no_results_is_refused(ask: Within, text: str) -> None:
    lay_out(ask.folder, {"t.json": text})
    done = ask("docs", "build", "--tests", "t.json")
    assert (done.code, "error[not-test-results]" in done.err) == (1, True)
    assert not (ask.folder / "catalogue.html").exists()


# a plan


def test_a_plan_comes_first_with_its_gate_its_columns_and_its_readers(ask: Within) -> None:
    lay_out(
        ask.folder,
        {"datasets/out.yaml": derivative(query="select t, k from src where v > 1")},
    )
    ask("plan", "--out", "p.json")
    page = ask("docs", "build", "--out", "-", "--plan", "p.json")
    assert page.code == 0
    found = taken(page.out)
    assert found.index["plan"] is True
    said = " ".join(" ".join(each) for each in found.parsed.texts.values())
    assert "Gate: REFUSED" in said
    assert "ODF201" in said
    assert "removed" in said
    assert "report" in said
    order = [page.out.index(each) for each in ("Gate: REFUSED", "ODF201", "Columns of out")]
    assert order == sorted(order)


def test_a_plan_whose_datasets_moved_is_said_to_be_stale(ask: Within) -> None:
    lay_out(ask.folder, {"data/2.csv": GOOD.replace("a", "c").replace("b", "d")})
    ask("plan", "--out", "p.json")
    assert "This plan is stale" not in ask("docs", "build", "--out", "-", "--plan", "p.json").out
    head = folder_of(ask, "src") / "refs/head"
    blocks = [hash for hash, _ in dataset(ask.folder, "src").blocks()]
    head.write_text(str(blocks[-2]))
    assert "This plan is stale" in ask("docs", "build", "--out", "-", "--plan", "p.json").out


def test_what_is_no_plan_is_refused_before_anything_is_written(ask: Within) -> None:
    lay_out(ask.folder, {"p.json": "{}"})
    done = ask("docs", "build", "--plan", "p.json")
    assert done.code == 1
    assert not (ask.folder / "catalogue.html").exists()


def test_hostile_texts_of_a_plan_make_no_element(ask: Within) -> None:
    def page(text: str) -> str:
        query = f"select t, k, v, '{text}' as w from src"
        lay_out(ask.folder, {"datasets/out.yaml": transform("out", {"src": "src"}, query)})
        assert ask("plan", "--out", "p.json").code in (0, 3)
        return ask("docs", "build", "--out", "-", "--plan", "p.json").out

    bad = "</script><img src=x onerror=alert(1)>{{7*7}}"
    found = page(bad)
    assert bad not in found
    assert taken(found).parsed.elements == taken(page("harmless")).parsed.elements
