"""python -m tests.rule.grammar --pairs N --from SEED: run many pairs; it says how to go on.

`--shrink` makes what differs smaller before it is shown.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from odfbuild.executors.engine.analysis import QueryAnalyser
from odfbuild.executors.engine.datafusion.engine import DataFusionEngine
from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.rule.grammar.choices import smaller
from tests.rule.grammar.dialects import DATAFUSION, SPARK, Dialect
from tests.rule.grammar.oracles import Oracle, PlainSpark
from tests.rule.grammar.pairs import Outcome, Pair, Record, drawn_pair, outcome
from tests.rule.grammar.plain_datafusion import PlainDataFusion
from tests.rule.steps import Transforms

_BAD = ("differs", "fails")
_DIALECTS = {each.engine: each for each in (SPARK, DATAFUSION)}
_SIGNS = ("+A", "-R", "-C", "+C")
_BOTH_COMPILERS = ("-XX:TieredStopAtLevel=4",)


class Count:
    """Outcomes by name, by class of the query, and by reason."""

    def __init__(self, wrong: Sequence[str]) -> None:
        self._wrong = wrong
        self.names: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.duck: Counter[str] = Counter()
        self.bad: list[int] = []

    def add(self, seed: int, found: Outcome) -> None:
        self.names[found.name] += 1
        self.duck[found.duck] += bool(found.duck)
        self.kinds[f"{found.kind} {found.name}"] += 1
        if found.name in ("refused", "invalid", "lenient"):
            self.reasons[f"{found.name} {found.why[:60].splitlines()[0]}"] += 1
        if self.is_bad(found):
            self.bad.append(seed)

    def is_bad(self, found: Outcome) -> bool:
        return not {found.name, f"DuckDB: {found.duck}"}.isdisjoint(self._wrong)

    def __str__(self) -> str:
        return "; ".join(
            ", ".join(f"{name} {number}" for name, number in each.most_common(12))
            for each in (self.names, self.kinds, self.duck)
        )


def _processor_seconds() -> float:
    """Return what this process and those that it started have used of the processor."""
    times, tick = {}, os.sysconf("SC_CLK_TCK")
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = each.read_text().rpartition(")")[2].split()
            times[int(each.parent.name)] = int(fields[1]), sum(map(int, fields[11:13])) / tick
    ours = {os.getpid()}
    while more := {pid for pid, (parent, _) in times.items() if parent in ours} - ours:
        ours |= more
    return sum(times[pid][1] for pid in ours)


def shown(pair: Pair, found: Outcome) -> str:
    """Return a pair as people read it."""
    lines = [
        f"{found.name} ({found.kind}; DuckDB: {found.duck}): {found.why[:1500]}",
        str(pair.query),
    ]
    for table in pair.tables:
        lines.append(f"  {table.name}({', '.join(each.name for each in table.columns)})")
    for number, portion in enumerate(pair.history.portions):
        lines.append(f"  step {number}, watermark {portion.watermark}:")
        lines += [
            f"    {name} {_SIGNS[row['op']]} {[v for n, v in row.items() if n != 'op']}"
            for name, rows in portion.records.items()
            for row in rows
        ]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Bench:
    """An engine, what answers its batch queries, and what plans for it, if that is asked too."""

    engine: Transforms
    plain: Oracle
    plans: QueryAnalyser | None
    dialect: Dialect

    def outcome(self, pair: Pair) -> Outcome:
        return outcome(self.engine, self.plain, pair, self.plans)

    def pair(self, seed: int, number: int = 0, record: Record | None = None) -> Pair:
        return drawn_pair(seed, number, record, self.dialect)


@contextmanager
def bench(dialect: Dialect, java: Sequence[str]) -> Iterator[Bench]:
    """Start the engine of a dialect; `java` are options of a JVM."""
    if dialect == DATAFUSION:
        found = DataFusionEngine()
        yield Bench(found, PlainDataFusion(), found, dialect)
        return
    with (
        tempfile.TemporaryDirectory() as top,
        SparkEngine(Path(top) / "jvm", cores=1, java_options=java or None) as engine,
        closing(PlainSpark(Path(top), java)) as plain,
    ):
        yield Bench(engine, plain, None, dialect)


def shrunk(bench: Bench, pair: Pair, found: Outcome, most: int) -> Pair:
    """Return a simpler pair of the same outcome."""

    def fails(query: Sequence[int], rows: Sequence[int]) -> bool:
        return bench.outcome(bench.pair(0, record=(query, rows))).name == found.name

    query, rows = pair.record
    for _ in range(2):
        query = smaller(query, partial(fails, rows=rows), most)
        rows = smaller(rows, partial(fails, query), most)
    return bench.pair(0, record=(query, rows))


def run(
    bench: Bench, seeds: Sequence[tuple[int, int]], *, shrink: int, bad: Sequence[str], every: int
) -> Count:
    """Run pairs and print what differs, or has another outcome of some."""
    count, begun = Count(bad), time.monotonic()
    for at, (seed, number) in enumerate(seeds, 1):
        pair = bench.pair(seed, number)
        found = bench.outcome(pair)
        count.add(seed, found)
        if count.is_bad(found):
            if shrink:
                pair = shrunk(bench, pair, found, shrink)
                found = bench.outcome(pair)
            print(f"pair {seed}.{number} {shown(pair, found)}\n", flush=True)
        if at % every == 0:
            took = time.monotonic() - begun
            used = _processor_seconds() / at
            print(
                f"{at} pairs in {took:.0f} s, {used:.2f} s of processor each: {count}; "
                f"--from {seed + 1}",
                flush=True,
            )
    return count


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.rule.grammar", description=__doc__)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--histories", type=int, default=1, help="of each query")
    parser.add_argument("--shrink", type=int, default=0, help="tries to make each record smaller")
    parser.add_argument(
        "--optimize", action="store_true", help="let Java compile twice: for thousands of pairs"
    )
    parser.add_argument("--print", action="store_true", help="show queries, run nothing")
    parser.add_argument("--engine", choices=list(_DIALECTS), default=SPARK.engine)
    parser.add_argument("--others", action="store_true", help="show what DuckDB answers otherwise")
    parser.add_argument("--every", type=int, default=50, help="pairs between two reports")
    chosen = parser.parse_args()
    dialect = _DIALECTS[chosen.engine]
    queries = range(chosen.first, chosen.first + -(-chosen.pairs // chosen.histories))
    seeds = [(seed, number) for seed in queries for number in range(chosen.histories)]
    if chosen.print:
        for seed in queries:
            print(f"-- {seed}\n{drawn_pair(seed, dialect=dialect).query}")
        return
    bad = (*_BAD, "DuckDB: other") if chosen.others else _BAD
    with bench(dialect, _BOTH_COMPILERS if chosen.optimize else ()) as tested:
        count = run(
            tested, seeds[: chosen.pairs], shrink=chosen.shrink, bad=bad, every=chosen.every
        )
    print(count)
    for reason, number in count.reasons.most_common(40):
        print(f"{number:6} {reason}")
    sys.exit(f"these differ or fail: {count.bad}" if count.bad else 0)


if __name__ == "__main__":
    main()
