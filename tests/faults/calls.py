"""A fault at the N-th call: kill and torn write at every N, each errno at many.

A killed apply starts from the same project each time.  Errors come in rows: an apply that failed is
followed by another with another error, until one gets through or a dozen failed.
"""

import argparse
import errno
import random
from collections.abc import Iterator, Sequence

from tests.faults.preload import CHANGES, FOREVER, Action, Fault, Kind
from tests.faults.trial import Ground, Moment, Tally, ground

__all__ = ["ERRORS", "errors", "kills", "main", "torn"]

_FULL = (
    Kind.CREATE | Kind.WRITE | Kind.SYNC | Kind.RENAME | Kind.LINK | Kind.MKDIR | Kind.TRUNCATE
)  # fmt: skip
_NAMES = (
    Kind.OPEN | Kind.CREATE | Kind.RENAME | Kind.LINK | Kind.UNLINK | Kind.RMDIR | Kind.MKDIR
)  # fmt: skip
_DEVICE = _FULL | _NAMES | Kind.READ | Kind.CLOSE
_SLOW = (
    Kind.OPEN | Kind.CREATE | Kind.READ | Kind.WRITE | Kind.SYNC | Kind.TRUNCATE | Kind.CLOSE
    | Kind.LOCK
)  # fmt: skip
ERRORS = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EIO: _DEVICE,
    errno.EMFILE: Kind.OPEN | Kind.CREATE,
    errno.ENFILE: Kind.OPEN | Kind.CREATE,
    errno.EACCES: _NAMES,
    errno.EPERM: _NAMES,
    errno.EROFS: _NAMES | Kind.TRUNCATE,
    errno.EINTR: _SLOW,
    errno.ENOMEM: _DEVICE,
    errno.ENOLCK: Kind.LOCK,
}
"""The calls that can fail with each errno."""

_IN_A_ROW = 12


def kills(site: Ground, tally: Tally, chosen: Sequence[int] | None = None, begin: int = 1) -> None:
    """Kill an apply at every call that changes something, or at some of 1,000 parts of them."""
    _cut_off(site, tally, Action.KILL_ALL, CHANGES, "kill", chosen, begin)


def torn(site: Ground, tally: Tally, chosen: Sequence[int] | None = None, begin: int = 1) -> None:
    """Cut an apply off with every write half done."""
    _cut_off(site, tally, Action.TORN, Kind.WRITE, "torn write", chosen, begin)


def _cut_off(
    site: Ground,
    tally: Tally,
    action: Action,
    kinds: Kind,
    name: str,
    chosen: Sequence[int] | None,
    begin: int,
) -> None:
    for moment in site.moments:
        calls = site.calls(moment, kinds)
        numbers = (
            range(begin, calls + 1) if chosen is None else [1 + n * calls // 1000 for n in chosen]
        )
        title = f"{name}, {moment.name} apply of {calls:,} calls"
        tally.wanted[title] = len(numbers)
        for n in numbers:
            fault = Fault(action=action, at=n, kinds=kinds)
            outcome = site.run(moment, fault)
            tally.count(title, outcome)
            with tally.trial(f"{moment.name} apply, {fault} ({outcome.hit})"):
                site.check(moment, outcome)
                site.settle(moment)


def errors(
    site: Ground, tally: Tally, rounds: int, chance: random.Random, only: Sequence[int] = ()
) -> None:
    """Let calls fail with each errno until it befell so many runs."""
    for error in only or ERRORS:
        name = errno.errorcode[error]
        tally.wanted[name] = rounds
        starts = _alternating([(each, site.calls(each, ERRORS[error])) for each in site.moments])
        while tally.reached[name] < rounds:
            _row(site, tally, *next(starts), error, rounds, chance)


def _alternating(starts: Sequence[tuple[Moment, int]]) -> Iterator[tuple[Moment, int]]:
    while True:
        yield from starts


def _row(
    site: Ground,
    tally: Tally,
    moment: Moment,
    calls: int,
    error: int,
    rounds: int,
    chance: random.Random,
) -> None:
    """Run an apply over and over, each time with an error, to its good end or for some time.

    `calls` are those that an undisturbed apply makes and that can fail with the error.
    """
    project = site.lay(moment)
    name = errno.errorcode[error]
    past = [f"{moment.name} apply"]
    for _ in range(_IN_A_ROW):
        fault = _error(error, calls, chance)
        outcome = site.go_on(project, fault)
        tally.count(name, outcome)
        past.append(f"{fault} ({outcome.hit})")
        with tally.trial(", ".join(past)):
            site.check(moment, outcome)
        if tally.reached[name] >= rounds:
            break
        calls = max(outcome.calls, 20)
        if outcome.code == 0:
            break
    with tally.trial(", ".join(past)):
        site.settle(moment)


def _error(error: int, calls: int, chance: random.Random) -> Fault:
    """Return one failure; or all of some time; or, of a full disk, a short write and all after."""
    full = error in (errno.ENOSPC, errno.EDQUOT)
    action = Action.SHORT if full and chance.random() < 0.3 else Action.ERROR
    more = chance.choice((0, 0, 1, 5, 5 if error == errno.EINTR else FOREVER))
    at = 1 + int(calls * chance.random() ** chance.choice((1, 2)))
    return Fault(action=action, at=at, more=more, kinds=ERRORS[error], error=error)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one sort of faults or all, say how many, and return 1 if anything did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.calls", description=__doc__)
    parser.add_argument("what", nargs="*", help="kill, torn, or names of errno; default: all")
    parser.add_argument("--rounds", type=int, default=1000, help="of each errno")
    parser.add_argument("--from", type=int, default=1, help="kill and tear from this call on")
    parser.add_argument("--sample", type=int, help="kill and tear at so many calls an apply only")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    chance = random.Random(given.seed)
    tally = Tally()
    chosen = None if given.sample is None else chance.sample(range(1000), given.sample)
    begin = vars(given)["from"]
    wanted = [getattr(errno, name) for name in given.what if name not in ("kill", "torn")]
    with ground() as site:
        if not given.what or "kill" in given.what:
            kills(site, tally, chosen, begin)
        if not given.what or "torn" in given.what:
            torn(site, tally, chosen, begin)
        if not given.what or wanted:
            errors(site, tally, given.rounds, chance, wanted)
    print(f"calls\n{tally}")
    return bool(tally.problems)


if __name__ == "__main__":
    raise SystemExit(main())
