"""A workspace as a tree of files, and its way to another place, byte for byte.

Objects come first, then heads, then names, so that whenever it is cut off there is nothing that
leads to what is missing; done again it goes on.  Caches, keys and what is being made stay.
"""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol

from odfbuild.errors import StateError
from odfbuild.host.files import open_regular, read_regular
from odfbuild.odf.identity import InvalidMultihashError, Multihash
from odfbuild.state.chain.heads import HEAD
from odfbuild.state.chain.objects import hash_file
from odfbuild.state.files.disk import Disk, pending
from odfbuild.state.files.folder import make_workspace_folder
from odfbuild.state.files.links import check_links
from odfbuild.state.remote.client import ObjectClient, side_by_side
from odfbuild.values import dataclass

_OBJECTS: Final = ("data", "checkpoints", "blocks")
_PATH: Final = re.compile(
    r"datasets/fed01[0-9a-f]{64}/(refs|blocks|data|checkpoints|attestations)/[^/.][^/]*|"
    r"names/[^/.][^/]*|runs/[^/.][^/]*/(summary\.json|plan\.json|events\.ndjson)|"
    r"disabled/fed01[0-9a-f]{64}"
)
_AT_ONCE: Final = 8
_LARGEST: Final = 1 << 40


class OccupiedPlaceError(StateError):
    """The target of a move holds another workspace."""

    code = "occupied-place"


class MovedMeanwhileError(StateError):
    """A workspace changed while it was copied."""

    code = "moved-meanwhile"


class NotItsNameError(StateError):
    """A file of a workspace has a name that is not the hash of its bytes."""

    code = "not-its-name"


@dataclass(frozen=True, slots=True)
class Relocated:
    """What was brought, and what was there already."""

    datasets: int
    files: int
    bytes: int
    known: int


class Tree(Protocol):
    """The files of a workspace that are to be brought with it, by their paths."""

    place: str

    def sizes(self) -> dict[str, int]:
        """Return the sizes of all files."""

    def read(self, path: str) -> bytes | None:
        """Return a small file, None if it is gone."""

    def fetch(self, path: str, into: Path) -> None:
        """Copy a file of any size into a new one on this machine."""

    def put(self, path: str, source: Path) -> None:
        """Have a file, whole or not at all; the source may be moved."""


class FolderTree:
    """A workspace in a folder."""

    def __init__(self, root: Path) -> None:
        self.place = str(root)
        self._root = root
        self._disk = Disk()
        check_links(root)

    def sizes(self) -> dict[str, int]:
        found = {}
        for top in ("datasets", "names", "runs", "disabled"):
            for folder, _, names in os.walk(self._root / top):
                for name in names:
                    path = Path(folder, name)
                    key = path.relative_to(self._root).as_posix()
                    if _PATH.fullmatch(key) and path.is_file() and not path.is_symlink():
                        found[key] = path.stat().st_size
        return found

    def read(self, path: str) -> bytes | None:
        try:
            return read_regular(self._root / path)
        except FileNotFoundError:
            return None

    def fetch(self, path: str, into: Path) -> None:
        with open_regular(self._root / path) as file, into.open("xb") as copy:
            while piece := file.read(1 << 20):
                copy.write(piece)

    def put(self, path: str, source: Path) -> None:
        target = self._root / path
        make_workspace_folder(self._root, target.parent, disk=self._disk)
        draft = pending(target.parent)
        with open_regular(source) as file, draft.open("xb") as copy:
            while piece := file.read(1 << 20):
                copy.write(piece)
        self._disk.sync(draft)
        self._disk.rename(draft, target)
        self._disk.sync(target.parent)


class StoreTree:
    """A workspace in an object store."""

    def __init__(self, client: ObjectClient) -> None:
        self.place = client.place
        self._client = client

    def sizes(self) -> dict[str, int]:
        found = {}
        for top in ("datasets/", "names/", "runs/", "disabled/"):
            for each in self._client.listed(top):
                if each.size and _PATH.fullmatch(each.key):
                    found[each.key] = each.size
        return found

    def read(self, path: str) -> bytes | None:
        return self._client.get(path, 1 << 20)

    def fetch(self, path: str, into: Path) -> None:
        with self._client.open(path, 0) as pieces, into.open("xb") as copy:
            for piece in pieces:
                copy.write(piece)

    def put(self, path: str, source: Path) -> None:
        if path.split("/")[-2] in _OBJECTS:
            self._client.put_file(path, source)
            return
        data = read_regular(source)
        found = self._client.swap(path, lambda now: now is None, data)
        if found != data:
            raise _occupied(self.place, path)


