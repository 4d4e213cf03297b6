"""Differences of a saved undo, or saved housekeeping, from what would be done now.  Pure."""

from collections.abc import Iterator, Mapping, Sequence

from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.maintenance.rewrite import Housekeeping, Stranded, rebuild_places_text
from odfbuild.planner.maintenance.undo import HeadReturn, Undo


def undo_changes(saved: Undo, now: Undo) -> tuple[str, ...]:
    """Return what changed since an undo was saved, a clause for each dataset; `now` is another."""
    steps = _steps(saved.steps, {step.alias: step for step in now.steps})
    readers = _readers(saved.diverging, now.diverging, "what is given up")
    return (*steps, *readers) or ("it would be done in another way",)


def housekeeping_changes(
    saved: Sequence[Housekeeping], now: Sequence[Housekeeping]
) -> tuple[str, ...]:
    """Return what changed since housekeeping was saved; `now` are other steps, or fewer."""
    current = {step.alias: step for step in now}
    found = [*_steps(saved, current)]
    for step in saved:
        if step.alias in current:
            found += _readers(
                step.stranded, current[step.alias].stranded, f"what goes of {step.alias}"
            )
    return tuple(found) or ("it would be done in another way",)


def _steps(
    saved: Sequence[HeadReturn] | Sequence[Housekeeping],
    now: Mapping[DatasetAlias, HeadReturn] | Mapping[DatasetAlias, Housekeeping],
) -> Iterator[str]:
    for step in saved:
        other = now.get(step.alias)
        if other is None:
            yield f"there is nothing left to do for {step.alias}"
        elif _head(step) != _head(other):
            yield f"{step.alias} changed since the plan was made"
        elif isinstance(step, Housekeeping) and isinstance(other, Housekeeping):
            if step.definition != other.definition:
                yield f"the definition of {step.alias} changed"
            elif step.reads != other.reads:
                yield f"the inputs of {step.alias} hold other records"
            elif (step.places, step.outside) != (other.places, other.outside):
                yield f"{step.alias} would be rebuilt in another place: {_place(step, other)}"
    more = sorted(now.keys() - {step.alias for step in saved})
    yield from (f"{alias} would be changed, too" for alias in more)


def _place(step: Housekeeping, other: Housekeeping) -> str:
    before, after = (rebuild_places_text(each) or "here" for each in (step, other))
    return "by an engine with other settings" if before == after else f"{after}, not {before}"


def _head(step: HeadReturn | Housekeeping) -> Multihash | None:
    return step.expected if isinstance(step, HeadReturn) else step.based_on


def _readers(saved: Sequence[Stranded], now: Sequence[Stranded], what: str) -> Iterator[str]:
    """Yield who came to read something, or reads it no more, or reads another part of it."""
    before, after = ({each.dataset: each for each in part} for part in (saved, now))
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            yield f"{name} has come to read {what}"
        elif name not in after:
            yield f"{name} reads nothing any more of {what}"
        elif before[name] != after[name]:
            yield f"{name} reads another part of {what}, or is read by others"
