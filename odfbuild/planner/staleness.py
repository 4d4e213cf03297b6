"""Staleness: the reasons why a derivative dataset is out of date.  Pure.

A metadata chain is its own build trace: every ExecuteTransform block records how far into each
input it read.  Up to date means that record equals where the inputs stand now (ODF 0.34.1,
"ExecuteTransformInput").  Positions given here lie on the inputs' current chains; a rewrite of
equal length is caught before, by ancestry of the recorded block.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from odfbuild.errors import Diagnostic, PlanError
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.diff.restate import restates
from odfbuild.planner.plan.reasons import InputAdvanced, InputRewritten
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.planner.declared import Declared
    from odfbuild.planner.plan import Step


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


def diverged_datasets(
    declared: "Sequence[Declared]", steps: "Sequence[Step]"
) -> Iterator[tuple[DatasetAlias, tuple[Diagnostic, ...]]]:
    """Yield the datasets of which an input was rewritten, and what to do: steps would fail."""
    lost = {
        step.target: reason
        for step in steps
        for reason in step.reasons
        if isinstance(reason, InputRewritten)
    }
    for each in declared if lost else ():
        if (reason := lost.get(each.alias)) is not None:
            found = Diagnostic(
                code=DivergedInputError.code,
                what=f"it cannot continue, as {reason.alias} was rewritten",
                why=_WHY,
                fix=diverged_fix(str(each.alias)),
                span=each.alias_span(reason.alias),
            )
            yield each.alias, (found,)


_WHY = "history only grows, so this copy of the input is outdated, or was reset or compacted"


def diverged_fix(name: str) -> str:
    """Return the way forward of a dataset that read what its input no longer holds."""
    return f"if it was meant, rebuild it: odfbuild rebuild {name}; else restore the input's chain"


def records(offset: int | None) -> int:
    """Count records up to an offset; offsets start at 0, so offset 0 is one record."""
    return 0 if offset is None else offset + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class InputLag:
    """How many records of an input were read, and how many it has (None: it is not there).

    Of one that is `rewritten` since, the one number has nothing to do with the other.
    """

    dataset: DatasetId
    read: int
    present: int | None
    rewritten: bool

    @property
    def behind(self) -> int | None:
        """Return how many records are not read yet; None where that has no answer."""
        return None if self.present is None or self.rewritten else self.present - self.read


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a derivative is behind its inputs, in the order of its definition.

    `watermark` is the one that it would reach, None if it would not move; `restates` says that its
    query has yet to correct what was written before it.
    """

    inputs: tuple[InputLag, ...]
    watermark: Timestamp | None
    restates: bool

    @property
    def records(self) -> int | None:
        """Return how many records are not read yet; None where that has no answer."""
        behind = [each.behind for each in self.inputs]
        return None if None in behind else sum(each for each in behind if each is not None)


def lag_of(
    state: ChainState,
    current: Mapping[DatasetId, ChainState],
    rewritten: Collection[DatasetId] = (),
) -> Lag | None:
    """Return how far a derivative is behind; None for a root, and while no query is in force.

    `current` has the chains that are there, `rewritten` the inputs that no longer hold the block
    that was read of them last.
    """
    if state.transform is None:
        return None
    refs = [source.dataset_ref for source in state.transform.inputs]
    ids = [ref for ref in dict.fromkeys(refs) if isinstance(ref, DatasetId)]  # one may come twice
    inputs = tuple(_input(state, id, current.get(id), id in rewritten) for id in ids)
    target = None
    if all(each.behind is not None for each in inputs):
        target = next_watermark(state, [InputNow("", current[id]) for id in ids])
    return Lag(inputs, target if target != state.watermark else None, restates(state))


def _input(state: ChainState, id: DatasetId, now: ChainState | None, is_lost: bool) -> InputLag:
    known = state.progress.get(id)
    read = records(None if known is None else known.new_offset)
    present = None if now is None else records(now.last_offset)
    is_shorter = present is not None and present < read
    return InputLag(dataset=id, read=read, present=present, rewritten=is_lost or is_shorter)
