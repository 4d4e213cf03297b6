"""A project in a folder of its own for each bad input."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.bad.case import Bad
from tests.bad.meeting import Meeting
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside
from tests.support.projects import Done


@pytest.fixture
def meet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Bad], Done]]:
    """Return what lets a new project meet a bad input."""
    run = Inside(tmp_path, capsys, monkeypatch, FakeEngine())
    with ExitStack() as stack:
        yield Meeting(run=run, root=tmp_path, patch=monkeypatch, stack=stack).meet
