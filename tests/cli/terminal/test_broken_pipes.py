"""Pipes that break: that of who reads the answer ends a command in silence, any other does not."""

import os
import threading
from pathlib import Path

import pytest

from odfbuild.cli import main as module
from tests.support.process.within import Within


@pytest.fixture
def run(
    market: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    return Within(market, capsys, monkeypatch)


def test_a_pipe_that_breaks_inside_is_an_error(
    run: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_arguments: list[str]) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(module, "_run", broken)
    done = run("lineage", "out")
    assert done.code != 0
    assert "Broken pipe" in done.err


def test_a_file_that_is_a_pipe_may_be_closed_by_its_reader(run: Within, tmp_path: Path) -> None:
    pipe = tmp_path / "rows"
    os.mkfifo(pipe)

    def look() -> None:
        with pipe.open("rb", buffering=0) as opened:
            opened.read(1)

    reader = threading.Thread(target=look)
    reader.start()
    done = run("show", "src", "--log", "-o", "csv", "--to", str(pipe))
    reader.join()
    assert (done.code, done.err) == (0, "")
