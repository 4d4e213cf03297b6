"""Local sources: existing files, which of them are new, times in their names.

A FilesGlob source reads one file per round, in the byte order of the file NAMES or in the order of
the times in them, and stores the last name (`odf/etag`); a `file:` url stores the file's
modification time in milliseconds (`odf/last-modified`), and any other time is news, also an earlier
one.

Formats of times are written as for strftime (`%Y-%m-%d`, the default) or, since the specification
names it, as for Java's SimpleDateFormat (`yyyy-MM-dd`): one without `%` is of the latter form.
"""

import fnmatch
import glob
import os
import re
import stat
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice, pairwise, takewhile
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import unquote, urlsplit

from odfbuild.executors.ingest.fetch.globs import matches
from odfbuild.executors.ingest.fetch.request import (
    FetchError,
    MissingSourceFileError,
    NotFoundError,
)
from odfbuild.host.permissions import NotPermittedError, PathNotPermittedError
from odfbuild.odf.backtracking import LONGEST_TEXT, CostlyPatternError, check_cost
from odfbuild.odf.events import (
    EventTimeSource,
    EventTimeSourceFromPath,
    FetchStep,
    FetchStepFilesGlob,
    FetchStepUrl,
    SourceOrdering,
    SourceState,
)
from odfbuild.odf.read_options import UnknownTimePartError, named_groups, strptime_form
from odfbuild.odf.timestamp import InvalidTimestampError, Timestamp
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

_DEFAULT: Final = "%Y-%m-%d"
_MAGIC: Final = re.compile(r"[*?\[]")
_ZONE: Final = re.compile(r"(?<!%)((?:%%)*)%Z")
_ZONES: Final = ("UTC", "GMT", "Z")
_FOLDER: Final = "a folder"
_KINDS: Final = (
    (stat.S_ISDIR, _FOLDER),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)

ETAG: Final = "odf/etag"
LAST_MODIFIED: Final = "odf/last-modified"
SOURCE_NAME: Final = "default"
"""The name of a polling source in SourceState."""

Reach: TypeAlias = Callable[[str], None]
"""Raises an error for a path that may not be read."""


class EventTimeError(FetchError):
    """The name of a file does not contain the expected time."""

    code = "event-time"


@lru_cache(1 << 16)
def from_name(name: str, pattern: str, form: str | None) -> Timestamp:
    """Return the time that group 1 of the pattern finds in a file name; no zone means UTC.

    A date alone is its midnight.  Raises EventTimeError.
    """
    text = _find(name, pattern)
    shape = _strftime_of(form or _DEFAULT)
    try:
        return Timestamp.from_datetime(_parse_time(text, shape))
    except (ValueError, OverflowError, OSError, re.error) as error:
        raise EventTimeError(
            what=f"'{text}' in the file name {name} is not a time of the form {form or _DEFAULT}",
            why=str(error),
            fix="correct `eventTime.pattern` or `eventTime.timestampFormat`, or rename the file",
        ) from None


def _strftime_of(form: str) -> str:
    """Return a format as Python's strptime takes it.  Raises EventTimeError."""
    try:
        return strptime_form(form)
    except UnknownTimePartError as error:
        raise EventTimeError(
            what=f"the time format {form} has the part '{error.part}', which is not known",
            why="a format without % is read as Java's SimpleDateFormat",
            fix="use letters such as yyyy-MM-dd HH:mm:ss, or strftime's %Y-%m-%d %H:%M:%S",
        ) from None


def _parse_time(text: str, shape: str) -> datetime:
    """Parse a time; names of zones other than those of UTC would depend on the machine."""
    if shape == "%s":
        return datetime.fromtimestamp(int(text), UTC)
    if _ZONE.search(shape) is None:
        return datetime.strptime(text, shape)
    zone = next((each for each in _ZONES if each in text), _ZONES[0])
    return datetime.strptime(text, _ZONE.sub(rf"\g<1>{zone}", shape))


