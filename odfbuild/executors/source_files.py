"""The files of a FilesGlob that its order passes over: late ones, and those that were corrected.

A file is read once, in the order of the names, and the chain remembers the last name only (ODF
0.34.1, "SourceState").  A file before that name which was never read is late; one that is another
than when it was read is corrected.  Size and time of modification are compared, and what the file
holds only where these differ.

Corrected files of an UpsertStream are read again together with all that were read after them, in
order, so that the last word on each key is that of the latest file; of a Snapshot only the last
file is, as each is the whole table.  The marks for that are on disk before the first one is read.
"""

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from odfbuild.errors import OdfBuildError, StateError
from odfbuild.executors.local import (
    ETAG,
    SOURCE_NAME,
    Listings,
    Reach,
    fixed_part,
    passed,
    position,
)
from odfbuild.executors.request import FetchError
from odfbuild.odf.chain import ChainState
from odfbuild.odf.events import (
    FetchStep,
    FetchStepFilesGlob,
    MergeStrategySnapshot,
    SetPollingSource,
    SourceState,
)
from odfbuild.odf.identity import Multihash
from odfbuild.planner.policy import Reread
from odfbuild.regular_files import open_regular
from odfbuild.state.dataset import Dataset
from odfbuild.state.file_memory import (
    AGAIN,
    FOLDER,
    FileRead,
    FilesRead,
    at_head,
    keep_files,
    recall_files,
)
from odfbuild.state.workspace import Workspace

