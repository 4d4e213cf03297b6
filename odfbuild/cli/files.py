"""Files that commands read and write: of users, of the package, reports."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from odfbuild.errors import Diagnostic, ProjectError, ProjectErrors, SourceSpan, UsageRefusedError
from odfbuild.host.files import read_regular
from odfbuild.project.files.checkout import refuse_links
from odfbuild.state.chain.heads import DEFAULT_LOCK_TIMEOUT
from odfbuild.state.files.disk import Disk, pending
from odfbuild.state.files.lock import locked
from odfbuild.values import dataclass

_SOURCES = frozenset({".yaml", ".yml", ".sql", ".j2"})


def packaged(name: str) -> Traversable:
    """Return a file or folder by its path in the repository."""
    inside = resources.files("odfbuild") / "_data"
    root: Traversable = inside if inside.is_dir() else Path(__file__).parents[2]
    for part in name.split("/"):
        root = root / part
    return root


def json_schemas() -> dict[str, Traversable]:
    """Return the JSON Schemas by kind: those of ODF, plans, settings, policies and tests."""
    found = {
        each.name.removesuffix(".schema.json"): each for each in packaged("schemas/json").iterdir()
    }
    return {
        **dict(sorted(found.items())),
        "Plan": packaged("schemas/plan.schema.json"),
        "Project": packaged("schemas/project.schema.json"),
        "Policy": packaged("schemas/policy.schema.json"),
        "UnitTest": packaged("schemas/unit-test.schema.json"),
        "DataTest": packaged("schemas/data-test.schema.json"),
    }


class AlreadyThereError(ProjectError):
    """A file that would be written exists already."""

    code = "already-there"


class NoFolderError(ProjectError):
    """The folder of a file that would be written does not exist."""

    code = "no-folder"


class TooLargeError(ProjectError):
    """A file is larger than the limit for its kind."""

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
    from odfbuild.project import PROJECT_FILE

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
            why="this is more than any file that is read here needs",
            fix="check the name of the file",
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
    from odfbuild.project.files import MAX_BYTES

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
    """Write a new file, all of it or nothing, and have it on disk.

    Raises AlreadyThereError, CheckoutLinkError.
    """
    refuse_links(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        opened = os.open(path, flags, mode)
    except FileExistsError:
        raise _already_there(path) from None
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
    draft, disk = pending(real.parent), Disk()
    try:
        disk.write(draft, data, 0o600)
        draft.chmod(stat.S_IMODE(real.stat().st_mode))
        disk.rename(draft, real)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    disk.sync(real.parent)


def replace_files(content: Mapping[Path, bytes]) -> None:
    """Put new content in the place of several files, in order: of all, or when one fails of none.

    A process that is killed meanwhile leaves the first few replaced, whether it was continuing or
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
        raise _already_there(path)


def _already_there(path: Path) -> AlreadyThereError:
    return AlreadyThereError(
        what=f"{path} exists already",
        why="files are not overwritten",
        fix="name another file, or move this one",
    )


def require_folder(path: Path) -> None:
    """Raise NoFolderError if a file cannot be written for want of its folder."""
    if not path.parent.is_dir():
        raise NoFolderError(
            what=f"there is no folder {path.parent}",
            why=f"{path.name} would be written there",
            fix=f"create it: mkdir -p {path.parent}",
        )


def refuse_sources(path: Path) -> None:
    """Raise AlreadyThereError if an output would replace a definition, setting or query."""
    if path.suffix.lower() in _SOURCES and path.is_file():
        raise AlreadyThereError(
            what=f"{path} is not replaced",
            why="definitions, settings and queries have such names: outputs do not replace them",
            fix="name another file, or delete this one",
        )


def write_output(path: Path, text: str) -> None:
    """Write a text to a file at once; into a pipe or device as it comes.

    Raises AlreadyThereError, CheckoutLinkError, NoFolderError.
    """
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: Path, data: bytes) -> None:
    """Write bytes to a file as `write_output` does."""
    refuse_links(path)
    refuse_sources(path)
    real = path.resolve()
    if real.exists() and not real.is_file():
        real.write_bytes(data)
        return
    require_folder(path)
    draft, disk = pending(real.parent), Disk()
    try:
        disk.write(draft, data)
        disk.rename(draft, real)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    disk.sync(real.parent)


@dataclass(frozen=True, slots=True)
class Reports:
    """The files that were asked for, each with its format."""

    files: tuple[tuple[str, Path], ...] = ()

    def wants(self, format: str) -> bool:
        """Say whether a file of this format was asked for."""
        return any(each == format for each, _ in self.files)

    def of(self, format: str) -> tuple[Path, ...]:
        """Return the files of a format."""
        return tuple(path for each, path in self.files if each == format)

    def write(self, format: str, text: str) -> None:
        """Write the files of a format."""
        for path in self.of(format):
            write_output(path, text)


def parse_reports(texts: Sequence[str], formats: Mapping[str, str]) -> Reports:
    """Read texts of the form FMT=FILE; `formats` says what each holds.

    Raises UsageRefusedError, also for a file in a folder that is not there.
    """
    return Reports(tuple(_parse(text, formats) for text in texts))


def _parse(text: str, formats: Mapping[str, str]) -> tuple[str, Path]:
    format, _, name = text.partition("=")
    if format not in formats or name in ("", "-"):
        known = ", ".join(f"{each} ({what})" for each, what in formats.items())
        raise UsageRefusedError(
            what=f"--report {text}: this is not a format and a file",
            why=f"it has the form FMT=FILE; the formats are {known}",
            fix=f"write, for instance, --report {next(iter(formats))}=FILE",
        )
    path = Path(name)
    refuse_links(path)  # before anything is done that the file would be about
    refuse_sources(path)
    if not path.absolute().parent.is_dir() or path.is_dir():
        raise UsageRefusedError(
            what=f"--report {text}: the file cannot be written",
            why="it is a folder" if path.is_dir() else f"there is no folder {path.parent}",
            fix="name a file in an existing folder",
        )
    return format, path
