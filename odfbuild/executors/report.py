"""What became of the steps of a run: values, for the runner to fill and the edges to show."""

from dataclasses import dataclass
from typing import TypeAlias

from odfbuild.errors import Diagnostic, OdfBuildError
from odfbuild.executors.frames import Read
from odfbuild.odf.identity import Multihash
from odfbuild.planner.plan import Step

__all__ = [
    "Done",
    "Drifted",
    "Failed",
    "Interrupted",
    "Outcome",
    "Report",
    "Round",
    "Skipped",
    "Told",
]


@dataclass(frozen=True, slots=True)
class Drifted:
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
class Told:
    """What an input had besides the rows taken in: bad ones, kept in a file, and drift.

    `checks` are what checks of the project found in the rows, and let pass.  `absent` is said of a
    source that has no file yet.
    """

    bad_rows: int = 0
    bad_rows_file: str | None = None
    drifted: Drifted | None = None
    checks: tuple[Diagnostic, ...] = ()
    absent: Diagnostic | None = None

    def __bool__(self) -> bool:
        found = self.drifted is not None or self.absent is not None
        return found or self.bad_rows > 0 or bool(self.checks)


_NOTHING = Told()


@dataclass(frozen=True, slots=True)
class Round:
    """One commit of a step: what it read, and how many blocks and rows it added.

    No blocks means that there was nothing to commit but something to tell.  `read` is what a step
    read of slices, as far as it was counted.  `head` is the block that the commit ended with, None
    without a commit.
    """

    source: str
    blocks: int
    records: int
    told: Told = _NOTHING
    read: Read | None = None
    head: Multihash | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The step ended; no rounds means that it found nothing to do (cut-off)."""

    rounds: tuple[Round, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The step failed; the rounds before that stand."""

    error: OdfBuildError
    rounds: tuple[Round, ...]


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The step was broken off because the run was given up; the rounds before that stand.

    `cut_off` says that it could not be waited for: it may have committed once more.
    """

    rounds: tuple[Round, ...]
    cut_off: bool = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """The step did not run, because of a step that failed."""

    because: str


Outcome: TypeAlias = Done | Failed | Interrupted | Skipped


@dataclass(frozen=True, slots=True)
class Report:
    """What became of every step, in the plan's order; `notes` are about the run as a whole.

    `left` are steps of an interrupted run of which nothing is known: most never began.
    """

    outcomes: tuple[tuple[Step, Outcome], ...]
    notes: tuple[Diagnostic, ...] = ()
    left: tuple[Step, ...] = ()

    @property
    def committed(self) -> int:
        """Count the blocks that were committed."""
        return sum(
            each.blocks
            for _, outcome in self.outcomes
            if not isinstance(outcome, Skipped)
            for each in outcome.rounds
        )

    @property
    def failures(self) -> tuple[tuple[Step, Failed], ...]:
        """Return the steps that failed."""
        return tuple(
            (step, outcome) for step, outcome in self.outcomes if isinstance(outcome, Failed)
        )

    @property
    def is_whole(self) -> bool:
        """Say whether every step ended well."""
        return not self.left and all(isinstance(each, Done) for _, each in self.outcomes)

    @property
    def interrupted(self) -> int:
        """Count the steps that were broken off."""
        return sum(isinstance(outcome, Interrupted) for _, outcome in self.outcomes)
