"""Homes of workspaces: where datasets and names are, in a folder or in what takes its place."""

import errno
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

from odfbuild.errors import OdfBuildError, StateError
from odfbuild.host.files import NO_FILE
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.state.chain.attestations import LocalAttestations
from odfbuild.state.chain.checked_files import CheckedFiles
from odfbuild.state.chain.head_table import FolderLook, HeadLook
from odfbuild.state.chain.heads import HEAD, CorruptHeadError, LocalHeads, parse_head
from odfbuild.state.chain.objects import LocalObjects
from odfbuild.state.chain.stores import Stores
from odfbuild.state.files.disk import Disk, pending, place_new, read_file
from odfbuild.state.files.folder import make_workspace_folder
from odfbuild.state.files.links import check_dataset_links
from odfbuild.state.files.lock import Holder, LockedError, held_by, open_locked

PARTS = ("refs", "blocks", "data", "checkpoints")
FOLDER = re.compile(r"fed01[0-9a-f]{64}")

FolderLock: TypeAlias = Callable[[Path], AbstractContextManager[None]]
"""Keeps others from changing a folder for a while."""


class UnreadableChainError(StateError):
    """The operating system cannot read a file of a dataset."""

    code = "unreadable-chain"


class NameStore(Protocol):
    """What the files of `names/` hold, by their names."""

    def items(self) -> Iterator[tuple[str, Callable[[], bytes | None]]]:
        """Return the names of all files, in order, and what reads each of them, as `read` does."""

    def read(self, name: str) -> bytes | None:
        """Return what a file holds, None if there is none.  Raises OSError."""

    def create(self, name: str, data: bytes) -> None:
        """Have a file, once it is whole; raises FileExistsError if there is one."""

    def replace(self, name: str, data: bytes) -> None:
        """Have a file in the place of the one that there is, at once."""

    def remove(self, name: str) -> None:
        """Take a file away, if there is one."""

    def mark(self) -> str:
        """Return what becomes another text when any file comes, changes or goes."""

    def changing(self) -> AbstractContextManager[None]:
        """Keep others from changing names for a while."""

    def place(self, name: str) -> Path:
        """Return what a file is called in messages."""


T = TypeVar("T")
R = TypeVar("R")


class Home(Protocol):
    """The datasets of a workspace, and their names."""

    names: NameStore
    look: HeadLook

    def heads(
        self, ids: Collection[DatasetId] | None = None
    ) -> Iterator[tuple[DatasetId, Multihash | OdfBuildError]]:
        """Yield the head of every dataset, or of some, that has one, or what is wrong with it."""

    def each(self, items: Collection[T], work: Callable[[T], R]) -> Iterable[R]:
        """Return what a work that reads chains makes of each item, in their order.

        Several are worked on at a time where reading is waiting.
        """

    def stores(self, id: DatasetId) -> Stores:
        """Return where the parts of a dataset are, be they there or not; makes nothing."""

    def make_room(self, id: DatasetId) -> None:
        """Have a place for a dataset, ready for its first block."""

    def take_in(self, id: DatasetId, folder: Path) -> None:
        """Make a folder that is whole a dataset, at once.

        What an interrupted creation left in its place goes.  Raises StateError if there is a
        dataset, LockedError if one is being made.
        """

    def drop(self, id: DatasetId, head: Multihash) -> None:
        """Take away a dataset that was just made up to a head, and that nobody knows."""

    def locks(self) -> Mapping[DatasetId, Holder]:
        """Return who is changing which dataset just now, as far as they said."""

    def listed(self) -> Iterator[tuple[DatasetId, Stores]]:
        """Yield the datasets whose objects `gc` looks at, in order, with what they have at once.

        That is all that have a head, and in a store all that have any object.
        """

    def place(self, id: DatasetId) -> str:
        """Return where a dataset is, for messages."""


class FolderNames:
    """Names as files of a folder, which is made with the first of them."""

    def __init__(self, root: Path, disk: Disk, keeping: FolderLock) -> None:
        self._root = root
        self._folder = root / "names"
        self._disk = disk
        self._keeping = keeping

    def items(self) -> Iterator[tuple[str, Callable[[], bytes | None]]]:
        return ((name, partial(self.read, name)) for name in file_names(self._folder))

    def read(self, name: str) -> bytes | None:
        return read_file(f"{self._folder}{os.sep}{name}")

    def create(self, name: str, data: bytes) -> None:
        place_new(self._disk, self._folder / name, data)

    def replace(self, name: str, data: bytes) -> None:
        draft = pending(self._folder)
        self._disk.write(draft, data)
        self._disk.rename(draft, self._folder / name)
        self._disk.sync(self._folder)

    def remove(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)
        self._disk.sync(self._folder)

    def mark(self) -> str:
        with suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            found = ((each.name, each.stat()) for each in entries)
            return "\0".join(sorted(f"{name} {at.st_ino} {at.st_mtime_ns}" for name, at in found))
        return ""

    def changing(self) -> AbstractContextManager[None]:
        make_workspace_folder(self._root, self._folder, disk=self._disk)
        return self._keeping(self._folder)

    def place(self, name: str) -> Path:
        return self._folder / name


