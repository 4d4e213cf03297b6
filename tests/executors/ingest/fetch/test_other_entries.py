"""Every entry that a pattern matches is a file that is read, or is named with what it is."""

import glob
import os
import random
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from odfbuild.executors.ingest.fetch.local import Listings, news, other_entries
from odfbuild.odf.events import FetchStepFilesGlob

_NAMES = ("a", "b", "a.csv", "b.csv", "1.csv", "old", "x1.csv", ".hidden.csv")
_PARTS = ("*", "*.csv", "a*", "?.csv", "[ab].csv", "**", "a", "a.csv", "data", "*x*")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(path.parent)  # its address has at most some 100 bytes
        made.bind(path.name)


MAKERS: dict[str | None, Callable[[Path], object]] = {
    None: lambda path: path.write_text("1"),
    "a folder": Path.mkdir,
    "a named pipe": os.mkfifo,
    "a socket": _socket,
    "a link that leads nowhere": lambda path: path.symlink_to("nothing"),
}


def _kind(path: Path) -> str | None:
    """Say what an entry is, from the entry that it leads to."""
    if path.is_symlink() and not path.exists():
        return "a link that leads nowhere"
    tests = {"a folder": path.is_dir, "a named pipe": path.is_fifo, "a socket": path.is_socket}
    return next((kind for kind, test in tests.items() if test()), None)


def _grow(draw: random.Random, folder: Path, depth: int = 0) -> None:
    for name in draw.sample(_NAMES, draw.randrange(1, len(_NAMES))):
        kind = draw.choice([*MAKERS, *([None, "a folder"] * 3)])
        MAKERS[kind](folder / name)
        if kind == "a folder" and depth < 2:
            _grow(draw, folder / name, depth + 1)
    links = [path for path in folder.iterdir() if not path.is_symlink()]
    if links and draw.random() < 0.5:
        (folder / "x9.csv").symlink_to(draw.choice(links).name)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("seed", range(60))
def test_what_matches_is_read_or_named(seed: int, here: Path) -> None:
    draw = random.Random(seed)
    root = here / "project"
    root.mkdir()
    _grow(draw, root)
    for _ in range(20):
        parts = [draw.choice(_PARTS) for _ in range(draw.randrange(1, 4))]
        pattern = "/".join(parts)
        found_by_glob = glob.glob(pattern, root_dir=root, recursive=True)  # noqa: PTH207
        paths = (f"{root}{os.sep}{each}" for each in found_by_glob if each)
        there = {path.rstrip("/") for path in paths if os.path.lexists(path)}  # not so of all
        expected = {path: _kind(Path(path)) for path in there}
        wide = not parts[-1].strip("*") or not glob.has_magic(parts[-1])
        listings = Listings()
        found = dict(other_entries(pattern, str(root), listings))
        assert found == {
            path: kind
            for path, kind in expected.items()
            if kind is not None and not (wide and kind == "a folder")
        }, pattern
        files = {path for path, kind in expected.items() if kind is None}
        names = [Path(path).name for path in files]
        if len(names) == len(set(names)):
            assert {*(news(FetchStepFilesGlob(path=pattern), None, root) or ())} == files, pattern
    shutil.rmtree(root)
