"""Run the steps of histories in several ways, whose slices must have the same logical hashes.

`python -m tests.rule.bits MASTER FOLDER SEED...` prints them for a Spark of another kind, in a
process of its own, because a process has one JVM.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

from odfbuild.executors.data.seal import Sealed
from odfbuild.executors.engine.protocol import TransformWork
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.settings import StepSize
from tests.rule.histories import History, history, stretched
from tests.rule.shapes import SHAPES, Shape
from tests.rule.steps import Step, in_spark, played, sealed

__all__ = ["as_a_whole", "hashes", "in_every_way", "long_history", "seed_of"]

_MANY = (0, 1, 5, 60)


def long_history(shape: Shape, number: int) -> History:
    """Return a history whose portions have rows enough for several partitions."""
    found = history(Random(f"{shape.name} {number} long"), shape.inputs, sizes=_MANY)
    return stretched(found, shape.stretch)


def as_a_whole(engine: SparkEngine, work: TransformWork, start: int) -> Sealed:
    """Run a step by its class, by its keys in Spark, and by both states in full: all the same."""
    done = sealed(engine, work, start)
    plain = replace(work, unbroken=False, checkpoint=None, new_checkpoint=None)
    with in_spark():
        _same(done, sealed(engine, _apart(plain, "keys"), start), "by keys")
        full = replace(_apart(plain, "full"), in_full=True)
        _same(done, sealed(engine, full, start), "in full")
    return done


def in_every_way(big: SparkEngine) -> Step:
    """Return how to run a step on few rows and on many, with several numbers of partitions."""

    def step(engine: SparkEngine, work: TransformWork, start: int) -> Sealed:
        done = sealed(engine, work, start)
        ways = {"big": None, "big-1": 1, "big-7": 7}
        for name, number in ways.items():
            other = _apart(work, name)
            with _partitions(big, number):
                _same(done, sealed(big, other, start), name)
            assert _bytes(work.new_checkpoint) == _bytes(other.new_checkpoint), name
        return done

    return step


def hashes(
    engine: SparkEngine, folder: Path, shape: Shape, found: History, step: Step = sealed
) -> list[str | None]:
    """Return the logical hash of the slice of each step, None for a step without rows."""
    pieces = [each.sealed.slice for each in played(engine, folder, shape, found, step)]
    return [None if piece is None else str(piece.logical_hash) for piece in pieces]


def seed_of(shape: Shape, number: int) -> int:
    """Return the number of a long history among those of all shapes."""
    return number * len(SHAPES) + SHAPES.index(shape)


def _apart(work: TransformWork, name: str) -> TransformWork:
    """Return the same step with a folder of its own."""
    folder = work.staging / name
    folder.mkdir(exist_ok=True)
    left = work.new_checkpoint
    return replace(work, staging=folder, new_checkpoint=left and folder / left.name)


def _same(one: Sealed, other: Sealed, what: str) -> None:
    first, second = one.slice, other.slice
    if first is None or second is None:
        assert first is second, what
        return
    assert (first.offset_interval, first.logical_hash) == (
        second.offset_interval,
        second.logical_hash,
    ), what


def _bytes(path: Path | None) -> bytes | None:
    return path.read_bytes() if path is not None and path.is_file() else None


@contextmanager
def _partitions(engine: SparkEngine, number: int | None) -> Iterator[None]:
    conf, name = engine._sessions.session(StepSize.BIG).conf, "spark.sql.shuffle.partitions"
    before = conf.get(name)
    assert before is not None
    conf.set(name, before if number is None else str(number))
    try:
        yield
    finally:
        conf.set(name, before)


def main(master: str, folder: Path, seeds: Sequence[int]) -> None:
    """Print the hashes."""
    with SparkEngine(folder / "jvm", master=master, memory="1g", limit=-1) as engine:
        found = []
        for seed in seeds:
            own = folder / f"{seed}"
            own.mkdir()
            number, at = divmod(seed, len(SHAPES))
            found.append(hashes(engine, own, SHAPES[at], long_history(SHAPES[at], number)))
        print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), [int(each) for each in sys.argv[3:]])
