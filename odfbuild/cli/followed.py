"""What later runs did with a run: went on with it, or took it back.  Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from odfbuild.state.runs import Ended, RunSummary

__all__ = ["Later", "later_runs"]

_UNDO = "undo"
_NOT_RESUMED = (_UNDO, "retire")
_UNFINISHED = (Ended.PARTLY, Ended.FAILED, Ended.STOPPED, Ended.INTERRUPTED)


@dataclass(frozen=True, slots=True)
class Later:
    """The newest run that went on with another, and the one that took it back, if any did.

    `left` is the run whose rest is what is left to be done; None if nothing is.
    """

    resumed: RunSummary | None = None
    taken_back: RunSummary | None = None
    left: RunSummary | None = None


def later_runs(runs: Iterable[RunSummary]) -> dict[str, Later]:
    """Return what became of each of these runs later on, by id; they are given newest first."""
    found: dict[str, Later] = {}
    followers: dict[str, list[RunSummary]] = {}
    for run in runs:
        found[run.id] = _later(run, followers.get(run.id, ()), found)
        if run.follows is not None:
            followers.setdefault(run.follows, []).append(run)
    return found


def _later(run: RunSummary, followers: Iterable[RunSummary], known: dict[str, Later]) -> Later:
    """Say what became of a run, of which the followers and their own fates are known."""
    standing = [each for each in followers if known[each.id].taken_back is None]
    backs = (e for e in standing if e.command == _UNDO and e.outcome is Ended.DONE)
    if (back := next(backs, None)) is not None:
        return Later(taken_back=back)
    resumed = next((each for each in standing if each.command not in _NOT_RESUMED), None)
    return Later(resumed=resumed, left=next(_left(run, resumed, known), None))


def _left(
    run: RunSummary, resumed: RunSummary | None, known: dict[str, Later]
) -> Iterator[RunSummary]:
    if resumed is not None:
        left = known[resumed.id].left
        if left is not None:
            yield left
    elif run.command not in _NOT_RESUMED and run.outcome in _UNFINISHED:
        yield run