@lru_cache(256)
def _expression(pattern: str) -> re.Pattern[str]:
    form = named_groups(pattern)
    check_cost(form)
    return re.compile(form)


def _find(name: str, pattern: str) -> str:
    if len(name) > LONGEST_TEXT:
        raise EventTimeError(
            what=f"the file name {excerpt(name, 63)} has {len(name)} characters",
            why=f"`eventTime.pattern` is applied to names of at most {LONGEST_TEXT}",
            fix="rename the file, or take the event time from a column",
        )
    try:
        found = _expression(pattern).search(name)
    except CostlyPatternError as error:
        raise EventTimeError(
            what=f"a search with `eventTime.pattern` {pattern} may take very long",
            why=str(error),
            fix=r"write no repeat in a repeat and few `.*`: for example (\d+-\d+-\d+)\.csv",
        ) from None
    except (re.error, RecursionError, OverflowError) as error:
        raise EventTimeError(
            what=f"`eventTime.pattern` {pattern} is not a regular expression",
            why=str(error),
            fix=r"write for example (\d+-\d+-\d+)\.csv; group 1 is the time",
        ) from None
    if found is None:
        raise EventTimeError(
            what=f"the file name {name} does not match `eventTime.pattern` {pattern}",
            why="the time of its rows is taken from the name",
            fix="rename the file, narrow `fetch.path`, or correct the pattern",
        )
    if not found.re.groups or found.group(1) is None:
        raise EventTimeError(
            what=f"`eventTime.pattern` {pattern} has no group 1 in {name}",
            why="group 1 is the time",
            fix=r"put the time in parentheses, for example (\d+-\d+-\d+)",
        )
    return found.group(1)


def permit_all(_path: str) -> None:
    """Permit every path."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The sorted names in a folder: of files and links, of links alone, of other entries."""

    files: list[bytes]
    links: list[bytes]
    others: list[bytes]


class Listings:
    """The contents of folders, each read once; the checks of a plan share one object."""

    def __init__(self) -> None:
        self._folders: dict[str, Listing] = {}
        self._walks: dict[tuple[str, str], list[str]] = {}

    def folder(self, place: str) -> Listing:
        """Return the content of a folder, nothing if there is none.

        Raises FetchError if it cannot be listed.
        """
        known = self._folders.get(place)
        if known is None:
            known = self._folders[place] = _list_folder(place)
        return known

    def walk(self, pattern: str, base: str) -> list[str]:
        """Return the paths below a folder that match, in no order.  Raises GlobLimitError."""
        known = self._walks.get((pattern, base))
        if known is None:
            known = self._walks[pattern, base] = list(matches(pattern, base))
        return known


class UnsupportedSourceError(FetchError):
    """The source is of a kind, or has an option, that this version does not support."""

    code = "unsupported-source"


def is_local(step: FetchStep) -> bool:
    """Return whether the file system shows if the source has news."""
    match step:
        case FetchStepFilesGlob():
            return True
        case FetchStepUrl(url=url):
            return url.strip().lower().startswith("file:")
        case _:
            return False


def pending(
    step: FetchStep,
    state: SourceState | None,
    project_dir: Path,
    listings: Listings | None = None,
    reach: Reach = permit_all,
) -> tuple[str, ...]:
    """Return the names that a fetch would read next, in order; empty if there is no news.

    A source that is missing or cannot be read counts as news under its own name, so that the error
    is raised by its fetch alone.  With one `listings` for many calls, each folder is read once.
    `reach` raises an error of its own for a path that may not be read.  Raises
    UnsupportedSourceError for a source that is not local.
    """
    match step:
        case FetchStepFilesGlob():
            return _pending_glob(step, state, project_dir, listings, reach)
        case FetchStepUrl() if is_local(step):
            return _pending_url(step, state, project_dir, reach)
        case _:
            raise UnsupportedSourceError(
                what="a remote source cannot be checked without a fetch",
                why="only FilesGlob sources and file: urls are local",
                fix="plan it as a check",
            )


