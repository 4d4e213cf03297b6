"""Fingerprint of the project's files, so that nothing is read when nothing changed.

Size, times and inode of every file stand for its content, as in git's index.  Git's trap is taken
care of: a file written within one tick of the clock of the file system may change once more and
keep its times, so of such young files the content itself is part of the fingerprint.
"""

import os
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from odfbuild.host.files import MOST, read_regular
from odfbuild.host.reading_session import reading_session
from odfbuild.host.real_paths import RealPaths
from odfbuild.project import PROJECT_FILE
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.project.config.project_file import Config


# the coarsest clocks in use (FAT, some network file systems) tick every two seconds
_TICK = 2_000_000_000
_END = ": "  # of the facts of a file
_DEFINITIONS = (".yaml", ".yml", ".yaml.j2", ".yml.j2")
_SOURCES = (".yaml", ".yml", ".j2", ".sql", ".py")
_TESTS = ("tests/unit/", "tests/data/")
_BESIDE = ("odfbuild.lock", "profiles.yaml")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What the files looked like: a line of stat facts of each, and of young ones their content.

    Take it before the files are read: what changes afterwards is then always noticed.
    """

    folders: tuple[str, ...]
    stats: str
    young: tuple[tuple[str, str], ...] = ()


def watched(config: "Config", packages: Iterable[Path] = ()) -> tuple[str, ...]:
    """Return all that the definitions of a project may come from, as `fingerprint` takes it."""
    made_of = [name for each in config.generators for name in (each.template, each.source) if name]
    own = (*config.datasets, config.macros_folder, config.sql_folder, *_BESIDE, *made_of)
    return tuple(dict.fromkeys((*own, *(f"{each}/" for each in packages))))


def fingerprint(root: Path, folders: Iterable[str], *, now: int) -> Fingerprint:
    """Return the fingerprint of a project's files; `now` in ns since 1970.

    Of each folder, relative to the project, the files that definitions may come from count; of one
    whose name ends in a slash, all do.  A single file may be named as well: see `watched`.
    """
    kept = tuple(folders)
    stats, young = _look(root, kept, now - _TICK)
    paths = RealPaths()
    return Fingerprint(kept, stats, tuple((name, _content(root, name, paths)) for name in young))


def is_unchanged(root: Path, before: Fingerprint) -> bool:
    """Tell whether the files are certainly those of an earlier fingerprint."""
    stats, _ = _look(root, before.folders, None)
    return stats == before.stats and not any(_changed_files(root, before.young))


def changed_files(root: Path, before: Fingerprint, now: Fingerprint) -> frozenset[str] | None:
    """Return the files that may be others than at an earlier fingerprint of the same folders.

    None if there are more or fewer of them.
    """
    came: set[str] = set()
    if now.stats != before.stats:
        lines, others = set(before.stats.split("\n")), set(now.stats.split("\n"))
        came, gone = ({_name(line) for line in part} for part in (others - lines, lines - others))
        if came != gone:
            return None
    return frozenset((*came, *_changed_files(root, before.young)))


def _changed_files(root: Path, young: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the names of young files whose content is not what it was."""
    paths = RealPaths()
    return (name for name, content in young if _content(root, name, paths) != content)


def _name(line: str) -> str:
    return line.partition(_END)[2].replace("\0", "\n")


def project_files(root: Path, folders: Iterable[str]) -> list[str]:
    """Return the definitions in some folders of a project, relative to it, sorted.

    What starts with a dot is left out; links to folders are not followed, links to files are.
    Files of tests are no definitions, unless their folder itself is asked for.
    """
    asked = tuple(folders)
    found = {name for name, _ in _walk(str(root), asked, _DEFINITIONS)}
    found.update(_edited_files(str(root), asked))
    if not any(each.startswith(_TESTS) for each in (f"{folder}/" for folder in asked)):
        found = {name for name in found if not name.startswith(_TESTS)}
    return sorted(name for name in found if name.lower().endswith(_DEFINITIONS))


def _edited_files(root: str, folders: Iterable[str]) -> Iterator[str]:
    """Yield what an editor shows in some folders, relative to the project, saved or not."""
    session = reading_session()
    inner = [os.path.normpath(each).replace(os.sep, "/") for each in folders]
    for path in () if session is None else session.unsaved:
        name = path.removeprefix(f"{root}/")
        above = name.rpartition("/")[0]
        listed = any(each in (".", name) or name.startswith(f"{each}/") for each in inner)
        hidden = any(part.startswith(".") for part in name.split("/"))
        if name in (path, PROJECT_FILE) or hidden or not listed:
            continue
        if os.path.isdir(f"{root}/{above}") and not _is_linked(root, above or "."):  # noqa: PTH112
            yield name


def _look(root: Path, folders: tuple[str, ...], young_from: int | None) -> tuple[str, list[str]]:
    """Return a line for each file, its name behind its facts, and the names of young files."""
    entries = dict(_walk(str(root), folders, _SOURCES))
    entries[PROJECT_FILE] = str(root / PROJECT_FILE)
    lines = []
    young = []
    for name in sorted(entries):
        seen = _stat(entries[name])
        if seen is None:
            lines.append(f"missing{_END}{_line(name)}")
            continue
        lines.append(
            f"{seen.st_size} {seen.st_mtime_ns} {seen.st_ctime_ns} {seen.st_ino}{_END}{_line(name)}"
        )
        if young_from is not None and max(seen.st_mtime_ns, seen.st_ctime_ns) >= young_from:
            young.append(name)
    return "\n".join(lines), young


def _line(name: str) -> str:
    """Return a name on one line; no name has the sign that stands for a line end."""
    return name.replace("\n", "\0")


def _walk(
    root: str, folders: Iterable[str], suffixes: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Yield the relative posix name and the path of each file that counts."""
    for folder in folders:
        inside = os.path.normpath(folder)
        prefix = "" if inside == "." else inside.replace(os.sep, "/") + "/"
        wanted = ("",) if folder.endswith("/") else suffixes
        path = os.path.join(root, inside) if prefix else root  # noqa: PTH118
        if wanted is suffixes and _is_linked(root, inside):
            yield inside, path
        else:
            yield from _walk_folder(path, prefix, wanted)


def _is_outside(root: Path, name: str, paths: RealPaths) -> bool:
    return not paths.of(root / name).startswith(f"{paths.of(root).rstrip(os.sep)}{os.sep}")


def _is_linked(root: str, inside: str) -> bool:
    """Tell whether the path of a folder or file goes over a link: it is not entered."""
    real = os.path.join(os.path.realpath(root), inside)  # noqa: PTH118
    return os.path.realpath(os.path.join(root, inside)) != os.path.normpath(real)  # noqa: PTH118


def _walk_folder(path: str, prefix: str, suffixes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    try:
        entries = os.scandir(path)
    except NotADirectoryError:
        yield prefix.rstrip("/"), path
        return
    except FileNotFoundError:
        return
    with entries:
        for entry in entries:
            name = entry.name
            if name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _walk_folder(entry.path, f"{prefix}{name}/", suffixes)
            elif name.lower().endswith(suffixes) and (prefix or name != PROJECT_FILE):
                yield f"{prefix}{name}", entry.path


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116
    except OSError:
        return None


def _content(root: Path, name: str, paths: RealPaths) -> str:
    """Return a digest of a file; no link is followed out of the project."""
    try:
        if not name.startswith("..") and _is_outside(root, name, paths):
            return "elsewhere"
        return blake2b(read_regular(root / name, MOST), digest_size=16).hexdigest()
    except OSError:
        return "unreadable"
