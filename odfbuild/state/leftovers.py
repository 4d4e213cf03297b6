"""What work that was cut off left in a workspace, outside of the chains.

staging/<random>/             of a process that is gone: nobody holds its lock
datasets/<id>/                without a name, and without a head or any data: a creation that
                              never ended, and its key
.pending-<random>             a file that never came to its place
cache/<kind>/<id>, cache/spark/<pid>-<random>    of datasets and processes that are gone
"""

import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from odfbuild.odf.identity import DatasetId
from odfbuild.regular_files import read_regular
from odfbuild.state.file_memory import FOLDER
from odfbuild.state.lock import LockedError, locked, open_locked
from odfbuild.state.workspace_links import check_dataset_links, check_links

__all__ = ["Kind", "Leftover", "find_leftovers", "remove_leftover", "tree_bytes"]

_DATASET = re.compile(r"fed01[0-9a-f]{64}")
_PENDING = re.compile(r"\.pending-[0-9a-f]{16}")
_PROCESS = re.compile(r"([0-9]{1,9})-[0-9a-f]{8}")
_PARTS = ("refs", "blocks", "data", "checkpoints")
_BY_DATASET = (
    "empty-steps",
    "fetch",
    "files",
    "merge",
    "drift",
    "push",
    "locks",
)  # folders of the cache


