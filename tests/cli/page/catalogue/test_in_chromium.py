"""The catalogue in a real browser: list, pages of datasets, graph, keys, paper, hostile texts."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from odfbuild.app.inspection.catalogue import Catalogue, CatalogueEntry
from odfbuild.cli.page.catalogue.document import catalogue_document
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    DatasetKind,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odfbuild.odf.identity import DatasetId, sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.evolution.columns.use import ColumnUse
from odfbuild.planner.plan.changes import Usage
from tests.cli.page.catalogue.projects import BAD, RICH, catalogue_in, described, transform
from tests.support.process.chromium import CONTRAST, Browser, Page, why_no_chromium
from tests.support.projects.texts import root

pytestmark = pytest.mark.skipif(why_no_chromium() is not None, reason=str(why_no_chromium()))

_READY = "!!document.querySelector('.view:not([hidden]) h1')"


class Shown:
    """A page that was written to disk, and is open in a browser."""

    def __init__(self, browser: Browser, folder: Path, files: Mapping[str, str]) -> None:
        self.browser = browser
        self.catalogue = catalogue_in(folder / "project", files)
        path = folder / "catalogue.html"
        path.write_text(catalogue_document(self.catalogue), "ascii")
        self.url = path.as_uri()

    def open(self, place: str = "", **how: Any) -> Page:
        page = self.browser.open(self.url + place, **how)
        page.wait(_READY)
        return page


@pytest.fixture
def rich(browser: Browser, tmp_path: Path) -> Shown:
    return Shown(browser, tmp_path, RICH)


def listed(page: Page) -> list[str]:
    found = page.evaluate(
        "[...document.querySelectorAll('#datasets tbody a')].map(e => e.textContent)"
    )
    return [str(each) for each in found]


def text(page: Page, selector: str) -> str:
    return str(page.evaluate(f"document.querySelector({json.dumps(selector)}).textContent"))


@pytest.mark.holds("page-closed")
def test_it_opens_from_disk_and_asks_for_nothing_else(rich: Shown) -> None:
    page = rich.open()
    assert listed(page) == ["shop.orders", "shop.prices", "shop.sales", "shop.top"]
    assert "Nobody has applied this project yet" in text(page, "#notices")
    for place in ("#/dataset/shop.sales", "#/graph", "#/"):
        page.evaluate(f"void (location.hash = {place!r})")
        view = {"#/graph": "graph", "#/": "list"}.get(place, "dataset")
        page.wait(f"document.documentElement.dataset.view === {view!r}")
    assert page.requests() == [rich.url]
    assert page.complaints() == []


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("SALES", ["shop.sales"]),
        ("as they came", ["shop.orders"]),
        ("total", ["shop.sales", "shop.top"]),
        ("ops raw", ["shop.orders", "shop.prices"]),
        ("nowhere", []),
    ],
)
def test_words_are_looked_for_in_names_columns_and_descriptions(
    rich: Shown, words: str, left: list[str]
) -> None:
    page = rich.open()
    page.press("/")
    page.type(words)
    page.wait(f"document.querySelectorAll('#datasets tbody a').length === {len(left)}")
    assert listed(page) == left
    if left:
        assert text(page, "#count").startswith(f"{len(left)} of 4 datasets")
    else:
        assert "No dataset fits" in text(page, "#datasets tbody")


def test_choices_narrow_the_list_and_stand_in_the_address(rich: Shown) -> None:
    page = rich.open()
    page.evaluate(
        "(() => { const s = document.getElementById('by-owner'); s.value = 'ops';"
        " s.dispatchEvent(new Event('change')); })()"
    )
    assert listed(page) == ["shop.orders", "shop.prices"]
    again = rich.browser.open(str(page.evaluate("location.href")))
    again.wait(_READY)
    assert listed(again) == ["shop.orders", "shop.prices"]
    again.click("#clear")
    assert len(listed(again)) == 4


def test_heads_sort_and_say_how(rich: Shown) -> None:
    page = rich.open()
    head = "#datasets thead th:first-child button"
    page.click(head)
    page.click(head)
    assert listed(page) == ["shop.top", "shop.sales", "shop.prices", "shop.orders"]
    assert page.evaluate("document.querySelector('#datasets th').ariaSort") == "descending"


def test_a_dataset_has_a_page_of_its_own(rich: Shown) -> None:
    page = rich.open("#/dataset/shop.sales")
    assert text(page, "h1#dataset-title") == "shop.sales"
    headings = page.evaluate("[...document.querySelectorAll('#dataset h2')].map(e => e.innerText)")
    assert headings == ["Facts", "Columns", "Inputs and readers", "Query", "Tests", "History"]
    assert "where o.v > 0" in text(page, "#part-query pre")
    assert "shop.orders.v, shop.prices.v" in text(page, "#part-columns tbody")
    page = rich.open("#/dataset/shop.orders")
    assert "not_null(k)" in text(page, "#part-tests")
    assert "Orders as they came." in text(page, ".prose")
    page = rich.open("#/dataset/nobody")
    assert text(page, "h1#dataset-title") == "No such dataset"


def test_a_change_of_view_is_heard(rich: Shown) -> None:
    page = rich.open()
    page.click("#datasets tbody a")
    page.wait("document.documentElement.dataset.view === 'dataset'")
    page.wait("document.activeElement.id === 'dataset-title'")
    assert page.evaluate("document.title") == "shop.orders \u2013 shop"


# impact


def _drawn_project(luck: random.Random) -> dict[str, str]:
    """Return roots and derivatives whose queries take columns by value, by rows, or wholly."""
    files = {f"datasets/r{n}.yaml": root(f"r{n}") for n in range(2)}
    columns = {f"r{n}": ["t", "k", "v"] for n in range(2)}
    for number in range(6):
        name = f"d{number}"
        one, other = luck.choice(list(columns)), luck.choice(list(columns))
        taken = luck.sample(columns[one][1:], luck.randrange(1, len(columns[one])))
        made = [f"c{number}{at}" for at in range(len(taken))]
        selected = ", ".join(f"a.{each} as {new}" for each, new in zip(taken, made, strict=True))
        query = luck.choice(
            [
                f"select a.t, {selected} from a",
                f"select a.t, {selected} from a where a.{luck.choice(columns[one])} is not null",
                f"select a.t, {selected} from a join b on a.t = b.t",
                f"select max(a.t) as t, {selected} from a group by {', '.join(made)}",
            ]
        )
        columns[name] = ["t", *made]
        inputs = {"a": one, "b": other} if "join b" in query else {"a": one}
        files[f"datasets/{name}.yaml"] = transform(name, inputs, query)
    return files


@pytest.mark.parametrize("seed", range(4))
def test_what_a_column_reaches_is_what_impact_says(
    browser: Browser, tmp_path: Path, seed: int
) -> None:
    shown = Shown(browser, tmp_path, _drawn_project(random.Random(seed)))
    entries = shown.catalogue.entries
    use = ColumnUse([each.declared for each in entries if each.declared is not None], {}, {})
    page = shown.open()
    for entry in entries:
        for column in entry.columns or ():
            place = f"#/dataset/{entry.alias}/{column.name}"
            page.evaluate(f"void (location.hash = {place!r})")
            page.wait(
                f"document.getElementById('dataset-title')?.textContent === '{entry.alias}' && "
                f"document.querySelector('#impact-title code')?.textContent === '{column.name}'"
            )
            found = page.evaluate(
                "[...document.querySelectorAll('.impact h4')].at(-1).nextElementSibling"
                ".innerText.split('\\n')"
            )
            wanted = []
            for each in use.affected(entry.alias, frozenset({column.name})):
                rows, value = Usage.SHAPE in each.usage, Usage.VALUE in each.usage
                how = f"columns: {', '.join(each.columns)}"
                if rows:
                    how = (
                        "its values, and which rows there are" if value else "which rows there are"
                    )
                    how += ", so all columns"
                wanted.append(f"{each.dataset} {how}")
            assert sorted(found) == sorted(wanted or ["No other dataset."])


# graph

_BOXES = "[...document.querySelectorAll('.box .name')].map(e => e.textContent)"


@pytest.mark.parametrize(
    ("selector", "left"),
    [
        ("+shop.sales", ["shop.orders", "shop.prices", "shop.sales"]),
        ("shop.sales+", ["shop.sales", "shop.top"]),
        ("shop.orders+1", ["shop.orders", "shop.sales"]),
        ("@shop.top", ["shop.orders", "shop.prices", "shop.sales", "shop.top"]),
        ("*rders top", ["shop.orders", "shop.top"]),
        ("path:datasets/raw,*ice*", ["shop.prices"]),
        ("tag:raw", ["shop.orders", "shop.prices"]),
        ("owner:analysts,kind:derivative", ["shop.sales", "shop.top"]),
        ("nothing", []),
    ],
)
def test_the_graph_shows_what_a_selector_means(rich: Shown, selector: str, left: list[str]) -> None:
    page = rich.open("#/graph")
    page.press("/")
    page.type(selector)
    page.wait(f"document.getElementById('graph-count').textContent.startsWith('{len(left)} of')")
    assert page.evaluate(_BOXES) == left


def test_a_wrong_selector_is_said_to_be_so(rich: Shown) -> None:
    page = rich.open("#/graph?show=made%3Aup")
    page.wait("document.getElementById('selector-error').textContent")
    assert "methods here are tag, owner, kind, state, path" in text(page, "#selector-error")


def test_lines_to_one_box_do_not_cross_at_it(browser: Browser, tmp_path: Path) -> None:
    names = ("a.one", "a.three", "a.two", "a.zero")
    chance = random.Random(4)
    files = {f"datasets/{name}.yaml": root(name) for name in names}
    for number in range(4):
        inputs = dict(zip("wxyz", chance.sample(names, 4), strict=True))
        files[f"datasets/made{number}.yaml"] = transform(
            f"b.made{number}", inputs, "select w.t, w.k, w.v from w, x, y, z"
        )
    page = Shown(browser, tmp_path, files).open("#/graph")
    page.wait("document.querySelectorAll('#world path.edge').length === 16")
    found = page.evaluate(
        "(() => { const tops = [...document.querySelectorAll('.box')].map(e => e.offsetTop);"
        " return [...document.querySelectorAll('#world path.edge')].map(e => {"
        " const n = e.getTotalLength(), a = e.getPointAtLength(0), b = e.getPointAtLength(n);"
        " return [tops.findLast(top => top <= b.y && b.y <= top + 41) ?? -1, a.y, b.y]; }); })()"
    )
    ends: dict[float, list[tuple[float, float]]] = {}
    for box, start, end in found:
        ends.setdefault(box, []).append((start, end))
    assert sorted(map(len, ends.values())) == [4, 4, 4, 4]
    for lines in ends.values():
        assert [end for _, end in sorted(lines)] == sorted(end for _, end in lines)


def test_folders_are_folded_to_boxes_and_unfolded(rich: Shown) -> None:
    page = rich.open("#/graph")
    page.wait("document.querySelectorAll('.box').length === 4")
    page.click("#fold")
    assert page.evaluate(_BOXES) == ["datasets/raw", "datasets/report"]
    assert page.evaluate("document.querySelectorAll('.edge').length") == 1
    page.click("#panel input")
    assert page.evaluate(_BOXES) == ["shop.orders", "shop.prices", "datasets/report"]
    page.click("#fold")
    page.click("#fold")
    assert page.evaluate(_BOXES) == ["shop.orders", "shop.prices", "shop.sales", "shop.top"]


def test_the_graph_is_gone_through_with_keys(rich: Shown) -> None:
    page = rich.open("#/graph")
    page.wait("document.querySelectorAll('.box').length === 4")
    page.evaluate("document.getElementById('canvas').focus()")
    page.press("Enter", "ArrowRight")
    assert text(page, ":focus .name") == "shop.sales"
    page.press("Enter")
    marks = "[...document.querySelectorAll('.box')].map(e => e.className.split(' ').at(-1))"
    assert page.evaluate(marks) == ["up", "up", "here", "down"]
    assert text(page, ":focus").endswith(", chosen")
    assert text(page, "#panel h2") == "shop.sales"
    page.press("Escape")
    assert page.evaluate(marks) == ["box"] * 4
    stops = "[...document.querySelectorAll('#world *')].filter(e => e.tabIndex >= 0).length"
    assert page.evaluate(stops) == 1


def test_columns_are_followed_in_the_graph(rich: Shown) -> None:
    page = rich.open("#/graph")
    page.wait("document.querySelectorAll('.box').length === 4")
    page.click("#with-columns")
    page.click("[data-box='2'][data-column='2']")
    marked = (
        "[...document.querySelectorAll('.column.up, .column.down, .column.here')].map(e =>"
        " [boxName(e), e.firstChild.textContent, e.className.split(' ')[1]])"
    ).replace("boxName(e)", "e.closest('.box').querySelector('.name').textContent")
    assert page.evaluate(marked) == [
        ["shop.orders", "v", "up"],
        ["shop.prices", "v", "up"],
        ["shop.sales", "total", "here"],
        ["shop.top", "total", "down"],
    ]
    assert page.evaluate("document.querySelectorAll('.link').length") == 3


@pytest.mark.parametrize("place", ["#top", "#dataset", "#list", "#%", "#/nowhere", "#x"])
def test_any_address_shows_something(rich: Shown, place: str) -> None:
    page = rich.open(place)
    assert page.evaluate("document.querySelectorAll('.view:not([hidden])').length") == 1
    assert page.evaluate("document.documentElement.dataset.view") == "list"
    assert len(listed(page)) == 4


def test_the_dataset_that_a_selector_is_about_is_chosen(rich: Shown) -> None:
    page = rich.open("#/graph?show=%2Bshop.sales")
    page.wait("document.querySelectorAll('.box').length === 3")
    assert text(page, ".box.here .name") == "shop.sales"
    assert text(page, "#panel h2") == "shop.sales"


# whatever is on it


def _circle() -> Catalogue:
    """Return two datasets whose chains say that each is made of the other, as a forger's may."""
    ids = {DatasetAlias.parse(name): DatasetId(name.encode() * 32) for name in "ab"}
    names = list(ids)
    entries = []
    for alias, other in zip(names, reversed(names), strict=True):
        sql = TransformSql(engine="spark", queries=(SqlQueryStep(query="select 1"),))
        state = ChainState(
            dataset=ids[alias],
            kind=DatasetKind.DERIVATIVE,
            head=sha3_256(b""),
            sequence=0,
            system_time=Timestamp.from_millis(0),
            transform=SetTransform(inputs=(TransformInput(ids[other], "x"),), transform=sql),
        )
        entries.append(CatalogueEntry(alias=alias, id=ids[alias], state=state))
    by_id = {id: alias for alias, id in ids.items()}
    return Catalogue(project="p", target="dev", entries=tuple(entries), names=by_id)


