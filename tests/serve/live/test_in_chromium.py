"""The live page in a real browser: datasets, rows by a block, queries, runs, hostile texts."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from odfbuild.odf.refs import DatasetAlias
from tests.serve.live.projects import BIG, HIGH, HOSTILE, READINGS, build, files_of_a_day
from tests.support.process.accessibility import violations
from tests.support.process.chromium import CONTRAST, Browser, Page, why_no_chromium
from tests.support.servers.datasets import DatasetServer, serving_datasets

pytestmark = pytest.mark.skipif(why_no_chromium() is not None, reason=str(why_no_chromium()))

_WIDER = "...[...document.querySelectorAll('{} .scroll')].map(e => e.scrollWidth - e.clientWidth)"
"""How much wider each table is than its place, in pixels."""
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


def first_block(server: DatasetServer, name: str = READINGS) -> str:
    dataset = server.workspace.open(DatasetAlias.parse(name))
    assert dataset is not None
    return str(next(iter(dataset.blocks()))[0])


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
    page.evaluate("document.getElementById('fresh').textContent = ''")
    page.wait("document.getElementById('fresh').textContent !== ''")  # it was asked for again
    answered = [each["response"] for each in page.told("Network.responseReceived")]
    statuses = [each["status"] for each in answered if each["url"].endswith("/system/status")]
    assert statuses[-1] == 304
    assert cells(page, "#list-rows")[0][0] == READINGS
    assert page.complaints() == []


_BOXES = (
    "[...document.querySelectorAll('#graph-room a.box')].map(e =>"
    " [e.querySelector('.name').textContent, e.querySelector('.state').textContent])"
)


def test_the_graph_follows_what_happens_and_leads_to_datasets(
    browser: Browser, changing: DatasetServer
) -> None:
    page = opened(browser, changing, "#/graph")
    page.wait("document.querySelectorAll('#graph-room a.box').length === 2")
    assert page.evaluate(_BOXES) == [[HIGH, "60 rows behind"], [READINGS, "120 rows"]]
    assert page.evaluate("document.querySelectorAll('#graph-room path.edge').length") == 1
    left = "document.querySelector('#graph-room a[href*=\"{}\"]').getBoundingClientRect().left"
    assert page.evaluate(f"{left.format(READINGS)} < {left.format(HIGH)}")
    page.evaluate("document.querySelectorAll('#graph-room a')[1].focus()")
    assert build(changing.folder.parent) == 0
    page.wait(f"{_BOXES}[0][1] === 'up to date'")
    assert page.evaluate("document.activeElement.getAttribute('href')").endswith(READINGS)
    page.press("Enter")
    page.wait(f"document.querySelector('#dataset h1')?.innerText === '{READINGS}'")
    page.wait("document.querySelectorAll('#rows tbody tr').length > 0")
    about = text(page, "#dataset")
    assert "Read by (1)" in about
    assert HIGH in about
    assert page.complaints() == []


def test_the_graph_shows_what_is_around_the_datasets_that_are_named(
    browser: Browser, changing: DatasetServer
) -> None:
    alone = changing.folder.parent / "datasets" / "alone.yaml"
    definition = (changing.folder.parent / "datasets" / "readings.yaml").read_text("utf-8")
    alone.write_text(definition.replace(READINGS, "team.alone"), "utf-8")
    assert build(changing.folder.parent, "team.alone") == 0
    page = opened(browser, changing, f"#/graph?around={HIGH}")
    page.wait("document.querySelectorAll('#graph-room a.box').length === 2")
    assert text(page, "#graph-summary") == "2 of 3 datasets"
    here = "[...document.querySelectorAll('#graph-room .here .name')].map(e => e.textContent)"
    assert page.evaluate(here) == [HIGH]
    page.evaluate("document.getElementById('around').select()")
    page.type("TEAM")
    page.wait("document.querySelectorAll('#graph-room a.box').length === 3")
    page.evaluate("document.getElementById('around').select()")
    page.type("nothing")
    page.wait("document.querySelectorAll('#graph-room a.box').length === 0")
    assert text(page, "#graph-summary") == "0 of 3 datasets"
    page.evaluate("document.getElementById('around').select()")
    page.type("team")
    page.wait("document.querySelectorAll('#graph-room a.box').length === 3")
    give(page, "odfb_nothing")
    page.wait("document.querySelectorAll('#graph-room a.box').length === 0")


def test_a_damaged_dataset_is_among_the_others(browser: Browser, changing: DatasetServer) -> None:
    workspace = changing.workspace
    id = workspace.names()[DatasetAlias.parse(READINGS)]
    (workspace.root / "datasets" / id.multibase / "refs" / "head").write_text("rubbish")
    page = opened(browser, changing)
    high, readings = cells(page, "#list-rows")
    assert (readings[0], readings[1]) == (READINGS, "")
    assert "damaged: corrupt-head" in readings[2]
    assert (high[0], high[2]) == (HIGH, "")
    go(page, f"#/dataset/{READINGS}")
    page.wait("document.getElementById('problem').innerText.includes('corrupt-head')")


def test_a_dataset_without_a_description_has_none(browser: Browser, server: DatasetServer) -> None:
    page = opened(browser, server, f"#/dataset/{HIGH}")
    cells(page, "#rows")
    lines = [each for each in text(page, "#dataset").splitlines() if each]
    assert lines[1:4] == [HIGH, "Kind", "Derivative"]


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


def test_rows_are_shown_as_they_were_in_force(browser: Browser, server: DatasetServer) -> None:
    page = opened(browser, server, f"#/dataset/{READINGS}")
    cells(page, "#rows")

    def show(view: str, time: str = "") -> list[list[str]]:
        page.evaluate(
            f"(() => {{ const s = document.getElementById('rows-view'); s.value = {view!r};"
            " s.dispatchEvent(new Event('change'));"
            f" document.getElementById('rows-time').value = {time!r}; s.form.requestSubmit(); }})()"
        )
        wanted = {"log": "Rows 71", "current": "Current rows", "asOf": f"in force at {time}"}[view]
        page.wait(f"document.querySelector('#rows')?.innerText.includes({wanted!r})")
        return cells(page, "#rows")

    current = show("current")
    assert len(current) == 50
    assert [row[-1] for row in current] == [str(each) for each in range(10, 60)]
    assert text(page, "#rows thead").split() == ["t", "k", "v"]
    page.evaluate("document.querySelector('#rows .choices button').click()")
    page.wait("document.querySelector('#rows').innerText.includes('before the last 50')")
    assert cells(page, "#rows")[-1][-1] == "9"
    early = show("asOf", "2031-01-01T00:00:30Z")
    assert [row[-1] for row in early] == ["0", str(BIG), *map(str, range(2, 31))]
    assert page.evaluate("document.getElementById('rows-view').value") == "asOf"
    assert show("log")[0][0] == "70"
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


@pytest.mark.parametrize(
    "value",
    ["1.0", "-0.0", "1e22", "5e-324", "0.1", "123456789.125", "-9223372036854775808", "0", "[]"],
)
def test_numbers_are_shown_as_the_server_writes_them(
    browser: Browser, server: DatasetServer, value: str
) -> None:
    type = "bigint" if value.lstrip("-").isdigit() else "double"
    made = f"cast('{value}' as {type})" if value != "[]" else "v"
    sql = (
        f"select {made} as n, make_array({made}) as l, named_struct('number', '{BIG}', 'n', {made})"
        f" as s from \"{READINGS}\" where k = 'big' limit 1"
    )
    headers = {"authorization": f"Bearer {server.token('read')}"}
    parameters = {"query": sql, "dataFormat": "JsonAoA"}
    written = httpx.get(f"{server.url}query", params=parameters, headers=headers).text
    number = written.partition('"data":[[')[2].partition(",")[0]
    page = opened(browser, server, "#/query")
    page.click("#sql")
    page.type(sql)
    page.click("#ask")
    assert cells(page, "#answer") == [[number, f"[{number}]", f'{{"number":"{BIG}","n":{number}}}']]


@pytest.mark.parametrize("secret", ["odfbuild-number", "\\u0000number", "__proto__"])
def test_no_member_of_a_value_is_taken_for_a_number(
    browser: Browser, server: DatasetServer, secret: str
) -> None:
    page = opened(browser, server)
    cells(page, "#list-rows")
    row = f'[[{{"{secret}":"7"}}]]'
    answer = f'{{"output":{{"data":{row},"schema":{{"fields":[{{"name":"a"}}]}}}},"input":{{}}}}'
    page.evaluate(f"window.fetch = async () => new Response({json.dumps(answer)})")
    go(page, "#/query")
    page.evaluate("document.getElementById('question').requestSubmit()")
    assert cells(page, "#answer") == [[row[2:-2]]]


@pytest.mark.parametrize(
    ("characters", "first", "count"),
    [
        ("'x'.repeat(12e6)", 10_000, 12_000_000),
        ("'x'.repeat(9999) + '\U0001f600'.repeat(2e5)", 9_999, 409_999),
        ("'x'.repeat(10000)", 10_000, 10_000),
    ],
)
def test_a_long_text_begins_and_is_shown_whole_if_asked_for(
    browser: Browser, server: DatasetServer, characters: str, first: int, count: int
) -> None:
    page = opened(browser, server, "#/query")
    answer = '{"output":{"data":[["%s"]],"schema":{"fields":[{"name":"a"}]}},"input":{}}'
    before, after = answer.split("%s")
    page.evaluate(
        "window.fetch = async () => new Response("
        f"{json.dumps(before)} + {characters} + {json.dumps(after)})"
    )
    page.evaluate("document.getElementById('question').requestSubmit()")
    page.wait(
        "document.getElementById('answer-state').innerText != 'The answer is being computed.'"
    )
    assert text(page, "#problem") == ""
    cell = "document.querySelector('#answer tbody td')"
    assert page.evaluate(f"{cell}.firstChild.textContent.length") == first
    if first < count:
        assert text(page, "#answer tbody td button") == f"All of {count:,} characters"
        if count < 1_000_000:  # of more, a browser takes a minute to break the lines
            page.evaluate(f"{cell}.querySelector('button').click()")
    assert page.evaluate(f"{cell}.textContent.length") == (
        count if count < 1_000_000 else first + len(f"All of {count:,} characters")
    )


@pytest.mark.parametrize(
    "place", ["..%2Fother", "%2F%2Fodf.invalid%2Fa", ".", "a%2Fb%2Fc", "a%2F..", "%2Fa"]
)
def test_no_address_leads_to_requests_elsewhere(
    browser: Browser, server: DatasetServer, place: str
) -> None:
    page = opened(browser, server, f"#/dataset/{place}")
    page.wait("document.getElementById('problem').innerText.includes('no such dataset')")
    asked = {each.partition("#")[0] for each in page.requests()}
    assert asked <= {
        server.url, f"{server.url}.odfbuild/live.css", f"{server.url}.odfbuild/live.js", "data:,"
    }  # fmt: skip
    assert page.complaints() == []


def test_pages_of_rows_are_turned_by_the_last_click(
    browser: Browser, server: DatasetServer
) -> None:
    page = opened(browser, server, f"#/dataset/{READINGS}")
    cells(page, "#rows")
    page.evaluate(
        "[...Array(5)].forEach(() => document.querySelector('#rows .choices button').click())"
    )
    page.wait("document.querySelector('#rows').innerText.includes('Rows 21 to 70 of 120')")
    assert [row[0] for row in cells(page, "#rows")] == [str(each) for each in range(20, 70)]
    assert text(page, "#problem") == ""


def test_what_a_token_has_shown_goes_with_it(browser: Browser, server: DatasetServer) -> None:
    page = opened(browser, server, "#/query")
    page.click("#sql")
    page.type(f'select k from "{READINGS}" limit 3')
    page.click("#ask")
    cells(page, "#answer")
    for place, table in {f"#/dataset/{READINGS}": "#rows", "#/runs": "#run-rows"}.items():
        go(page, place)
        cells(page, table)
    go(page, "")
    cells(page, "#list-rows")
    give(page, "")
    page.wait("document.getElementById('problem').innerText.includes('A token is needed')")
    assert page.evaluate("document.querySelectorAll('main tbody tr').length") == 0
    assert READINGS not in page.evaluate("document.querySelector('main').textContent")


def test_a_refusal_is_shown_where_it_belongs(browser: Browser, server: DatasetServer) -> None:
    page = opened(browser, server)
    cells(page, "#list-rows")
    page.evaluate(
        "(() => { const usual = fetch; window.fetch = async (path, how) => {"
        " const found = await usual(path, how);"
        " if (path.includes('nothing')) await new Promise((act) => { window.late = act; });"
        " return found; }; })()"
    )
    go(page, "#/dataset/nothing")
    page.wait("!!window.late")
    go(page, "#/query")
    page.wait("!document.getElementById('query').hidden")
    page.evaluate("(window.late(), new Promise((act) => setTimeout(act, 200)))")
    assert text(page, "#problem") == ""


def test_a_row_leads_to_the_rows_that_it_was_made_of(
    browser: Browser, server: DatasetServer
) -> None:
    page = opened(browser, server, f"#/dataset/{HIGH}")
    cells(page, "#rows")
    lines = [each for each in text(page, "#dataset").splitlines() if each]
    assert lines[1:4] == [HIGH, "Kind", "Derivative"]
    page.evaluate("document.querySelector('#rows tbody a').click()")
    values = cells(page, "#row .scroll")
    assert ["offset", "5", ""] in values
    assert ["k", "k10", "copied from r.k"] in values
    assert "Made of offset 10." in text(page, "#row")
    assert page.evaluate("document.title").startswith("Row at offset")
    page.evaluate("[...document.querySelectorAll('#row tbody a')].pop().click()")
    page.wait("document.querySelector('#row').innerText.includes('1.csv')")
    assert READINGS in text(page, "#row .crumbs")
    assert "From files data/*.csv, " in text(page, "#row")
    assert ["k", "k10"] in cells(page, "#row .scroll")
    go(page, f"#/row/{READINGS}?offset=0")  # what it holds is text
    page.wait(f"document.querySelector('#row').innerText.includes({json.dumps(HOSTILE)})")
    assert page.evaluate("document.title").startswith("Row at offset 0")
    go(page, f"#/row/{READINGS}?offset=9999")
    page.wait("document.getElementById('problem').innerText.includes('no row at this offset')")
    go(page, f"#/row/{HIGH}?offset=x")
    page.wait("document.getElementById('problem').innerText.includes('number of a row')")
    assert len(page.complaints()) <= 2  # the two answers that are no rows


DAY = "2024-01-01T00:00:00Z"
NAMES = ["2", "constructor", "__proto__", "1", "\u202eevil", "place", "toString"]


def test_a_row_has_its_columns_in_their_order_whatever_they_are_called(
    browser: Browser, server: DatasetServer
) -> None:
    page = opened(browser, server)
    span = {"start": 7, "end": 7}
    answer = {
        "row": [[name, f"<s>{name}"] for name in NAMES], "at": "f1620aa", "columns": None,
        "block": {"hash": "f1620aa", "sequence": 3, "time": DAY, "offsets": span},
        "source": None, "merged": False, "hidden": 0, "takes_back": None, "comes": True,
        "query": {"engine": "evil\u202e<s>", "steps": [], "looks_at": "linear"},
        "reason": "\u202e<s>", "exact": False,
        "inputs": [{
            "name": READINGS, "alias": "a", "block": "f1620bb", "missing": False, "of": 1,
            "offset_column": "place", "offsets": [span], "more_offsets": 25, "more": 0,
            "columns": NAMES, "looked_at": span, "rows": [
                {"offset": 7, "values": [None, "c", None, 1, "e", 7, None]},
                {"offset": 9, "values": None},
            ],
        }],
    }  # fmt: skip
    page.evaluate(f"window.fetch = async () => new Response({json.dumps(json.dumps(answer))})")
    go(page, "#/row/made?offset=999999999999999999")
    shown = cells(page, "#row .scroll")
    assert shown[:-1] == [[name, f"<s>{name}"] for name in NAMES]
    heads = page.evaluate(
        "[...document.querySelectorAll('#row h3 ~ .scroll thead th')].map(e => e.textContent)"
    )
    assert heads == NAMES
    values = ["null", "c", "null", "1", "e", "7", "null"]
    assert shown[-1] == values
    links = page.evaluate("[...document.querySelectorAll('#row p a')].map(e => e.hash)")
    assert links == [f"#/row/{READINGS}?offset=9&block=f1620bb"]
    assert "Made of offsets 7 and 25 more." in text(page, "#row")
    title = page.evaluate("[document.activeElement.id, document.activeElement.textContent]")
    assert title == ["row-title", "Row at offset 999,999,999,999,999,999 of made"]
    assert page.evaluate("document.querySelectorAll('#row s').length") == 0
    go(page, "#/row/a/b/c?offset=0")
    page.wait("document.getElementById('problem').innerText.includes('no such dataset')")
    assert "being determined" not in text(page, "#row")


def test_short_values_stay_on_one_line(browser: Browser, server: DatasetServer) -> None:
    page = opened(browser, server, f"#/dataset/{READINGS}", size=(390, 844))
    cells(page, "#rows")
    heights = "[...document.querySelectorAll('#rows tbody tr')].slice(2).map(r => r.clientHeight)"
    assert page.evaluate(f"Math.max(...{heights})") < 50


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
    places = {
        "": "#list-rows",
        f"#/dataset/{READINGS}": "#rows",
        f"#/dataset/{READINGS}?asOf=2031-01-01T00:00:30Z": "#rows",
        f"#/row/{READINGS}?offset=0": "#row",
        "#/runs": "#run-rows",
    }
    for place, table in places.items():
        page = opened(browser, server, place, size=size, dark=dark)
        cells(page, table)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
        if table != "#rows":  # rows may have any number of columns
            assert page.evaluate(f"Math.max({_WIDER.format(table)})") <= 0, place
        for each in ("Columns", "Blocks, newest first") if table == "#rows" else ():
            room = f"#dataset .scroll[aria-label='{each}']"
            wider = f'(e => e.scrollWidth - e.clientWidth)(document.querySelector("{room}"))'
            assert page.evaluate(wider) <= 0, (place, each)
        assert page.evaluate(CONTRAST) >= 4.5, place
        assert page.evaluate(_UNNAMED) == 0, place
        assert page.complaints() == []


def test_tables_are_within_the_page_on_paper(browser: Browser, server: DatasetServer) -> None:
    places = {f"#/dataset/{READINGS}": "#rows", "#/runs": "#runs", "#/graph": "#graph-room"}
    for place, room in places.items():
        page = opened(browser, server, place, size=(718, 1000))
        page.wait(f"document.querySelectorAll('{room} tbody tr, {room} a.box').length > 0")
        page.send("Emulation.setEmulatedMedia", media="print")
        assert max(page.evaluate(f"[0, {_WIDER.format('main')}]")) == 0
        if room == "#graph-room":
            continue
        forms = "[...document.querySelectorAll('form, select')].filter(e => e.offsetParent).length"
        assert page.evaluate(forms) == 0
        times = "[...document.querySelectorAll('time[title]')].filter(e => e.offsetParent)"
        sizes = page.evaluate(f"{times}.map(e => getComputedStyle(e).fontSize)")
        assert sizes and set(sizes) == {"0px"}


@pytest.mark.parametrize(
    "place",
    ["#/dataset/", "#/dataset/%zz", "#/dataset/a/b", "#/row/a", "#/row/", "#/runs/nothing", "#/?"],
)
def test_any_address_shows_something(browser: Browser, server: DatasetServer, place: str) -> None:
    page = opened(browser, server, place)
    page.wait(
        "document.querySelectorAll('#list-rows tbody tr').length + "
        "document.getElementById('problem').innerText.length > 0"
    )
    assert page.evaluate("!!document.querySelector('.view:not([hidden]) h1')")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("place", "table"),
    [
        ("", "#list-rows"),
        (f"#/dataset/{READINGS}", "#rows"),
        (f"#/dataset/{READINGS}?asOf=2031-01-01T00:00:30Z", "#rows"),
        (f"#/dataset/{READINGS}?rows=changes&since=FIRST", "#rows"),
        (f"#/row/{HIGH}?offset=1", "#row"),
        ("#/runs", "#run-rows"),
        ("#/graph", "#graph-room"),
    ],
)
def test_a_view_breaks_no_rule_of_axe(
    browser: Browser, server: DatasetServer, place: str, table: str, dark: bool
) -> None:
    page = opened(browser, server, place.replace("FIRST", first_block(server)), dark=dark)
    page.wait(f"document.querySelectorAll('{table} tbody tr, {table} a.box').length > 0")
    assert violations(page) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_of_queries_breaks_no_rule_of_axe(
    browser: Browser, server: DatasetServer, dark: bool
) -> None:
    page = opened(browser, server, "#/query?sql=select%20k%20from%20%22team.high%22", dark=dark)
    page.evaluate("document.getElementById('question').requestSubmit()")
    cells(page, "#answer")
    assert violations(page) == []
