"""The catalogue as text: whole, closed to the outside, and safe whatever it shows."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.app.inspection.catalogue import Catalogue, CatalogueEntry
from odfbuild.cli.page.catalogue.data import LONGEST_TEXT, columns_of, details_of, index_of
from odfbuild.cli.page.catalogue.document import catalogue_document
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import DatasetKind, SetInfo
from odfbuild.odf.identity import DatasetId, sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.texts.page import page_file
from tests.cli.page.catalogue.projects import BAD, RICH, catalogue_in, described, page_in, taken
from tests.cli.page.parsed import parse
from tests.support.projects.texts import root

ORDERS = DatasetAlias.parse("shop.orders")


@pytest.fixture
def rich(tmp_path: Path) -> str:
    return page_in(tmp_path / "rich", RICH)


@pytest.mark.holds("page-closed")
def test_nothing_in_it_is_from_elsewhere(rich: str) -> None:
    found = parse(rich)
    assert {"link", "img", "iframe", "object", "base"}.isdisjoint(tag for tag, _ in found.elements)
    for _, attributes in found.elements:
        assert {"src", "srcset", "style", "action", "ping"}.isdisjoint(attributes)
        assert not [each for each in attributes if each.startswith("on")]
        assert (attributes.get("href") or "#").startswith("#")
    assert not re.search(r"https?:", found.text("style"))
    assert "url(" not in found.text("style")
    assert "@import" not in found.text("style")


@pytest.mark.holds("page-closed")
def test_the_policy_lets_its_own_script_and_style_run_and_nothing_else(rich: str) -> None:
    found = parse(rich)
    rules = dict(each.strip().split(" ", 1) for each in found.policy().split(";"))
    assert set(rules) == {"default-src", "base-uri", "form-action", "script-src", "style-src"}
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for rule, tag in (("script-src", "script"), ("style-src", "style")):
        digest = hashlib.sha256(found.text(tag).encode()).digest()
        assert rules[rule] == f"'sha256-{base64.b64encode(digest).decode()}'"


def test_scripts_take_no_text_for_markup() -> None:
    folder = resources.files("odfbuild.cli.page.catalogue") / "scripts"
    texts = [each.read_text("utf-8") for each in folder.iterdir()]
    texts += [page_file("layout.js"), page_file("elements.js")]
    assert len(texts) == 11
    for text in texts:
        assert text.isascii()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b", text)
        assert not re.search(r"\bfetch\(|XMLHttp|WebSocket|localStorage|new Function", text)


def test_the_same_project_gives_the_same_bytes(tmp_path: Path) -> None:
    assert page_in(tmp_path / "a", RICH) == page_in(tmp_path / "b", RICH)


def test_a_page_has_a_language_landmarks_headings_and_labels(rich: str) -> None:
    found = parse(rich)
    tags = [tag for tag, _ in found.elements]
    assert ("html", {"lang": "en"}) in found.elements
    assert tags.count("main") == tags.count("header") == tags.count("footer") == 1
    ids = {attributes["id"] for _, attributes in found.elements if "id" in attributes}
    assert len(ids) == sum("id" in attributes for _, attributes in found.elements)
    labelled = {attributes.get("for") for tag, attributes in found.elements if tag == "label"}
    for tag, attributes in found.elements:
        if tag in {"input", "select"}:
            assert attributes["id"] in labelled
        for name in ("aria-labelledby", "aria-describedby"):
            assert set((attributes.get(name) or "").split()) <= ids | {"dataset-title"}
        if tag == "button":
            assert attributes["type"] == "button"


def test_what_definitions_say_is_on_the_page(rich: str) -> None:
    found = taken(rich)
    assert found.names == ["shop.orders", "shop.prices", "shop.sales", "shop.top"]
    words, orders = found.index["words"], found.row("shop.orders")
    assert (words[orders[2]], words[orders[3]]) == ("datasets/raw", "ops")
    assert [words[each] for each in orders[4]] == ["daily", "raw"]
    assert {found.state(each) for each in found.names} == {"not applied"}
    assert found.index["applied"] is False
    assert found.row("shop.sales")[8] == [0, 1]
    detail = found.detail("shop.orders")
    assert detail["place"] == "datasets/raw/orders.yaml:4"
    assert detail["tests"] == [
        ["check", "not_null(k)", "error", "all rows", "tests/data/orders.yaml:3", "", ""],
        ["check", "range(v)", "warn", "all rows", "tests/data/orders.yaml:4", "", ""],
    ]
    assert detail["attachments"] == [["README.md", "Orders as they came.\n\nDaily."]]
    description, columns, shaping = found.columns[2]
    assert (description, shaping) == ("", [[0, "k"], [0, "v"], [1, "k"]])
    assert [(each[0], each[3]) for each in columns] == [
        ("t", [[0, "t"]]),
        ("k", [[0, "k"]]),
        ("total", [[0, "v"], [1, "v"]]),
    ]
    assert [each[1:3] for each in columns[:2]] == [["DATE", True], ["STRING", False]]


def test_inputs_that_are_not_chosen_are_named(tmp_path: Path) -> None:
    whole = catalogue_in(tmp_path, RICH)
    part = replace(whole, entries=whole.entries[2:])
    found = taken(catalogue_document(part))
    assert found.row("shop.sales")[8] == ["shop.orders", "shop.prices"]
    assert found.columns[0][2] == [["shop.orders", "k"], ["shop.orders", "v"], ["shop.prices", "k"]]


# hostile


def hostile(text: str) -> dict[str, str]:
    """Return a project with a text wherever it may stand."""
    quoted = json.dumps(text)
    return {
        "odfbuild.yaml": f"odfbuild: 1\nname: p\ndefaults:\n  '*': {{owner: {quoted}, "
        f"tags: [{quoted}]}}\n",
        "datasets/src.yaml": described(
            root(columns=json.dumps("t DATE, k STRING, v BIGINT")), text
        ),
    }


@pytest.mark.holds("page-closed")
def test_hostile_texts_make_no_element(tmp_path: Path) -> None:
    page = page_in(tmp_path / "bad", hostile(BAD))
    assert parse(page).elements == parse(page_in(tmp_path / "good", hostile("harmless"))).elements
    assert BAD not in page
    found = taken(page)
    assert found.columns[0][0] == BAD
    assert BAD in found.index["words"]
    assert found.detail("src")["licence"][2] == "javascript:alert(1)"
    assert "49" not in found.parsed.text("h1")


@settings(max_examples=25)
@given(st.text())
def test_any_description_stays_data(text: str) -> None:
    entry = _entry(text)
    page = catalogue_document(entry)
    assert page.isascii()
    index = re.search(r'id="index">(.*?)</script>', page, re.DOTALL)
    assert index is not None
    assert not set(index[1]) & set("<>&\n")
    assert len(parse(page).elements) == len(parse(catalogue_document(_entry(""))).elements)


def _entry(description: str) -> Catalogue:
    """Return the catalogue of one dataset with a description, as its chain has it."""
    id = DatasetId(bytes(32))
    state = ChainState(
        dataset=id,
        kind=DatasetKind.ROOT,
        head=sha3_256(b""),
        sequence=0,
        system_time=Timestamp.from_millis(0),
        info=SetInfo(description, (description,)),
    )
    entry = CatalogueEntry(alias=ORDERS, id=id, state=state)
    return Catalogue(project="p", target="dev", entries=(entry,), names={id: ORDERS})


def test_what_steers_a_text_is_shown_as_an_escape() -> None:
    found = columns_of(_entry("a\u202eb\x00\nc"))
    assert found[0][0] == "a\\u202eb\\x00\nc"


def test_a_huge_description_is_cut() -> None:
    entry = _entry("x" * 5_000_000)
    assert len(catalogue_document(entry)) < 150_000
    assert len(columns_of(entry)[0][0]) == LONGEST_TEXT
    assert len(index_of(entry, has_plan=False)["rows"][0][9]) <= 140


@pytest.mark.holds("page-credentials")
def test_credentials_are_not_shown(tmp_path: Path) -> None:
    secret = "hunter2hunter2"
    fetch = (
        f'{{kind: Url, url: "https://u:{secret}@x.example/a?token={secret}", '
        f'headers: [{{name: Authorization, value: "Bearer {secret}"}}]}}'
    )
    found = catalogue_in(
        tmp_path,
        {"datasets/src.yaml": described(root(fetch=fetch), f"see https://u:{secret}@x.example/")},
    )
    assert len(found.entries) == 1
    said = json.dumps([list(details_of(found)), columns_of(found), index_of(found, has_plan=False)])
    assert "x.example" in said
    assert secret not in said


def test_a_project_without_datasets_has_a_page(tmp_path: Path) -> None:
    found = taken(page_in(tmp_path, {"odfbuild.yaml": "odfbuild: 1\nname: empty\n"}))
    assert (found.names, found.columns, found.details) == ([], [], [])


def test_a_thousand_datasets_stay_below_three_megabytes(tmp_path: Path) -> None:
    found = catalogue_in(tmp_path, RICH)
    base = found.entries[2]
    entries = tuple(replace(base, alias=DatasetAlias.parse(f"a.d{n:04}")) for n in range(1_000))
    assert len(catalogue_document(replace(found, entries=entries))) < 3_000_000