def relocate(
    source: Tree,
    target: Tree,
    staging: Path,
    moved: Callable[[int], None] = lambda _: None,
    first: Callable[[], None] = lambda: None,
) -> Relocated:
    """Bring a workspace from one place to another, in which there is nothing else.

    `first` is done once it is known that the place is free, before anything is there.
    Raises OccupiedPlaceError, NotItsNameError, and MovedMeanwhileError once what was copied is not
    what the source is by then.
    """
    wanted, there = source.sizes(), target.sizes()
    other = sorted(there.keys() - wanted.keys())
    if other:
        raise _occupied(target.place, other[0])
    first()
    known = 0
    for paths in _in_order(wanted):
        missing = [path for path in paths if there.get(path) != wanted[path]]
        known += len(paths) - len(missing)

        def bring(path: str) -> None:
            _bring(source, target, path, staging)
            moved(wanted[path])

        side_by_side(missing, bring, parallel=_AT_ONCE)
    _compare(source, target, wanted)
    ids = {path.split("/")[1] for path in wanted if path.startswith("datasets/")}
    return Relocated(len(ids), len(wanted), sum(wanted.values()), known)


def _in_order(wanted: dict[str, int]) -> Iterator[list[str]]:
    """Yield paths in the order in which they may come: what others lead to before these."""
    paths = sorted(wanted)
    parts = {path: path.split("/") for path in paths}

    def of(part: str) -> list[str]:
        return [p for p in paths if parts[p][0] == "datasets" and parts[p][2] == part]

    for part in (*_OBJECTS, "attestations"):
        yield of(part)
    yield [p for p in paths if parts[p][0] == "disabled"]
    yield [p for p in of("refs") if parts[p][3] != HEAD]
    yield [p for p in of("refs") if parts[p][3] == HEAD]
    yield [p for p in paths if parts[p][0] == "runs"]
    yield [p for p in paths if parts[p][0] == "names"]


def _bring(source: Tree, target: Tree, path: str, staging: Path) -> None:
    draft = pending(staging)
    try:
        source.fetch(path, draft)
        _check(path, draft, source.place)
        target.put(path, draft)
    finally:
        draft.unlink(missing_ok=True)


def _check(path: str, copy: Path, place: str) -> None:
    """Refuse a file that is not what its name says."""
    parts = path.split("/")
    if len(parts) < 4 or parts[2] not in _OBJECTS:
        return
    try:
        named = Multihash.parse(parts[3])
    except InvalidMultihashError:
        return
    if hash_file(copy, named.code) != named:
        raise NotItsNameError(
            what=f"the name of {place}/{path} is not the hash of its bytes",
            why="it was damaged, or rewritten with other bytes; in a copy the two could not be "
            "distinguished",
            fix="odfbuild verify has details; restore it from a copy, then repeat the command",
        )


def _compare(source: Tree, target: Tree, wanted: dict[str, int]) -> None:
    """Raise MovedMeanwhileError unless the source is as it was, and the target is the same."""
    if source.sizes() != wanted or target.sizes() != wanted:
        raise _moved(source.place)
    small = [p for p in wanted if p.startswith("names/") or p.split("/")[2:3] == ["refs"]]
    for path in small:
        if source.read(path) != target.read(path):
            raise _moved(source.place)


def _moved(place: str) -> MovedMeanwhileError:
    return MovedMeanwhileError(
        what=f"{place} changed while it was copied",
        why="another run committed to it",
        fix="repeat the command while nothing runs, with an empty target",
    )


def _occupied(place: str, path: str) -> OccupiedPlaceError:
    return OccupiedPlaceError(
        what=f"{place} has {path}, which the workspace does not have, or with other bytes",
        why="two workspaces in one location could not be separated",
        fix="name an empty location",
    )
