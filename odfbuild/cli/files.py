"""Files that commands read and write by name: bounded when read, never overwritten."""

import os
import sys
from pathlib import Path

from odfbuild.errors import ProjectError
from odfbuild.state.disk import Disk

__all__ = ["AlreadyThereError", "TooLargeError", "read_bounded", "refuse_taken", "write_new"]


class AlreadyThereError(ProjectError):
    """A file that would be written is there already."""

    code = "already-there"


class TooLargeError(ProjectError):
    """A file is larger than what it is taken for can be."""

    code = "too-large"


def read_bounded(file: Path, most: int) -> bytes:
    """Return the bytes of a file, of standard input if it is named `-`; `most` is their limit."""
    if str(file) == "-":
        data = sys.stdin.buffer.read(most + 1)
    else:
        with file.open("rb") as opened:
            data = opened.read(most + 1)
    if len(data) > most:
        raise TooLargeError(
            what=f"{file} is larger than {most:,} bytes",
            why="nothing that is read here needs so many",
            fix="check that the right file is named",
        )
    return data


def write_new(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a file that must not be there yet, whole or not at all."""
    try:
        Disk().write(path, data, mode)
    except FileExistsError:
        refuse_taken(path)
    except OSError:
        _drop(path)
        raise


def refuse_taken(path: Path) -> None:
    """Refuse to write where a file is."""
    if os.path.lexists(path):
        raise AlreadyThereError(
            what=f"{path} is there already",
            why="no file is overwritten",
            fix="name another file, or move this one away",
        )


def _drop(path: Path) -> None:
    """Delete the beginning of a file that could not be written whole."""
    if path.is_file():
        path.unlink()
