"""A browser for all tests of a process, and pages that are open in it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.page.opened import MIDDLE, SMALL, Opened
from tests.support.process.chromium import Browser, browsing


@pytest.fixture(scope="session")
def _running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("chromium")
    with browsing(folder) as found:
        yield found
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def browser(_running: Browser) -> Iterator[Browser]:
    yield _running
    _running.close_pages()


@pytest.fixture
def small(browser: Browser, tmp_path: Path) -> Opened:
    return Opened(browser, tmp_path / "small.html", SMALL)


@pytest.fixture
def middle(browser: Browser, tmp_path: Path) -> Opened:
    return Opened(browser, tmp_path / "middle.html", MIDDLE)
