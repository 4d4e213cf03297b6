"""Places of jobs: a folder, or a prefix of an object store."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol

from odfbuild.executors.engine.objects.bucket import BucketPlace, copied, other_file, refused_job
from odfbuild.executors.engine.objects.files import MOST_BYTES, SHARED, BadJobError, JobFile
from odfbuild.host.files import open_descriptor, open_regular, why_irregular
from odfbuild.odf.hashing import physical_hash
from odfbuild.project.config.repositories import has_store_scheme, is_store
from odfbuild.state.files.disk import Disk, pending, place_new

FULL: Final = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk without space."""
GONE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)
"""Errors of a folder or file that does not exist any more."""
_MODE: Final = 0o666
_PIECE: Final = 1 << 20  # bytes of a file that are copied at a time


class Place(Protocol):
    """Where the request of a job is, with the files that it names."""

    def shown(self, name: str) -> str:
        """Return where an object of a name is, for a person, or for who is to run the job."""

    def get(self, name: str) -> bytes | None:
        """Return a document, None if there is none.

        Raises BadJobError, or BrokenSourceError of a store, if it is too large or is none.
        """

    def create(self, name: str, data: bytes) -> bool:
        """Have a document, whole, unless there is another; tell whether it is this one."""

    def replace(self, name: str, data: bytes) -> None:
        """Have a document, whole, in place of one that may be there."""

    def given(self, file: JobFile, folder: Path) -> Path:
        """Return the path of a file that a request names, in `folder` if copied.

        Raises BadJobError if there is none, or one of another size or hash.
        """

    def made(self, file: JobFile, folder: Path) -> Path:
        """Copy a file that an answer names into a folder, under its name in messages.

        Its bytes are those that were hashed, whatever becomes of the original.  Raises BadJobError
        if there is none, or one of another size or hash, FileExistsError if the name is taken.
        """

    def has(self, file: JobFile) -> bool:
        """Tell whether a written file is stored."""

    def store(self, path: Path, file: JobFile) -> None:
        """Store a written file under its hash; `path` may be gone afterwards."""

    def working_folder(self) -> "TemporaryDirectory[str]":
        """Return a new folder for what a step writes."""


class FolderPlace:
    """A job in a folder, which may be one that several machines mount."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._disk = Disk()

    def shown(self, name: str) -> str:
        return str(self._folder / name)

    def get(self, name: str) -> bytes | None:
        path = self._folder / name
        wrong = why_irregular(path)
        if wrong is not None:
            raise _unreadable(self.shown(name), f"it {wrong}")
        try:
            with open_regular(path) as file:
                if os.fstat(file.fileno()).st_size > MOST_BYTES:
                    raise _too_large(self.shown(name))
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unreadable(self.shown(name), error.strerror or str(error)) from None

    def create(self, name: str, data: bytes) -> bool:
        try:
            place_new(self._disk, self._folder / name, data)
        except FileExistsError:
            return self.get(name) == data
        except OSError as error:
            raise unwritable(self.shown(name), error) from None
        return True

    def replace(self, name: str, data: bytes) -> None:
        draft = pending(self._folder)
        try:
            try:
                self._disk.write(draft, data, _MODE)
                self._disk.rename(draft, self._folder / name)
            finally:
                with suppress(FileNotFoundError):
                    self._disk.remove(draft)
            self._disk.sync(self._folder)
        except OSError as error:
            raise unwritable(self.shown(name), error) from None

    def given(self, file: JobFile, folder: Path) -> Path:  # noqa: ARG002 - no copy
        if file.shared:
            return self._checked(file, self._folder.parent / SHARED / file.stored)
        return self._checked(file, self._folder / file.path)

    def made(self, file: JobFile, folder: Path) -> Path:
        path = self._folder / file.stored
        try:
            source = os.fdopen(open_descriptor(path, follow=False), "rb")
        except OSError as error:
            raise _unreadable(str(path), error.strerror or str(error)) from None
        with source:
            pieces = iter(lambda: source.read(_PIECE), b"")
            return copied(pieces, file, folder / file.path, str(path))

    def _checked(self, file: JobFile, path: Path) -> Path:
        try:
            wrong = why_irregular(path)
            size = path.lstat().st_size
            same = wrong is None and size == file.size and physical_hash(path) == file.hash
        except OSError as error:
            raise _unreadable(str(path), error.strerror or str(error)) from None
        if not same:
            raise other_file(str(path), wrong or "its size or hash is another")
        return path

    def has(self, file: JobFile) -> bool:
        with suppress(OSError):
            path = self._folder / file.stored
            return path.lstat().st_size == file.size and physical_hash(path) == file.hash
        return False

    def store(self, path: Path, file: JobFile) -> None:
        try:
            self._disk.sync(path)
            self._disk.rename(path, self._folder / file.stored)
            self._disk.sync(self._folder)
        except OSError as error:
            raise unwritable(self.shown(file.stored), error) from None

    def working_folder(self) -> "TemporaryDirectory[str]":
        try:
            return TemporaryDirectory(prefix=".step-", dir=self._folder, ignore_cleanup_errors=True)
        except OSError as error:
            raise unwritable(str(self._folder), error) from None


def place_of(given: str) -> tuple[Place, str]:
    """Return the place of a request, a path or the URL of an object, and its name there."""
    if has_store_scheme(given):
        prefix, _, name = given.rpartition("/")
        if not is_store(prefix) or not name:
            raise refused_job(
                f"{given} is not the address of an object", "it needs a bucket and a key"
            )
        return BucketPlace(f"{prefix}/"), name
    path = Path(given).absolute()
    return FolderPlace(path.parent), path.name


def _too_large(shown: str) -> BadJobError:
    return refused_job(
        f"{shown} has more than {MOST_BYTES >> 20} MiB", "rows are in separate files"
    )


def _unreadable(shown: str, why: str) -> BadJobError:
    return refused_job(f"{shown} cannot be read: {why}", "the files of a job are in one place")


def unwritable(shown: str, error: OSError) -> BadJobError:
    """Return the error for a file or folder of a job that could not be written."""
    what = f"{shown} cannot be written: {error.strerror or error}"
    if error.errno in GONE:
        return BadJobError(
            what=what,
            why="another program removed the folder of the job, or files in it, in the meantime",
            fix="the coordinator has to write the job again, and nothing else may change it",
        )
    return BadJobError(
        what=what,
        why="the answer of a job, and the files of its step, are stored next to the request",
        fix="free some space of that disk, then run the job again"
        if error.errno in FULL
        else "let this user write there, then run the job again",
    )