def _pending_glob(
    step: FetchStepFilesGlob,
    state: SourceState | None,
    project_dir: Path,
    listings: Listings | None,
    reach: Reach,
) -> tuple[str, ...]:
    try:
        found = news(step, state, project_dir, listings, reach)
    except FetchError:
        found = None
    if found is None and (project_dir / step.path).is_dir():
        return (f"{step.path.rstrip('/')}/",)
    if found is None:  # names of files have no slash, so this one is the pattern
        return (step.path if "/" in step.path else f"./{step.path}",)
    return tuple(Path(path).name for path in found)


def refuse_names(
    step: FetchStep,
    state: SourceState | None,
    names: Sequence[str],
    project_dir: Path,
    listings: Listings | None = None,
    reach: Reach = permit_all,
) -> None:
    """Raise the error that a fetch would raise for its names alone; `names` are from `pending`.

    Raises EventTimeError, FetchError for two new files of one name, a name that is not UTF-8 or a
    folder that cannot be listed, and what `reach` raises.
    """
    match step:
        case FetchStepFilesGlob() if names and "/" in names[0]:
            news(step, state, project_dir, listings, reach)
        case FetchStepFilesGlob():
            for name in names:
                check_name(name)
            _refuse_untimed(step.event_time, names)
        case FetchStepUrl():
            _refuse_untimed(step.event_time, [declared_path(step.url)])


def _refuse_untimed(source: EventTimeSource | None, names: Sequence[str]) -> None:
    """Raise the error of the first name without a time if event times are those of names."""
    if not isinstance(source, EventTimeSourceFromPath):
        return
    first: EventTimeError | None = None
    count = 0
    for name in names:
        try:
            from_name(name, source.pattern, source.timestamp_format)
        except EventTimeError as error:
            first = first or error
            count += 1
    if first is not None:
        first.what += f"; new files without a time: {count:,}" if count > 1 else ""
        raise first


def declared_path(url: str) -> str:
    """Return the part of a declared url in which `eventTime.pattern` is searched."""
    return url.strip().partition("#")[0].partition("?")[0]