__all__ = ["PassedOver", "SourceFiles", "files_mark", "passed_over"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver:
    """The files before the last one that was read: those that are late, and those corrected.

    `again` are those that a rule has read, in that order; `lost` is a file that was read after a
    corrected one and is gone, so that the corrected one cannot be read again.  `last` is the name
    of the last one.  Paths are relative to the project where they lie in it.
    """

    last: str = ""
    late: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    lost: str | None = None

    def __bool__(self) -> bool:
        return bool(self.late or self.changed)


def files_mark(
    step: FetchStepFilesGlob,
    state: SourceState | None,
    project_dir: Path,
    listings: Listings | None = None,
) -> str:
    """Return what becomes another text when a file that is passed over comes, changes or goes."""
    found = hashlib.blake2b(digest_size=16)
    for path in _passed(step, state, project_dir, listings):
        with suppress(OSError):
            at = os.stat(path)  # noqa: PTH116
            found.update(
                f"{path}\0{at.st_size} {at.st_mtime_ns}\0".encode(errors="surrogateescape")
            )
    return found.hexdigest()


def passed_over(
    workspace: Workspace,
    source: SetPollingSource,
    state: ChainState,
    project_dir: Path,
    rule: Reread | None = None,
    listings: Listings | None = None,
) -> PassedOver:
    """Look at the files that a source of a dataset passes over; what is found out is remembered.

    Where it cannot be remembered, or a chain cannot be read, less is found out.
    """
    try:
        looked = _looked_at(workspace, source, state, project_dir, listings)
    except OdfBuildError:  # of a damaged chain, which others tell of
        return PassedOver()
    if looked is None:
        return PassedOver()
    if not workspace.is_read_only:
        with suppress(OSError):
            looked.keep(workspace.root)
    return looked.found(rule)


def _looked_at(
    workspace: Workspace,
    source: SetPollingSource,
    state: ChainState,
    project_dir: Path,
    listings: Listings | None = None,
) -> "_Look | None":
    """Look at the files of a source that was read before; None of another one."""
    step, known = source.fetch, state.source_state.get(SOURCE_NAME)
    if not isinstance(step, FetchStepFilesGlob) or known is None or known.kind != ETAG:
        return None
    before = recall_files(workspace.root, state.dataset)
    memory = at_head(before, workspace.dataset(state.dataset), state.head)
    looked = _Look(source, state, before, memory, project_dir)
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


class _Look:
    """One look at files: `memory` is what is known after it."""

    def __init__(
        self,
        source: SetPollingSource,
        state: ChainState,
        before: FilesRead,
        memory: FilesRead,
        project_dir: Path,
    ) -> None:
        self.memory = memory
        self._source = source
        self._state = state
        self._before = before
        self.present: list[str] = []  # of those that were read, in order
        self.late: list[str] = []
        self.changed: list[str] = []
        self._root = f"{project_dir}{os.sep}"

    def at(self, paths: Sequence[str]) -> None:
        """Look at the files before the last name, in order."""
        memory = self.memory
        known = {os.path.basename(path): path for path in memory.files}  # noqa: PTH119
        names = memory.names | known.keys()
        here = {self._shown(path) for path in paths}
        taken = {os.path.basename(path) for path in memory.files if path in here}  # noqa: PTH119
        files, looked = dict(memory.files), {}
        for path in paths:
            shown, name = self._shown(path), os.path.basename(path)  # noqa: PTH119
            try:
                at = os.stat(path)  # noqa: PTH116
            except OSError:
                continue
            read = files.get(shown)
            if read is None:
                if name not in names or name in taken:
                    self.late.append(shown)
                    continue
                taken.add(name)
                read = FileRead(at.st_size, at.st_mtime_ns, None, "")
                if name in known:  # it was moved
                    read = files.pop(known[name])
                files[shown] = read
            self.present.append(shown)
            if read.digest != AGAIN and (read.size, read.mtime) == (at.st_size, at.st_mtime_ns):
                continue
            now = self._looked(path, shown, at, read)
            if read.digest not in (None, AGAIN) and now.digest == read.digest:
                files[shown] = replace(read, mtime=at.st_mtime_ns)
                continue
            looked[shown] = now
            self.changed.append(shown)
        self.memory = replace(memory, files=files, looked=looked)

    def keep(self, root: Path) -> None:
        """Remember what was found out.  Raises OSError."""
        if self.memory != self._before:
            keep_files(root, self._state.dataset, self.memory)
            self._before = self.memory

    def mark(self, root: Path, paths: Sequence[str]) -> None:
        """Have files read again, whatever happens now.  Raises OSError."""
        marked = {path: replace(self.memory.files[path], digest=AGAIN) for path in paths}
        self.memory = replace(self.memory, files={**self.memory.files, **marked})
        self.keep(root)

    def found(self, rule: Reread | None) -> PassedOver:
        """Return what is passed over, and what a rule has read of it."""
        source, last = self._source, self._state.source_state[SOURCE_NAME].value
        common = PassedOver(last=last, late=tuple(self.late), changed=tuple(self.changed))
        if rule is Reread.LATE:
            return replace(common, again=common.late)
        if rule is not Reread.CHANGED or not self.changed:
            return common
        assert isinstance(source.fetch, FetchStepFilesGlob)  # noqa: S101 - nothing else has any
        start = self.present.index(self.changed[0])
        if isinstance(source.merge, MergeStrategySnapshot):
            final = self.present[-1]
            is_last = os.path.basename(final) == last and final in self.changed  # noqa: PTH119
            return replace(common, again=(final,) if is_last else ())
        lost = self._lost(source.fetch, self.present[start])
        return replace(common, again=() if lost else tuple(self.present[start:]), lost=lost)

    def _lost(self, step: FetchStepFilesGlob, first: str) -> str | None:
        """Return a file that was read after a corrected one, and is gone."""
        here = {os.path.basename(path) for path in self.present}  # noqa: PTH119
        read = {os.path.basename(path) for path in self.memory.files} | self.memory.names  # noqa: PTH119
        start = position(step, os.path.basename(first))  # noqa: PTH119
        for name in sorted(read - here):
            try:
                if position(step, name) > start:
                    return name
            except FetchError:
                return name
        return None

    def _looked(self, path: str, shown: str, at: os.stat_result, read: FileRead) -> FileRead:
        """Return a file as it is; it is read only where its size says nothing."""
        before = self.memory.looked.get(shown)
        if before is not None and (before.size, before.mtime) == (at.st_size, at.st_mtime_ns):
            return before
        digest = None
        if at.st_size == read.size and read.digest not in (None, AGAIN):
            digest = _digest(path)
        return FileRead(at.st_size, at.st_mtime_ns, digest, "")

    def _shown(self, path: str) -> str:
        return path.removeprefix(self._root)


class SourceFiles:
    """The files that one ingest reads of a FilesGlob, and what is to be remembered of them."""

    def __init__(self, workspace: Workspace, dataset: Dataset, project_dir: Path) -> None:
        self._workspace = workspace
        self._dataset = dataset
        self._project = project_dir
        self._begun: dict[Path, FileRead] = {}
        self._read: dict[str, FileRead] = {}

    def again(
        self, source: SetPollingSource, state: ChainState, rule: Reread | None, reach: Reach
    ) -> list[Path]:
        """Return the files that a rule has read, in order, and mark them where that is needed.

        Raises what `reach` does, and StateError where no mark can be made.
        """
        if rule is None or rule is Reread.NEVER:
            return []
        looked = _looked_at(self._workspace, source, state, self._project)
        again = () if looked is None else looked.found(rule).again
        if looked is None or not again:
            return []
        paths = [self._project / path for path in again]
        _check_reach(source.fetch, paths, self._project, reach)
        if rule is Reread.CHANGED:
            try:
                looked.mark(self._workspace.root, again)
            except OSError as error:
                raise StateError(
                    what=f"cannot write into {self._workspace.root / FOLDER}: {error.strerror}",
                    why="which files are being read again has to outlast a crash",
                    fix="allow the writing, then run the same command again",
                ) from None
        return paths

    def begin(self, path: Path) -> None:
        """Look at a file before it is read."""
        with suppress(OSError):
            at = path.stat()
            self._begun[path] = FileRead(at.st_size, at.st_mtime_ns, _digest(path), "")

    def took(self, path: Path, head: Multihash) -> None:
        """Note that a file was read, as it was before: its rows are below this head."""
        begun = self._begun.pop(path, None)
        if begun is not None:
            self._read[str(path).removeprefix(f"{self._project}{os.sep}")] = replace(
                begun, block=str(head)
            )

    def keep(self) -> None:
        """Remember what was read; where that cannot be, files count as read as they are found."""
        if not self._read:
            return
        with suppress(OSError, OdfBuildError):
            head = self._dataset.head()
            if head is None:
                return
            memory = recall_files(self._workspace.root, self._dataset.id)
            memory = at_head(memory, self._dataset, head)
            files = {**memory.files, **self._read}
            looked = {path: each for path, each in memory.looked.items() if path not in files}
            keep_files(
                self._workspace.root,
                self._dataset.id,
                replace(memory, files=files, looked=looked),
            )
        self._read.clear()


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
