"""The list of what Spark and DataFusion read alike: both engines, over the same histories.

Many more: `python -m tests.rule.test_portable --from SEED --count N`.
"""

import argparse
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from odfbuild.errors import OdfBuildError
from odfbuild.executors.engine.datafusion.engine import DataFusionEngine
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.verify.replay_findings import schema_findings
from odfbuild.odf.events import DataSchema, SqlQueryStep, TransformSql
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.sql.portability.queries import unportable_part
from odfbuild.sql.text.steps import steps_of
from tests.rule.grammar.choices import Choices
from tests.rule.grammar.portable import PortableDraw, portable_history, portable_schema
from tests.rule.histories import History
from tests.rule.inputs import SYSTEM
from tests.rule.rows import counted, standing
from tests.rule.steps import Played, Transforms, played
from tests.support.effort import examples


@dataclass(frozen=True, slots=True)
class Portable:
    """A query for one of the two engines."""

    steps: tuple[tuple[str | None, str], ...]
    engine: str = "spark"

    @property
    def transform(self) -> TransformSql:
        """Return the query as a dataset has it."""
        queries = tuple(SqlQueryStep(alias=alias, query=text) for alias, text in self.steps)
        return TransformSql(engine=self.engine, queries=queries)


INPUTS: dict[str, DataSchema | None] = {
    name: DataSchema(
        tuple(each for each in from_arrow(portable_schema(name)).fields if each.name not in SYSTEM)
    )
    for name in ("a", "b")
}


def drawn(seed: int) -> tuple[Portable, History]:
    """Return the query and the history of a seed."""
    query = Portable(PortableDraw(Choices(f"portable {seed}")).query())
    return query, portable_history(Choices(f"rows {seed}"), appends=seed % 3 == 0)


def agreement(spark: SparkEngine, query: Portable, history: History) -> str:
    """Return `same`, `pairs` where only pairs of corrections differ, or what differs otherwise."""
    with tempfile.TemporaryDirectory() as folder:
        sides = []
        for engine, name in ((spark, "spark"), (DataFusionEngine(), "datafusion")):
            (own := Path(folder) / name).mkdir()
            sides.append(_side(engine, own, Portable(query.steps, name), history))
    whys = [each for side in sides for each in side if isinstance(each, str)]
    if whys:
        return f"{'refused' if len(whys) == len(sides) else 'fails'}: {whys}"
    steps = [{each.number: each for each in side if isinstance(each, Played)} for side in sides]
    found = "same"
    for number in sorted(steps[0].keys() | steps[1].keys()):
        one, other = (each.get(number) for each in steps)
        if one is None or other is None:  # what gave no rows may be read once more
            if any(each is not None and each.changes for each in (one, other)):
                return "fails: a step that only one of the two has"
            continue
        columns = one.columns
        if problems := list(schema_findings(one.sealed.schema, other.sealed.schema)):
            return f"columns: {problems}"
        left, right = (counted(standing(each.output, columns), columns) for each in (one, other))
        if left != right:
            return f"rows: {list((left - right).items())[:2]} {list((right - left).items())[:2]}"
        hashes = [[each.data.logical_hash for each in p.sealed.slices] for p in (one, other)]
        if hashes[0] != hashes[1]:
            found = "pairs" if _unpaired(one) == _unpaired(other) else f"order: {one} {other}"
    return found


def _unpaired(step: Played) -> Counter[object]:
    names = [*step.columns, "back"]
    return counted(({**each, "back": each["op"] in (1, 2)} for each in step.changes), names)


def _side(
    engine: Transforms, folder: Path, query: Portable, history: History
) -> list[Played | str]:
    found: list[Played | str] = []
    try:
        found += played(engine, folder, query, history)
    except OdfBuildError as error:
        found.append(error.what)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_most_that_is_drawn_is_in_the_list_in_either_dialect(seed: int) -> None:
    parts = []
    for number in range(10):
        query, _ = drawn(10 * seed + number)
        one, other = (Portable(query.steps, engine).transform for engine in ("spark", "datafusion"))
        parts.append(unportable_part(steps_of(one), INPUTS))
        assert parts[-1] == unportable_part(steps_of(other), INPUTS)
    assert parts.count(None) > 5


@pytest.mark.spark
def test_listed_queries_give_the_same_slices_in_both_engines(engine: SparkEngine) -> None:
    _check(engine, range(examples(25, 100)))


@pytest.mark.spark
@pytest.mark.slow
def test_many_listed_queries_do(engine: SparkEngine) -> None:
    _check(engine, range(1_000, 1_400))


def _check(engine: SparkEngine, seeds: range) -> None:
    listed = 0
    for seed in seeds:
        query, history = drawn(seed)
        if unportable_part(steps_of(query.transform), INPUTS) is None:
            listed += 1
            found = agreement(engine, query, history)
            assert found == "same", f"seed {seed}: {found}\n{query.steps}"
    assert listed > 0.7 * len(seeds)


def main() -> None:
    """Compare as many seeds as asked for, and name those that differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    chosen = parser.parse_args()
    names: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as top, SparkEngine(Path(top) / "jvm", cores=2) as engine:
        for seed in range(chosen.first, chosen.first + chosen.count):
            query, history = drawn(seed)
            part = unportable_part(steps_of(query.transform), INPUTS)
            if part is not None:
                names["not listed"] += 1
                print(f"seed {seed} not listed: {part.what[:60]}\n  {query.steps}", flush=True)
                continue
            found = agreement(engine, query, history)
            names[found.partition(":")[0]] += 1
            if found != "same":
                print(f"seed {seed}: {found[:600]}\n  {query.steps}", flush=True)
    print(dict(names))


if __name__ == "__main__":
    main()
