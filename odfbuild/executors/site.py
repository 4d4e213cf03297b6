"""What every step works with: the workspace, the engine, the clock, the project's surroundings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from odfbuild.executors.engine import Engine
from odfbuild.odf.timestamp import Timestamp
from odfbuild.permissions import UNLIMITED, Permissions
from odfbuild.state.workspace import Workspace

if TYPE_CHECKING:
    from odfbuild.executors.testing.gate import Gate

__all__ = ["SLICE_ROWS", "Site"]

SLICE_ROWS = 1_000_000  # rows of a slice at most, unless the project says otherwise


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
    gate: "Gate | None" = None
