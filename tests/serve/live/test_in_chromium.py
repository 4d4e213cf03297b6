"""The live page in a real browser: datasets, rows by a block, queries, runs, hostile texts."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serve.live.projects import BIG, HIGH, HOSTILE, READINGS, build, files_of_a_day
from tests.support.process.chromium import CONTRAST, Browser, Page, why_no_chromium
from tests.support.servers.datasets import DatasetServer, serving_datasets

pytestmark = pytest.mark.skipif(why_no_chromium() is not None, reason=str(why_no_chromium()))

_UNNAMED = (
    "[...document.querySelectorAll('input, select, textarea')].filter(e => !e.labels.length).length"
)
_CELLS = (
    "[...document.querySelectorAll('%s tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("live")
    files_of_a_day(folder, 1)
    assert build(folder) == 0
    files_of_a_day(folder, 2)
    assert build(folder, READINGS) == 0
    return folder


@pytest.fixture(scope="module")
def server(project: Path) -> Iterator[DatasetServer]:
    with serving_datasets(project) as found:
        yield found


@pytest.fixture
def changing(project: Path, tmp_path: Path) -> Iterator[DatasetServer]:
    """A server of a copy, which a test may build further."""
    folder = tmp_path / "live"
    shutil.copytree(project, folder, ignore=shutil.ignore_patterns("state", "log"))
    with serving_datasets(folder) as found:
        yield found


def opened(browser: Browser, server: DatasetServer, place: str = "", **how: Any) -> Page:
    """Open a page of the server in a tab that has a token."""
    page = browser.open(f"{server.url}#/query", **how)
    give(page, server.token("read"))
    go(page, place)
    return page


def give(page: Page, token: str) -> None:
    page.click("#token-button")
    page.type(token)
    page.press("Enter")
    page.wait("document.getElementById('token-form').hidden")


def go(page: Page, place: str) -> None:
    page.evaluate(f"location.hash = {json.dumps(place)}")


def cells(page: Page, selector: str) -> list[list[str]]:
    page.wait(f"document.querySelectorAll('{selector} tbody tr').length > 0")
    found: list[list[str]] = page.evaluate(_CELLS % selector)
    return found


def text(page: Page, selector: str) -> str:
    return str(page.evaluate(f"document.querySelector('{selector}').innerText"))


def test_a_token_is_asked_for_and_stays_in_the_tab(browser: Browser, server: DatasetServer) -> None:
    page = browser.open(server.url)
    page.wait("document.getElementById('problem').innerText.includes('A token is needed')")
    give(page, "odfb_nothing")
    page.wait("document.getElementById('problem').innerText.includes('not known')")
    token = server.token("read")
    give(page, token)
    assert [row[0] for row in cells(page, "#list-rows")] == [HIGH, READINGS]
    assert text(page, "#problem") == ""
    assert token not in page.evaluate("document.documentElement.outerHTML + location.href")
    assert page.evaluate("localStorage.length + document.cookie.length") == 0
    other = browser.open(server.url)
    other.wait("document.getElementById('problem').innerText.includes('A token is needed')")


def test_the_list_shows_what_happens_without_a_reload(
    browser: Browser, changing: DatasetServer
) -> None:
    page = opened(browser, changing)
    assert "60 rows behind" in cells(page, "#list-rows")[0][2]
    assert build(changing.folder.parent) == 0
    page.wait("document.querySelector('#list-rows tbody tr').cells[2].innerText.includes('up to')")
    page.click("#words")
    page.type("READ")
    page.wait("document.querySelectorAll('#list-rows tbody tr').length == 1")
    assert cells(page, "#list-rows")[0][0] == READINGS


def test_rows_are_shown_as_they_were_by_any_block(browser: Browser, server: DatasetServer) -> None:
    page = opened(browser, server, f"#/dataset/{READINGS}")
    rows = cells(page, "#rows")
    assert text(page, "#dataset .lead") == HOSTILE
    assert "Rows 71 to 120 of 120" in text(page, "#rows")
    assert [row[0] for row in rows] == [str(each) for each in range(70, 120)]
    page.evaluate("document.querySelector('#rows .choices button').click()")
    page.wait("document.querySelector('#rows').innerText.includes('Rows 21 to 70 of 120')")
    assert [HOSTILE, "0"] in [row[-2:] for row in cells(page, "#rows")]
    assert ["big", str(BIG)] in [row[-2:] for row in cells(page, "#rows")]
    of_first = page.evaluate(
        "[...document.querySelectorAll('#history a')]"
        ".filter(a => a.innerText == 'rows by then').map(a => a.getAttribute('href'))"
    )
    go(page, of_first[1])
    page.wait("document.querySelector('#rows')?.innerText.includes('of 60')")
    assert cells(page, "#rows")[-1][0] == "59"
    since = page.evaluate(
        "[...document.querySelectorAll('#history a')]"
        ".filter(a => a.innerText == 'rows of it').map(a => a.getAttribute('href'))"
    )
    go(page, since[0])
    page.wait("document.querySelector('#rows')?.innerText.includes('Rows that came after')")
    page.wait("document.querySelector('#rows').innerText.includes('Rows 71 to 120')")
    page.evaluate("document.querySelector('#rows .choices button').click()")
    page.wait("document.querySelector('#rows').innerText.includes('Rows 61 to 70')")
    assert cells(page, "#rows")[0][0] == "60"
    assert page.evaluate("document.querySelector('#rows .choices button').disabled")
    assert not page.evaluate("document.title").isdigit()
    assert page.complaints() == []


def test_a_block_leads_to_the_rows_that_it_was_made_of(
    browser: Browser, changing: DatasetServer
) -> None:
    assert build(changing.folder.parent) == 0
    page = opened(browser, changing, f"#/dataset/{HIGH}")
    cells(page, "#history")
    assert text(page, "#history .sub") == f"from rows 61 to 120 of {READINGS}"
    page.evaluate("document.querySelector('#history .sub a').click()")
    page.wait(f"document.querySelector('#dataset h1').innerText == '{READINGS}'")
    page.wait("document.querySelector('#rows')?.innerText.includes('Rows 71 to 120 of 120')")
    assert "Rows that came after block" in text(page, "#rows")
    assert "from 2.csv" in text(page, "#history")


def test_queries_are_answered_exactly_or_refused(browser: Browser, server: DatasetServer) -> None:
    page = opened(browser, server, "#/query")
    page.click("#sql")
    page.type(f"select k, max(v) as most from \"{READINGS}\" where k = 'big' group by k")
    page.click("#proof")
    page.click("#ask")
    assert cells(page, "#answer") == [["big", str(BIG)]]
    assert "Ed25519Signature2020" in page.evaluate("document.querySelector('#answer').textContent")
    go(page, "#/query?sql=select%20nothing%20from%20%22team.high%22")
    page.wait("document.getElementById('sql').value.includes('nothing')")
    page.click("#ask")
    page.wait("document.getElementById('problem').innerText.includes('nothing')")
    assert text(page, "#answer") == ""


def test_a_run_is_shown_with_its_steps(browser: Browser, changing: DatasetServer) -> None:
    (changing.folder.parent / "data" / "3.csv").write_text("t,k,v\n2031-01-03,a,many\n")
    assert build(changing.folder.parent) == 1
    page = opened(browser, changing, "#/runs")
    runs = cells(page, "#run-rows")
    assert [row[2].split()[-1] for row in runs] == ["failed", "done", "done"]
    page.evaluate("document.querySelector('#run-rows tbody a').click()")
    steps = {row[0]: row for row in cells(page, "#run")}
    assert "failed" in steps[READINGS][2]
    page.wait("document.querySelectorAll('#run .notice').length > 0")
    assert "invalid-source" in text(page, "#run .notice")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [(390, 844), (1280, 800)], ids=["phone", "screen"])
def test_it_can_be_read_anywhere(
    browser: Browser, server: DatasetServer, size: tuple[int, int], dark: bool
) -> None:
    places = {"": "#list-rows", f"#/dataset/{READINGS}": "#rows", "#/runs": "#run-rows"}
    for place, table in places.items():
        page = opened(browser, server, place, size=size, dark=dark)
        cells(page, table)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
        assert page.evaluate(CONTRAST) >= 4.5, place
        assert page.evaluate(_UNNAMED) == 0, place
        assert page.complaints() == []


@pytest.mark.parametrize(
    "place", ["#/dataset/", "#/dataset/%zz", "#/dataset/a/b", "#/runs/nothing", "#/?"]
)
def test_any_address_shows_something(browser: Browser, server: DatasetServer, place: str) -> None:
    page = opened(browser, server, place)
    page.wait(
        "document.querySelectorAll('#list-rows tbody tr').length + "
        "document.getElementById('problem').innerText.length > 0"
    )
    assert page.evaluate("!!document.querySelector('.view:not([hidden]) h1')")
