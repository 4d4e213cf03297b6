"""The page about a suspicious number: its commands are run, and its pictures are what is seen.

`pytest --update-golden` takes the pictures again; look at them before they are committed.
"""

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.pages.test_readme import Shown, commands, pattern
from tests.support.process.chromium import Browser, Page, why_no_chromium
from tests.support.projects import EXAMPLES, REPOSITORY, environment, shell

PAGE = (REPOSITORY / "docs" / "suspicious-number.md").read_text("utf-8")
PICTURES = REPOSITORY / "docs" / "pictures"
SIZE = (1100, 700)
SERVE = "odfbuild serve"
TOLERATED = 0.03
"""The share of the cells of a picture that may differ: fonts are not equal on all machines."""

_STEADY = """
(() => {
  for (const each of document.querySelectorAll('time')) each.textContent = 'just now';
  for (const each of document.querySelectorAll('.hash, .facts code')) {
    if (/^(did:odf:|f1620|[0-9a-f]{8}$)/.test(each.textContent)) each.textContent = 'f1620...';
  }
  for (const each of document.querySelectorAll('#run dd, #run td[data-label="Took"]')) {
    each.textContent = each.textContent.replace(/^[\\d.,]+ s$/, '1 s').replace(/^20\\S+Z$/, '2031');
  }
  document.querySelectorAll('#run svg.track rect').forEach((each, at, all) => {
    each.setAttribute('x', 1000 * at / all.length);
    each.setAttribute('width', 1000 / all.length);
  });
  for (const each of document.querySelectorAll('#run .axis span:last-child')) {
    each.textContent = '8 s';
  }
  const title = document.querySelector('#run-title');
  if (title) title.textContent = 'Run 1';
  for (const each of document.querySelectorAll('#run dd')) {
    if (each.textContent.includes(' at ')) each.textContent = 'ana at home';
  }
  document.getElementById('fresh')?.replaceChildren();
})()
"""
"""Replaces what differs from one time to the next: ages, ids, hashes and durations."""

_UNLIKE = """
(async pair => {
  const cells = async text => {
    const picture = await createImageBitmap(
      await (await fetch('data:image/png;base64,' + text)).blob());
    const seen = new OffscreenCanvas(64, 40).getContext('2d');
    seen.imageSmoothingQuality = 'high';
    seen.drawImage(picture, 0, 0, 64, 40);
    return [picture.width, picture.height, seen.getImageData(0, 0, 64, 40).data];
  };
  const [one, two] = await Promise.all(pair.map(cells));
  if (one[0] !== two[0] || one[1] !== two[1]) return 1;
  let unlike = 0;
  for (let at = 0; at < one[2].length; at += 4) {
    unlike += [0, 1, 2].some(each => Math.abs(one[2][at + each] - two[2][at + each]) > 24);
  }
  return unlike / (64 * 40);
})
"""


def unlike(browser: Browser, one: Path, two: Path) -> float:
    """Return the share of the cells in which two pictures differ."""
    page = browser.open("about:blank")
    texts = [base64.b64encode(each.read_bytes()).decode() for each in (one, two)]
    return float(page.evaluate(f"({_UNLIKE})({json.dumps(texts)})"))


@pytest.fixture
def followed(tmp_path: Path) -> Mapping[str, str]:
    """Make the repository of the page; return the variables with which git finds it."""
    repository = tmp_path / "origin"
    ignored = shutil.ignore_patterns(".odfbuild", "*.html")
    shutil.copytree(EXAMPLES / "bakery", repository, ignore=ignored)
    author = "git -c user.name=a -c user.email=a@example.org"
    done = shell(f"git init -q && git add . && {author} commit -q -m 'A bakery'", repository)
    assert done.code == 0, done.err
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{repository}.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://git.example.org/bakery",
    }