def check_name(name: str) -> None:
    """Refuse a name that is not UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise FetchError(
            what=f"the name of the file {name!a} is not UTF-8",
            why="the name of the last file that was read is stored in the chain, as text",
            fix="rename the file",
        ) from None


def pending_bytes(
    step: FetchStep, state: SourceState | None, project_dir: Path, reach: Reach = permit_all
) -> int:
    """Return the number of bytes of a local source that were not ingested yet.

    0 for a remote one, and for one that may not be read.
    """
    with suppress(FetchError, NotPermittedError, FileNotFoundError):
        return sum(path.stat().st_size for path in _new_files(step, state, project_dir, reach))
    return 0


def bytes_of(paths: Iterable[Path]) -> int:
    """Return the number of bytes of files, without those that are gone."""
    size = 0
    for each in paths:
        with suppress(OSError):
            size += each.stat().st_size
    return size


def first_file(
    step: FetchStep, state: SourceState | None, project_dir: Path, reach: Reach = permit_all
) -> Path | None:
    """Return the file that a fetch from a local source would read next, if it exists.

    None for a remote source, and for one that may not be read.
    """
    with suppress(FetchError, NotPermittedError, OSError):
        return next((p for p in _new_files(step, state, project_dir, reach) if p.is_file()), None)
    return None


def _new_files(
    step: FetchStep, state: SourceState | None, project_dir: Path, reach: Reach
) -> Sequence[Path]:
    match step:
        case FetchStepFilesGlob():
            return [Path(path) for path in news(step, state, project_dir, reach=reach) or []]
        case FetchStepUrl() if is_local(step) and "${{" not in step.url:
            path = file_of(step.url, project_dir)
            reach(str(path))
            return [path] if path.is_file() else []
    return []


def news(
    step: FetchStepFilesGlob,
    state: SourceState | None,
    project_dir: Path,
    listings: Listings | None = None,
    reach: Reach = permit_all,
) -> list[str] | None:
    """Return the paths after the last ingested name, in order; None if there never was a file.

    By event time, a file is after the last one if the time in its name is later, or the same and
    the name is greater; earlier files are skipped, as lower names are.  Raises FetchError for two
    new files of one name in different folders, because only one of them would ever be read,
    EventTimeError if a name has no time to order it by, and what `reach` raises for the folder, or
    for a link among the files.
    """
    _refuse_upwards(step.path)
    reach(os.path.join(project_dir, fixed_part(step.path)))  # noqa: PTH118
    last = state.value if state is not None and state.kind == ETAG else None
    known = listings or Listings()
    if step.order is SourceOrdering.BY_EVENT_TIME:
        found = _later_files(step, last, project_dir, known, reach)
    else:
        found = sorted(_files_after(step.path, os.fsencode(last or ""), project_dir, known, reach))
    _check_folders(found, reach)
    _refuse_equal_names(found)
    return None if last is None and not found else [path for _, path in found]


def files_up_to_last(
    step: FetchStepFilesGlob,
    state: SourceState | None,
    project_dir: Path,
    listings: Listings | None = None,
) -> list[str]:
    """Return the paths up to the last ingested name, in order; links are not checked.

    They were read, or are skipped.  Raises as `news` does.
    """
    if state is None or state.kind != ETAG:
        return []
    _refuse_upwards(step.path)
    found = _files_after(step.path, b"", project_dir, listings or Listings(), permit_all)
    if step.order is SourceOrdering.BY_EVENT_TIME:
        place = _sort_key(step)
        last = _last_key(place, state.value)
        placed = sorted((place(name), path) for name, path in found)
        return [path for at, path in placed if at <= last]
    end = os.fsencode(state.value)
    return [path for _, path in sorted(each for each in found if each[0] <= end)]


def matching_paths(
    pattern: str, project_dir: str, listings: Listings
) -> Iterator[tuple[bytes, str]]:
    """Yield name and path of the files and links that match, in no order; links may lead anywhere.

    Raises FetchError if a folder cannot be listed, or the search exceeds its limits.
    """
    folder, slash, name = pattern.rpartition("/")
    if glob.has_magic(folder) or name == "**":
        for path in listings.walk(pattern, _base(pattern, project_dir)):
            yield os.fsencode(os.path.basename(path)), path  # noqa: PTH119
        return
    place = os.path.join(project_dir, folder + slash)  # noqa: PTH118
    for key in _matching(listings.folder(place).files, name):
        yield key, _path_in(place, key)


def other_entries(pattern: str, project_dir: str, listings: Listings) -> list[tuple[str, str]]:
    """Return path and kind of the entries that match but are not files, in the order of paths.

    Folders are left out if the pattern ends with `*` alone, which is meant to match them, or has no
    wildcard at its end: `pending` returns that folder.  Raises as `matching_paths` does.
    """
    folder, slash, name = pattern.rpartition("/")
    if glob.has_magic(folder) or name == "**":
        found = listings.walk(pattern, _base(pattern, project_dir))
    else:
        place = os.path.join(project_dir, folder + slash)  # noqa: PTH118
        listing = listings.folder(place)
        keys = (key for each in (listing.others, listing.links) for key in _matching(each, name))
        found = [_path_in(place, key) for key in keys]
    kinds = ((path, _kind(path)) for path in found)
    unwanted = (None,) if name.strip("*") and glob.has_magic(name) else (None, _FOLDER)
    return sorted((path, kind) for path, kind in kinds if kind is not None and kind not in unwanted)


def _kind(path: str) -> str | None:
    """Return the kind of an entry that is not a file, None of a file and of a missing entry."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except FileNotFoundError:
        return "a link that leads nowhere" if os.path.islink(path) else None  # noqa: PTH114
    except NotADirectoryError:
        return None
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if stat.S_ISREG(mode):
        return None
    return next((kind for test, kind in _KINDS if test(mode)), "no file")


def _base(pattern: str, project_dir: str) -> str:
    return "/" if pattern.startswith("/") else project_dir


