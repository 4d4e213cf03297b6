"""Faults in real applies: with Spark, and with the library of faults in its JVM as well.

Killed is the run with its JVM, or whichever of the two made the call; or the call meets an errno.
"""

import argparse
import errno
import random
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.faults.calls import ERRORS
from tests.faults.preload import CHANGES, FOREVER, Action, Fault, Kind
from tests.faults.server import SparkCommands
from tests.faults.trial import Ground, Tally

__all__ = ["main", "sample"]

_ERRORS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EACCES)


def sample(site: Ground, tally: Tally, rounds: int, chance: random.Random) -> None:
    """Disturb so many applies."""
    calls = {each.name: site.calls(each, CHANGES) for each in site.moments}
    tally.wanted.update({"killed": rounds // 2, "errors": rounds - rounds // 2})
    for number in range(rounds):
        moment = site.moments[number // 2 % 2]
        at = 1 + chance.randrange(calls[moment.name])
        name, fault = ("errors", _error(at, chance)) if number % 2 else ("killed", _end(at, chance))
        outcome = site.run(moment, fault)
        tally.count(name, outcome)
        with tally.trial(f"{moment.name} apply, {fault} ({outcome.hit})"):
            site.check(moment, outcome)
            site.settle(moment)


def _end(at: int, chance: random.Random) -> Fault:
    action = chance.choice((Action.KILL, Action.KILL_ALL, Action.TORN))
    kinds = Kind.WRITE if action is Action.TORN else CHANGES
    return Fault(action=action, at=at // 2 + 1 if action is Action.TORN else at, kinds=kinds)


def _error(at: int, chance: random.Random) -> Fault:
    error = chance.choice(_ERRORS)
    kinds = ERRORS[error] & CHANGES
    more = chance.choice((0, 3, FOREVER))
    return Fault(action=Action.ERROR, at=at, more=more, kinds=kinds, error=error)


def main(arguments: Sequence[str] | None = None) -> int:
    """Disturb applies with Spark, say how many, and return 1 if anything did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.spark", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    tally = Tally()
    with TemporaryDirectory(prefix="odfbuild-faults-") as name:
        folder = Path(name).resolve()
        site = Ground(folder, SparkCommands(folder))
        sample(site, tally, given.rounds, random.Random(given.seed))
    print(f"spark\n{tally}")
    return bool(tally.problems)


if __name__ == "__main__":
    raise SystemExit(main())