@contextmanager
def served(project: Path, step: Shown) -> Iterator[str]:
    """Run the command that serves, at another port; yield the address that it prints."""
    program = ["/bin/sh", "-c", f"exec {step.command} --port 0"]
    with subprocess.Popen(
        program, cwd=project, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        wanted = step.output[0].replace(":8080", ":...")
        assert pattern((wanted,)).fullmatch(line), line
        try:
            yield line.split(" at ")[1].split()[0]
        finally:
            process.terminate()


def test_the_page_is_followed(
    browser: Browser, followed: Mapping[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if (why := why_no_chromium()) is not None:
        pytest.skip(why)
    seen = tmp_path / "seen"
    seen.mkdir()
    folder = tmp_path
    for step in commands(PAGE):
        if step.command.startswith("cd "):
            folder = folder / step.command.removeprefix("cd ")
        elif step.command.startswith(SERVE):
            with served(folder, step) as address:
                look_at_rows(browser, address, seen)
        else:
            done = shell(step.command, folder, **followed)
            assert done.code == 0, (step.command, done.err)
            if step.output:
                said = done.out + done.err
                assert pattern(step.output).fullmatch(said), (step.command, said)
    look_at_catalogue(browser, folder / "catalogue.html", seen)
    named = set(re.findall(r"\]\(pictures/(.+?)\)", PAGE))
    assert named == {each.name for each in seen.iterdir()}
    if request.config.getoption("--update-golden"):
        PICTURES.mkdir(exist_ok=True)
        for each in seen.iterdir():
            shutil.copy(each, PICTURES / each.name)
    found = {each.name: unlike(browser, each, PICTURES / each.name) for each in seen.iterdir()}
    assert {name: share for name, share in found.items() if share > TOLERATED} == {}
    others = unlike(browser, PICTURES / "row.png", PICTURES / "source.png")
    assert others > TOLERATED  # so pages that are unlike are found to be so


def taken(page: Page, path: Path) -> None:
    assert page.complaints() == []
    page.evaluate(_STEADY)
    page.evaluate("document.activeElement?.blur()")
    page.screenshot(path)


def look_at_catalogue(browser: Browser, path: Path, seen: Path) -> None:
    page = browser.open(path.as_uri(), size=SIZE)
    page.wait("document.documentElement.dataset.view === 'run'")
    taken(page, seen / "run.png")
    page.evaluate("void (location.hash = '#/')")
    page.wait("document.querySelectorAll('#datasets tbody a').length === 4")
    page.wait("document.documentElement.dataset.view === 'list'")
    taken(page, seen / "datasets.png")
    page.evaluate("void (location.hash = '#/graph')")
    page.wait("document.querySelectorAll('.box').length === 4")
    page.evaluate("document.getElementById('with-columns').click()")
    column = "[...document.querySelectorAll('.box')][3].querySelectorAll('button.column')"
    page.wait(f"{column}.length === 5")
    page.evaluate(f"[...{column}].at(-1).click()")
    page.wait("document.querySelectorAll('.box button.up').length >= 2")
    taken(page, seen / "graph.png")
    page.evaluate("void (location.hash = '#/')")
    page.wait("document.documentElement.dataset.view === 'list'")
    page.evaluate("document.querySelector('#datasets tbody tr:last-child a').click()")
    page.wait("document.querySelector('#dataset h1')?.textContent === 'bakery.takings'")
    taken(page, seen / "takings.png")
    assert page.requests() == [path.as_uri()]


def look_at_rows(browser: Browser, address: str, seen: Path) -> None:
    """Go from the list to the number, and from row to row to its source, as the page says."""
    page = browser.open(address, size=SIZE)
    link = "[...document.querySelectorAll('%s a')].find(e => e.innerText === '%s')"

    def go(place: str, text: str, title: str) -> None:
        page.wait(f"!!({link % (place, text)})")
        page.evaluate(f"{link % (place, text)}.click()")
        page.wait(f"document.querySelector('.view:not([hidden]) h1')?.innerText === {title!r}")

    go("#list-rows", "bakery.takings", "bakery.takings")
    page.wait("document.querySelectorAll('#rows tbody tr').length === 8")
    row = page.evaluate(
        "[...document.querySelectorAll('#rows tbody tr')]"
        ".find(e => e.innerText.includes('243330')).cells[0].innerText"
    )
    go("#rows", row, f"Row at offset {row} of bakery.takings")
    page.wait("document.querySelectorAll('#row table').length === 2")
    page.evaluate("document.querySelector('#row h2').scrollIntoView()")
    taken(page, seen / "row.png")
    go("#row", "62", "Row at offset 62 of bakery.sold")
    page.wait("document.querySelectorAll('#row table').length === 3")
    go("#row", "60", "Row at offset 60 of bakery.sales")
    page.wait("document.querySelector('#row').innerText.includes('2031-04-03.csv')")
    taken(page, seen / "source.png")