class FolderHome:
    """Datasets as folders of `datasets/`; without `remembers`, checked files are forgotten."""

    def __init__(
        self, root: Path, disk: Disk, *, lock_timeout: float, keeping: FolderLock, remembers: bool
    ) -> None:
        self.names: NameStore = FolderNames(root, disk, keeping)
        self.look: HeadLook = FolderLook(str(root / "datasets"))
        self._root = root
        self._disk = disk
        self._lock_timeout = lock_timeout
        self._remembers = remembers
        self._datasets = root / "datasets"
        self._notes = root / "cache" / "locks"
        self._checked: dict[DatasetId, CheckedFiles] = {}

    def heads(
        self, ids: Collection[DatasetId] | None = None
    ) -> Iterator[tuple[DatasetId, Multihash | OdfBuildError]]:
        folder = f"{self._datasets}{os.sep}"
        end = f"{os.sep}refs{os.sep}{HEAD}"
        names = file_names(self._datasets) if ids is None else [id.multibase for id in ids]
        for name in names:
            if FOLDER.fullmatch(name) is None:
                continue
            path = f"{folder}{name}{end}"
            id = DatasetId(bytes.fromhex(name[5:]))
            try:
                text = read_file(path)
                if text is not None:
                    yield id, parse_head(text, path)
            except (CorruptHeadError, OSError) as error:
                yield id, unreadable(path, error)

    def each(self, items: Collection[T], work: Callable[[T], R]) -> Iterable[R]:
        return map(work, items)

    def stores(self, id: DatasetId) -> Stores:
        folder = self._datasets / id.multibase
        note = self._notes / id.multibase
        heads = LocalHeads(folder, self._disk, timeout=self._lock_timeout, note=note)
        blocks, data, checkpoints = (LocalObjects(folder / part, self._disk) for part in PARTS[1:])
        return Stores(
            heads=heads,
            blocks=blocks,
            data=data,
            checkpoints=checkpoints,
            checked=self._checked_files(id),
            attestations=LocalAttestations(folder / "attestations", self._disk),
        )

    def _checked_files(self, id: DatasetId) -> CheckedFiles:
        known = self._checked.get(id)
        if known is not None:
            return known
        check_dataset_links(self._datasets / id.multibase)
        memory = self._root / "cache" / "checked" / id.multibase if self._remembers else None
        return self._checked.setdefault(id, CheckedFiles(memory))

    def make_room(self, id: DatasetId) -> None:
        folder = self._datasets / id.multibase
        make_workspace_folder(self._root, self._datasets, disk=self._disk)
        check_dataset_links(folder)
        for part in PARTS:
            (folder / part).mkdir(parents=True, exist_ok=True)
        for each in (folder, self._datasets):
            self._disk.sync(each)

    def take_in(self, id: DatasetId, folder: Path) -> None:
        """Make a folder, which lies on the disk of the workspace, that of a dataset."""
        place = self._datasets / id.multibase
        make_workspace_folder(self._root, self._datasets, disk=self._disk)
        self._drop_headless(place)
        try:
            self._disk.rename(folder, place)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            raise brought_meanwhile(id) from error
        for each in (place, self._datasets):
            self._disk.sync(each)

    def _drop_headless(self, place: Path) -> None:
        if not place.is_dir() or (place / "refs" / HEAD).exists():
            return
        check_dataset_links(place)
        opened = open_locked(place)
        if opened is None:
            raise LockedError(place, None)
        shutil.rmtree(place)
        os.close(opened)

    def drop(self, id: DatasetId, head: Multihash) -> None:  # noqa: ARG002 - all of it goes
        with self.stores(id).heads.lock():
            shutil.rmtree(self._datasets / id.multibase)

    def locks(self) -> Mapping[DatasetId, Holder]:
        notes = self._notes
        names = [name for name in file_names(notes) if FOLDER.fullmatch(name)]
        found = ((name, held_by(self._datasets / name, notes / name)) for name in names)
        return {DatasetId(bytes.fromhex(name[5:])): by for name, by in found if by is not None}

    def listed(self) -> Iterator[tuple[DatasetId, Stores]]:
        return ((id, self.stores(id)) for id, _ in self.heads())

    def place(self, id: DatasetId) -> str:
        return str(self._datasets / id.multibase)


def brought_meanwhile(id: DatasetId) -> StateError:
    """Return the refusal of a dataset that is to be taken in and is there."""
    return StateError(
        what=f"the dataset {id} exists already",
        why="another process added it meanwhile",
        fix="check it: odfbuild status",
    )


def unreadable(place: str, error: OdfBuildError | OSError) -> OdfBuildError:
    """Return what is wrong with a file of a dataset that cannot be read."""
    if isinstance(error, OdfBuildError):
        return error
    return UnreadableChainError(
        what=f"{error.filename or place} cannot be read: {error.strerror or error}",
        why="the operating system reports an error",
        fix="check its access rights, or restore it from a copy",
    )


def file_names(folder: Path) -> list[str]:
    """Return the names in a folder in order, without those that start with a dot."""
    try:
        return sorted(each for each in os.listdir(folder) if not each.startswith("."))  # noqa: PTH208
    except FileNotFoundError:
        return []
    except OSError as error:
        if error.errno not in NO_FILE:
            raise
        raise unreadable(str(folder), error) from error
