"""Changes between two blocks over HTTP: those of the rows that `odfbuild.read` gives at each."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import odfbuild
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.workspace import Workspace
from tests.serve.query import test_rows_in_force as shop
from tests.support.effort import examples
from tests.support.process.chromium import Browser, why_no_chromium
from tests.support.servers.datasets import DatasetServer, serving_datasets

project = shop.project
KEYS = {"shop.prices": ["k"], "shop.orders": ["t", "k"], "shop.notes": []}


@pytest.fixture(scope="module")
def server(project: Path) -> Iterator[DatasetServer]:
    with serving_datasets(project, "--anonymous-read") as found:
        yield found


def blocks(project: Path, name: str) -> list[str]:
    dataset = Workspace(project / "workspace").open(DatasetAlias.parse(name))
    assert dataset is not None
    return [str(hash) for hash, _ in dataset.blocks()]


def current(project: Path, name: str, block: str) -> Counter[tuple[Any, ...]]:
    table = odfbuild.read(name, project=project, as_at=block, current=True)
    names = [each for each in ("t", "k", "v") if each in table.column_names]
    stamped = (
        tuple(str(each[n])[:10] if n == "t" else each[n] for n in names) for each in rows(table)
    )
    return Counter(stamped)


def rows(table: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def test_changes_lead_from_the_rows_of_one_block_to_those_of_another(
    project: Path, server: DatasetServer
) -> None:
    chance, kinds = random.Random(5), Counter[str]()
    with httpx.Client(base_url=server.url, timeout=60) as client:
        for _ in range(examples(20, 300)):
            name = chance.choice(shop.NAMES)
            first, last = chance.choices(blocks(project, name)[4:], k=2)
            asked: dict[str, str | int] = {"since": first, "block": last, "limit": 1000}
            response = client.get(f"/{name}/changes", params=asked)
            assert response.status_code == 200, response.text
            found = response.json()
            assert found["columns"] == ["t", "k", "v"]
            assert found["key"] == KEYS[name]
            gone, came = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
            counts = Counter[str]()
            for each in found["rows"]:
                kind = "added" if each["before"] is None else "changed"
                kind = "removed" if each["after"] is None else kind
                counts[kind] += each["times"]
                for side, row in ((gone, each["before"]), (came, each["after"])):
                    if row is not None:
                        side[(row[0][:10], *row[1:])] += each["times"]
            before, after = (current(project, name, block) for block in (first, last))
            assert (before - after, after - before) == (gone - came, came - gone)
            assert {kind: found[kind] for kind in ("added", "removed", "changed")} == {
                kind: counts[kind] for kind in ("added", "removed", "changed")
            }
            kinds += counts
            part = client.get(f"/{name}/changes", params={**asked, "limit": 2}).json()
            assert part["rows"] == found["rows"][:2]
            assert part["added"] == found["added"]
    assert all(kinds[each] for each in ("added", "removed", "changed")), kinds


@pytest.mark.parametrize(
    ("asked", "status"),
    [({}, 400), ({"since": "f16"}, 400), ({"since": "f1620" + "0" * 64}, 404)],
)
def test_blocks_are_of_the_chain(server: DatasetServer, asked: dict[str, str], status: int) -> None:
    found = httpx.get(f"{server.url}shop.prices/changes", params=asked, timeout=60)
    assert found.status_code == status, found.text
    assert found.json()["message"]


def test_what_takes_too_much_is_refused_with_a_remedy(project: Path) -> None:
    first, *_, last = blocks(project, "shop.prices")[4:]
    asked = {"since": first, "block": last}
    with serving_datasets(project, "--anonymous-read", limits={"output": 100}) as server:
        found = httpx.get(f"{server.url}shop.prices/changes", params=asked, timeout=60)
    assert found.status_code == 400
    said = found.json()["message"]
    assert said.startswith("The answer has more than 100 bytes: compare blocks with fewer rows")


@pytest.mark.skipif(why_no_chromium() is not None, reason=str(why_no_chromium()))
def test_a_page_shows_them(browser: Browser, project: Path, server: DatasetServer) -> None:
    first, *_, last = blocks(project, "shop.prices")[5:]
    place = f"#/dataset/shop.prices?since={first}&block={last}"
    page = browser.open(f"{server.url}{place}")
    page.wait("document.querySelector('#rows')?.innerText.includes('Rows that came after')")
    page.evaluate(
        "[...document.querySelectorAll('#rows a')]"
        ".find(a => a.innerText.startsWith('Compare')).click()"
    )
    page.wait("document.querySelectorAll('#rows tbody tr').length > 0")
    asked = {"since": first, "block": last}
    found = httpx.get(f"{server.url}shop.prices/changes", params=asked, timeout=60).json()
    shown = page.evaluate(
        "[...document.querySelectorAll('#rows tbody tr')].map(r => [r.className, "
        "[...r.querySelectorAll('del')].map(e => e.innerText), "
        "[...r.querySelectorAll('ins')].map(e => e.innerText)])"
    )
    wanted = []
    for each in found["rows"]:
        before, after = each["before"], each["after"]
        kind = "added" if before is None else "removed" if after is None else "changed"
        pairs = zip(before or [], after or [], strict=False)
        other = [(str(x), str(y)) for x, y in pairs if x != y]
        wanted.append([kind, [x for x, _ in other], [y for _, y in other]])
    assert shown == wanted
    assert any(each[1] for each in shown)
    assert f"{found['changed']} changed (by k)" in page.evaluate("document.body.innerText")
    assert page.complaints() == []
