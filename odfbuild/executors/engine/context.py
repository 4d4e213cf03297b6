"""Context of every step: the workspace, the engine, the clock, the project's surroundings."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from odfbuild.errors import Diagnostic
from odfbuild.executors.data.frames import Frame, ReadAmount
from odfbuild.executors.engine.protocol import Engine, TransformWork
from odfbuild.host.permissions import UNLIMITED, Permissions
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import SetPollingSource, TransformSql
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.data.seal import Sealed
    from odfbuild.executors.engine.messages.file_ingest import FileIngest, IngestedFile
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.planner.plan import Pull


SLICE_ROWS = 1_000_000  # rows of a slice at most, unless the project says otherwise


class StepEngine(Protocol):
    """Carries out steps, here or elsewhere."""

    def transform(self, work: TransformWork) -> Frame:
        """Run one step of a transform; see `Engine`."""


class RemoteEngine(StepEngine, Protocol):
    """Carries out steps elsewhere; `reads_store` if it gets files from an object store."""

    @property
    def reads_store(self) -> bool: ...


class RemoteIngest(Protocol):
    """Reads and merges files of sources elsewhere; `reads_store` as in `RemoteEngine`."""

    @property
    def reads_store(self) -> bool: ...

    def ingest(self, work: "FileIngest") -> "IngestedFile":
        """Have a file read, and its rows merged."""


class StepPlacement(Protocol):
    """Says which steps are carried out elsewhere."""

    def place(self, target: "DatasetAlias", work: TransformWork) -> tuple[str, RemoteEngine] | None:
        """Return the name of an engine, and what carries out the step; None if that is here."""

    def takes(self, target: "DatasetAlias", transform: TransformSql) -> bool:
        """Tell whether all steps of a dataset are carried out elsewhere, however large."""

    def place_ingest(
        self, target: "DatasetAlias", source: SetPollingSource, size: int
    ) -> tuple[str, RemoteIngest] | None:
        """Return the engine that reads new files of so many bytes; None if that is done here."""

    def takes_source(self, target: "DatasetAlias", source: SetPollingSource) -> bool:
        """Tell whether all files of a source are read and merged elsewhere, however large."""

    def cancel(self) -> None:
        """End all that runs elsewhere."""


class RowGate(Protocol):
    """Judges new rows before they are committed."""

    def check(
        self, site: "Site", dataset: DatasetId, state: ChainState, sealed: "Sealed", source: str
    ) -> "tuple[Diagnostic, ...]":
        """Return warnings of the rows of a step; raise DataCheckError where they are held back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The one place where effects come from; tests give their own clock and engine.

    `permissions` are what sources may use of the machine.  Every `slice_rows` rows of an input
    become a slice of their own.  `gate` has the checks that new rows go through before they are
    committed, None if there are none.  `puller` brings datasets of repositories, None where there
    are none.  `placement` says which steps are carried out elsewhere, None if none is.
    """

    workspace: Workspace
    engine: Engine
    clock: Callable[[], Timestamp]
    project_dir: Path
    env: Mapping[str, str]
    slice_rows: int = SLICE_ROWS
    permissions: Permissions = UNLIMITED
    gate: RowGate | None = None
    puller: "Callable[[Pull, DatasetAlias], object] | None" = None
    placement: StepPlacement | None = None

    def cancel(self) -> None:
        """End what engines do now, here and elsewhere."""
        self.engine.cancel()
        if self.placement is not None:
            self.placement.cancel()


def gate_findings(
    site: Site, dataset: DatasetId, state: ChainState, sealed: "Sealed | None", source: str
) -> "tuple[Diagnostic, ...]":
    """Make the checks on what is about to be committed; return what is only to be told of it.

    `state` is the dataset before, `source` what the rows come of.  Raises DataCheckError when a
    check fails that holds rows back.
    """
    if site.gate is None or sealed is None or not sealed.slices:
        return ()
    return site.gate.check(site, dataset, state, sealed, source)


@dataclass(frozen=True, slots=True)
class ColumnDrift:
    """How the columns of an input differ from the schema that was declared for them.

    `added` and `grown` are lines of the definition, `- name TYPE`, that would take in columns and
    members that are left out now.  `missing` are columns that are null now.  `renamed` pairs names
    of the input with the columns that took their values by position.
    """

    added: tuple[str, ...] = ()
    grown: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class InputNotes:
    """Notes on an input, beside the rows taken in: bad rows, kept in a file, and drift.

    `checks` are what checks of the project found in the rows, and let pass.  `absent` is said of a
    source that has no file yet.
    """

    bad_rows: int = 0
    bad_rows_file: str | None = None
    drifted: ColumnDrift | None = None
    checks: tuple[Diagnostic, ...] = ()
    absent: Diagnostic | None = None

    def __bool__(self) -> bool:
        found = self.drifted is not None or self.absent is not None
        return found or self.bad_rows > 0 or bool(self.checks)


_NOTHING = InputNotes()
RECORDED_KEY: Final = "recorded-key"
"""The code of the report on rows that a Ledger left out."""
NO_EVENT_TIME: Final = "no-event-time-in-rows"
"""The code of the report on rows that were given an event time."""
EMPTY_INPUT: Final = "empty-input"
"""The code of the report on a file of 0 bytes that was read as a table without rows."""
OTHER_FILES: Final = "other-files"
"""The code of the report on files that are not those of which a plan was made."""
OTHER_ENTRIES: Final = "other-entries"
"""The code of the report on an archive of which one entry was read and others were not."""
RENAMED_COLUMN: Final = "renamed-column"
"""The code of the report on a source's column that is called as a system column is."""
NULL_KEY: Final = "null-key"
"""The code of the report on rows of a Ledger without a key."""
OF_INPUTS: Final = (
    *(NO_EVENT_TIME, EMPTY_INPUT, OTHER_ENTRIES),
    *(RECORDED_KEY, NULL_KEY, RENAMED_COLUMN),
)
"""The codes of reports that are made once for all inputs of a dataset."""


@dataclass(frozen=True, slots=True)
class Round:
    """One commit of a step: what it read, and how many blocks and rows it added.

    No blocks means that there was nothing to commit, but `notes` are there.  `read` is what a step
    read of slices, as far as it was counted.  `head` is the block that the commit ended with, None
    without a commit.  `place` is the engine that carried the step out, None if that was done here.
    """

    source: str
    blocks: int
    records: int
    notes: InputNotes = _NOTHING
    read: ReadAmount | None = None
    head: Multihash | None = None
    place: str | None = None