class Kind(Enum):
    """What a leftover is of."""

    STAGING = "staging"
    CREATION = "creation"
    UNFINISHED = "unfinished"
    CACHE = "cache"


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file or folder that nobody needs, and its bytes."""

    kind: Kind
    path: Path
    bytes: int


def find_leftovers(
    root: Path, named: Collection[DatasetId], *, before: float
) -> tuple[Leftover, ...]:
    """Return what was left in a workspace, and not touched since `before` (in seconds).

    Staging folders count whatever their age: who works in one holds its lock.  Raises
    WorkspaceLinkError.
    """
    known = {each.multibase for each in named}
    check_links(root)
    for path in _entries(root / "datasets"):
        check_dataset_links(path)
    return (
        *_staging(root / "staging"),
        *_creations(root, known, before),
        *_unfinished(root, before),
        *_caches(root, known, before),
    )


def remove_leftover(root: Path, found: Leftover, *, before: float) -> bool:
    """Delete a leftover; say whether it was still one."""
    match found.kind:
        case Kind.STAGING:
            with suppress(FileNotFoundError), locked(root / "staging", timeout=10):
                return _remove_locked(found.path)
            return False
        case Kind.CREATION:
            return _remove_creation(root, found.path, before)
        case Kind.UNFINISHED:
            return _remove_unfinished(found.path, before)
        case Kind.CACHE if found.path.is_dir():
            shutil.rmtree(found.path, ignore_errors=True)
        case Kind.CACHE:
            found.path.unlink(missing_ok=True)
    return True


def _remove_unfinished(path: Path, before: float) -> bool:
    """Delete a file that nobody writes: who writes one has locked its folder, or its dataset."""
    folder = path.parent.parent if path.parent.name in _PARTS else path.parent
    with suppress(FileNotFoundError, NotADirectoryError):
        opened = open_locked(folder)
        if opened is None:
            return False
        try:
            if _changed(path.lstat()) < before:
                path.unlink()
                return True
        finally:
            os.close(opened)
    return False


def tree_bytes(path: Path) -> int:
    """Return the bytes of all files below a folder; links count as themselves."""
    return sum(status.st_size for status in _statuses(path))


def _staging(folder: Path) -> Iterator[Leftover]:
    for path in _entries(folder):
        with suppress(FileNotFoundError, NotADirectoryError):
            opened = open_locked(path)
            if opened is not None:
                os.close(opened)
                yield Leftover(Kind.STAGING, path, tree_bytes(path))


def _creations(root: Path, known: Collection[str], before: float) -> Iterator[Leftover]:
    for path in _entries(root / "datasets"):
        is_dataset = _DATASET.fullmatch(path.name) is not None and path.is_dir()
        if is_dataset and path.name not in known and _is_creation(root, path, before):
            yield Leftover(Kind.CREATION, path, tree_bytes(path))


def _is_creation(root: Path, path: Path, before: float) -> bool:
    """Say whether nobody knows a folder of a dataset, so that its creation never ended.

    One with a head that has data, or was applied, has lost its name: that is another matter.
    """
    if _newest(path) >= before or _names_it(root / "names", path.name):
        return False
    return not _has_head(path) or not (
        _has_data(path) or _names_it(root / "cache" / "applied", path.name)
    )


def _has_data(path: Path) -> bool:
    return any(_entries(path / "data")) or any(_entries(path / "checkpoints"))


def _names_it(folder: Path, id: str) -> bool:
    """Say whether a file of a folder has an id in it, or cannot be read or made out."""
    for path in _entries(folder):
        if not path.name.startswith("."):
            try:
                text = read_regular(path)
            except OSError:
                return True
            if id.encode() in text or (folder.name == "names" and b"did:odf:fed01" not in text):
                return True
    return False


def _remove_creation(root: Path, path: Path, before: float) -> bool:
    """Delete a creation that is still none's, and its key; what it has is looked at locked.

    Names are locked, too, so that none is given to it meanwhile.
    """
    names = root / "names"
    names.mkdir(exist_ok=True)
    with suppress(FileNotFoundError, NotADirectoryError, LockedError), locked(names, timeout=0):
        opened = open_locked(path)
        if opened is None:
            return False
        try:
            if not _is_creation(root, path, before):
                return False
            has_data = _has_data(path)
            shutil.rmtree(path, ignore_errors=True)
            if not has_data:
                (root / "keys" / f"{path.name}.pem").unlink(missing_ok=True)
            return True
        finally:
            os.close(opened)
    return False


def _unfinished(root: Path, before: float) -> Iterator[Leftover]:
    caches = [root / "cache", *(root / "cache" / each for each in ("answers", "applied"))]
    folders = [root / "names", root / "keys", root / FOLDER, *caches, *_entries(root / "runs")]
    folders += [
        path / part
        for path in _entries(root / "datasets")
        if _DATASET.fullmatch(path.name) is not None
        for part in _PARTS
    ]
    for folder in folders:
        for path in _entries(folder):
            if _PENDING.fullmatch(path.name) is not None:
                with suppress(FileNotFoundError):
                    status = path.lstat()
                    if _changed(status) < before:
                        yield Leftover(Kind.UNFINISHED, path, status.st_size)


def _caches(root: Path, known: Collection[str], before: float) -> Iterator[Leftover]:
    for name in _BY_DATASET:
        for path in _entries(root / "cache" / name):
            gone = path.name not in known and not _has_head(root / "datasets" / path.name)
            if gone and _DATASET.fullmatch(path.name) is not None and _newest(path) < before:
                yield Leftover(Kind.CACHE, path, tree_bytes(path))
    for path in _entries(root / FOLDER):
        gone = path.name not in known and not _has_head(root / "datasets" / path.name)
        if gone and _DATASET.fullmatch(path.name) is not None and _newest(path) < before:
            yield Leftover(Kind.CACHE, path, tree_bytes(path))
    for path in _entries(root / "cache" / "spark"):
        process = _PROCESS.fullmatch(path.name)
        if process is not None and not _runs(int(process[1])) and _newest(path) < before:
            yield Leftover(Kind.CACHE, path, tree_bytes(path))


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _has_head(dataset: Path) -> bool:
    return os.path.lexists(dataset / "refs" / "head")


def _remove_locked(folder: Path) -> bool:
    """Delete a folder that nobody holds."""
    with suppress(FileNotFoundError, NotADirectoryError):
        opened = open_locked(folder)
        if opened is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(opened)
            return True
    return False


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _newest(path: Path) -> float:
    return max(map(_changed, _statuses(path)), default=0.0)


def _changed(status: os.stat_result) -> float:
    return max(status.st_mtime, status.st_ctime)


def _statuses(path: Path) -> Iterator[os.stat_result]:
    """Yield the status of a path and of all below it; what vanishes meanwhile is left out."""
    with suppress(FileNotFoundError):
        yield path.lstat()
    for folder, _, names in os.walk(path):
        for each in names:
            with suppress(FileNotFoundError):
                yield Path(folder, each).lstat()
