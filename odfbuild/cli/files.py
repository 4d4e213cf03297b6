"""Files that commands read and write by name: bounded when read, replaced only as a whole."""

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from odfbuild.errors import Diagnostic, ProjectError, ProjectErrors, SourceSpan
from odfbuild.project.checkout_links import refuse_links
from odfbuild.regular_files import read_regular
from odfbuild.state.disk import Disk, pending
from odfbuild.state.heads import DEFAULT_LOCK_TIMEOUT
from odfbuild.state.lock import locked

__all__ = [
    "AlreadyThereError",
    "TooLargeError",
    "definitions_in",
    "editing",
    "read_bounded",
    "read_definition",
    "refusal_of",
    "refuse_taken",
    "replace_file",
    "replace_files",
    "require_folder",
    "write_new",
    "write_output",
]


class AlreadyThereError(ProjectError):
    """A file that would be written is there already."""

    code = "already-there"


class NoFolderError(ProjectError):
    """The folder of a file that would be written is not there."""

    code = "no-folder"


class TooLargeError(ProjectError):
    """A file is larger than what it is taken for can be."""

    code = "too-large"


@contextmanager
def editing(*places: Path, timeout: float = DEFAULT_LOCK_TIMEOUT) -> Iterator[None]:
    """Keep other commands from editing the projects of some files or folders for a while.

    To be had from before the files are read.  Raises LockedError.
    """
    with ExitStack() as stack:
        for root in sorted({root for each in places if (root := _project_of(each)) is not None}):
            stack.enter_context(locked(root, timeout=timeout))
        yield


def _project_of(place: Path) -> Path | None:
    from odfbuild.project.fingerprint import PROJECT_FILE

    around = place.resolve()
    return next((e for e in (around, *around.parents) if (e / PROJECT_FILE).is_file()), None)


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


def definitions_in(path: Path) -> Iterator[Path]:
    """Yield the definitions in a folder, or the file itself."""
    from odfbuild.project.fingerprint import project_files

    if path.is_dir():
        yield from (path / name for name in project_files(path, (".",)))
    else:
        yield path


def read_definition(path: Path, why: str) -> bytes:
    """Return the bytes of a definition; ProjectErrors, with this reason, when it is none."""
    from odfbuild.project.texts import MAX_BYTES

    try:
        data = read_regular(path) if path.stat().st_size <= MAX_BYTES else None
    except OSError as error:
        found = f"the file cannot be read: {error.strerror or error}"
        raise refusal_of(path, found, why, "check its name and its access rights") from None
    if data is None:
        raise refusal_of(path, f"the file has more than {MAX_BYTES} bytes", why, "name a manifest")
    return data


def refusal_of(path: Path, what: str, why: str, fix: str) -> ProjectErrors:
    """Return the finding that a file cannot be read, at the file."""
    span = SourceSpan(file=str(path), line=1)
    return ProjectErrors(
        [Diagnostic(code="unreadable-file", what=what, why=why, fix=fix, span=span)]
    )


def write_new(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a file that must not be there yet, whole or not at all, and have it on disk.

    Raises AlreadyThereError, CheckoutLinkError.
    """
    refuse_links(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        opened = os.open(path, flags, mode)
    except FileExistsError:
        raise _taken(path) from None
    try:
        with os.fdopen(opened, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(opened)
        Disk().sync(path.parent)
    except OSError:
        path.unlink()
        raise


def replace_file(path: Path, data: bytes) -> None:
    """Put new content in the place of a file at once; its mode stays.

    Raises CheckoutLinkError.
    """
    refuse_links(path, may_stay=True)
    real = path.resolve()
    near, disk = pending(real.parent), Disk()
    try:
        disk.write(near, data, 0o600)
        near.chmod(stat.S_IMODE(real.stat().st_mode))
        disk.rename(near, real)
    except OSError:
        near.unlink(missing_ok=True)
        raise
    disk.sync(real.parent)


def replace_files(content: Mapping[Path, bytes]) -> None:
    """Put new content in the place of several files, in order: of all, or when one fails of none.

    A process that is killed meanwhile leaves the first few replaced, whether it was going on or
    back.
    """
    before = {path: read_regular(path) for path in content}
    replaced: list[Path] = []
    try:
        for path, data in content.items():
            replace_file(path, data)
            replaced.append(path)
    except BaseException:
        for path in reversed(replaced):
            replace_file(path, before[path])
        raise


def refuse_taken(path: Path) -> None:
    """Refuse to write where a file is, before the work for it is done."""
    if os.path.lexists(path):
        raise _taken(path)


def _taken(path: Path) -> AlreadyThereError:
    return AlreadyThereError(
        what=f"{path} is there already",
        why="no file is overwritten",
        fix="name another file, or move this one away",
    )


def require_folder(path: Path) -> None:
    """Raise NoFolderError if a file cannot be written for want of its folder."""
    if not path.parent.is_dir():
        raise NoFolderError(
            what=f"there is no folder {path.parent}",
            why=f"{path.name} was to be written there",
            fix=f"make it: mkdir -p {path.parent}",
        )


def write_output(path: Path, text: str) -> None:
    """Write a text to a file at once; into a pipe or device as it comes.

    Raises CheckoutLinkError, NoFolderError.
    """
    refuse_links(path)
    data = text.encode("utf-8", "backslashreplace")
    real = path.resolve()
    if real.exists() and not real.is_file():
        real.write_bytes(data)
        return
    require_folder(path)
    near, disk = pending(real.parent), Disk()
    try:
        disk.write(near, data)
        disk.rename(near, real)
    except OSError:
        near.unlink(missing_ok=True)
        raise
    disk.sync(real.parent)
