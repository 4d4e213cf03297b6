"""The page in a real browser, opened from disk: seen, moved, searched, followed, spoken."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from odfbuild.cli.page.document import document
from odfbuild.cli.page.graph import Box, Column, Edge, Graph, Whole
from tests.chromium import Browser, Page, browsing, why_no_chromium
from tests.cli.page.graphs import made_up
from tests.cli.page.test_document import BAD, hostile
from tests.cli.within import Within

pytestmark = pytest.mark.skipif(why_no_chromium() is not None, reason=str(why_no_chromium()))

MIDDLE = made_up(60, 6, 5)
LARGE = made_up(2000, 20, 8)
BOXES = "[...document.querySelectorAll('.box')].map((each, n) => [each, n])"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("chromium")
    with browsing(folder) as found:
        yield found
    shutil.rmtree(folder, ignore_errors=True)


class Opened:
    """A page that was opened from disk, with words for what is done with it."""

    def __init__(self, browser: Browser, path: Path, graph: Graph, **how: Any) -> None:
        path.write_text(document(graph), "utf-8")
        self.url = path.as_uri()
        self.graph = graph
        self.page = browser.open(self.url, **how)
        self.numbers = {each.name: number for number, each in enumerate(graph.boxes)}

    def place(self) -> tuple[float, float, float]:
        """Return where the graph begins on the screen, and how large it is."""
        found = self.page.evaluate(
            "(() => { const m = new DOMMatrix(getComputedStyle(document.getElementById('world'))"
            ".transform); const c = document.getElementById('canvas').getBoundingClientRect();"
            " return [m.e + c.x, m.f + c.y, m.a]; })()"
        )
        return float(found[0]), float(found[1]), float(found[2])

    def selector(self, dataset: str, column: str | None = None) -> str:
        number = self.numbers[dataset]
        made = self.graph.boxes[number].made
        names = [each.name for each in (made.columns or ())] if made else []
        at = -1 if column is None else names.index(column)
        return f'[data-box="{number}"][data-column="{at}"]'

    def find(self, text: str) -> None:
        self.page.press("Escape", "/")
        self.page.type(text)
        self.page.press("Enter")

    def marked(self, how: str) -> set[str]:
        """Return the datasets that are marked as a whole in one way."""
        found = self.page.evaluate(
            f"{BOXES}.filter(([e]) => e.classList.contains('{how}')).map(([e, n]) => n)"
        )
        return {self.graph.boxes[number].name for number in found}

    def marked_columns(self, how: str) -> set[tuple[str, str]]:
        """Return the columns that are marked so; each has been in sight before."""
        found = self.page.evaluate(
            f"[...document.querySelectorAll('.column.{how}')]"
            ".map(e => [+e.dataset.box, e.firstChild.textContent])"
        )
        return {(self.graph.boxes[box].name, name) for box, name in found}

    def focused(self) -> str:
        return str(self.page.evaluate("document.activeElement.getAttribute('aria-label')"))

    def is_in_sight(self, selector: str) -> bool:
        return bool(
            self.page.evaluate(
                f"(() => {{ const r = document.querySelector({json.dumps(selector)})"
                ".getBoundingClientRect(), c = document.getElementById('canvas')"
                ".getBoundingClientRect(); return r.left >= c.left && r.right <= c.right &&"
                " r.top >= c.top && r.bottom <= c.bottom && r.height > 8; })()"
            )
        )


@pytest.fixture
def small(browser: Browser, tmp_path: Path) -> Opened:
    return Opened(browser, tmp_path / "small.html", SMALL)


@pytest.fixture
def middle(browser: Browser, tmp_path: Path) -> Opened:
    return Opened(browser, tmp_path / "middle.html", MIDDLE)


SMALL = Graph(
    title="Lineage of b",
    about="as made up",
    boxes=[
        Box(name="a", kind="root", made=Whole((Column("k"), Column("v")), ())),
        Box(
            name="b",
            kind="derivative",
            facts=(("DID", "did:odf:fed01"),),
            query="select k, v from a\nwhere v > 0",
            clauses=("filter",),
            asked_for=True,
            made=Whole((Column("k", (("a", "k"),)), Column("w", (("a", "v"),))), (("a", "v"),)),
        ),
        Box(name="c", made=Whole((Column("n", (("b", "w"),)),), ())),
        Box(name="d", made=Whole(None, None)),
    ],
    edges=[Edge(0, 1, "source"), Edge(1, 2, "reads"), Edge(1, 3, "other")],
)


# Opening


def test_it_opens_from_disk_and_asks_for_nothing_else(small: Opened) -> None:
    names = small.page.evaluate("[...document.querySelectorAll('.name')].map(e => e.textContent)")
    assert names == ["a", "b", "c", "d"]
    assert small.page.requests() == [small.url]
    assert small.page.complaints() == []


def test_all_of_a_small_graph_is_in_sight_at_first(small: Opened) -> None:
    assert all(small.is_in_sight(small.selector(each)) for each in "abcd")


def test_hostile_names_are_shown_and_do_nothing(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, tmp_path / "hostile.html", hostile(BAD))
    opened.page.evaluate("window.alert = () => { window.hit = true; }")
    opened.page.click('[data-box="0"][data-column="0"]')
    opened.page.click('[data-box="0"][data-column="-1"]')
    opened.find(BAD[:12])
    assert opened.page.evaluate("document.querySelector('.name').textContent") == BAD
    assert opened.page.evaluate("document.querySelector('#panel pre').textContent") == BAD
    assert opened.page.evaluate("document.images.length + document.scripts.length") == 2
    assert opened.page.evaluate("window.hit") is None
    assert opened.page.requests() == [opened.url]
    assert opened.page.complaints() == []


def test_the_policy_lets_nothing_out_and_no_other_script_run(small: Opened) -> None:
    small.page.evaluate(
        "(() => { const i = new Image(); i.src = 'http://127.0.0.1:9/x.png';"
        " const s = document.createElement('script'); s.textContent = 'window.hit = 1';"
        " document.body.append(i, s); return fetch('http://127.0.0.1:9/').catch(() => 0); })()"
    )
    assert small.page.evaluate("window.hit") is None
    refused = [each for each in small.page.complaints() if "Content Security Policy" in each]
    assert len(refused) >= 3
    answered = small.page.told("Network.responseReceived")
    assert [each["response"]["url"] for each in answered] in ([small.url], [])


def test_the_address_names_what_is_chosen(browser: Browser, small: Opened) -> None:
    small.page.click(small.selector("b", "w"))
    address = small.page.evaluate("location.href")
    assert address == f"{small.url}#b.w"
    again = browser.open(address)
    assert again.evaluate("document.getElementById('subject').textContent") == "b.w"


# Moving


def test_dragging_moves_the_graph_and_chooses_nothing(small: Opened) -> None:
    x, y, scale = small.place()
    small.page.drag(small.page.middle(small.selector("b")), (60, -45))
    assert small.place() == pytest.approx((x + 60, y - 45, scale))
    small.page.drag((60, 90), (-25, 30))
    assert small.place() == pytest.approx((x + 35, y - 15, scale))
    assert small.marked("here") == set()
    small.page.click(small.selector("b"))
    assert small.marked("here") == {"b"}
    small.page.drag((60, 90), (-25, 30))
    assert small.marked("here") == {"b"}
    small.page.mouse("mousePressed", 60, 90, buttons=1)
    small.page.mouse("mouseReleased", 60, 90)
    assert small.marked("here") == set()


def test_the_wheel_changes_the_size_around_the_pointer(small: Opened) -> None:
    x, y, before = small.place()
    at = small.page.middle(small.selector("c"))
    inside = ((at[0] - x) / before, (at[1] - y) / before)
    for down, grows in ((-300, True), (500, False)):
        *_, last = small.place()
        small.page.wheel(at, down)
        small.page.wait(f"new DOMMatrix(getComputedStyle(world).transform).a !== {last}")
        x, y, now = small.place()
        assert (now > last) is grows
        assert (x + inside[0] * now, y + inside[1] * now) == pytest.approx(at, abs=0.5)


def test_buttons_and_keys_change_the_size_and_fit(small: Opened) -> None:
    start = small.place()
    for larger, smaller in (("#larger", "#smaller"), ("+", "-")):
        for way, grows in ((larger, True), (smaller, False)):
            before = small.place()[2]
            small.page.click(way) if way.startswith("#") else small.page.press(way)
            assert (small.place()[2] > before) is grows
    small.page.drag((60, 90), (300, 200))
    assert small.place() != pytest.approx(start)
    small.page.press("0")
    assert small.place() == pytest.approx(start)
    small.page.drag((60, 90), (300, 200))
    small.page.click("#fit")
    assert small.place() == pytest.approx(start)


def test_fitting_brings_all_of_a_larger_graph_in_sight(middle: Opened) -> None:
    middle.page.press("0")
    edges = middle.page.evaluate(
        "(() => { const c = document.getElementById('canvas').getBoundingClientRect();"
        " return [...document.querySelectorAll('.box')].every(e => { const r ="
        " e.getBoundingClientRect(); return r.left >= c.left && r.right <= c.right &&"
        " r.top >= c.top && r.bottom <= c.bottom; }); })()"
    )
    assert edges is True


def test_arrow_keys_move_the_graph(small: Opened) -> None:
    x, y, scale = small.place()
    small.page.evaluate("document.getElementById('canvas').focus()")
    small.page.press("ArrowRight", "ArrowDown", "ArrowDown")
    assert small.place() == pytest.approx((x - 80, y - 160, scale))


# Finding


def test_a_dataset_is_found_by_a_part_of_its_name(middle: Opened) -> None:
    wanted = MIDDLE.boxes[57].name
    middle.find(wanted.partition(".")[2].upper())
    assert middle.marked("here") == {wanted}
    assert middle.is_in_sight(middle.selector(wanted))
    assert middle.focused().startswith(wanted)


def test_a_column_is_found_by_its_name(middle: Opened) -> None:
    wanted = MIDDLE.boxes[3].name
    middle.find(f"{wanted}.column_4")
    assert middle.marked_columns("here") == {(wanted, "column_4")}
    assert middle.is_in_sight(middle.selector(wanted, "column_4"))


def test_what_is_found_can_be_gone_through_with_the_arrows(small: Opened) -> None:
    small.page.press("/")
    small.page.type("w")
    small.page.type("")
    found = "[...document.querySelectorAll('#found li')].map(e => e.textContent)"
    assert small.page.evaluate(found) == ["b.w  (column)"]
    small.page.evaluate("document.getElementById('search').value = ''")
    small.page.type("k")
    assert small.page.evaluate(found) == ["a.k  (column)", "b.k  (column)"]
    small.page.press("ArrowDown", "Enter")
    assert small.marked_columns("here") == {("b", "k")}
    small.page.press("/")
    small.page.type("nowhere")
    assert small.page.evaluate(found) == ["Nothing is called that."]
    small.page.press("Escape")
    assert small.page.evaluate("document.getElementById('found').hidden") is True


# Following


def column_graph(graph: Graph) -> "nx.DiGraph[tuple[str, str]]":
    found: nx.DiGraph[tuple[str, str]] = nx.DiGraph()
    for box in graph.boxes:
        for column in (box.made.columns or ()) if box.made else ():
            found.add_node((box.name, column.name))
            found.add_edges_from((source, (box.name, column.name)) for source in column.sources)
    return found


def dataset_graph(graph: Graph) -> "nx.DiGraph[str]":
    found: nx.DiGraph[str] = nx.DiGraph()
    found.add_nodes_from(each.name for each in graph.boxes)
    found.add_edges_from(
        (graph.boxes[each.source].name, graph.boxes[each.derived].name) for each in graph.edges
    )
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
    longest = sorted(graph, key=lambda at: (len(nx.ancestors(graph, at)), at))[-3:]
    widest = sorted(graph, key=lambda at: (len(nx.descendants(graph, at)), at))[-3:]
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
    assert "cannot be told" in small.page.evaluate("document.getElementById('panel').textContent")


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


# Keyboard, and being read aloud


def test_all_can_be_done_with_the_keyboard(small: Opened) -> None:
    small.page.evaluate("document.getElementById('canvas').focus()")
    small.page.press("Enter")
    assert small.focused().startswith("b, derivative, asked for") or "b" in small.focused()
    small.page.press("ArrowDown", "ArrowDown")
    assert small.focused() == "b.w"
    small.page.press("ArrowLeft")
    assert small.focused() == "a.v"
    small.page.press("Enter")
    assert small.marked_columns("here") == {("a", "v")}
    small.page.press("ArrowRight", "ArrowRight")
    assert small.focused().startswith("c.n")
    small.page.press("ArrowUp", "ArrowDown", "ArrowDown")
    assert small.focused().startswith("d")
    small.page.press("Escape")
    assert small.marked_columns("here") == set()


def test_one_tab_leads_to_the_graph_and_one_past_it(middle: Opened) -> None:
    stops = middle.page.evaluate(
        "[...document.querySelectorAll('#world *')].filter(e => e.tabIndex >= 0).length"
    )
    assert stops == 1


def spoken(page: Page) -> list[tuple[str, str]]:
    nodes = page.send("Accessibility.getFullAXTree")["nodes"]
    return [
        (each["role"]["value"], each.get("name", {}).get("value", ""))
        for each in nodes
        if not each.get("ignored") and "role" in each
    ]


def test_everything_that_can_be_done_has_a_name(small: Opened) -> None:
    small.page.click(small.selector("b"))
    found = spoken(small.page)
    roles = ("button", "searchbox", "combobox", "checkbox", "application", "complementary")
    named = [(role, name) for role, name in found if role in roles]
    assert all(name.strip() for _, name in named), named
    assert {"button", "combobox", "checkbox", "application", "complementary"} <= {
        role for role, _ in named
    }
    assert ("application", "Graph of 4 datasets") in named
    assert ("complementary", "b") in named


# Looks

_CONTRAST = """
(selector => {
  const channel = value => { value /= 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4; };
  const parts = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = element => {
    for (let each = element; each; each = each.parentElement) {
      const found = parts(getComputedStyle(each).backgroundColor);
      if (found.length < 4 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll(selector)].map(element => {
    const one = light(parts(getComputedStyle(element).color)), two = light(ground(element));
    return (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
  });
})
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_stand_out_from_their_ground(browser: Browser, tmp_path: Path, dark: bool) -> None:
    opened = Opened(browser, tmp_path / "small.html", SMALL, dark=dark)
    opened.page.click(opened.selector("b", "w"))
    texts = ".here .name, .up .name, .down .name, .here .below, .column, .mark, .column b, h1"
    texts += ", #panel h2, #panel p, #panel button, #tools button, footer span, #through"
    found = opened.page.evaluate(f"{_CONTRAST}({json.dumps(texts)})")
    assert len(found) > 20
    assert min(found) >= 4.5
    opened.page.click(opened.selector("b"))
    found = opened.page.evaluate(f"{_CONTRAST}('.head.up span, .head.down span, .head.here span')")
    assert min(found) >= 4.5


def test_light_and_dark_follow_the_system_or_the_button(browser: Browser, tmp_path: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = Opened(browser, tmp_path / "light.html", SMALL)
    dark = Opened(browser, tmp_path / "dark.html", SMALL, dark=True)
    assert light.page.evaluate(ground) == "rgb(246, 248, 250)"
    assert dark.page.evaluate(ground) == "rgb(13, 17, 23)"
    light.page.click("#theme")
    light.page.click("#theme")
    assert light.page.evaluate(ground) == "rgb(13, 17, 23)"
    light.page.click("#theme")
    assert light.page.evaluate(ground) == "rgb(246, 248, 250)"


def test_no_text_of_a_box_is_cut_that_need_not_be(middle: Opened) -> None:
    middle.find(MIDDLE.boxes[30].name)
    cut = middle.page.evaluate(
        "[...document.querySelectorAll('.name, .below, .column span')]"
        ".filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent)"
    )
    assert cut == []
    assert middle.page.evaluate(
        "[...document.querySelectorAll('.box')].every(e => !e.querySelector('.columns') ||"
        " e.querySelector('.columns').getBoundingClientRect().bottom <="
        " e.getBoundingClientRect().bottom)"
    )


def test_two_thousand_datasets_can_be_searched_and_followed(
    browser: Browser, tmp_path: Path
) -> None:
    opened = Opened(browser, tmp_path / "large.html", LARGE)
    assert opened.is_in_sight(opened.selector(LARGE.boxes[1000].name))
    wanted = LARGE.boxes[1700].name
    opened.find(wanted)
    graph = dataset_graph(LARGE)
    assert opened.marked("up") == nx.ancestors(graph, wanted)
    assert opened.marked("down") == nx.descendants(graph, wanted)
    opened.page.press("0")
    assert opened.place()[2] < 0.1
    opened.find(f"{wanted}.column_7")
    assert opened.marked_columns("here") == {(wanted, "column_7")}
    assert opened.is_in_sight(opened.selector(wanted, "column_7"))
    assert opened.page.screenshot(tmp_path / "seen.png").stat().st_size > 10_000
    assert opened.page.requests() == [opened.url]
    assert opened.page.complaints() == []
