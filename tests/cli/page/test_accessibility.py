"""Pages in files by the rules of axe-core, in the light and in the dark."""

import json
from pathlib import Path

import pytest

from tests.cli.page.catalogue.projects import RICH
from tests.cli.page.opened import SMALL, Opened
from tests.support.process.accessibility import violations
from tests.support.process.chromium import Browser, Page, why_no_chromium
from tests.support.process.inside import lay_out
from tests.support.projects import odfbuild

pytestmark = [
    pytest.mark.skipif(why_no_chromium() is not None, reason=str(why_no_chromium())),
    pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"]),
]

PLACES = {
    "#/": "#datasets tbody a",
    "#/dataset/shop.sales": "#dataset h1",
    "#/dataset/shop.orders": "#dataset h1",
    "#/dataset/nobody": ".view:not([hidden]) h1",
    "#/graph": ".box",
    "#/graph?show=%2Bshop.sales": ".box.here",
}


def shown(browser: Browser, url: str, selector: str, *, dark: bool) -> Page:
    page = browser.open(url, dark=dark)
    page.wait(f"!!document.querySelector({json.dumps(selector)})")
    return page


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of the page of a project with a plan."""
    folder = lay_out(tmp_path_factory.mktemp("project"), RICH)
    assert odfbuild("plan", "--out", "p.json", cwd=folder).code == 0
    assert odfbuild("docs", "build", "--plan", "p.json", cwd=folder).code == 0
    return (folder / "catalogue.html").as_uri()


@pytest.mark.parametrize("place", PLACES)
def test_a_view_of_the_catalogue_breaks_no_rule(
    browser: Browser, catalogue: str, place: str, dark: bool
) -> None:
    page = shown(browser, catalogue + place, PLACES[place], dark=dark)
    assert violations(page) == []


def test_the_page_of_a_plan_breaks_no_rule(browser: Browser, catalogue: str, dark: bool) -> None:
    page = shown(browser, f"{catalogue}#/plan", "#plan h1", dark=dark)
    assert violations(page) == []


def test_the_page_of_a_lineage_breaks_no_rule(browser: Browser, tmp_path: Path, dark: bool) -> None:
    opened = Opened(browser, tmp_path / "small.html", SMALL, dark=dark)
    assert violations(opened.page) == []
    opened.page.click(opened.selector("b", "w"))
    assert violations(opened.page) == []


def test_the_rules_see_what_is_wrong(browser: Browser, catalogue: str, dark: bool) -> None:
    page = shown(browser, f"{catalogue}#/", PLACES["#/"], dark=dark)
    for spoil in (
        "document.getElementById('words').labels[0].remove()",
        "document.documentElement.removeAttribute('lang')",
        "document.querySelector('.view:not([hidden]) h1').style.color = 'rgba(128, 128, 128, .2)'",
    ):
        before = len(violations(page))
        page.evaluate(f"{spoil}; 0")
        assert len(violations(page)) > before
