"""Say why a derivative dataset is out of date.  Pure: no files, no clock, no engine.

A metadata chain is its own build trace: every ExecuteTransform block records how far into each
input it read.  Up to date means that record equals where the inputs stand now (ODF 0.34.1,
"ExecuteTransformInput").  Positions given here lie on the inputs' current chains; a rewrite of
equal length is caught before, by ancestry of the recorded block.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odfbuild.errors import Diagnostic, Level, PlanError
from odfbuild.odf.chain import ChainState
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.reasons import InputAdvanced, InputRewritten

if TYPE_CHECKING:
    from odfbuild.planner.declared import Declared
    from odfbuild.planner.plan import Step

__all__ = [
    "DivergedInputError",
    "InputNow",
    "diverged",
    "diverged_fix",
    "diverged_notes",
    "next_watermark",
    "records",
    "why_stale",
]


@dataclass(frozen=True, slots=True)
class InputNow:
    """One input of a transform: the alias that the query uses, and its chain as it stands."""

    alias: str
    state: ChainState


class DivergedInputError(PlanError):
    """An input no longer holds what was already read from it."""

    code = "diverged-input"


def why_stale(output: ChainState, inputs: Sequence[InputNow]) -> tuple[InputAdvanced, ...]:
    """Return every reason to run the transform, in input order; empty means up to date.

    Raises DivergedInputError if an input's last offset moved backwards.
    """
    target = next_watermark(output, inputs)
    moved = target if target != output.watermark else None
    reasons: list[InputAdvanced] = []
    for source in inputs:
        read = output.progress.get(source.state.dataset)
        consumed = None if read is None else read.new_offset
        present = source.state.last_offset
        if records(present) < records(consumed):
            raise diverged(
                source.alias,
                f"has {records(present)} records but {records(consumed)} were read from it",
            )
        if present != consumed:
            reasons.append(
                InputAdvanced(source.state.dataset, source.alias, consumed, present, moved)
            )
    if not reasons and moved is not None:
        slowest = min(inputs, key=lambda each: each.state.watermark or moved)
        at = slowest.state.last_offset
        reasons.append(InputAdvanced(slowest.state.dataset, slowest.alias, at, at, moved))
    return tuple(reasons)


def next_watermark(output: ChainState, inputs: Sequence[InputNow]) -> Timestamp | None:
    """Return the least watermark of all inputs, or the recorded one where that is greater.

    An input that has none makes it absent, unless one was recorded already: it never goes back.
    """
    marks = [source.state.watermark for source in inputs]
    known = [mark for mark in marks if mark is not None]
    if len(known) < len(marks) or not known:
        return output.watermark
    least = min(known)
    return least if output.watermark is None else max(least, output.watermark)


def diverged(alias: str, what: str, name: str = "NAME") -> DivergedInputError:
    """Return the error for an input whose history is not the one that the dataset `name` read."""
    return DivergedInputError(what=f"{alias} {what}", why=_WHY, fix=diverged_fix(name))


def diverged_notes(declared: "Sequence[Declared]", steps: "Sequence[Step]") -> Iterator[Diagnostic]:
    """Say of whom an input was rewritten, and what to do: their steps will fail, others go on."""
    lost = {
        step.target: reason
        for step in steps
        for reason in step.reasons
        if isinstance(reason, InputRewritten)
    }
    for each in declared if lost else ():
        if (reason := lost.get(each.alias)) is not None:
            yield Diagnostic(
                code=DivergedInputError.code,
                what=f"{each.alias} cannot go on, as {reason.alias} was rewritten; to make it "
                f"anew: odfbuild rebuild {each.alias}",
                why=_WHY,
                fix=diverged_fix(str(each.alias)),
                span=each.span(()),
                level=Level.WARNING,
            )


_WHY = "history only grows, so this copy of the input is outdated, or was reset or compacted"


def diverged_fix(name: str) -> str:
    """Return the way on of a dataset that read what its input no longer holds."""
    return f"if it was meant, make it anew: odfbuild rebuild {name}; else restore the input's chain"


def records(offset: int | None) -> int:
    """Count records up to an offset; offsets start at 0, so offset 0 is one record."""
    return 0 if offset is None else offset + 1
