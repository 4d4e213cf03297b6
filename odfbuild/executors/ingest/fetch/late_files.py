"""Files of a FilesGlob that its order skips: late ones, and corrected ones.

A file is read once, in the order of the names, and the chain stores the last name only (ODF 0.34.1,
"SourceState").  A file before that name that was never read is late; one that changed after it was
read is corrected.  Sizes and modification times are compared, and contents only where the times
differ, or where a file was read within one tick of the file system's clock after it was written:
it may then have changed again and kept both.

Corrected files of an UpsertStream are read again together with all files read after them, in order
and in one swap of the head, so that the latest file decides on each key; of a Snapshot only the
last file is read again, as each file is a complete table.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from time import time_ns
from weakref import ref

from odfbuild.errors import OdfBuildError
from odfbuild.executors.ingest.fetch.local import (
    ETAG,
    SOURCE_NAME,
    Listings,
    Reach,
    file_of,
    files_up_to_last,
    fixed_part,
    matching_paths,
    other_entries,
    position,
)
from odfbuild.executors.ingest.fetch.request import FetchError
from odfbuild.host.files import open_regular
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    FetchStep,
    FetchStepFilesGlob,
    SetPollingSource,
    SourceState,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.merge_strategies import traits_of
from odfbuild.planner.plan.policy import Reread
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.memory.read_files import (
    BlockPlace,
    FileRead,
    FilesRead,
    ReadFilesMemory,
    files_read,
    keep_seen,
    note_readings,
    recall_readings,
    recall_seen,
)
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass

_TICK = 50_000_000  # ns, of the clocks of local file systems
_NO_TIME = -1  # of a file that was young when it was read: its content is compared
_QUICK = 8 << 20  # bytes that are hashed before a file is read
_PIECE = 1 << 20  # bytes that are hashed at a time
_OF_CONTENT = ("st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")
_WRITTEN_MEANWHILE = "written while it was read"  # in place of a digest: no content has it


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedFiles:
    """The late and the corrected files before the last one that was read.

    `reread` are those that a rule reads again, in that order; `lost` is a file that was read after
    a corrected one and is gone, so that the corrected one cannot be read again.  `last` is the name
    of the last file.  `others` are entries that match but are not files, with their kinds.  Paths
    are relative to the project if they are in it.
    """

    last: str = ""
    late: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    reread: tuple[str, ...] = ()
    lost: str | None = None
    others: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.late or self.changed or self.others)


def files_fingerprint(
    pattern: str, last: bytes | None, project_dir: str, listings: Listings, *, timed: bool = False
) -> str:
    """Return a text that changes when an entry that matches a pattern appears or disappears.

    It also changes with the files up to the `last` name, or with all if names are `timed`, and at
    each call while one of them may change and keep its time.  With None, only names count.
    """
    found = []
    try:
        for name, path in sorted(matching_paths(pattern, project_dir, listings)):
            facts = "" if last is None or (name > last and not timed) else _facts(path)
            found.append(f"{path}\0{facts}")
        found.extend("\0".join(each) for each in other_entries(pattern, project_dir, listings))
    except FetchError as error:
        return f"{error.code} {time_ns()}"  # the fetch reports it
    whole = "\0".join(found).encode(errors="surrogateescape")
    return hashlib.blake2b(whole, digest_size=16).hexdigest()


def file_fingerprint(url: str, project_dir: Path) -> str:
    """Return a text that changes with the file that a `file:` url names."""
    try:
        return _facts(str(file_of(url, project_dir)))
    except (FetchError, ValueError):
        return "none"


def _facts(path: str) -> str:
    try:
        at = os.stat(path)  # noqa: PTH116
    except OSError:
        return "none"
    young = time_ns() if _is_young(at) else ""  # then it is checked again
    return f"{at.st_size} {at.st_mtime_ns} {at.st_ino} {at.st_mode}{young}"


def skipped_files(
    workspace: Workspace,
    source: SetPollingSource,
    state: ChainState | None,
    project_dir: Path,
    rule: Reread | None = None,
    listings: Listings | None = None,
) -> SkippedFiles:
    """Return the files that a source of a dataset skips; store what was found about them.

    Errors of storing are ignored.  Of a chain that cannot be read, only `others` are found.
    """
    listings = listings or Listings()
    found = SkippedFiles()
    with suppress(OdfBuildError):  # of a damaged chain, which is reported elsewhere
        if state and (search := _search(workspace, source, state, project_dir, listings)):
            if not workspace.is_read_only:
                with suppress(OdfBuildError):
                    search.keep(workspace.root)
            found = search.found(rule)
    return replace(found, others=_others(source.fetch, project_dir, listings))


def _others(step: FetchStep, project_dir: Path, listings: Listings) -> tuple[tuple[str, str], ...]:
    if not isinstance(step, FetchStepFilesGlob):
        return ()
    with suppress(FetchError):  # the fetch reports it
        found = other_entries(step.path, str(project_dir), listings)
        return tuple((path.removeprefix(f"{project_dir}{os.sep}"), kind) for path, kind in found)
    return ()


def read_files(workspace: Workspace, state: ChainState) -> FilesRead:
    """Return the files that a chain has read up to a state."""
    return _read_files(workspace, state)[0]


def _read_files(workspace: Workspace, state: ChainState) -> tuple[FilesRead, ReadFilesMemory]:
    id, head = state.dataset, BlockPlace(str(state.head), state.sequence)
    readings, seen = recall_readings(workspace.root, id), recall_seen(workspace.root, id)
    return files_read(workspace.dataset(id), head, readings, seen)


def _search(
    workspace: Workspace,
    source: SetPollingSource,
    state: ChainState,
    project_dir: Path,
    listings: Listings | None = None,
) -> "_FileSearch | None":
    """Search the files of a source that was read before; None for other sources."""
    step, known = source.fetch, state.source_state.get(SOURCE_NAME)
    if not isinstance(step, FetchStepFilesGlob) or known is None or known.kind != ETAG:
        return None
    search = _FileSearch(source, state, *_read_files(workspace, state), project_dir)
    search.at(_files_up_to_last(step, known, project_dir, listings))
    return search


def _files_up_to_last(
    step: FetchStepFilesGlob,
    state: SourceState | None,
    project_dir: Path,
    listings: Listings | None,
) -> list[str]:
    try:
        return files_up_to_last(step, state, project_dir, listings)
    except FetchError:  # the fetch reports it
        return []


class _FileSearch:
    """A search of the files that a chain has `read`; `seen` are the results of earlier ones."""

    def __init__(
        self,
        source: SetPollingSource,
        state: ChainState,
        read: FilesRead,
        seen: ReadFilesMemory,
        project_dir: Path,
    ) -> None:
        self.read = read
        self._seen = seen
        self._source = source
        self._state = state
        self._looked: dict[str, tuple[int, int, str | None]] = {}
        self._met: list[FileRead] = []  # read, but without a note: taken as unchanged
        self.present: list[str] = []  # of those that were read, in order
        self.late: list[str] = []
        self.changed: list[str] = []
        self._root = f"{project_dir}{os.sep}"

    def at(self, paths: Sequence[str]) -> None:
        """Compare the files before the last name, in order."""
        names, files = self.read.names, self.read.files
        known = {os.path.basename(path): path for path in files}  # noqa: PTH119
        here = {self._shown(path) for path in paths}
        taken = {os.path.basename(path) for path in files if path in here}  # noqa: PTH119
        for path in paths:
            shown, name = self._shown(path), os.path.basename(path)  # noqa: PTH119
            try:
                at = os.stat(path)  # noqa: PTH116
            except OSError:
                continue
            read = files.get(shown)
            if read is None:
                if name in taken or (name not in names and name not in known):
                    self.late.append(shown)
                    continue
                taken.add(name)
                if name in known:  # it was moved
                    read = files[known[name]]
                else:
                    read = FileRead(shown, at.st_size, at.st_mtime_ns, None, names[name])
                    self._met.append(read)
            self.present.append(shown)
            if (read.size, read.mtime) != (at.st_size, at.st_mtime_ns):
                digest = self._digest(path, shown, at, read)
                if digest is None or digest != read.digest:
                    self.changed.append(shown)

    def keep(self, root: Path) -> None:
        """Store the results.  Raises StateError."""
        note_readings(root, self._state.dataset, self._met)
        self._met.clear()
        seen = replace(self._seen, looked=self._looked)
        if seen != recall_seen(root, self._state.dataset):
            keep_seen(root, self._state.dataset, seen)

    def found(self, rule: Reread | None) -> SkippedFiles:
        """Return the skipped files, and those that a rule reads again."""
        source, last = self._source, self._state.source_state[SOURCE_NAME].value
        common = SkippedFiles(last=last, late=tuple(self.late), changed=tuple(self.changed))
        if rule is Reread.LATE:
            return replace(common, reread=common.late)
        if rule is not Reread.CHANGED or not self.changed:
            return common
        assert isinstance(source.fetch, FetchStepFilesGlob)  # noqa: S101 - nothing else has any
        start = self.present.index(self.changed[0])
        if traits_of(source.merge).is_whole:
            final = self.present[-1]
            is_last = os.path.basename(final) == last and final in self.changed  # noqa: PTH119
            return replace(common, reread=(final,) if is_last else ())
        lost = self._lost(source.fetch, self.present[start])
        return replace(common, reread=() if lost else tuple(self.present[start:]), lost=lost)

    def _lost(self, step: FetchStepFilesGlob, first: str) -> str | None:
        """Return a file that was read after the first corrected one, and is gone."""
        here = {os.path.basename(path) for path in self.present}  # noqa: PTH119
        read = {os.path.basename(path) for path in self.read.files} | {*self.read.names}  # noqa: PTH119
        start = position(step, os.path.basename(first))  # noqa: PTH119
        for name in sorted(read - here):
            try:
                if position(step, name) > start:
                    return name
            except FetchError:
                return name
        return None

    def _digest(self, path: str, shown: str, at: os.stat_result, read: FileRead) -> str | None:
        """Return a digest of a file, None if its size differs or there is none to compare with."""
        if at.st_size != read.size or read.digest is None:
            return None
        young = _is_young(at)  # a file may be written again while it is read
        size, mtime, digest = self._seen.looked.get(shown, (None, None, None))
        if digest is None or (size, mtime) != (at.st_size, at.st_mtime_ns):
            digest = _digest(path)
        if not young:
            self._looked[shown] = (at.st_size, at.st_mtime_ns, digest)
        return digest

    def _shown(self, path: str) -> str:
        return path.removeprefix(self._root)


class SourceFiles:
    """The files that one ingest reads of a FilesGlob, and the notes to store about them."""

    def __init__(self, workspace: Workspace, dataset: Dataset, project_dir: Path) -> None:
        self._workspace = workspace
        self._dataset = dataset
        self._project = project_dir

    def reread(
        self, source: SetPollingSource, state: ChainState, rule: Reread | None, reach: Reach
    ) -> list[list[Path]]:
        """Return the files that a rule reads again, in order; those of one list together.

        Raises what `reach` raises, and StateError if notes cannot be stored.
        """
        if rule is None or rule is Reread.NEVER:
            return []
        search = _search(self._workspace, source, state, self._project)
        if search is None:
            return []
        search.keep(self._workspace.root)
        paths = [self._project / path for path in search.found(rule).reread]
        if paths:
            _check_reach(source.fetch, paths, self._project, reach)
        return [paths] if rule is Reread.CHANGED and paths else [[path] for path in paths]

    def begin(self, path: Path) -> "ReadingNote | None":
        """Record a file before it is read, for a note of it; None if it is not there.

        A large file is hashed while it is read.
        """
        shown = str(path).removeprefix(f"{self._project}{os.sep}")
        try:
            at = path.stat()
            mtime = _NO_TIME if _is_young(at) else at.st_mtime_ns
        except OSError:
            return None  # reading it reports the error
        return ReadingNote(
            self._workspace.root,
            self._dataset.id,
            FileRead(shown, at.st_size, mtime, None, BlockPlace("", 0)),
            _content_look(path, at),
        )


class ReadingNote:
    """A note of a file that is being read, to be stored when its block is known."""

    def __init__(
        self, root: Path, dataset: DatasetId, reading: FileRead, look: Callable[[], str | None]
    ) -> None:
        self._root = root
        self._dataset = dataset
        self._reading = reading
        self._look = look

    def of_rows(self, state: ChainState) -> None:
        """Store it with the state whose last block has its rows.  Raises StateError."""
        self._store(state, has_rows=True)

    def of_nothing(self, state: ChainState) -> None:
        """Store it with the state that its rows changed nothing of.  Raises StateError."""
        self._store(state, has_rows=False)

    def _store(self, state: ChainState, *, has_rows: bool) -> None:
        digest = self._look()
        if digest is None:
            return
        place = BlockPlace(str(state.head), state.sequence)
        reading = replace(self._reading, digest=digest, at=place, has_rows=has_rows)
        note_readings(self._root, self._dataset, (reading,))


def _content_look(path: Path, at: os.stat_result) -> Callable[[], str | None]:
    """Return a function that returns the digest of a file, which a thread computes if it is large.

    Of a file that was written meanwhile it is one that no content has: what was read of it may be
    other than what was hashed.  One that may change and keep its time is hashed before.
    """
    if at.st_size <= _QUICK or _is_young(at):
        digest = _digest(path)
        return lambda: digest
    return _ContentLook(path, at)


class _ContentLook:
    """A look at the content of a large file by a thread, which ends if nobody waits for it."""

    def __init__(self, path: Path, at: os.stat_result) -> None:
        self._path, self._at = path, at
        self._digest = Future[str | None]()
        waiting = ref(self)  # the thread keeps neither this nor the process alive
        Thread(
            target=_put_digest,
            args=(path, self._digest, lambda: waiting() is not None),
            name="digest",
            daemon=True,
        ).start()

    def __call__(self) -> str | None:
        digest = self._digest.result()
        with suppress(OSError):
            now = self._path.stat()
            if all(getattr(now, each) == getattr(self._at, each) for each in _OF_CONTENT):
                return digest
        return _WRITTEN_MEANWHILE


def _put_digest(path: Path, into: Future[str | None], goes_on: Callable[[], bool]) -> None:
    try:
        into.set_result(_digest(path, goes_on))
    except Exception as error:  # for who waits for it
        into.set_exception(error)


def _is_young(at: os.stat_result) -> bool:
    """Return whether a file may still change and keep its time."""
    return abs(time_ns() - at.st_mtime_ns) < _TICK


def _digest(path: str | Path, goes_on: Callable[[], bool] = lambda: True) -> str | None:
    """Return a digest of the content of a file, None if it cannot be read, or not to its end."""
    made = hashlib.blake2b(digest_size=16)
    try:
        with open_regular(path) as file:
            while block := file.read(_PIECE):
                if not goes_on():
                    return None
                made.update(block)
    except OSError:
        return None
    return made.hexdigest()


def is_as_read(path: Path, read: FileRead) -> bool:
    """Tell whether a file has the content that it had when it was read.  Raises OSError."""
    return path.stat().st_size == read.size and _digest(path) == read.digest


def _check_reach(step: FetchStep, paths: Sequence[Path], root: Path, reach: Reach) -> None:
    """Check that the folders of files, and files that are links, may be read."""
    assert isinstance(step, FetchStepFilesGlob)  # noqa: S101 - nothing else has any
    reach(str(root / fixed_part(step.path)))
    for path in paths:
        reach(str(path.parent))
        if path.is_symlink():
            reach(str(path))
