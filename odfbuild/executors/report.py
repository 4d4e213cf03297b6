"""What became of the steps of a run: values, for the runner to fill and the edges to show."""

from dataclasses import dataclass
from typing import TypeAlias

from odfbuild.errors import OdfBuildError
from odfbuild.planner.plan import Step

__all__ = ["Done", "Failed", "Outcome", "Report", "Round", "Skipped"]


@dataclass(frozen=True, slots=True)
class Round:
    """One commit of a step: what it read, and how many blocks and rows it added."""

    source: str
    blocks: int
    records: int


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
class Skipped:
    """The step did not run, because of a step that failed."""

    because: str


Outcome: TypeAlias = Done | Failed | Skipped


@dataclass(frozen=True, slots=True)
class Report:
    """What became of every step, in the plan's order."""

    outcomes: tuple[tuple[Step, Outcome], ...]

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
