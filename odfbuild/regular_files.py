"""Open files to read them: a FIFO would wait for a writer for ever, and a device may never end."""

import errno
import os
import stat
from io import BufferedReader

__all__ = ["open_descriptor", "open_regular", "read_regular"]


def open_descriptor(path: str | os.PathLike[str]) -> int:
    """Return a descriptor to read a regular file; links are followed.

    Raises OSError, also of what is not a regular file.
    """
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(opened).st_mode
    if stat.S_ISREG(mode):
        return opened
    os.close(opened)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "is not a regular file", str(path))


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Return a regular file, open to read its bytes.  Raises as `open_descriptor`."""
    return os.fdopen(open_descriptor(path), "rb")


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a regular file.  Raises as `open_descriptor`."""
    with open_regular(path) as file:
        return file.read()
