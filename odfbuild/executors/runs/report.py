"""Report of a run: the outcome of each step, filled by the scheduler and shown by the edges."""

from typing import TypeAlias

from odfbuild.errors import Diagnostic, OdfBuildError
from odfbuild.executors.engine.context import Round
from odfbuild.planner.plan import Step
from odfbuild.values import dataclass


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
    """The step was broken off because the run was stopped; the rounds before that stand.

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
class RunReport:
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
    def is_complete(self) -> bool:
        """Say whether every step ended well."""
        return not self.left and all(isinstance(each, Done) for _, each in self.outcomes)

    @property
    def interrupted(self) -> int:
        """Count the steps that were broken off."""
        return sum(isinstance(outcome, Interrupted) for _, outcome in self.outcomes)
