"""Why a dataset is in a plan: each reason, and what stands behind it, down to files.  Pure."""

from collections.abc import Iterator, Mapping, Sequence

from odfbuild.cli.words import reason_text
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Append, Move, Plan, Step
from odfbuild.planner.plan_json import steps_by_target
from odfbuild.planner.reasons import InputMayAdvance

__all__ = ["cause_lines"]

_INDENT = "  "


def cause_lines(
    plan: Plan, alias: DatasetAlias, steps: Mapping[DatasetAlias, Sequence[Step]] | None = None
) -> Iterator[str]:
    """Yield the reasons of a dataset's steps, below each input that may advance its own reasons.

    An input that was gone into before is named only.  `steps` are those of each dataset, for who
    asks for many.
    """
    yield from _Chain(steps_by_target(plan) if steps is None else steps).lines(alias)


class _Chain:
    """One walk against the direction of the data."""

    def __init__(self, steps: Mapping[DatasetAlias, Sequence[Step]]) -> None:
        self._steps = steps
        self._seen: set[DatasetAlias] = set()

    def lines(self, alias: DatasetAlias) -> Iterator[str]:
        stack = [self._reasons(alias, 0)]
        while stack:
            found = next(stack[-1], None)
            if found is None:
                stack.pop()
                continue
            line, behind = found
            yield line
            if behind is not None:
                stack.append(self._reasons(behind, len(stack)))

    def _reasons(
        self, alias: DatasetAlias, depth: int
    ) -> Iterator[tuple[str, DatasetAlias | None]]:
        self._seen.add(alias)
        for step in self._steps.get(alias, ()):
            if depth and isinstance(step.work, Append | Move):
                continue
            for reason in step.reasons:
                text = f"{_INDENT * depth}{_verb(step)}: {reason_text(reason)}"
                if not isinstance(reason, InputMayAdvance) or reason.dataset not in self._steps:
                    yield text, None
                elif reason.dataset in self._seen:
                    yield f"{text} (as above)", None
                else:
                    yield f"{text}, because", reason.dataset


def _verb(step: Step) -> str:
    return type(step.work).__name__.lower()
