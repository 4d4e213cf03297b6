"""What every step works with: the workspace, the engine, the clock, the project's surroundings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from odfbuild.executors.engine import Engine
from odfbuild.odf.chain import ChainState
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.timestamp import Timestamp
from odfbuild.permissions import UNLIMITED, Permissions
from odfbuild.state.workspace import Workspace

if TYPE_CHECKING:
    from odfbuild.errors import Diagnostic
    from odfbuild.executors.slices import Sealed

__all__ = ["SLICE_ROWS", "RowGate", "Site"]

SLICE_ROWS = 1_000_000  # rows of a slice at most, unless the project says otherwise


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
    committed, None if there are none.
    """

    workspace: Workspace
    engine: Engine
    clock: Callable[[], Timestamp]
    project_dir: Path
    env: Mapping[str, str]
    slice_rows: int = SLICE_ROWS
    permissions: Permissions = UNLIMITED
    gate: RowGate | None = None
