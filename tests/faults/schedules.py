"""Whatever is done at once, the chains are those of some serial order of what succeeded.

    python -m tests.faults.schedules --rounds 10000 --seed 1    2 to 8 commands, switched anywhere
    python -m tests.faults.schedules --rounds 0 --pairs 1       two, switched at every place
    python -m tests.faults.schedules --rounds 0 --pairs 2       and back again, at every other place

Without leases each commit must be one to the state that it was worked out from: the blocks of every
chain are checked one by one against the files and the inputs that they name (`check_chains`), and
what a command reported is in the chain unless another took it back.  With leases, as half of the
drawn schedules have them, whole commands go one after the other: the chains must be equal to those
of a serial order of them.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations, product
from pathlib import Path
from typing import Any

from odfbuild.errors import OdfBuildError
from tests.faults.concurrent import (
    COMMANDS,
    LEFT_OUT,
    MERGES,
    Done,
    World,
    check_chains,
    check_readers,
    keys_of,
    signature,
    without_spark,
)
from tests.faults.interleaving import Choice, Point
from tests.faults.workload import memory

__all__ = [
    "Switching",
    "check_done",
    "check_random",
    "memory",
    "one_switch",
    "one_switch_at_definitions",
    "switches",
]

_RENAMES = frozenset(("mv", "mv-b"))  # the chain alone, as a step does, and no file
_GIVES_BACK = frozenset(("reset", "undo", "mv-files", *_RENAMES))
_FOREVER = 10**9


@dataclass(slots=True)
class Switching:
    """Lets one actor do so many things that others can see, then the next; then all to their ends.

    `places` has what each actor was about to do where it could be switched.
    """

    turns: Sequence[tuple[str, int]]
    places: dict[str, list[Point]] = field(default_factory=dict)
    _at: int = 0
    _left: int = -1
    _before: dict[str, Point] = field(default_factory=dict)

    def __call__(self, last: str | None, able: Sequence[str], points: Mapping[str, Point]) -> str:
        while self._at < len(self.turns):
            name, most = self.turns[self._at]
            if self._left < 0:
                self._left = most
            if name in able and not (self._left == 0 and self._is_place(name, points[name])):
                return self._take(name, points[name])
            self._at, self._left = self._at + 1, -1
        left = last if last is not None and last in able else able[0]
        return self._take(left, points[left])

    def _is_place(self, name: str, point: Point) -> bool:
        """Tell whether it is another place to switch at than the one before."""
        return point.kind == "write" or self._before.get(name) != point

    def _take(self, name: str, point: Point) -> str:
        if self._is_place(name, point):
            self.places.setdefault(name, []).append(point)
            self._left = max(0, self._left - 1)
        self._before[name] = point
        return name


def one_switch(world: World, first: str, second: str) -> Iterator[Sequence[tuple[str, int]]]:
    """Yield the turns of two commands that switch once, at every place of the first."""
    a, b = f"0:{first}", f"1:{second}"
    yield from ([(a, at), (b, _FOREVER)] for at in range(len(_places(world, first, second))))


def one_switch_at_definitions(
    world: World, first: str, second: str
) -> Iterator[Sequence[tuple[str, int]]]:
    """Yield the turns that switch before the first reads a definition, until it writes."""
    a, b = f"0:{first}", f"1:{second}"
    for at, point in enumerate(_places(world, first, second)):
        if point.kind == "write":
            break
        if point.resource.startswith("datasets/"):
            yield [(a, at), (b, _FOREVER)]


def switches(world: World, first: str, second: str) -> Iterator[Sequence[tuple[str, int]]]:
    """Yield the turns that switch and switch back, at every place of both."""
    a, b = f"0:{first}", f"1:{second}"
    places = len(_places(world, first, second)), len(_places(world, second, first))
    pairs = product(range(places[0]), range(1, places[1]))
    yield from ([(a, at), (b, back), (a, _FOREVER)] for at, back in pairs)


def _places(world: World, first: str, second: str) -> Sequence[Point]:
    with world.copy() as folder:
        switching = Switching([(f"0:{first}", _FOREVER)])
        world.together(folder, (first, second), switching)
    return switching.places[f"0:{first}"]


def check(world: World, names: Sequence[str], choose: Choice, *, fine: bool = False) -> Done:
    """Run commands at once, and check all that must be true then."""
    with world.copy() as folder:
        done = world.together(folder, names, choose, fine=fine)
        try:
            check_done(world, folder, names, done)
        except (AssertionError, OdfBuildError, OSError) as error:
            lines = (f"  {name}  {each.kind} {each.resource[-6:]}" for name, each in done.trace)
            error.add_note("\n".join([f"errors: {done.errors}", *lines]))
            raise
    return done


def check_done(world: World, folder: Path, names: Sequence[str], done: Done) -> None:
    """Check all that must be true after commands went on together."""
    # `gc` of what is of this moment takes files that are on their way
    allowed = (OdfBuildError, OSError) if "gc" in names else OdfBuildError
    for error in done.errors.values():
        assert error is None or isinstance(error, allowed), repr(error)
    check_chains(folder, collected="gc" in names)
    _check_reported(folder, done)
    if world.leased:
        _check_serial(world, folder, done)
    if not _RENAMES & {*names}:
        if "mv-files" in names:
            world.alone(folder, "apply")
        check_readers(folder)


def _check_reported(folder: Path, done: Done) -> None:
    """What a command that succeeded took in is there, unless another may have taken it back."""
    ran = {name.partition(":")[2] for name in done.errors}
    succeeded = {name.partition(":")[2] for name in done.succeeded}
    if "ingest" in succeeded:
        assert keys_of(folder, "posts")["k8"] == 1
    if "ingest-b" in succeeded:
        assert keys_of(folder, "posts")["k9"] == 1
    if succeeded & {"apply", "run"} and not ran & _GIVES_BACK:
        found = keys_of(folder, "src")
        assert all(found[f"k{number}"] == 1 for number in (1, 2, 3, 4, 6)), found
    if "apply" in succeeded:
        assert keys_of(folder, "new")["k5"] == 1


def _check_serial(world: World, folder: Path, done: Done) -> None:
    """The chains are those of a serial order of the commands that succeeded.

    One that failed may have done a part: what it does, and leaves out, in some order, too.
    """
    wanted = signature(folder)
    ends = {name: at for at, (name, _) in enumerate(done.trace)}  # mostly theirs is the order
    names = sorted(done.succeeded, key=lambda name: (ends.get(name, -1), name))
    failed = sorted(done.errors.keys() - done.succeeded)
    for count in range(len(failed) + 1):
        for more in combinations(failed, count):
            for order in permutations([*names, *more]):
                for tried in product(*(_forms(each, done_whole=each in names) for each in order)):
                    if _serial(world, tried) == wanted:
                        return
    raise AssertionError(f"no serial order of {names} gives {wanted}")


def _forms(name: str, *, done_whole: bool) -> Sequence[str]:
    """Return what a command may have done: one that failed may have left a dataset out."""
    command = name.partition(":")[2]
    return (command,) if done_whole or command not in {"apply", "run"} else (command, LEFT_OUT)


def _serial(world: World, order: tuple[str, ...]) -> Mapping[str, Any]:
    """Return what the chains say after commands one after the other.

    Each is done once: an order goes on from what all of it but its last command left.
    """
    return _after(world, order)[1]


def _after(world: World, order: tuple[str, ...]) -> tuple[Path, Mapping[str, Any]]:
    if order not in world.serial:
        before = _after(world, order[:-1])[0] if order else world.origin
        folder = world.kept(before)
        if order:
            world.alone(folder, order[-1])
        world.serial[order] = folder, signature(folder)
    return world.serial[order]


def check_random(worlds: Sequence[World], seed: int, most: int = 8) -> Done:
    """Run 2 to `most` drawn commands at once, switched where chance wants it."""
    draw = random.Random(seed)
    world = draw.choice(worlds)
    names = [draw.choice(tuple(COMMANDS)) for _ in range(draw.choice((2, 2, 3, 3, 4, 5, 6, most)))]
    names = names[:most] if not world.leased else names[:4]
    stays = draw.choice((0.5, 0.8, 0.95))

    def choose(last: str | None, able: Sequence[str], _points: Mapping[str, Point]) -> str:
        stay = last is not None and last in able and draw.random() < stays
        return last if stay and last is not None else draw.choice(able)

    try:
        return check(world, names, choose, fine=draw.random() < 0.3)
    except (AssertionError, OdfBuildError, OSError) as error:
        error.add_note(f"seed {seed}: {names}, {'leased' if world.leased else 'free'}")
        raise


def main(arguments: Sequence[str] | None = None) -> int:
    """Check as many schedules as asked for; 1 if one of them broke the law."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.schedules")
    parser.add_argument("--pairs", type=int, default=0, choices=(0, 1, 2))
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=list(COMMANDS))
    asked = parser.parse_args(arguments)
    began, count, broken = time.monotonic(), 0, 0
    with without_spark(), tempfile.TemporaryDirectory(dir=memory()) as place:
        worlds = [
            World(Path(place) / f"{number}{leased}", merge, leased=leased)
            for leased in (False, True)
            for number, merge in enumerate(MERGES)
        ]
        for work in _asked_for(asked, worlds):
            count += 1
            try:
                work()
            except (AssertionError, OdfBuildError, OSError) as error:
                broken += 1
                notes = getattr(error, "__notes__", ())
                print(f"BROKEN: {error!r}", *notes, sep="\n", flush=True)
            if count % 100 == 0:
                print(f"{count:,} schedules, {broken} broken", flush=True)
    spent = time.monotonic() - began
    print(f"{count:,} schedules, {broken} broken, {spent:,.0f} s")
    return 1 if broken else 0


def _asked_for(asked: argparse.Namespace, worlds: Sequence[World]) -> Iterator[Any]:
    if asked.pairs:
        turns = one_switch if asked.pairs == 1 else switches
        free = [each for each in worlds if not each.leased]
        for world, (first, second) in product(free, product(asked.only, asked.only)):
            for each in turns(world, first, second):
                yield lambda w=world, n=(first, second), t=each: check(w, n, Switching(t))
    for number in range(asked.rounds):
        yield lambda s=asked.seed + number: check_random(worlds, s)


if __name__ == "__main__":
    sys.exit(main())
