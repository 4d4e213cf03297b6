"""Products that break the law on purpose: a harness that finds nothing in them would find nothing.

    python -m tests.faults.sabotage heads --rounds 100 --seed 0

Each runs `tests.faults.machines`, whose commands are forked, with one thing taken away: `heads` are
replaced whatever they are, or `gc` takes young objects as well as old ones.  Only commands that it
concerns are drawn, so that it is found in some rounds.  Ends at the first round that breaks the
law; 1 if none does.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from odfbuild.app.maintenance import collection
from odfbuild.state.gc import collect
from odfbuild.state.remote.store.bucket import Bucket
from tests.faults import machines as rounds

__all__ = ["SABOTAGE", "main"]


@contextmanager
def _heads_without_condition() -> Iterator[None]:
    put = Bucket.put

    def anyway(bucket: Bucket, key: str, data: bytes, mode: Any = "overwrite") -> str | None:
        return put(bucket, key, data, "overwrite" if key.endswith("refs/head") else mode)

    with mock.patch.object(Bucket, "put", anyway):
        yield


@contextmanager
def _gc_of_young_objects() -> Iterator[None]:
    def of_any_age(*given: Any, before: float, **more: Any) -> Any:
        return collect(*given, before=before + 1e6, **more)

    with mock.patch.object(collection, "collect", of_any_age):
        yield


_PUSHES = (
    ("ingest", "posts", "posts/a.csv", "--id", "a.csv"),
    ("ingest", "posts", "posts/b.csv", "--id", "b.csv"),
)
_GC = ("gc", "--older-than", "1d")
_Sabotage = tuple[Callable[[], AbstractContextManager[None]], Sequence[Sequence[str]]]
SABOTAGE: Mapping[str, _Sabotage] = {
    "heads": (_heads_without_condition, _PUSHES),
    "gc": (_gc_of_young_objects, (*_PUSHES, _GC, _GC, ("apply", "--yes"))),
}


class _FoundError(Exception):
    """A round broke the law."""


def _raise_if_broken(text: str) -> None:
    print(text, flush=True)
    if text.startswith("BROKEN"):
        raise _FoundError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run rounds until one breaks the law; 1 if none does."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.sabotage")
    parser.add_argument("what", choices=SABOTAGE)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lanes", type=int, default=2)
    asked = parser.parse_args(arguments)
    began = time.monotonic()
    sabotage, commands = SABOTAGE[asked.what]

    def drawn(draw: random.Random) -> list[str]:
        return list(draw.choice(commands))

    with sabotage(), mock.patch.object(rounds, "draw_command", drawn):
        try:
            rounds.machines(asked.rounds, asked.seed, _raise_if_broken, lanes=asked.lanes)
        except _FoundError:
            print(f"{asked.what}: found after {time.monotonic() - began:,.0f} s")
            return 0
    print(f"{asked.what}: not found in {asked.rounds:,} rounds")
    return 1


if __name__ == "__main__":
    sys.exit(main())
