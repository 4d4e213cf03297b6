"""Products that break the law on purpose: a harness that finds nothing in them would find nothing.

    python -m tests.faults.sabotage heads --rounds 100 --seed 0

Each runs `tests.faults.machines`, whose commands are forked, with one thing taken away: `heads` are
replaced whatever they are, `gc` takes young objects as well as old ones, or a `redo` does not
write again what it makes reachable.  Ends at the first round that breaks the law; 1 if none does.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from odfbuild.app.maintenance import collection
from odfbuild.state.gc import collect
from odfbuild.state.remote.reach import Reach
from odfbuild.state.remote.s3 import Bucket
from tests.faults.machines import machines

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


@contextmanager
def _redo_without_refresh() -> Iterator[None]:
    def nothing(*_: object) -> None:
        pass

    with mock.patch.multiple(Reach, prepare=nothing, check=nothing):
        yield


SABOTAGE: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "heads": _heads_without_condition,
    "gc": _gc_of_young_objects,
    "redo": _redo_without_refresh,
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
    with SABOTAGE[asked.what]():
        try:
            machines(asked.rounds, asked.seed, _raise_if_broken, lanes=asked.lanes)
        except _FoundError:
            print(f"{asked.what}: found after {time.monotonic() - began:,.0f} s")
            return 0
    print(f"{asked.what}: not found in {asked.rounds:,} rounds")
    return 1


if __name__ == "__main__":
    sys.exit(main())
