"""The live page of a workspace in a store, in a real browser."""

import shutil
from pathlib import Path

import pytest

from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.remote.workspace import BucketWorkspace
from tests.serve.conftest import AT_ONCE
from tests.serve.live.projects import HIGH, HOSTILE, READINGS, build, files_of_a_day
from tests.serve.live.test_in_chromium import cells, go, opened, text
from tests.support.process.chromium import Browser, why_no_chromium
from tests.support.servers.datasets import serving_datasets
from tests.support.servers.object_store import ObjectServer

pytestmark = pytest.mark.skipif(why_no_chromium() is not None, reason=str(why_no_chromium()))


def test_all_views_follow_a_store_that_others_write_to(
    browser: Browser, store: ObjectServer, tmp_path: Path
) -> None:
    url = store.url("live-in-chromium").rstrip("/")
    here, server_side = tmp_path / "project", tmp_path / "server"
    files_of_a_day(here, 1)
    assert build(here, workspace=url) == 0
    with serving_datasets(server_side, store=url, limits=AT_ONCE) as server:
        page = opened(browser, server)
        assert [row[0] for row in cells(page, "#list-rows")] == [HIGH, READINGS]
        go(page, "#/graph")
        page.wait("document.querySelectorAll('#graph-room a.box').length === 2")

        # rows, and where one comes from
        go(page, f"#/dataset/{READINGS}")
        rows = cells(page, "#rows")
        assert (len(rows), rows[0][4]) == (50, "k10")
        go(page, f"#/dataset/{HIGH}")
        assert len(cells(page, "#rows")) == 50
        go(page, f"#/row/{HIGH}?offset=1")
        page.wait("document.querySelectorAll('#row table').length === 2")
        assert READINGS in text(page, "#row")

        # another process writes, renames and takes back
        files_of_a_day(here, 2)
        assert build(here, READINGS, workspace=url) == 0
        go(page, "")
        page.wait("document.querySelector('#list-rows').innerText.includes('60 rows behind')")
        other = BucketWorkspace(url + "/")
        moved = DatasetAlias.parse("team.moved")
        other.rename(DatasetAlias.parse(HIGH), moved)
        page.wait("document.querySelector('#list-rows').innerText.includes('team.moved')")
        go(page, f"#/dataset/{HIGH}")
        page.wait("document.getElementById('problem').innerText.length > 0")
        go(page, "#/query?sql=select%20count(*)%20as%20n%20from%20%22team.moved%22")
        page.evaluate("document.getElementById('question').requestSubmit()")
        assert cells(page, "#answer") == [["55"]]

        # the hostile text of a row is inert, and nothing else was asked for
        assert HOSTILE not in page.evaluate("document.documentElement.outerHTML")
        assert page.evaluate("document.title").startswith("Query")
        origin = server.url.split("/", 3)[:3]
        assert all(each.split("/", 3)[:3] == origin for each in page.requests())
    shutil.rmtree(here)
