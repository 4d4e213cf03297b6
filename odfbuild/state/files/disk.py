"""Durable writes: the seven steps of which every lasting change of a workspace is made.

They are gathered behind one small class so that tests can cut a change off after any of them.
"""

import errno
import os
import secrets
import shutil
import sys
from contextlib import nullcontext, suppress
from pathlib import Path

from odfbuild.host.files import open_descriptor

_CHUNK = 1 << 16
_LASTING: set[Path] = set()  # what this process had its own name put on disk of


class Disk:
    """The file system of this machine."""

    def write(self, path: Path, data: bytes, mode: int = 0o666) -> None:
        """Make a new file with these bytes, on disk on return; FileExistsError if there is one."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(path, flags, mode), "wb", buffering=0) as file:  # noqa: PTH123
            left = memoryview(data)
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())

    def append(self, path: Path, data: bytes) -> None:
        """Add bytes to the end of a file at once, on disk on return; it is made if there is none.

        OSError for a link and for a pipe.
        """
        is_new = path not in _LASTING or not path.exists()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        opened = os.open(path, flags | os.O_CREAT if is_new else flags, 0o666)
        with open(opened, "ab", buffering=0) as file:  # noqa: PTH123
            if file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())
        if is_new:
            self.sync(path.parent)
            _LASTING.add(path)

    def sync(self, path: Path) -> None:
        """Have the content of a file, or the names in a folder, on disk on return."""
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)

    def make_folder(self, path: Path, mode: int = 0o777) -> None:
        """Have a folder, its name on disk on return, and those above it that were missing.

        One that was there may have been made a moment ago, so its name is put on disk once, too.
        """
        is_new = not path.is_dir()
        if is_new:
            if not path.parent.is_dir():
                self.make_folder(path.parent)
            path.mkdir(mode=mode, exist_ok=True)
        if is_new or path not in _LASTING:
            with nullcontext() if is_new else suppress(PermissionError):  # it is another's folder
                self.sync(path.parent)
            _LASTING.add(path)

    def rename(self, old: Path, new: Path) -> None:
        """Put a file in its place at once, replacing what was there."""
        os.replace(old, new)  # noqa: PTH105

    def link(self, old: Path, new: Path) -> None:
        """Put a file in its place at once; FileExistsError if the place is taken."""
        os.link(old, new)

    def remove(self, path: Path) -> None:
        """Take a file away."""
        path.unlink()


def pending(folder: Path) -> Path:
    """Return an unused name in a folder for a file that is not in its place yet."""
    return folder / f".pending-{secrets.token_hex(8)}"


def place_new(disk: Disk, path: Path, data: bytes, mode: int = 0o666) -> None:
    """Put a file with these bytes in its place at once, on disk on return with its name.

    Raises FileExistsError if the place is taken.
    """
    draft = pending(path.parent)
    try:
        disk.write(draft, data, mode)
        disk.link(draft, path)
    finally:
        with suppress(FileNotFoundError):
            disk.remove(draft)
    disk.sync(path.parent)


def start_writing_out(descriptor: int, start: int, length: int) -> None:
    """Have the system begin to bring a part of a file to disk, so that a later sync waits less.

    Nothing is waited for and nothing is promised.  Where a system has no call for it, the sync has
    all of it to do.
    """
    if sys.platform == "linux":  # dirty pages are queued there, and only clean ones dropped
        os.posix_fadvise(descriptor, start, length, os.POSIX_FADV_DONTNEED)


def read_file(path: str | Path) -> bytes | None:
    """Return the bytes of a regular file, or None if there is none; OSError if it is none.

    Links are none: a workspace may have come with somebody's repository.
    """
    try:
        opened = open_descriptor(path, follow=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        data = os.read(opened, _CHUNK)
        if len(data) < _CHUNK:
            return data
        parts = [data]
        while more := os.read(opened, 1 << 20):
            parts.append(more)
        return b"".join(parts)
    finally:
        os.close(opened)


def write_file(path: str | Path, data: bytes) -> None:
    """Have a file with these bytes, whatever was in it; a later sync has it on disk."""
    with open(path, "wb", buffering=0) as file:  # noqa: PTH123 - a path costs more than the file
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]


def move(disk: Disk, source: Path, target: Path) -> None:
    """Have a file on disk and then in its place, copying it when it lies on another disk."""
    disk.sync(source)
    try:
        disk.rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        draft = pending(target.parent)
        shutil.copyfile(source, draft)
        disk.sync(draft)
        disk.rename(draft, target)
        source.unlink()
