"""Closed, full and broken standard streams: no traceback, and what is to be done is done."""

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from odfbuild.cli.main import main
from odfbuild.executors.engine.spark import engine as spark
from tests.support.engines import FakeEngine
from tests.support.process.inside import heads, lay_out

COMMANDS = [
    ["plan"], ["status"], ["show", "src"], ["verify"], ["doctor"], ["--help"], ["nonsense"],
    ["log", "src"], ["apply", "--yes"],
]  # fmt: skip
OTHERS = [
    ["plan", "-o", "json"], ["list"], ["list", "--workspace"], ["check"], ["gc", "--dry-run"],
    ["explain", "out"], ["drift"], ["graph"], ["runs"], ["lineage", "list"], ["help"],
    ["--version"], ["fmt", "--check"], ["diff", "src"], ["inspect", "schema", "src"],
    ["key", "list"], ["reset", "src", "seed", "--dry-run"], ["run"],
]  # fmt: skip
NEWS = {"data/2.csv": "t,k,v\n2024-01-03,c,3\n"}


def closed_out() -> None:
    os.close(1)


def closed_error() -> None:
    os.close(2)


def all_closed() -> None:
    os.closerange(0, 3)


def full() -> None:
    opened = os.open("/dev/full", os.O_WRONLY)
    os.dup2(opened, 1)
    os.dup2(opened, 2)


def full_out() -> None:
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)


def broken() -> None:
    """Write into pipes that nobody reads."""
    for number in (1, 2):
        gone, ours = os.pipe()
        os.close(gone)
        os.dup2(ours, number)


WAYS = [closed_out, closed_error, all_closed, full, full_out, broken]


def ended(project: Path, words: list[str], way: Callable[[], None] | None, told: Path) -> int:
    """Run a command in a process whose streams are such; return its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code: object = 99
    try:
        os.dup2(os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if way is not None:
            way()
        sys.stdin, sys.stdout, sys.stderr = _stream(0, "r"), _stream(1, "w"), _stream(2, "w")
        os.chdir(project)
        sys.argv = ["odfbuild", *words]
        main()
    except SystemExit as end:
        code = end.code
    finally:
        os._exit(code if isinstance(code, int) else 98)


def _stream(number: int, mode: str) -> io.TextIOWrapper:
    """Return a stream as Python makes it: none where the descriptor is closed."""
    try:
        os.fstat(number)
    except OSError:
        return None  # type: ignore[return-value]
    raw = io.FileIO(number, mode, closefd=False)
    buffer = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    return io.TextIOWrapper(buffer, "utf-8")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: FakeEngine())


@pytest.mark.parametrize(
    ("words", "ways"),
    [
        *((words, (all_closed, full)) for words in COMMANDS),
        *(pytest.param(words, WAYS, marks=pytest.mark.slow) for words in (*COMMANDS, *OTHERS)),
    ],
    ids=lambda each: " ".join(getattr(one, "__name__", str(one)) for one in each),
)
def test_no_command_needs_its_streams(
    words: list[str], ways: list[Callable[[], None]], project: Path, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    usual = ended(project, words, None, told)
    assert usual in (0, 1, 3, 64), told.read_text()
    for way in ways:
        code = ended(project, words, way, told)
        lost = way in (full, full_out) and usual == 0
        assert code in ({0, 1} if lost else {usual, 0} if way is broken else {usual}), way
        assert "Traceback" not in told.read_text()
        assert "error[internal]" not in told.read_text()
        if lost and code == 1 and way is full_out:
            assert "No space left on device" in told.read_text()


@pytest.mark.parametrize("way", [closed_error, full, broken])
def test_a_run_goes_on_when_nobody_listens(
    way: Callable[[], None], project: Path, tmp_path: Path
) -> None:
    lay_out(project, NEWS)
    before = heads(project)
    code = ended(project, ["apply", "--yes"], way, tmp_path / "told")
    assert code == (1 if way in (full, full_out) else 0)
    assert set(before.values()).isdisjoint(heads(project).values())


@pytest.mark.parametrize("way", [broken])
def test_a_run_that_fails_says_so_when_nobody_listens(
    way: Callable[[], None], project: Path, tmp_path: Path
) -> None:
    lay_out(project, {"data/2.csv": "t,k,v\nnonsense,c,3\n"})
    assert ended(project, ["apply", "--yes"], way, tmp_path / "told") == 1
