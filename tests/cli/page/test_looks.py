"""The page in a real browser: by keyboard, read aloud, in light and dark, with much on it."""

import json
from pathlib import Path

import networkx as nx
import pytest

from tests.cli.page.opened import LARGE, MIDDLE, SMALL, Opened, dataset_graph
from tests.support.process.chromium import Browser, Page, why_no_chromium

pytestmark = pytest.mark.skipif(why_no_chromium() is not None, reason=str(why_no_chromium()))


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
