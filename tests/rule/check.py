"""Hold every step of random histories against one batch query.

python -m tests.rule.check --from SEED --count N runs many, and says with which seed to go on.
"""

import argparse
import tempfile
import traceback
from collections.abc import Sequence
from itertools import count, pairwise
from pathlib import Path
from random import Random

import pytest

from odfbuild.executors.data.seal import Sealed
from odfbuild.executors.engine.protocol import TransformWork
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.sql.analysis.keys.unique import unique_columns
from odfbuild.sql.text.steps import steps_of
from tests.rule.batch import Batch
from tests.rule.bits import as_a_whole
from tests.rule.histories import History, begun, history, stretched
from tests.rule.inputs import Row
from tests.rule.rows import counted, standing
from tests.rule.shapes import SHAPES, Shape
from tests.rule.steps import Step, played, sealed

__all__ = ["NUMBERS", "at_some_steps", "check", "check_number", "numbered"]

# the second history of a shape is computed in all ways now and then, so it stands for all in a
# short run; the fourth is computed in all ways at every step
NUMBERS = pytest.mark.parametrize(
    "number", [1, *(pytest.param(each, marks=pytest.mark.slow) for each in (0, 3))]
)
_BEGUN, _EVERY = 1, 3  # the first step that finds something from before, and then each third


def numbered(shape: Shape, number: int) -> History:
    """Return a history for a shape: always the same for the same number."""
    found = history(Random(f"{shape.name} {number}"), shape.inputs)
    return stretched(found, shape.stretch)


def check_number(engine: SparkEngine, folder: Path, shape: Shape, number: int) -> None:
    """Check a history by its number, in a folder of its own.

    Every other one is computed in all ways that there are, the first of them at some steps, unless
    new rows are all that it looks at: then rows may come and go.
    """
    own = folder / f"{number}"
    own.mkdir()
    step: Step = sealed
    found = numbered(shape, number)
    if number % 2 and not shape.by_row:
        step = at_some_steps(as_a_whole) if number == 1 else as_a_whole
    check(engine, own, shape, begun(found) if number == 1 else found, step)


def at_some_steps(thorough: Step) -> Step:
    """Return how to run a history's steps: the second and each third from there thoroughly."""
    numbers = count()

    def step(engine: SparkEngine, work: TransformWork, start: int) -> Sealed:
        chosen = thorough if next(numbers) % _EVERY == _BEGUN else sealed
        return chosen(engine, work, start)

    return step


def check(
    engine: SparkEngine, folder: Path, shape: Shape, found: History, step: Step = sealed
) -> None:
    """Fail unless every step leaves what the batch query gives of what is in the inputs."""
    batch, steps = Batch(engine, shape), []
    unique = unique_columns(steps_of(shape.transform))
    for each in played(engine, folder, shape, found, step):
        _check_pairs([row["op"] for row in each.changes])
        columns = each.columns
        if not shape.by_row:
            _check_shortest(each.changes, columns)
            _check_order(each.changes)
            _check_replaced(each.changes, unique)
        batch.add(each.inputs, each.watermark)
        steps.append((each.number, counted(standing(each.output, columns), columns)))
    if not steps:
        return
    for (number, left), expected in zip(steps, batch.rows(columns), strict=True):
        assert left == expected, f"{shape.name}, step {number}: {left - expected} {expected - left}"


def _check_pairs(operations: Sequence[int]) -> None:
    """Every correction is a pair, one directly behind the other."""
    for at, op in enumerate(operations):
        if op == 2:
            assert operations[at + 1 : at + 2] == [3], "a correction without its second half"
        if op == 3:
            assert operations[at - 1 : at] == [2], "a correction without its first half"


def _check_shortest(changes: Sequence[Row], columns: Sequence[str]) -> None:
    """No row is both taken back and added."""
    back = counted((each for each in changes if each["op"] in {1, 2}), columns)
    added = counted((each for each in changes if each["op"] in {0, 3}), columns)
    assert not back & added, "a row is taken back and added again"


def _check_replaced(changes: Sequence[Row], unique: Sequence[str]) -> None:
    """A row that replaces another of its key, and no other, is a correction of it."""
    if not unique:
        return
    back, added = (counted((e for e in changes if e["op"] == op), unique) for op in (1, 0))
    assert not back & added, "a row is taken back, and one of its key is added"
    for old, new in pairwise(changes):
        if old["op"] == 2:
            assert counted([old], unique) == counted([new], unique), "a correction of another key"


def _check_order(changes: Sequence[Row]) -> None:
    """Rows come by event time, a pair where its first half belongs."""
    times = [each["event_time"] for each in changes if each["op"] != 3]
    assert times == sorted(times), "rows are out of order"


def main() -> None:
    """Check as many seeds as asked for; those that fail are told, and the run goes on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--only", default="", help="shapes whose names begin like this")
    chosen = parser.parse_args()
    shapes = [shape for shape in SHAPES if shape.name.startswith(chosen.only)]
    failed: list[int] = []
    with tempfile.TemporaryDirectory() as top, SparkEngine(Path(top) / "jvm", cores=2) as engine:
        for seed in range(chosen.first, chosen.first + chosen.count):
            number, at = divmod(seed, len(shapes))
            with tempfile.TemporaryDirectory(dir=top) as folder:
                try:
                    check_number(engine, Path(folder), shapes[at], number)
                except Exception:
                    failed.append(seed)
                    print(f"seed {seed} ({shapes[at].name}, {number}):", flush=True)
                    traceback.print_exc(limit=-3)
            if seed % 100 == 99:
                done = seed + 1 - chosen.first
                print(f"{done} histories, {len(failed)} fail; --from {seed + 1}", flush=True)
    raise SystemExit(f"these fail: {failed}" if failed else 0)


if __name__ == "__main__":
    main()
