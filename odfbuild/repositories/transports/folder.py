"""Repositories in folders of this machine: a disk, a share, a stick (`file:///srv/odf`).

    <folder>/<name>/{refs,blocks,data,checkpoints,attestations}/
    <folder>/<account>/<name>/...

Links below the folder are not followed.  Who moves a head locks the dataset's folder, as commits to
a workspace do, and takes away what a push that was cut off had begun to write an hour ago or more.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import time_ns
from urllib.parse import unquote, urlsplit

from odfbuild.host.files import open_descriptor, open_regular
from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias, is_name
from odfbuild.project.config.repositories import RepositorySettings
from odfbuild.repositories.transports.simple import SimpleTarget
from odfbuild.state.chain.heads import HEAD, LocalHeads
from odfbuild.state.files.disk import Disk, pending
from odfbuild.state.files.links import check_dataset_links
from odfbuild.state.gc import Leftover, find_unfinished, parts_of, remove_unfinished
from odfbuild.state.remote.client import CountBytes
from odfbuild.state.remote.errors import BrokenSourceError, UnreachableRepositoryError, missing_file

_CHUNK = 1 << 20
_PARALLEL = 4
_DEAD_AFTER = 3_600  # seconds in which nobody wrote to a file


class FolderFiles:
    """The files of a dataset in a folder."""

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        self._folder = folder
        self._disk = disk or Disk()
        check_dataset_links(folder)

    @property
    def place(self) -> str:
        return f"{self._folder}/"

    def get(self, path: str, most: int) -> bytes | None:
        opened = self._open(path)
        if opened is None:
            return None
        with os.fdopen(opened, "rb") as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise _unsafe(self._folder / path, f"it has more than {most:,} bytes")
        return data

    @contextmanager
    def open(self, path: str, start: int) -> Iterator[Iterator[bytes]]:
        opened = self._open(path)
        if opened is None:
            raise missing_file(self.place, path)
        with os.fdopen(opened, "rb") as file:
            file.seek(start)
            yield iter(lambda: file.read(_CHUNK), b"")

    def size(self, path: str) -> int | None:
        opened = self._open(path)
        if opened is None:
            return None
        try:
            return os.fstat(opened).st_size
        finally:
            os.close(opened)

    def create(self, path: str, source: bytes | Path, moved: CountBytes) -> None:
        place = self._folder / path
        self._disk.make_folder(place.parent)
        draft = pending(place.parent)
        try:
            if isinstance(source, bytes):
                self._disk.write(draft, source)
            else:
                _copy(source, draft, moved)
                self._disk.sync(draft)
            self._disk.rename(draft, place)
        finally:
            draft.unlink(missing_ok=True)
        self._disk.sync(place.parent)

    def replace(self, path: str, data: bytes) -> None:
        self.create(path, data, lambda _: None)

    def swap_head(self, expected: Multihash | None, new: Multihash) -> None:
        LocalHeads(self._folder, self._disk).swap(HEAD, expected=expected, new=new)
        before = _long_ago()
        for each in find_unfinished(parts_of(self._folder), before=before):
            with suppress(OSError):
                remove_unfinished(each.path, before=before)

    def _open(self, path: str) -> int | None:
        try:
            return open_descriptor(self._folder / path, follow=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            reason = error.strerror or str(error)
            raise _unsafe(self._folder / path, reason) from error


class FolderRepository:
    """Datasets in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def place(self) -> str:
        return f"{self._folder}/"

    def dataset(self, alias: DatasetAlias) -> SimpleTarget:
        """Return a dataset by its name, be it there or not."""
        return SimpleTarget(FolderFiles(self._folder / str(alias)), parallel=_PARALLEL)

    def names(self) -> Iterator[DatasetAlias]:
        """Yield the names of the datasets in it, in order."""
        for name in self._folders(self._folder):
            if (self._folder / name / "refs" / HEAD).is_file():
                yield DatasetAlias(None, name)
                continue
            for inner in self._folders(self._folder / name):
                if (self._folder / name / inner / "refs" / HEAD).is_file():
                    yield DatasetAlias(name, inner)

    def get(self, path: str, most: int) -> bytes | None:
        """Return a file of the repository itself, None if there is none."""
        return FolderFiles(self._folder).get(path, most)

    def put(self, path: str, data: bytes) -> None:
        """Have a file of the repository itself."""
        FolderFiles(self._folder).replace(path, data)

    def unfinished(self) -> Iterator[Leftover]:
        """Yield what pushes that were cut off left in datasets, be they whole or not."""
        for name in self._folders(self._folder):
            account = self._folder / name
            for path in (account, *(account / inner for inner in self._folders(account))):
                yield from find_unfinished(parts_of(path), before=_long_ago())

    def _folders(self, folder: Path) -> list[str]:
        try:
            with os.scandir(folder) as entries:
                found = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
        except OSError as error:
            raise UnreachableRepositoryError(
                what=f"the folder {folder} cannot be read: {error.strerror or error}",
                why="it is, or is in, the folder of a repository",
                fix="mount it, or correct the URL of the repository: odfbuild repo list",
            ) from error
        return sorted(filter(is_name, found))


def open_repository(settings: RepositorySettings) -> FolderRepository:
    """Return the repository that a URL of the scheme `file` names."""
    return FolderRepository(_path_of(settings.url))


def open_dataset(url: str, settings: RepositorySettings) -> SimpleTarget:  # noqa: ARG001
    """Return the dataset that a URL of the scheme `file` names."""
    return dataset_at(_path_of(url))


def _path_of(url: str) -> Path:
    return Path(unquote(urlsplit(url).path))


def dataset_at(folder: Path) -> SimpleTarget:
    """Return the dataset in a folder, be it there or not."""
    return SimpleTarget(FolderFiles(folder), parallel=_PARALLEL)


def _long_ago() -> float:
    return time_ns() / 1e9 - _DEAD_AFTER


def _copy(source: Path, target: Path, moved: CountBytes) -> None:
    with open_regular(source) as given, target.open("xb") as copy:
        while piece := given.read(_CHUNK):
            copy.write(piece)
            moved(len(piece))


def _unsafe(path: Path, why: str) -> BrokenSourceError:
    return BrokenSourceError(
        what=f"{path} is not copied: {why}",
        why="a dataset consists of regular files of the sizes that its chain records",
        fix="copy the dataset again from its origin",
    )
