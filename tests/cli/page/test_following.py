"""What a real browser marks and tells when a dataset or a column is chosen."""

import json
from pathlib import Path

import networkx as nx
import pytest

from odfbuild.cli.page.graph import Graph
from tests.cli.page.opened import BOXES, MIDDLE, Opened, dataset_graph
from tests.support.process.chromium import Browser, why_no_chromium
from tests.support.process.within import Within

pytestmark = pytest.mark.skipif(why_no_chromium() is not None, reason=str(why_no_chromium()))


def column_graph(graph: Graph) -> "nx.DiGraph[tuple[str, str]]":
    found: nx.DiGraph[tuple[str, str]] = nx.DiGraph()
    for box in graph.boxes:
        for column in (box.made.columns or ()) if box.made else ():
            found.add_node((box.name, column.name))
            found.add_edges_from((source, (box.name, column.name)) for source in column.sources)
    return found


def test_a_dataset_shows_all_that_it_comes_from_and_all_that_comes_from_it(middle: Opened) -> None:
    graph = dataset_graph(MIDDLE)
    for number in (2, 20, 31, 58):
        name = MIDDLE.boxes[number].name
        middle.find(name)
        assert middle.marked("here") == {name}
        assert middle.marked("up") == nx.ancestors(graph, name)
        assert middle.marked("down") == nx.descendants(graph, name)
        drawn = "document.querySelectorAll('.edge.{}').length"
        above = graph.subgraph(nx.ancestors(graph, name) | {name})
        assert middle.page.evaluate(drawn.format("up")) == above.number_of_edges()


def test_a_column_shows_its_way_up_and_down(middle: Opened) -> None:
    middle.page.evaluate("document.getElementById('fit').click()")
    graph = column_graph(MIDDLE)
    longest = sorted(graph, key=lambda at: (len(nx.ancestors(graph, at)), at))[-2:]
    widest = sorted(graph, key=lambda at: (len(nx.descendants(graph, at)), at))[-2:]
    for name, column in (*longest, *widest):
        for each, _ in (
            *nx.ancestors(graph, (name, column)),
            *nx.descendants(graph, (name, column)),
        ):
            middle.find(each)
        middle.find(f"{name}.{column}")
        assert middle.marked_columns("here") == {(name, column)}
        assert middle.marked_columns("up") == nx.ancestors(graph, (name, column))
        assert middle.marked_columns("down") == nx.descendants(graph, (name, column))
        datasets = {each for each, _ in nx.descendants(graph, (name, column))}
        assert middle.marked("down") == datasets
        lines = middle.page.evaluate("document.querySelectorAll('path.down:not(.tip)').length")
        below = graph.subgraph(nx.descendants(graph, (name, column)) | {(name, column)})
        assert lines == below.number_of_edges()


def test_columns_can_be_put_away_and_ways_still_be_seen(small: Opened) -> None:
    small.page.click(small.selector("a", "v"))
    heights = f"{BOXES}.map(([e]) => e.offsetHeight)"
    shown = "[...document.querySelectorAll('.columns')].filter(e => e.offsetHeight).length"
    opened, at = small.page.evaluate(heights), small.page.middle(small.selector("a"))
    assert len(set(opened)) > 1
    small.page.click("#columns")
    assert len(set(small.page.evaluate(heights))) == 1
    assert small.page.evaluate(shown) == 0
    assert small.page.middle(small.selector("a")) == pytest.approx(at)
    assert small.marked("down") == {"b", "c", "d"}
    assert small.page.evaluate("document.querySelectorAll('path.down:not(.tip)').length") == 3
    small.page.press("c")
    assert small.page.evaluate(heights) == opened
    assert small.page.evaluate(shown) == 3
    small.page.press("c")
    small.find("c.n")
    assert small.is_in_sight(small.selector("c", "n"))


def test_ways_are_told_apart_without_colour(small: Opened) -> None:
    small.page.click(small.selector("b"))
    sign = "document.querySelector('{} .mark').textContent"
    assert [small.page.evaluate(sign.format(small.selector(each))) for each in "abc"] == list("↑●↓")
    dashes = "getComputedStyle(document.querySelector('.edge.{}')).strokeDasharray"
    assert small.page.evaluate(dashes.format("up")) == "none"
    assert small.page.evaluate(dashes.format("down")) != "none"
    small.page.click(small.selector("b", "w"))
    sign = "document.querySelector('{}').lastChild.textContent"
    ways = [small.selector("a", "v"), small.selector("b", "w"), small.selector("c", "n")]
    assert [small.page.evaluate(sign.format(each)) for each in ways] == list("↑●↓")
    small.page.click(small.selector("b"))
    label = "document.querySelector('{}').getAttribute('aria-label')"
    assert "it comes from this" in small.page.evaluate(label.format(small.selector("a")))
    assert "this comes from it" in small.page.evaluate(label.format(small.selector("c")))


def test_a_dataset_whose_columns_are_not_known_may_hold_all(small: Opened) -> None:
    small.page.click(small.selector("a", "k"))
    assert small.marked("down") == {"b", "d"}
    small.page.click(small.selector("d"))
    assert "cannot be determined" in small.page.evaluate(
        "document.getElementById('panel').textContent"
    )


def test_through_rows_goes_on_where_a_column_decides_on_them(small: Opened) -> None:
    small.page.click(small.selector("a", "v"))
    assert small.marked_columns("down") == {("b", "w"), ("c", "n")}
    small.page.click("#rows")
    assert small.marked_columns("down") == {("b", "k"), ("b", "w"), ("c", "n")}
    assert small.page.evaluate("document.querySelectorAll('path.shapes').length") == 2
    small.page.click(small.selector("b", "k"))
    assert small.marked_columns("up") == {("a", "k"), ("a", "v")}


def test_what_goes_down_through_rows_is_what_impact_names(
    browser: Browser,
    market: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask = Within(market, capsys, monkeypatch)
    path = market / "lineage.html"
    path.write_text(ask.done("lineage", "src", "-o", "html"))
    page = browser.open(path.as_uri())
    page.click("#rows")
    names = page.evaluate("[...document.querySelectorAll('.name')].map(e => e.textContent)")
    for number, column in enumerate(("t", "k", "v")):
        page.click(f'[data-box="{names.index("src")}"][data-column="{number}"]')
        found = page.evaluate(
            "[...document.querySelectorAll('.column.down')]"
            ".map(e => [+e.dataset.box, e.firstChild.textContent])"
        )
        told = json.loads(ask.done("impact", f"src.{column}", "-o", "json"))["affected"]
        assert {(names[box], name) for box, name in found} == {
            (each["dataset"], name) for each in told for name in each["columns"]
        }
    assert page.complaints() == []


def test_details_are_told_beside_the_graph(small: Opened) -> None:
    small.page.click(small.selector("b"))
    said = small.page.evaluate("document.getElementById('panel').innerText")
    for each in ("derivative", "did:odf:fed01", "as source", "as reads", "filter", "a.v"):
        assert each in said
    assert "select k, v from a\nwhere v > 0" in said
    assert "it comes from 1 dataset, 2 come from it" in small.page.evaluate(
        "document.getElementById('told').textContent"
    )
    buttons = "[...document.querySelectorAll('#panel button')]"
    small.page.evaluate(f"{buttons}.find(e => e.textContent === 'a').click()")
    assert small.marked("here") == {"a"}
    small.page.press("Escape")
    assert small.marked("here") == set()
