"""odfbuild list: what there is to select."""

import json
import sys
from pathlib import Path

import pytest

from tests.support.process.inside import Inside
from tests.support.process.terminals import terminal
from tests.support.projects import environment, probe
from tests.support.projects.market import workspace


def listed(ask: Inside, *arguments: str) -> list[str]:
    done = ask("list", *arguments, "-o", "json")
    assert (done.code, done.err) == (0, "")
    return [each["name"] for each in json.loads(done.out)]


def test_datasets_are_listed_with_all_that_they_can_be_selected_by(ask: Inside) -> None:
    done = ask("list")
    assert done.code == 0
    assert [line.split() for line in done.out.splitlines() if not line.startswith("─")] == [
        ["name", "kind", "tags", "owner", "file", "inputs", "query"],
        ["src", "root", "daily,", "raw", "ops", "datasets/raw/src.yaml"],
        ["acme/side", "root", "daily,", "raw", "ops", "datasets/raw/side.yaml"],
        ["out", "derivative", "datasets/out.yaml", "src", "linear"],
        ["report", "derivative", "heavy", "datasets/report.yaml", "out", "linear"],
    ]


def test_a_program_gets_values_in_place_of_joined_texts(ask: Inside) -> None:
    (found,) = json.loads(ask("list", "report", "-o", "json").out)
    assert found == {
        "name": "report",
        "kind": "derivative",
        "tags": ["heavy"],
        "owner": None,
        "file": "datasets/report.yaml",
        "line": 4,
        "instance": None,
        "package": None,
        "inputs": ["out"],
        "query": "linear",
        "clause": None,
    }


def test_a_spreadsheet_gets_one_line_a_dataset(ask: Inside) -> None:
    lines = ask("list", "kind:root", "-o", "csv").out.splitlines()
    assert lines == [
        "name,kind,tags,owner,file,line,instance,package,inputs,query,clause",
        'src,root,"daily, raw",ops,datasets/raw/src.yaml,4,,,,,',
        'acme/side,root,"daily, raw",ops,datasets/raw/side.yaml,4,,,,,',
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["src+"], "src out report"),
        (["+report", "acme/*"], "src acme/side out report"),
        (["--exclude", "kind:root"], "out report"),
        (["*", "--exclude", "out+"], "src acme/side"),
        (["--exclude", "out", "--exclude", "report src"], "acme/side"),
        (["nightly"], "src acme/side out"),
        (["nightly", "tag:heavy"], "src acme/side out report"),
        (["path:datasets/raw,src+"], "src"),
        (["column:src.v+"], "src out report"),
        (["column:out.k+"], "out report"),
        (["state:new"], ""),
        (["state:stale"], ""),
        (["source:file"], "src acme/side"),
    ],
    ids=str,
)
def test_selectors_choose_what_is_listed(ask: Inside, arguments: list[str], expected: str) -> None:
    assert listed(ask, *arguments) == expected.split()


def test_states_are_found_out_when_they_are_asked_for(ask: Inside) -> None:
    (ask.project / "data/2.csv").write_text("t,k,v\n2024-01-03,c,3\n", "utf-8")
    report = ask.project / "datasets/report.yaml"
    report.write_text(report.read_text("utf-8").replace("v > 0", "v > 1"), "utf-8")
    new = (ask.project / "datasets/out.yaml").read_text("utf-8").replace("name: out", "name: n")
    (ask.project / "datasets/new.yaml").write_text(new, "utf-8")
    assert listed(ask, "state:new") == ["n"]
    assert listed(ask, "state:modified") == ["report"]
    assert listed(ask, "state:stale") == ["src", "n", "out", "report"]
    assert listed(ask, "state:stale", "--exclude", "state:new") == ["src", "out", "report"]


def test_what_an_apply_failed_on_can_be_selected_afterwards(ask: Inside) -> None:
    (ask.project / "data/2.csv").write_text("t,k,v\nno day,c,3\n", "utf-8")
    assert ask("apply", "--yes", "--no-progress").code != 0
    assert listed(ask, "state:failed") == ["src"]
    (ask.project / "data/2.csv").write_text("t,k,v\n2024-01-03,c,3\n", "utf-8")
    assert ask("apply", "--yes", "--no-progress").code == 0
    assert listed(ask, "state:failed") == []


def test_the_workspace_is_listed_with_where_each_chain_stands(ask: Inside) -> None:
    (ask.project / "datasets/report.yaml").unlink()
    found = json.loads(ask("list", "-w", "-o", "json").out)
    assert [(each["name"], each["records"], each["watermark"]) for each in found] == [
        (name, 2, "2024-01-02T00:00:00Z") for name in ("out", "report", "src", "acme/side")
    ]
    heads = {
        str(alias): head.short() for alias, head in workspace(ask.project).named_heads().items()
    }
    assert {each["name"]: each["head"] for each in found} == heads
    assert listed(ask, "-w", "out+") == ["out", "report"]


def test_a_mistyped_selector_is_told_with_its_place(ask: Inside) -> None:
    done = ask("list", "+reprt", "tagg:x", "kind:rot")
    assert done.code == 1
    assert done.out == ""
    assert "selector:1:1: error[selector]: 'tagg' is nothing to select by" in done.err
    assert "fix: did you mean 'root'?" in done.err
    assert "error[unknown-dataset]: no dataset named 'reprt'" in ask("list", "+reprt").err


def test_what_selects_nothing_is_a_warning(ask: Inside) -> None:
    done = ask("list", "src", "tag:dayly")
    assert done.code == 0
    assert "src" in done.out
    assert "warning[selects-nothing]: 'tag:dayly' selects nothing" in done.err
    assert "fix: did you mean 'tag:daily'?" in done.err


def test_a_table_keeps_to_the_width_of_the_terminal(market: Path) -> None:
    arguments = [str(Path(sys.executable).parent / "odfbuild"), "list"]
    with terminal(arguments, market, environment(), columns=60) as shown:
        assert shown.end() == 0
        assert shown.text.startswith("name ")
        assert max(map(len, shown.text.splitlines())) <= 60


def test_names_that_are_in_the_workspace_need_no_definitions(ask: Inside) -> None:
    (ask.project / "datasets/out.yaml").write_text("{", "utf-8")
    assert listed(ask, "-w", "SRC", "out") == ["out", "src"]
    assert ask("list", "-w", "src+").code == 1


def test_listing_starts_no_engine(market: Path) -> None:
    modules, started = probe("list", "state:stale", cwd=market)
    assert {"pyspark", "pyarrow"}.isdisjoint(modules)
    assert started <= {"git"}
