"""Time `odfbuild test --unit`: fixtures of three batches, the whole process.

python -m bench.testing [--fixtures N] [--runs N] [--batches] [-j N]

A fifth each of the fixtures is for a filter, a projection, a sum by key, a distinct and a join of
two inputs; each batch has a few rows of each input, also corrections.  What the first fixture costs
is told apart: the time of a process with it alone.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

__all__ = ["main"]

ROOT = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: AddPushSource
      sourceName: default
      read: {{kind: NdJson, schema: [t TIMESTAMP, k STRING, v BIGINT]}}
      merge: {{kind: Append}}
    - {{kind: SetVocab, eventTimeColumn: t}}
"""
DERIVATIVE = """\
kind: DatasetSnapshot
version: 1
content:
  name: d{number}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{{datasetRef: a}}, {{datasetRef: b}}]
      transform: {{kind: Sql, engine: spark, query: "{query}"}}
    - {{kind: SetVocab, eventTimeColumn: t}}
"""
QUERIES = (
    "select t, k, v from a where v > 1 union all select t, k, v from b",
    "select t, upper(k) as k, v + 1 as v from a union all select t, k, v from b",
    "select max(t) t, k, sum(v) v from (select * from a union all select * from b) group by k",
    "select distinct t, k, v from (select * from a union all select * from b)",
    "select a.t as t, a.k as k, a.v + b.v as v from a join b on a.k = b.k",
)
BATCHES = (
    ("[{t: 2024-01-01, k: p, v: 1}, {t: 2024-01-01, k: q, v: 2}]", "[{t: 2024-01-01, k: p, v: 5}]"),
    ("[{t: 2024-01-02, k: p, v: 3}]", "[{t: 2024-01-02, k: q, v: 7}]"),
    (
        "[{op: -C, t: 2024-01-01, k: q, v: 2}, {op: +C, t: 2024-01-01, k: q, v: 4}]",
        "[{t: 2024-01-03, k: p, v: 1}]",
    ),
)
EXPECTED = (
    "[{k: q, v: 4}, {k: p, v: 3}, {k: p, v: 5}, {k: q, v: 7}, {k: p, v: 1}]",
    "[{k: P, v: 2}, {k: Q, v: 5}, {k: P, v: 4}, {k: p, v: 5}, {k: q, v: 7}, {k: p, v: 1}]",
    "[{k: p, v: 10}, {k: q, v: 11}]",
    "[{k: p, v: 1}, {k: q, v: 4}, {k: p, v: 3}, {k: p, v: 5}, {k: q, v: 7}, {k: p, v: 1}]",
    "[{k: p, v: 6}, {k: p, v: 8}, {k: p, v: 2}, {k: p, v: 4}, {k: q, v: 11}]",
)


def main() -> None:
    """Time the fixtures, and one of them alone."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--fixtures", type=int, default=50)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--batches", action="store_true")
    parser.add_argument("-j", type=int, default=4)
    given = parser.parse_args()
    more = ["--batches"] if given.batches else []
    with tempfile.TemporaryDirectory(prefix="bench-testing-") as folder:
        root = Path(folder)
        lay_out(root, given.fixtures)
        every, one = [], []
        for _ in range(given.runs):
            every.append(timed(root, "-j", str(given.j), *more))
            one.append(timed(root, "d0", *more))
    whole, alone = (statistics.median(wall for wall, _ in each) for each in (every, one))
    busy, start = (statistics.median(cpu for _, cpu in each) for each in (every, one))
    each = (whole - alone) / max(1, given.fixtures - 1)
    print(
        f"{given.fixtures} fixtures of {len(BATCHES)} batches: {whole:.1f} s wall, {busy:.1f} s "
        f"processor; one alone: {alone:.1f} s, {start:.1f} s; each further one: "
        f"{each * 1000:.0f} ms wall, {(busy - start) / max(1, given.fixtures - 1) * 1000:.0f} ms"
    )


def lay_out(root: Path, fixtures: int) -> None:
    """Write a project with a dataset and a fixture each."""
    for name in ("datasets", "tests/unit"):
        (root / name).mkdir(parents=True)
    (root / "odfbuild.yaml").write_text("odfbuild: 1\nname: bench\n")
    for name in ("a", "b"):
        (root / f"datasets/{name}.yaml").write_text(ROOT.format(name=name))
    for number in range(fixtures):
        kind = number % len(QUERIES)
        text = DERIVATIVE.format(number=number, query=QUERIES[kind])
        (root / f"datasets/d{number}.yaml").write_text(text)
        batches = [f"  - inputs: {{a: {a}, b: {b}}}" for a, b in BATCHES]
        fixture = [f"dataset: d{number}", "batches:", *batches, f"    expect: {EXPECTED[kind]}"]
        (root / f"tests/unit/d{number}.yaml").write_text("\n".join(fixture) + "\n")


def timed(root: Path, *arguments: str) -> tuple[float, float]:
    """Run the tests, which must pass; return seconds of wall and processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    done = subprocess.run(
        [str(Path(sys.executable).parent / "odfbuild"), "test", "--unit", *arguments],
        cwd=root, env=dict(os.environ), capture_output=True, text=True, check=False,
    )  # fmt: skip
    wall = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, spent(after) - spent(before)


def spent(of: resource.struct_rusage) -> float:
    """Return the processor time of finished children."""
    return of.ru_utime + of.ru_stime


if __name__ == "__main__":
    main()
