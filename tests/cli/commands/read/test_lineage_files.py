"""odfbuild lineage import and export: whole files or nothing, and the same again elsewhere."""

import json
import uuid
from pathlib import Path

import pytest
import yaml

from odfbuild.lineage.ids import node_id
from odfbuild.lineage.store import LineageFile, SqliteLineageResource
from tests.support.process.within import Within
from tests.support.projects.market import dataset

A, B, C = (str(uuid.UUID(int=n)) for n in (10, 11, 12))
DID = "did:odf:fed01" + "cd" * 32
HEAD = "derived_id,source_id,classifier\n"


@pytest.fixture
def ask(
    market: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    found = Within(market, capsys, monkeypatch)
    assert found("lineage", "out").code == 0
    return found


def stored(ask: Within) -> tuple[set[tuple[str, str, str]], dict[str, str]]:
    store = SqliteLineageResource(LineageFile(ask.folder / ".odfbuild" / "lineage.sqlite"))
    relations = {
        (str(each.derived_id), str(each.source_id), each.classifier)
        for each in store.get_all_lineage()
    }
    homes = {str(id): home for id, home in store.get_all_homes()}
    store.close()
    return relations, homes


def put(ask: Within, name: str, text: str) -> str:
    (ask.folder / name).write_text(text, "utf-8")
    return name


def test_what_was_exported_can_be_taken_in_elsewhere(ask: Within, market: Path) -> None:
    ask("lineage", "add", "src", A, "--as", 'odd, "one"', "--home", "far")
    ask("lineage", "home", C, "alone")
    before = stored(ask)
    text = ask.done("lineage", "export")
    (market / ".odfbuild" / "lineage.sqlite").unlink()
    assert ask.done("lineage", "import", put(ask, "all.csv", text)) == (
        "1 new relations, 2 new homes\n"
    )
    assert stored(ask) == before
    assert ask.done("lineage", "export") == text
    assert ask.done("lineage", "import", "all.csv") == "0 new relations, 0 new homes\n"


def test_tables_may_have_more_columns_in_any_order_and_dids(ask: Within) -> None:
    file = put(ask, "x.csv", f"note,classifier,source_id,derived_id\nhm,raw,{DID},{A}\n\n")
    assert ask.done("lineage", "import", file, "--home", "far") == "1 new relations, 1 new homes\n"
    assert (A, str(node_id(DID)), "raw") in stored(ask)[0]
    assert ask.done("lineage", A, "--up") == f"{A}\nmade of:\n└─ raw: {DID}  [far]\n"


def test_documents_of_datasets_are_taken_in(ask: Within) -> None:
    one = f"id: {A}\nlineage:\n  ard: [{B}, {C}]\nproperties: {{x: 1}}\n---\nid: {B}\n"
    file = put(ask, "one.yaml", one)
    two = put(ask, "two.json", json.dumps({"id": B, "lineage": {"l1": [C]}}))
    assert ask.done("lineage", "import", file, two, "--home", "cube") == (
        "3 new relations, 2 new homes\n"
    )
    relations, homes = stored(ask)
    assert {(A, B, "ard"), (A, C, "ard"), (B, C, "l1")} < relations
    assert homes == {B: "cube", C: "cube"}
    found = yaml.safe_load(ask.done("lineage", "export", A, "-o", "eo3"))
    assert found == {"id": A, "lineage": {"ard": [B, C]}}


def test_the_lineage_of_a_dataset_of_ours_is_a_document_too(ask: Within, market: Path) -> None:
    found = yaml.safe_load(ask.done("lineage", "export", "out", "-o", "eo3"))
    ids = {name: str(node_id(dataset(market, name).id)) for name in ("src", "out")}
    assert found == {"id": ids["out"], "lineage": {"src": [ids["src"]]}}


def test_files_are_right_where_they_differ_if_that_is_said(ask: Within) -> None:
    ask("lineage", "add", A, B, "--as", "old")
    file = put(ask, "x.csv", f"{HEAD}{A},{B},new\n")
    done = ask("lineage", "import", file)
    assert (done.code, "error[inconsistent-lineage]" in done.err) == (1, True)
    assert ask.done("lineage", "import", file, "--replace") == "0 new relations, 0 new homes\n"
    assert (A, B, "new") in stored(ask)[0]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.csv", "", "x.csv:1:1: error[lineage-file]"),
        ("x.csv", "derived_id,source_id\n", "no column classifier"),
        ("x.csv", f"{HEAD}{A},{B},c\n{A},{C}\n", "x.csv:3:1: error[lineage-file]"),
        ("x.csv", f"{HEAD}{A},{B},c\n{A},{C[:8]},c\n", "x.csv:3:1: error[lineage-file]"),
        ("x.csv", f'{HEAD}{A},{B},"c', "x.csv:2:1: error[lineage-file]"),
        ("x.csv", f"{HEAD}{A},{B},c\n{B},{A},c\n", "error[inconsistent-lineage]"),
        ("x.csv", f"{HEAD}{A},{A},c\n", "error[inconsistent-lineage]"),
        ("x.csv", f"{HEAD}{A},{B},c\n{A},{B},d\n", "error[inconsistent-lineage]"),
        ("x.yaml", "lineage: {}\n", "document 1 has no id"),
        ("x.yaml", f"id: {A}\n---\nid: 7\n", "document 2: 7 is not the id"),
        ("x.yaml", f"id: {A}\nlineage: {{a: {{id: {B}}}}}\n", "document 1: lineage maps"),
        ("x.yaml", f"id: {A}\nlineage: {{a: [", "error[lineage-file]"),
        ("x.yaml", f"id: {A}\nlineage: {{~: [{B}]}}\n", "the classifier None is no text"),
        ("x.yaml", f"id: {A}\nlineage: {{a: [far]}}\n", "document 1: 'far' is not the id"),
        ("x.csv", f"{HEAD}{A},{B},c\n,{C},c\n", "'' is not the id of a dataset"),
        ("x.yaml", f"id: {A}\nlineage: {{a: [{B}], b: [{B}]}}\n", "x.yaml contradicts itself"),
        ("x.yaml", "- 1\n", "document 1 is not a mapping"),
        ("absent.csv", None, "it cannot be read"),
    ],
)
def test_a_bad_file_is_named_and_nothing_is_taken_in(
    ask: Within, name: str, text: str | None, said: str
) -> None:
    good = put(ask, "good.csv", f"{HEAD}{C},{B},c\n")
    before = stored(ask)
    if text is not None:
        put(ask, name, text)
    done = ask("lineage", "import", good, name)
    assert (done.code, done.out) == (1, "")
    assert said in done.err
    assert "Traceback" not in done.err
    assert stored(ask) == before


def test_a_document_is_asked_for_one_dataset_only(ask: Within) -> None:
    assert ask("lineage", "export", "-o", "eo3").code == 64
    assert ask("lineage", "export", "out").code == 64
