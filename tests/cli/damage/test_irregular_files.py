"""What is in the place of a file of a workspace and is none: each command names the damage.

Places are drawn from those that a workspace has, and so is what is put there: links, loops of
them, folders, FIFOs, sockets, devices, and files that the system refuses to open.
"""

import errno
import itertools
import os
import random
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from odfbuild.executors.engine.spark import engine as spark
from tests.support.engines import FakeEngine
from tests.support.process.within import Within

COMMANDS = (
    ("status",),
    ("status", "src"),
    ("show", "src"),
    ("show", "out"),
    ("log", "src"),
    ("log", "out"),
    ("inspect", "schema", "src"),
    ("inspect", "query", "out"),
    ("verify",),
    ("verify", "src"),
    ("plan",),
    ("run",),
    ("apply", "--yes"),
    ("list", "--workspace"),
    ("lineage", "src"),
    ("lineage", "list"),
    ("explain", "src"),
    ("explain", "out"),
    ("diff", "src", "--data"),
    ("reset", "src", "--sequence", "2", "--dry-run"),
    ("compact", "src", "--dry-run"),
    ("rebuild", "out", "--dry-run"),
    ("rebuild", "--restore"),
    ("watermark", "src"),
    ("ref", "list", "src"),
    ("gc", "--dry-run"),
    ("gc", "--older-than", "0"),
    ("runs",),
    ("runs", "last"),
    ("undo", "last", "--dry-run"),
    ("doctor",),
)
"""What is done in a damaged workspace; the codes that may come of it are those of `CODES`."""
CODES = frozenset({0, 1, 3, 4, 5, 6, 7})


def places(project: Path) -> dict[str, Path]:
    """Return a file, or a folder, of each kind that a workspace has."""
    state = project / ".odfbuild"
    ids = {
        path.name: path.read_text("ascii").split("\n")[0].removeprefix("did:odf:")
        for path in (state / "names").iterdir()
    }
    src, out = (state / "datasets" / ids[name] for name in ("src", "out"))
    run = min((state / "runs").iterdir())
    blocks = sorted((src / "blocks").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    return {
        "name": state / "names/src",
        "head": src / "refs/head",
        "head of a reader": out / "refs/head",
        "first block": blocks[0],
        "last block": next(path for path in blocks if path.name == _head(src)),
        "slice": min((src / "data").iterdir()),
        "slice of a reader": min((out / "data").iterdir()),
        "summary": run / "summary.json",
        "plan": run / "plan.json",
        "events": run / "events.ndjson",
        "index": state / "index.sqlite",
        "lineage": state / "lineage.sqlite",
        **{f"cache: {path.name}"[:24]: path for path in (state / "cache").iterdir()},
    }


def _head(dataset: Path) -> str:
    return (dataset / "refs/head").read_text("ascii")


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _link(path: Path) -> None:
    aside = path.with_name(f".{path.name[:40]}.aside")
    path.rename(aside)
    path.symlink_to(aside.name)


def _socket(path: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)  # the path of a socket may have 108 bytes
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("s")
        Path("s").rename(path)
    finally:
        os.chdir(before)


def _refuse(path: Path) -> None:
    """Have nobody read a file: root may, so the door itself refuses it."""
    _REFUSED.append(str(path))


_REFUSED: list[str] = []
THINGS: dict[str, Callable[[Path], None]] = {
    "loop": _loop,
    "link": _link,
    "folder": Path.mkdir,
    "FIFO": os.mkfifo,
    "socket": _socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "closed": _refuse,
}


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> None:
    _REFUSED.clear()
    opened = os.open

    def refused(path: object, flags: int, *more: int, **options: object) -> int:
        if str(path) in _REFUSED:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, flags, *more, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refused)


def put(thing: str, path: Path) -> None:
    """Put something into the place of a file."""
    if thing not in ("link", "closed"):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    THINGS[thing](path)


_ALL = tuple(itertools.product(THINGS, COMMANDS))


@pytest.mark.holds("bytes-object-links")
@pytest.mark.parametrize(
    "most", [4, pytest.param(len(_ALL), marks=[pytest.mark.slow, pytest.mark.timeout(7200)])]
)
def test_what_is_no_file_is_named_damage(
    most: int,
    project: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: FakeEngine())
    draw = random.Random(0)
    wrong = []
    for place in places(project):
        for thing, command in draw.sample(_ALL, most):
            copy = shutil.copytree(project, tmp_path / "copy", symlinks=True)
            put(thing, places(copy)[place])
            done = Within(copy, capsys, monkeypatch)(*command)
            bad = [each for each in ("error[system]", "error[internal]", "Traceback")
                   if each in done.err]  # fmt: skip
            if bad or done.code not in CODES:
                wrong.append((place, thing, command, done.code, done.err))
            shutil.rmtree(copy)
            _REFUSED.clear()
    assert not wrong, "\n".join(map(str, wrong))
