"""Files of a package: which names and links are safe, and one hash for all.

What starts with a dot, and what Python keeps for itself, is no part of a package.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha3_256
from pathlib import Path, PurePosixPath
from stat import S_ISDIR, S_ISLNK, S_ISREG

from odfbuild.errors import ProjectError
from odfbuild.host.files import read_regular
from odfbuild.odf.identity import Multicodec, Multihash
from odfbuild.values import dataclass

MAX_FILES = 20_000
MAX_BYTES = 64 * 1024 * 1024
_MAX_PATH = 1024
_MAX_DEPTH = 64


class TreeError(ProjectError):
    """The files of a package cannot be copied safely."""

    code = "unsafe-package"

    def __init__(self, what: str, fix: str = "use another revision, or ask its authors") -> None:
        why = "a package may hold plain files only, and no links that lead out of it"
        super().__init__(what, why, fix)


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file with its content, or a link with where it leads; `path` has forward slashes."""

    path: str
    content: bytes
    is_link: bool = False


def belongs(path: str) -> bool:
    """Tell whether a file is part of a package."""
    return not any(part.startswith(".") or part == "__pycache__" for part in path.split("/"))


def check_entry(entry: TreeEntry) -> None:
    """Refuse a file whose name is not safe, and a link that may lead out.  Raises TreeError."""
    shown = ascii(entry.path)[1:-1]
    parts = entry.path.split("/")
    if not entry.path.isprintable() or "\\" in entry.path or not _is_utf8(entry.path):
        raise TreeError(f"the file name '{shown}' has characters that are not permitted")
    if any(part in ("", ".", "..") for part in parts) or len(entry.path) > _MAX_PATH:
        raise TreeError(f"the file name '{shown}' does not stay within the package")
    if entry.is_link and _leads_out(parts[:-1], entry.content):
        target = ascii(entry.content.decode(errors="replace"))[1:-1]
        raise TreeError(f"the link '{shown}' leads out of the package, to '{target}'")


def check_names(paths: Sequence[str]) -> None:
    """Refuse files of which one would take the place of another.  Raises TreeError."""
    taken = {path.lower() for path in paths}
    if len(taken) < len(paths):
        raise TreeError("two file names differ only in case")
    for path in paths:
        above = PurePosixPath(path.lower()).parents
        if not taken.isdisjoint(map(str, above)):
            raise TreeError(f"'{ascii(path)[1:-1]}' is below a path that is also a file")


def hash_of(entries: Iterable[TreeEntry]) -> str:
    """Return the sha3-256 multihash of files by their paths and contents, whatever their order."""
    whole = sha3_256()
    for entry in sorted(entries, key=lambda each: each.path.encode()):
        kind = b"link" if entry.is_link else b"file"
        content = sha3_256(entry.content).hexdigest().encode()
        whole.update(b" ".join((kind, content, entry.path.encode())) + b"\0")
    return str(Multihash(Multicodec.SHA3_256, whole.digest()))


def tree_hash(folder: Path) -> str:
    """Return the hash of the files in a folder.

    Raises TreeError for what cannot be in a package, and for more than a package may hold.
    """
    return hash_of(_within_bounds(_entries(folder)))


def _within_bounds(entries: Iterator[TreeEntry]) -> Iterator[TreeEntry]:
    left = MAX_BYTES
    for count, entry in enumerate(entries):
        left -= len(entry.content)
        if count >= MAX_FILES or left < 0:
            raise TreeError(
                f"there are more than {MAX_FILES:,} files or {MAX_BYTES:,} bytes",
                "move what is not a definition, a template or a query out of it",
            )
        check_entry(entry)
        yield entry


def _entries(folder: Path) -> Iterator[TreeEntry]:
    """Yield what is in a folder; folders that are links are links, and not entered."""
    waiting = [(folder, "")]
    while waiting:
        path, prefix = waiting.pop()
        if prefix.count("/") > _MAX_DEPTH:
            raise TreeError(f"the folder '{prefix}' is nested too deeply")
        with os.scandir(path) as found:
            listed = list(found)
        for each in listed:
            if not belongs(each.name):
                continue
            mode = each.stat(follow_symlinks=False).st_mode
            name = prefix + each.name
            if S_ISDIR(mode):
                waiting.append((Path(each.path), f"{name}/"))
            elif S_ISLNK(mode):
                yield TreeEntry(name, os.fsencode(os.readlink(each.path)), is_link=True)  # noqa: PTH115
            elif S_ISREG(mode):
                yield TreeEntry(name, _content(each))
            else:
                raise TreeError(f"'{ascii(name)[1:-1]}' is neither a file nor a folder")


def _content(entry: "os.DirEntry[str]") -> bytes:
    if entry.stat(follow_symlinks=False).st_size > MAX_BYTES:
        raise TreeError(f"the file '{entry.name}' is larger than {MAX_BYTES:,} bytes")
    return read_regular(entry.path)


def _leads_out(folder: list[str], target: bytes) -> bool:
    """Tell whether a link may lead out of the package; `..` counts only at its start.

    After another link, a `..` would not go back to where the text says.
    """
    try:
        text = target.decode()
    except UnicodeDecodeError:
        return True
    parts = PurePosixPath(text).parts
    up = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    inner = parts[up:]
    unsafe = text.startswith("/") or not text.isprintable() or "\\" in text or not text
    return unsafe or up > len(folder) or ".." in inner or not belongs("/".join(inner))


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
