"""Commands of real processes at once on one workspace, round after round, without any scheduler.

    python -m tests.faults.races --rounds 1000 --seed 0

Two to four processes begin within some milliseconds; every second round has leases.  Afterwards all
must be true that is true of schedules (`tests.faults.schedules`).
"""

import argparse
import os
import pickle
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from odfbuild.errors import OdfBuildError
from tests.faults.concurrent import COMMANDS, MERGES, Done, World, without_spark
from tests.faults.schedules import check_done
from tests.faults.workload import memory

__all__ = ["forked", "main", "races", "wait", "world_apart"]

_LATEST = 0.2  # seconds after which the last of a round begins
_LONGEST = 120.0  # seconds that a command may take
_CHECKED = 3600.0  # seconds for a round, with the serial orders that it is compared with


def races(rounds: int, seed: int = 0, told: Callable[[str], None] = print) -> int:
    """Run so many rounds and return how many broke the law."""
    broken = 0
    with tempfile.TemporaryDirectory(dir=memory()) as place, without_spark():
        worlds = [world_apart(Path(place) / f"{n}", merge) for n, merge in enumerate(MERGES)]
        for number in range(seed, seed + rounds):
            found = Path(place) / "found"
            if wait(forked(partial(_round, worlds, number, found)), _CHECKED) != 0:
                broken += 1
                told(f"BROKEN, seed {number}: {found.read_text('utf-8')}")
            if (number - seed + 1) % 100 == 0:
                told(f"{number - seed + 1:,} rounds, {broken} broken")
    return broken


def world_apart(folder: Path, merge: str) -> World:
    """Make a world in a process of its own: who forks has no threads that way."""
    folder.mkdir()
    kept = folder / "world"
    assert wait(forked(lambda: kept.write_bytes(pickle.dumps(World(folder, merge))))) == 0
    world = pickle.loads(kept.read_bytes())  # noqa: S301 - our own
    assert isinstance(world, World)
    return world


def _round(worlds: Sequence[World], seed: int, found: Path) -> None:
    draw = random.Random(seed)
    world = draw.choice(worlds)
    world.leased = bool(seed % 2)
    names = [draw.choice(tuple(COMMANDS)) for _ in range(draw.choice((2, 2, 3, 4)))]
    if draw.random() < 0.5:
        names[:2] = ["apply", draw.choice(("apply", "run", "reset", "undo"))]
    actors = {f"{number}:{name}": draw.random() * _LATEST for number, name in enumerate(names)}
    found.write_text(f"{names}\n", "utf-8")
    with world.copy() as folder:
        started = {
            actor: forked(partial(_act, world, folder, actor, delay))
            for actor, delay in actors.items()
        }
        for process in started.values():
            wait(process)
        errors = {actor: _error(folder, actor) for actor in started}
        with found.open("a", encoding="utf-8") as told:
            told.write(f"{errors}\n")
        try:
            check_done(world, folder, names, Done(errors, ()))
        finally:
            world.forget()


def _act(world: World, folder: Path, actor: str, delay: float) -> None:
    time.sleep(delay)
    error: BaseException | None = None
    try:
        error = world.alone(folder, actor.partition(":")[2])
    except OSError as failed:
        error = failed
    (folder / f"{actor}.error").write_bytes(pickle.dumps(_plain(error)))


def _plain(error: BaseException | None) -> tuple[str, ...] | None:
    """Return an error as it goes from one process to another."""
    if error is None:
        return None
    if isinstance(error, OdfBuildError):
        return error.what, error.why, error.fix
    return (str(error),)


def _error(folder: Path, actor: str) -> BaseException | None:
    try:
        found = pickle.loads((folder / f"{actor}.error").read_bytes())  # noqa: S301 - our own
    except OSError as error:
        raise AssertionError(f"{actor} ended without a word") from error
    if found is None:
        return None
    return OdfBuildError(*found) if len(found) == 3 else OSError(*found)


def forked(do: Callable[[], object]) -> int:
    """Do something in a process of its own; return its id."""
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        do()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def wait(process: int, longest: float = _LONGEST) -> int:
    """Return the exit code of a process; -1 of one that had to be killed."""
    until = time.monotonic() + longest
    while time.monotonic() < until:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(process, 9)
    os.waitpid(process, 0)
    return -1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as many rounds as asked for; 1 if one of them broke the law."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.races")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    began = time.monotonic()
    broken = races(asked.rounds, asked.seed, lambda text: print(text, flush=True))
    print(f"{asked.rounds:,} rounds, {broken} broken, {time.monotonic() - began:,.0f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
