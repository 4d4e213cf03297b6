"""Pages that are open in a browser."""

from pathlib import Path

import pytest

from tests.cli.page.opened import MIDDLE, SMALL, Opened
from tests.support.process.chromium import Browser


@pytest.fixture
def small(browser: Browser, tmp_path: Path) -> Opened:
    return Opened(browser, tmp_path / "small.html", SMALL)


@pytest.fixture
def middle(browser: Browser, tmp_path: Path) -> Opened:
    return Opened(browser, tmp_path / "middle.html", MIDDLE)
