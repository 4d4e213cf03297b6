"""Opening of files to read: regular ones only, as a FIFO or a device may block forever."""

import errno
import os
import stat
from contextlib import suppress
from io import BufferedReader, FileIO

MOST = 64 * 1024 * 1024
"""The largest size of any file of a project, in bytes; most kinds have smaller limits."""

NO_FILE = frozenset(
    {errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EINVAL, errno.ENXIO, errno.ENODEV}
    | {errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.EIO}
)
"""Errors of a path without a readable file; others are errors of this process."""


def open_descriptor(path: str | os.PathLike[str], *, follow: bool = True) -> int:
    """Return a descriptor to read a regular file; links are followed, or with `follow` off refused.

    Raises OSError, also for what is not a regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        opened = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow and os.path.islink(path):  # noqa: PTH114
            raise OSError(errno.ELOOP, "is a link", str(path)) from None
        raise
    mode = os.fstat(opened).st_mode
    if stat.S_ISREG(mode):
        return opened
    os.close(opened)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "is not a regular file", str(path))


class _OpenFile(FileIO):
    """A file that is only read, so that errors of closing it do not matter."""

    def close(self) -> None:
        with suppress(OSError):
            super().close()


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Return a regular file, open to read its bytes.  Raises as `open_descriptor`."""
    return BufferedReader(_OpenFile(open_descriptor(path)))


def read_regular(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """Return the bytes of a regular file.  Raises as `open_descriptor`, also for more than `most`.

    A sparse file may have any size without using disk space.
    """
    with open_regular(path) as file:
        if most is not None and os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"has more than {most:,} bytes", str(path))
        return file.read() if most is None else file.read(most)


def why_irregular(path: str | os.PathLike[str]) -> str | None:
    """Return why a path has no regular file, links not followed; None if it has one, or nothing."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror or str(error)
    if stat.S_ISLNK(mode):
        return "is a link"
    return None if stat.S_ISREG(mode) else "is not a regular file"
