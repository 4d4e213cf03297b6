"""Power cuts by the letter of POSIX: every state that recorded calls may leave, or a sample.

An apply is recorded call by call.  After each of its calls the changes that no fsync keeps are
counted: with up to `--exhaustive` of them all states are built, with more the extremes (all lost,
all kept, one lost, one kept, only names, only content) and some at random.  States that were seen
before are not built again.  After an apply that ended with 0, all that it did has to be there.
"""

import argparse
import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

from tests.faults.disk import Call, Disk, Fate, Tree, read_calls
from tests.faults.preload import CHANGES, Fault, Kind
from tests.faults.trial import Ground, Moment, Tally, ground

__all__ = ["main", "replay"]

Fates = Callable[[int], Fate]
_NAMES = (Kind.CREATE, Kind.MKDIR, Kind.UNLINK, Kind.RMDIR, Kind.LINK, Kind.RENAME)


def replay(
    site: Ground,
    tally: Tally,
    states: int,
    chance: random.Random,
    *,
    exhaustive: int = 6,
    each: int = 8,
) -> None:
    """Check so many states of a first and of a second apply, evenly over their calls."""
    for moment in site.moments:
        calls = _recorded(site, moment)
        title = f"states of the {moment.name} apply of {len(calls):,} calls"
        tally.wanted[title] = states
        seen: set[bytes] = set()
        disk = Disk(moment.project)
        chosen = _chosen(len(calls), states)
        for at, call in enumerate(calls, 1):
            disk.do(call)
            last = at == len(calls)
            if at not in chosen and not last:
                continue
            room = states - tally.reached[title]
            left = max(1, sum(n >= at for n in chosen))
            wanted = 5 * each if last else max(each, room // left)
            for name, fates in _states(disk, calls, wanted, chance, exhaustive):
                tree = disk.after(fates)
                mark = _mark(tree) + bytes([last])
                if mark in seen:
                    continue
                seen.add(mark)
                tally.add(title)
                site.clear()
                _lay(tree, site.project)
                with tally.trial(f"{moment.name} apply, call {at} ({call}), {name}"):
                    moment.law.check_chains(site.project, done=last)
                    site.settle(moment)


def _recorded(site: Ground, moment: Moment) -> list[Call]:
    record = site.project.with_name("record")
    record.unlink(missing_ok=True)
    done = site.run(moment, Fault(kinds=CHANGES), record)
    assert done.code == 0, done.out
    return list(read_calls(record, site.project))


def _chosen(calls: int, states: int) -> set[int]:
    """Return after which calls to look: after all if there are states enough."""
    step = max(1.0, 4 * calls / states)
    return {1 + int(n * step) for n in range(int(calls / step))}


def _states(
    disk: Disk, calls: Sequence[Call], wanted: int, chance: random.Random, exhaustive: int
) -> Iterator[tuple[str, Fates]]:
    """Yield fates of the changes that may be lost: all there are if they are few."""
    may_go = disk.open_changes()
    if len(may_go) <= exhaustive:
        for all_fates in product((Fate.LOST, Fate.KEPT), repeat=len(may_go)):
            name = "".join(str(each.value) for each in all_fates)
            yield f"state {name}", _among(may_go, all_fates)
        return
    yield "all lost", lambda _: Fate.LOST
    yield "all kept", lambda _: Fate.KEPT
    is_name = {n: calls[n - 1].kind in _NAMES for n in may_go}
    yield "names only", lambda n: Fate.KEPT if is_name[n] else Fate.LOST
    yield "all but names", lambda n: Fate.LOST if is_name[n] else Fate.KEPT
    for _ in range(max(0, wanted - 4)):
        one, share = chance.choice(may_go), chance.choice((0.1, 0.5, 0.9))
        match chance.randrange(4):
            case 0:
                yield f"change {one} lost", _only(one, Fate.LOST, Fate.KEPT)
            case 1:
                yield f"change {one} kept", _only(one, Fate.KEPT, Fate.LOST)
            case 2:
                yield f"change {one} half done", _only(one, Fate.HALF, Fate.KEPT)
            case _:
                fates = [_one_of(chance, share) for _ in may_go]
                yield f"random, {share:.0%} kept", _among(may_go, fates)


def _one_of(chance: random.Random, share: float) -> Fate:
    if chance.random() < 0.1:
        return Fate.HALF
    return Fate.KEPT if chance.random() < share else Fate.LOST


def _only(one: int, fate: Fate, others: Fate) -> Fates:
    return lambda n: fate if n == one else others


def _among(numbers: Sequence[int], fates: Sequence[Fate]) -> Fates:
    known = dict(zip(numbers, fates, strict=True))
    return lambda n: known[n]


def _mark(tree: Tree) -> bytes:
    """Return what is the same for equal trees only."""
    digest = hashlib.blake2b()
    for path, data in sorted(tree.items()):
        name = "/".join(path).encode()
        size = -1 if data is None else len(data)
        digest.update(b"%d %d %b" % (len(name), size, name) + (data or b""))
    return digest.digest()


def _lay(tree: Tree, project: Path) -> None:
    for path, data in sorted(tree.items()):
        if data is None:
            project.joinpath(*path).mkdir()
        else:
            project.joinpath(*path).write_bytes(data)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check states of both applies, say how many, and return 1 if anything did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.replay", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10_000, help="states of each apply")
    parser.add_argument("--exhaustive", type=int, default=6, help="changes to build all states of")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    tally = Tally()
    with ground() as site:
        chance = random.Random(given.seed)
        replay(site, tally, given.rounds, chance, exhaustive=given.exhaustive)
    print(f"replay\n{tally}")
    return bool(tally.problems)


if __name__ == "__main__":
    raise SystemExit(main())
