"""Before a head moves, and when a command ends, all that is relied on is on disk under its name.

A strict disk keeps the bytes of a file that were synced, and a name in a folder whose folder was
synced after it: what the calls of whole commands leave to chance is found from a record of them.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from odfbuild.state.files import disk
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.market import FILES
from tests.support.projects.texts import derivative

PASSING = {"cache", "staging", "runs", "index.sqlite", "lineage.sqlite"}


class Record:
    """What is not on disk yet: names that were made in folders, and files that were written."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.names: set[Path] = set()
        self.bytes: set[Path] = set()
        self.opened: dict[int, Path] = {}
        self.moves = 0

    def made(self, path: Path) -> None:
        if path.is_relative_to(self.root):
            self.names.add(path)

    def moved(self, old: Path, new: Path) -> None:
        if old in self.bytes and not PASSING & set(new.parts):
            raise AssertionError(f"{old} was put in its place before its bytes were on disk")
        for each in {each for each in self.names if each.is_relative_to(old)}:
            self.names.discard(each)
            if each != old:
                self.names.add(new / each.relative_to(old))
        self.made(new)
        if new.parts[-2:] == ("refs", "head"):
            self.moves += 1
            self.check(but=new)

    def synced(self, path: Path) -> None:
        self.bytes.discard(path)
        self.names = {each for each in self.names if each.parent != path}

    def check(self, but: Path | None = None) -> None:
        """Fail if something that lasts could be lost; files on their way to a place may be."""
        lost = [
            str(each.relative_to(self.root))
            for each in sorted(self.names | self.bytes)
            if each != but and each.exists() and not PASSING & set(each.parts)
            if not each.name.startswith(".pending-")
        ]
        assert not lost, f"not on disk: {lost}"


@contextmanager
def recorded(record: Record, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Record the calls of this process that make names and put them on disk."""

    def after(name: str, note: Callable[..., None]) -> None:
        do = getattr(os, name)

        def call(*given: Any, **named: Any) -> Any:
            result = do(*given, **named)
            note(result, *given, **named)
            return result

        within.setattr(os, name, call)

    def opened(number: int, path: Any, flags: int, *_: Any, **__: Any) -> None:
        record.opened[number] = Path(os.fsdecode(path))
        if flags & os.O_CREAT:
            record.made(record.opened[number])
            record.bytes.add(record.opened[number])

    def renamed(_: None, old: Any, new: Any, **__: Any) -> None:
        record.moved(Path(os.fsdecode(old)), Path(os.fsdecode(new)))

    with patch.context() as within:
        after("open", opened)
        after("fsync", lambda _, number: record.synced(record.opened[number]))
        after("mkdir", lambda _, path, *__, **___: record.made(Path(os.fsdecode(path))))
        after("link", lambda _, __, new, **___: record.made(Path(os.fsdecode(new))))
        after("replace", renamed)
        after("rename", renamed)
        yield


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    disk._LASTING.clear()
    return Inside(lay_out(tmp_path / "project", FILES), capsys, monkeypatch, FakeEngine())


def test_what_commands_rely_on_is_on_disk(run: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    record = Record(run.project / ".odfbuild")
    news = {"data/2.csv": "t,k,v\n2024-01-03,c,3\n", "datasets/new.yaml": derivative("new")}
    steps = [
        (("apply", "--yes", "-j1"), {}),
        (("apply", "--yes", "-j1"), news),
        (("compact", "src", "--yes"), {}),
        (("rebuild", "out", "--yes"), {}),
        (("rebuild", "report", "--yes"), {}),
        (("mv", "new", "newer"), {}),
        (("apply", "--yes", "-j1"), {}),
    ]
    for command, files in steps:
        lay_out(run.project, files)
        with recorded(record, monkeypatch):
            done = run(*command)
        assert done.code == 0, (command, done.err)
        record.check()
    assert record.moves >= 9


def test_the_record_sees_what_is_left_out(run: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    record = Record(run.project / ".odfbuild")
    monkeypatch.setattr(disk.Disk, "sync", lambda *_: None)
    with recorded(record, monkeypatch), pytest.raises(AssertionError, match=r"not on disk"):
        run("apply", "--yes", "-j1")
        record.check()