def test_datasets_that_read_each_other_are_drawn(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "circle.html"
    path.write_text(catalogue_document(_circle()), "ascii")
    page = browser.open(f"{path.as_uri()}#/graph?show=%2Ba%2B")
    page.wait("document.querySelectorAll('.edge').length === 2")
    assert sorted(page.evaluate(_BOXES)) == ["a", "b"]
    page.evaluate("void (location.hash = '#/dataset/b')")
    page.wait("document.getElementById('dataset-title')?.textContent === 'b'")
    assert "affects 1 dataset in all" in text(page, "#part-neighbours")
    assert page.complaints() == []


@pytest.mark.holds("page-closed")
def test_hostile_texts_are_shown_and_do_nothing(browser: Browser, tmp_path: Path) -> None:
    quoted = json.dumps(BAD)
    files = {
        "odfbuild.yaml": "odfbuild: 1\nname: p\ndefaults:\n"
        f"  '*': {{owner: {quoted}, tags: [{quoted}]}}\n",
        "datasets/src.yaml": described(root(), BAD),
    }
    shown = Shown(browser, tmp_path, files)
    page = shown.open("#/dataset/src")
    assert text(page, ".prose") == BAD
    page.evaluate("void (location.hash = '#/')")
    page.wait("document.documentElement.dataset.view === 'list'")
    for place in ("#/dataset/%3Cimg%20src=x%3E", "#/graph?show=%3Cb%3E", "#/%", "#<b>"):
        page.evaluate(f"void (location.hash = {place!r})")
        page.evaluate("new Promise(done => setTimeout(done, 50))")
    assert page.evaluate("document.images.length + document.querySelectorAll('b img').length") == 0
    assert page.evaluate("window.hit") is None
    assert page.requests() == [shown.url]
    assert page.complaints() == []


@pytest.mark.parametrize("size", [(390, 844), (1280, 800)], ids=str)
def test_nothing_is_wider_than_the_screen(rich: Shown, size: tuple[int, int]) -> None:
    for place in ("", "#/dataset/shop.orders", "#/dataset/shop.sales/total", "#/graph"):
        page = rich.open(place, size=size)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_stand_out_from_their_ground(rich: Shown, dark: bool) -> None:
    for place in ("", "#/dataset/shop.orders", "#/dataset/shop.sales/total"):
        assert rich.open(place, dark=dark).evaluate(CONTRAST) >= 4.5


_A4 = (718, 1000)
"""Within the margins of a page, in pixels of CSS."""


def printed(shown: Shown, place: str) -> Page:
    """Return a page as it is on paper."""
    page = shown.open(place, size=_A4)
    page.send("Emulation.setEmulatedMedia", media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    return page


@pytest.mark.parametrize("place", ["#/", "#/dataset/shop.sales"])
def test_tables_are_tables_on_paper(rich: Shown, place: str) -> None:
    page = printed(rich, place)
    forms = page.evaluate(
        "[...document.querySelectorAll('.view:not([hidden]) table')].map(e =>"
        " [getComputedStyle(e).display, getComputedStyle(e.tHead).position])"
    )
    assert forms
    assert all(each == ["table", "static"] for each in forms)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_all_of_the_graph_is_on_paper(browser: Browser, tmp_path: Path) -> None:
    names = [f"shop.step{number}" for number in range(12)]
    files = {"odfbuild.yaml": "odfbuild: 1\n", "datasets/0.yaml": root(names[0])}
    for number in range(1, 12):
        text = transform(names[number], {"i": names[number - 1]}, "select t, k, v from i")
        files[f"datasets/{number}.yaml"] = text
    shown = Shown(browser, tmp_path, files)
    page = shown.open("#/graph", size=_A4)
    place = "document.getElementById('world').style.transform"
    before = page.evaluate(place)
    page.send("Emulation.setEmulatedMedia", media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    outside = page.evaluate(
        "(() => { const room = document.getElementById('canvas').getBoundingClientRect();"
        " return [...document.querySelectorAll('.box')].map(e => e.getBoundingClientRect())"
        ".filter(r => r.left < room.left || r.right > room.right || r.top < room.top ||"
        " r.bottom > room.bottom).length; })()"
    )
    assert (page.evaluate("document.querySelectorAll('.box').length"), outside) == (12, 0)
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(place) == before


def test_on_paper_all_is_open_and_what_is_only_for_screens_is_gone(rich: Shown) -> None:
    page = rich.open("#/dataset/shop.orders")
    page.send("Emulation.setEmulatedMedia", media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("[...document.querySelectorAll('details')].every(e => e.open)")
    assert page.evaluate("document.querySelector('.contents').offsetParent") is None
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