def _path_in(place: str, key: bytes) -> str:
    return place + ("" if place.endswith("/") else "/") + os.fsdecode(key)


def position(step: FetchStepFilesGlob, name: str) -> tuple[Timestamp | None, bytes]:
    """Return the position of a name in the order of a source.  Raises EventTimeError."""
    if step.order is SourceOrdering.BY_EVENT_TIME:
        return _sort_key(step)(os.fsencode(name))
    return None, os.fsencode(name)


def fixed_part(pattern: str) -> str:
    """Return the folder in which a pattern of files starts: the part before its wildcards."""
    parts = pattern.split("/")
    fixed = next((n for n, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
    return "/".join(parts[:fixed]) or ("/" if pattern.startswith("/") else "")


def _refuse_upwards(pattern: str) -> None:
    """Refuse `..` after a wildcard: its target depends on existing files."""
    if glob.has_magic(pattern) and ".." in pattern.removeprefix(fixed_part(pattern)).split("/"):
        raise PathNotPermittedError(
            what=f"the pattern {pattern} goes up after a wildcard",
            why="its target depends on existing files, so permissions cannot be checked",
            fix="name the folder above before the first wildcard",
        )


def _is_file(path: str, reach: Reach) -> bool:
    """Return whether a path is a file; `reach` checks links first, also broken ones."""
    if reach is not permit_all and os.path.islink(path):  # noqa: PTH114
        reach(path)
    return os.path.isfile(path)  # noqa: PTH113


def _check_folders(found: list[tuple[bytes, str]], reach: Reach) -> None:
    """Check the folders of files with `reach`."""
    if reach is permit_all:
        return
    known: set[str] = set()
    for _, path in found:
        folder = os.path.dirname(path)  # noqa: PTH120
        if folder not in known:
            known.add(folder)
            reach(folder)


def file_of(url: str, project_dir: Path) -> Path:
    """Return the path that a `file:` url names; a relative one starts in the project folder.

    Spaces around it, and tabs and line ends in it, are ignored, as `fetch` does.
    """
    parts = urlsplit(url.strip())
    if parts.netloc not in {"", "localhost"}:
        raise UnsupportedSourceError(
            what=f"the url {url} names the host '{parts.netloc}'",
            why="a file: url can only name a file of this machine",
            fix="write file:///absolute/path or file:path/in/the/project",
        )
    return project_dir / unquote(parts.path)


def mtime_millis(path: Path) -> int:
    """Return the modification time of a file in milliseconds; NotFoundError if there is none."""
    try:
        status = path.stat()
    except OSError as error:
        raise (NotFoundError if path.exists() else MissingSourceFileError)(
            what=f"the file {path} cannot be read" if path.exists() else f"no file {path}",
            why=error.strerror or str(error),
            fix="put the file there, or correct `fetch.url` (relative to the project folder)",
        ) from None
    if not os.path.isfile(path):  # noqa: PTH113
        raise NotFoundError(
            what=f"{path} is not a file",
            why="a file: url names one file",
            fix="name a file, or use `kind: FilesGlob` for the files of a folder",
        )
    return status.st_mtime_ns // 1_000_000


def _pending_url(
    step: FetchStepUrl, state: SourceState | None, project_dir: Path, reach: Reach
) -> tuple[str, ...]:
    if "${{" in step.url:
        return (step.url,)
    try:
        path = file_of(step.url, project_dir)
        reach(str(path))
        now = mtime_millis(path)
    except FetchError:
        return (step.url,)
    return () if is_unchanged(state, now) else (path.name,)


def is_unchanged(state: SourceState | None, millis: int) -> bool:
    """Return whether the stored state is this modification time; an unreadable state is not."""
    if state is None or state.kind != LAST_MODIFIED:
        return False
    try:
        return Timestamp.parse(state.value).millis == millis
    except InvalidTimestampError:
        return False


def _later_files(
    step: FetchStepFilesGlob,
    last: str | None,
    project_dir: Path,
    listings: Listings,
    reach: Reach,
) -> list[tuple[bytes, str]]:
    """Return name and path of the files later than the last one, in the order of time."""
    place = _sort_key(step)
    after = None if last is None else _last_key(place, last)
    found = _files_after(step.path, b"", project_dir, listings, reach)
    placed = sorted((place(name), path) for name, path in found)
    return [(at[1], path) for at, path in placed if after is None or at > after]


def _sort_key(step: FetchStepFilesGlob) -> Callable[[bytes], tuple[Timestamp, bytes]]:
    """Return a function from names to keys that sort them by time."""
    source = step.event_time
    if not isinstance(source, EventTimeSourceFromPath):
        raise UnsupportedSourceError(
            what="`order: ByEventTime` needs `eventTime: {kind: FromPath}`",
            why="files are put in the order of the times that their names hold",
            fix="say with `eventTime.pattern` where in the names the time is, or order ByName",
        )

    def place(name: bytes) -> tuple[Timestamp, bytes]:
        return from_name(os.fsdecode(name), source.pattern, source.timestamp_format), name

    return place


def _last_key(
    place: Callable[[bytes], tuple[Timestamp, bytes]], last: str
) -> tuple[Timestamp, bytes]:
    try:
        return place(os.fsencode(last))
    except EventTimeError as error:
        error.why = f"{last} is the file that was read last, and only later files are read"
        error.fix = "correct `eventTime.pattern` and `timestampFormat` so that they fit it, too"
        raise


def _files_after(
    pattern: str, last: bytes, project_dir: Path, listings: Listings, reach: Reach
) -> Iterator[tuple[bytes, str]]:
    """Yield name and path of the files that match and have a greater name, in no order."""
    folder, slash, name = pattern.rpartition("/")
    if glob.has_magic(folder) or name == "**":
        base = _base(pattern, str(project_dir))
        free = reach is permit_all
        for path in listings.walk(pattern, base) if free else matches(pattern, base, reach):
            key = os.fsencode(os.path.basename(path))  # noqa: PTH119
            if key > last and _is_file(path, reach):
                yield key, path
        return
    place = os.path.join(project_dir, folder + slash)  # noqa: PTH118
    names = listings.folder(place).files
    for key in _matching(names[bisect_right(names, last) :], name):
        path = _path_in(place, key)
        if not os.path.islink(path) or _is_file(path, reach):  # noqa: PTH114
            yield key, path


def _list_folder(folder: str) -> Listing:
    found = Listing([], [], [])
    try:
        with os.scandir(os.fsencode(folder)) as entries:
            for entry in entries:
                if entry.is_symlink():
                    found.links.append(entry.name)
                elif not entry.is_file():
                    found.others.append(entry.name)
                    continue
                found.files.append(entry.name)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise FetchError(
            what=f"the folder {folder} cannot be listed",
            why=error.strerror or str(error),
            fix="allow reading the folder, or correct `fetch.path`",
        ) from None
    for names in (found.files, found.links, found.others):
        names.sort()
    return found


def _matching(names: list[bytes], pattern: str) -> list[bytes]:
    """Return the sorted names that match, in order."""
    head, fits = _form(pattern)
    after = islice(names, bisect_left(names, head), None)
    return [name for name in takewhile(lambda name: name.startswith(head), after) if fits(name)]


@lru_cache(maxsize=256)
def _form(pattern: str) -> tuple[bytes, Callable[[bytes], object]]:
    """Return the prefix of the names that match a pattern, and a function to match them."""
    shown = "" if pattern.startswith(".") else r"(?!\.)"
    fits = re.compile(os.fsencode(shown + fnmatch.translate(pattern))).match
    return os.fsencode(_MAGIC.split(pattern, 1)[0]), fits


def _refuse_equal_names(found: list[tuple[bytes, str]]) -> None:
    for (one, path), (other, path2) in pairwise(found):
        if one == other:
            raise FetchError(
                what=f"two new files have the name {os.fsdecode(one)}: {path} and {path2}",
                why="files are identified by name alone, so one would never be read",
                fix="give the files different names, or narrow `fetch.path` to one folder",
            )
