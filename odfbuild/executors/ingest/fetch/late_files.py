"""Files of a FilesGlob that its order skips: late ones, and those that were corrected.

A file is read once, in the order of the names, and the chain remembers the last name only (ODF
0.34.1, "SourceState").  A file before that name which was never read is late; one that is another
than when it was read is corrected.  Size and time of modification are compared, and what the file
holds only where these differ, or where it was read within one tick of the file system's clock after
it was written: then it may have changed once more and kept both.

Corrected files of an UpsertStream are read again together with all that were read after them, in
order and in one move of the head, so that the last word on each key is that of the latest file; of
a Snapshot only the last file is, as each is the whole table.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import time_ns

from odfbuild.errors import OdfBuildError
from odfbuild.executors.ingest.fetch.local import (
    ETAG,
    SOURCE_NAME,
    Listings,
    Reach,
    file_of,
    fixed_part,
    matching_paths,
    other_entries,
    passed,
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
_NO_TIME = -1  # of a file that was young when it was read: what it holds is compared


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver:
    """The files before the last one that was read: those that are late, and those corrected.

    `again` are those that a rule has read, in that order; `lost` is a file that was read after a
    corrected one and is gone, so that the corrected one cannot be read again.  `last` is the name
    of the last one.  `others` are entries that match and are no files, with what they are.  Paths
    are relative to the project where they lie in it.
    """

    last: str = ""
    late: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    reread: tuple[str, ...] = ()
    lost: str | None = None
    others: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.late or self.changed or self.others)


def files_mark(
    pattern: str, last: bytes | None, project_dir: str, listings: Listings, *, timed: bool = False
) -> str:
    """Return what becomes another text when an entry that matches a pattern comes or goes.

    Those up to the `last` name count as they are, all if names are `timed`: where one may change
    once more and keep its time, the text is another one each time.  With None, names count alone.
    """
    found = []
    try:
        for name, path in sorted(matching_paths(pattern, project_dir, listings)):
            facts = "" if last is None or (name > last and not timed) else _facts(path)
            found.append(f"{path}\0{facts}")
        found.extend("\0".join(each) for each in other_entries(pattern, project_dir, listings))
    except FetchError as error:
        return f"{error.code} {time_ns()}"  # the fetch tells of it
    whole = "\0".join(found).encode(errors="surrogateescape")
    return hashlib.blake2b(whole, digest_size=16).hexdigest()


def file_mark(url: str, project_dir: Path) -> str:
    """Return what becomes another text when the file that a `file:` url names does."""
    try:
        return _facts(str(file_of(url, project_dir)))
    except (FetchError, ValueError):
        return "none"


def _facts(path: str) -> str:
    try:
        at = os.stat(path)  # noqa: PTH116
    except OSError:
        return "none"
    young = time_ns() if _is_young(at) else ""  # then it is looked at once more
    return f"{at.st_size} {at.st_mtime_ns} {at.st_ino} {at.st_mode}{young}"


def passed_over(
    workspace: Workspace,
    source: SetPollingSource,
    state: ChainState | None,
    project_dir: Path,
    rule: Reread | None = None,
    listings: Listings | None = None,
) -> PassedOver:
    """Look at the files that a source of a dataset passes over; what is found out is remembered.

    Where it cannot be remembered, or a chain cannot be read, less is found out.
    """
    listings = listings or Listings()
    found = PassedOver()
    with suppress(OdfBuildError):  # of a damaged chain, which others tell of
        if state and (looked := _looked_at(workspace, source, state, project_dir, listings)):
            if not workspace.is_read_only:
                with suppress(OdfBuildError):
                    looked.keep(workspace.root)
            found = looked.found(rule)
    return replace(found, others=_others(source.fetch, project_dir, listings))


def _others(step: FetchStep, project_dir: Path, listings: Listings) -> tuple[tuple[str, str], ...]:
    if not isinstance(step, FetchStepFilesGlob):
        return ()
    with suppress(FetchError):  # the fetch tells of it
        found = other_entries(step.path, str(project_dir), listings)
        return tuple((path.removeprefix(f"{project_dir}{os.sep}"), kind) for path, kind in found)
    return ()


def what_was_read(workspace: Workspace, state: ChainState) -> FilesRead:
    """Return the files that a chain has read up to a state."""
    return _what_was_read(workspace, state)[0]


def _what_was_read(workspace: Workspace, state: ChainState) -> tuple[FilesRead, ReadFilesMemory]:
    id, head = state.dataset, BlockPlace(str(state.head), state.sequence)
    readings, seen = recall_readings(workspace.root, id), recall_seen(workspace.root, id)
    return files_read(workspace.dataset(id), head, readings, seen)


def _looked_at(
    workspace: Workspace,
    source: SetPollingSource,
    state: ChainState,
    project_dir: Path,
    listings: Listings | None = None,
) -> "_FileSearch | None":
    """Look at the files of a source that was read before; None of another one."""
    step, known = source.fetch, state.source_state.get(SOURCE_NAME)
    if not isinstance(step, FetchStepFilesGlob) or known is None or known.kind != ETAG:
        return None
    looked = _FileSearch(source, state, *_what_was_read(workspace, state), project_dir)
    looked.at(_passed(step, known, project_dir, listings))
    return looked


def _passed(
    step: FetchStepFilesGlob,
    state: SourceState | None,
    project_dir: Path,
    listings: Listings | None,
) -> list[str]:
    try:
        return passed(step, state, project_dir, listings)
    except FetchError:  # the fetch tells of it
        return []


class _FileSearch:
    """One look at the files that a chain has `read`; `seen` is what was found out before."""

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
        self._met: list[FileRead] = []  # that count as read as they are
        self.present: list[str] = []  # of those that were read, in order
        self.late: list[str] = []
        self.changed: list[str] = []
        self._root = f"{project_dir}{os.sep}"

    def at(self, paths: Sequence[str]) -> None:
        """Look at the files before the last name, in order."""
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
        """Remember what was found out.  Raises StateError."""
        note_readings(root, self._state.dataset, self._met)
        self._met.clear()
        seen = replace(self._seen, looked=self._looked)
        if seen != recall_seen(root, self._state.dataset):
            keep_seen(root, self._state.dataset, seen)

    def found(self, rule: Reread | None) -> PassedOver:
        """Return what is passed over, and what a rule has read of it."""
        source, last = self._source, self._state.source_state[SOURCE_NAME].value
        common = PassedOver(last=last, late=tuple(self.late), changed=tuple(self.changed))
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
        """Return a file that was read after a corrected one, and is gone."""
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
        """Return a digest of a file, None where its size says that it is another one."""
        if at.st_size != read.size or read.digest is None:
            return None
        young = _is_young(at)  # a file may be written once more while it is read
        size, mtime, digest = self._seen.looked.get(shown, (None, None, None))
        if digest is None or (size, mtime) != (at.st_size, at.st_mtime_ns):
            digest = _digest(path)
        if not young:
            self._looked[shown] = (at.st_size, at.st_mtime_ns, digest)
        return digest

    def _shown(self, path: str) -> str:
        return path.removeprefix(self._root)


class SourceFiles:
    """The files that one ingest reads of a FilesGlob, and what is to be remembered of them."""

    def __init__(self, workspace: Workspace, dataset: Dataset, project_dir: Path) -> None:
        self._workspace = workspace
        self._dataset = dataset
        self._project = project_dir
        self._known: dict[str, str | None] = {}

    def reread(
        self, source: SetPollingSource, state: ChainState, rule: Reread | None, reach: Reach
    ) -> list[list[Path]]:
        """Return the files that a rule has read, in order; those of one list go together.

        Raises what `reach` does, and StateError where nothing can be remembered.
        """
        if rule is None or rule is Reread.NEVER:
            return []
        looked = _looked_at(self._workspace, source, state, self._project)
        if looked is None:
            return []
        looked.keep(self._workspace.root)
        self._known = {path: each.digest for path, each in looked.read.files.items()}
        paths = [self._project / path for path in looked.found(rule).reread]
        if paths:
            _check_reach(source.fetch, paths, self._project, reach)
        return [paths] if rule is Reread.CHANGED and paths else [[path] for path in paths]

    def begin(self, path: Path) -> Callable[[ChainState], None]:
        """Look at a file before it is read; return what notes that a state has its rows.

        The noting raises StateError.
        """
        shown = str(path).removeprefix(f"{self._project}{os.sep}")
        try:
            at = path.stat()
            mtime = _NO_TIME if _is_young(at) else at.st_mtime_ns
            digest = _digest(path)
        except OSError:
            digest = None  # the reading says so

        def note(state: ChainState) -> None:
            if digest is None or self._known.get(shown) == digest:
                return
            place = BlockPlace(str(state.head), state.sequence)
            read = FileRead(shown, at.st_size, mtime, digest, place)
            note_readings(self._workspace.root, self._dataset.id, (read,))

        return note


def _is_young(at: os.stat_result) -> bool:
    """Tell whether a file may change once more and keep its time."""
    return abs(time_ns() - at.st_mtime_ns) < _TICK


def _digest(path: str | Path) -> str | None:
    """Return a digest of what a file holds, None if it cannot be read."""
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError:
        return None


def _check_reach(step: FetchStep, paths: Sequence[Path], root: Path, reach: Reach) -> None:
    """Have the folders of files judged, and the files that are links."""
    assert isinstance(step, FetchStepFilesGlob)  # noqa: S101 - nothing else has any
    reach(str(root / fixed_part(step.path)))
    for path in paths:
        reach(str(path.parent))
        if path.is_symlink():
            reach(str(path))
