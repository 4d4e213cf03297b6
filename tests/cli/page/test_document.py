"""The page as text: whole, closed to the outside, and safe whatever names it shows."""

import base64
import hashlib
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from odfbuild.cli.page.document import document, page_data, size_of
from odfbuild.cli.page.graph import Box, DatasetOrigin, Edge, Graph, GraphColumn
from tests.cli.page.graphs import made_up
from tests.cli.page.parsed import parse

PLAIN = Graph(
    title="T",
    about="as told",
    boxes=[
        Box(name="a", kind="root", home="far", facts=(("DID", "did:odf:1"),)),
        Box(
            name="b",
            asked_for=True,
            query="select k\nfrom a",
            clauses=("filter",),
            made=DatasetOrigin((GraphColumn("x", (("a", "k"),)),), (("a", "k"),)),
        ),
    ],
    edges=[Edge(0, 1, "src")],
)
BAD = "</script><script>alert(1)</script><!--<img src=http://x.invalid/ onerror=alert(1)>"


def hostile(name: str) -> Graph:
    box = Box(
        name=name,
        home=name,
        facts=((name, name),),
        query=name,
        clauses=(name,),
        made=DatasetOrigin((GraphColumn(name, ((name, name),)),), ((name, name),)),
        asked_for=True,
    )
    return Graph(title=name, about=name, boxes=[box, Box(name="b")], edges=[Edge(0, 1, name)])


def test_the_script_gets_what_the_graph_says() -> None:
    found = parse(document(PLAIN)).data()
    a, b = found["boxes"]
    assert (a["name"], a["kind"], a["home"], a["facts"]) == (
        "a",
        "root",
        "far",
        [["DID", "did:odf:1"]],
    )
    assert "columns" not in a
    assert (b["columns"], b["rows"]) == ([["x", [["a", "k"]]]], [["a", "k"]])
    assert (b["query"], b["clauses"]) == ("select k\nfrom a", ["filter"])
    assert found["root"] == 1
    assert found["edges"] == [[0, 1, "src"]]
    assert found["links"] == [[0, -1, 1, 0, 0], [0, -1, 1, -1, 1]]


def test_nothing_in_it_is_from_elsewhere() -> None:
    found = parse(document(made_up(20, 4, 3)))
    assert {"link", "img", "iframe", "object", "a"}.isdisjoint(tag for tag, _ in found.elements)
    for _, attributes in found.elements:
        assert {"src", "href", "srcset", "style", "action"}.isdisjoint(attributes)
        assert not [each for each in attributes if each.startswith("on")]
    assert "http" not in found.text("style")
    assert "url(" not in found.text("style")
    assert "@import" not in found.text("style")


def test_the_policy_lets_its_own_script_and_style_run_and_nothing_else() -> None:
    found = parse(document(PLAIN))
    rules = dict(each.strip().split(" ", 1) for each in found.policy().split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for rule, tag in (("script-src", "script"), ("style-src", "style")):
        digest = hashlib.sha256(found.text(tag).encode()).digest()
        assert rules[rule] == f"'sha256-{base64.b64encode(digest).decode()}'"
    assert set(rules) == {"default-src", "base-uri", "form-action", "script-src", "style-src"}


def shape(graph: Graph) -> list[tuple[str, dict[str, str | None]]]:
    return parse(document(graph)).elements


def test_hostile_names_make_no_element() -> None:
    assert shape(hostile(BAD)) == shape(hostile("harmless"))
    page = document(hostile(BAD))
    assert BAD not in page
    assert parse(page).data()["boxes"][0]["name"] == BAD


@given(st.text())
def test_any_text_stays_data(text: str) -> None:
    page = document(hostile(text))
    assert page.isascii()
    assert len(parse(page).elements) == len(shape(PLAIN))
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert not set(data[1]) & set("<>&\n")


@given(st.text().filter(str.isprintable))
def test_what_can_be_printed_is_shown_as_it_is(text: str) -> None:
    assert parse(document(hostile(text))).data()["edges"][0][2] == text


def test_what_steers_a_text_is_shown_as_an_escape() -> None:
    found: Any = page_data(hostile("a\u202eb\x00"))
    assert found["boxes"][0]["name"] == "a\\u202eb\\x00"
    query = Box(name="q", query="\nselect\t'\u202e'\n from x\n", asked_for=True)
    told: Any = page_data(Graph(title="", about="", boxes=[query], edges=[]))
    assert told["boxes"][0]["query"] == "select  '\\u202e'\n from x"


def test_boxes_are_as_high_as_they_have_columns_and_not_too_wide() -> None:
    columns = tuple(GraphColumn(f"c{n}") for n in range(10))
    none, ten = Box(name="a"), Box(name="a", made=DatasetOrigin(columns, ()))
    assert size_of(ten).height - size_of(none).height >= 200
    assert size_of(Box(name="n" * 2000)).width < 400
    assert size_of(Box(name="漢" * 20)).width > size_of(Box(name="n" * 20)).width


def test_the_same_graph_gives_the_same_page() -> None:
    assert document(made_up(40, 5, 4)) == document(made_up(40, 5, 4))
