"""A second machine of a cluster that exchanges files by a store: seconds of steps with it, without.

python -m bench.cluster [CASE ...] [--rows N] [--runs N].  A root of N rows is built once; then each
CASE, a derivative, is built on a standalone cluster of one worker and of two, in turn.  A worker
has one core: it and its executor, with the Python of that, are bound to one processor.  They see
the workspace as an empty folder.  Store, driver and coordinator share the processors with them, so
seconds of processor time are printed by who used them.  Of two runs of a case the second finds its
inputs in the store.

python -m bench.cluster ingest [--rows N].  The root itself is built so, by Spark: seconds, and peak
memory.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from bench.measure import DATA
from bench.run import PROGRAM
from bench.tree import Tree
from tests.executors.engine.spark.standalone import Standalone, standalone
from tests.support.servers.object_store import CREDENTIALS, KilledServer

__all__ = ["main"]

_SETTINGS = "odfbuild: 1\nname: bench\ndatasets: [datasets]\nengine: {engine}\n"
_ROOT = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {{kind: FilesGlob, path: "data/{name}.csv"}}
      read: {{kind: Csv, header: true, schema: [{columns}]}}
      merge: {{kind: Append}}
    - {{kind: SetVocab, eventTimeColumn: time}}
"""
_DERIVATIVE = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{inputs}]
      transform: {{kind: Sql, engine: spark, query: "{query}"}}
    - {{kind: SetVocab, eventTimeColumn: time}}
"""
_SALES = "time TIMESTAMP, id BIGINT, shop INT, customer INT, amount DOUBLE"
_SHOPS = "time TIMESTAMP, shop INT, city STRING, rate DOUBLE"
CASES: Final[Mapping[str, str]] = {
    "groups": "select max(time) as time, shop, count(*) as sales, sum(amount) as turnover, "
    "min(amount) as least, max(amount) as most, avg(amount) as mean from sales group by shop",
    "join": "select max(s.time) as time, d.city, count(*) as sales, sum(s.amount * d.rate) as "
    "turnover, max(s.amount) as most from sales s join shops d on s.shop = d.shop group by d.city",
    "window": "select time, shop, customer, amount, place from (select time, shop, customer, "
    "amount, row_number() over (partition by shop order by amount desc, id) as place from sales) "
    "where place <= 3",
}
"""Queries as users have them, over all sales."""
_CHUNK: Final = 1_000_000
_SHOP_COUNT: Final = 5_000
_YEAR: Final = 365 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Seconds of an apply and of its step, those of processors by who used them, peaks in MiB."""

    wall: float
    step: float
    workers: float
    coordinator: float
    store: float
    memory: tuple[float, ...]

    def __str__(self) -> str:
        peaks = ", ".join(f"{each:,.0f}" for each in self.memory)
        return (
            f"apply {self.wall:.1f}, step {self.step:.1f}; processor s: workers "
            f"{self.workers:.1f}, coordinator and driver {self.coordinator:.1f}, store "
            f"{self.store:.1f}; peak MiB of coordinator and each worker: {peaks}"
        )


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[*CASES, "ingest", []], metavar="CASE")
    parser.add_argument("--rows", type=int, default=30_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    chosen = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    with ExitStack() as running:
        room = DATA / "cluster"
        shutil.rmtree(room, ignore_errors=True)
        room.mkdir()
        running.callback(shutil.rmtree, room, ignore_errors=True)
        for case in chosen.cases or CASES:
            _measure(case, _made(chosen.rows, built=case != "ingest"), room, chosen)


def _measure(case: str, made: Path, room: Path, chosen: argparse.Namespace) -> None:
    print(f"\n## {case}, {chosen.rows:,} rows, load {os.getloadavg()[0]:.1f}\n", flush=True)
    taken: dict[int, list[Taken]] = {count: [] for count in chosen.workers}
    with _store(room) as store:
        for number in range(chosen.runs):
            for count in chosen.workers:
                found = _applied(case, made, room, store, count)
                taken[count].append(found)
                print(f"{count} of workers, run {number}: {found}", flush=True)
    if set(taken) >= {1, 2}:
        for name in ("step", "wall"):
            pairs = zip(taken[1], taken[2], strict=True)
            ratios = [getattr(one, name) / getattr(two, name) for one, two in pairs]
            print(
                f"{name}: one worker takes {statistics.median(ratios):.2f} "
                f"({min(ratios):.2f} to {max(ratios):.2f}) times as long as two"
            )


def _applied(case: str, made: Path, room: Path, store: KilledServer, count: int) -> Taken:
    project = room / "project"
    shutil.rmtree(project, ignore_errors=True)
    shutil.copytree(made, project, copy_function=os.link)
    (project / "odfbuild.yaml").unlink()
    if case in CASES:
        _declare(project, case)
    machines = room / "machines"
    shutil.rmtree(machines, ignore_errors=True)
    machines.mkdir()
    with standalone(machines) as cluster:
        for number in range(count):
            cluster.add_worker(host=f"127.0.0.{number + 1}", masked=project, processor=number)
        spark = {
            "master": cluster.address,
            "objects": store.server.url("files"),
            "memory": "2g",
            "resident": "off",
        }
        engine = json.dumps({"ingest": "spark", "spark": spark})
        (project / "odfbuild.yaml").write_text(_SETTINGS.format(engine=engine), "utf-8")
        return _timed(project, cluster, store)


def _timed(project: Path, cluster: Standalone, store: KilledServer) -> Taken:
    policy = project.with_name("policy.yaml")
    policy.write_text('odfbuild_policy: 1\nmasters: ["*"]\nstores: ["*"]\n', "utf-8")
    environment = {**os.environ, "ODFBUILD_POLICY": str(policy)}
    with ExitStack() as watched:
        trees = [watched.enter_context(Tree(pid)) for pid in (store.pid, *cluster.workers)]
        began = time.perf_counter()
        log = watched.enter_context((DATA / "bench.log").open("ab"))
        process = subprocess.Popen(
            (PROGRAM, "apply", "--yes"), cwd=project, env=environment, stdout=log, stderr=log
        )
        coordinator = watched.enter_context(Tree(process.pid))
        code = process.wait()
        wall = time.perf_counter() - began
    if code:
        raise SystemExit(f"apply: exit {code}, see {log.name}")
    said = subprocess.run(
        (PROGRAM, "runs", "last", "-o", "json"), cwd=project, env=environment,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    storing, *working = [each.used() for each in trees]
    own = coordinator.used()
    return Taken(
        wall=wall,
        step=sum(each["seconds"] for each in json.loads(said.stdout)["each_step"]),
        workers=sum(each.cpu for each in working),
        coordinator=own.cpu,
        store=storing.cpu,
        memory=(own.memory, *(each.memory for each in working)),
    )


@contextmanager
def _store(room: Path) -> Iterator[KilledServer]:
    """Run a store for a case; workers and coordinator get its keys by their environment."""
    folder = room / "store"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.environ.update(CREDENTIALS)
    store = KilledServer(folder)
    try:
        store.wait()
        yield store
    finally:
        store.close()


def _made(rows: int, *, built: bool) -> Path:
    """Return a project of sales and shops, with the datasets of both built here if asked for."""
    folder = DATA / f"cluster-{rows}"
    if not (folder / "data" / "made").exists():
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "data").mkdir(parents=True)
        (folder / "datasets").mkdir()
        _write_sales(folder / "data" / "sales.csv", rows)
        _write_shops(folder / "data" / "shops.csv")
        for name, columns in (("sales", _SALES), ("shops", _SHOPS)):
            text = _ROOT.format(name=name, columns=columns)
            (folder / "datasets" / f"{name}.yaml").write_text(text, "utf-8")
        (folder / "odfbuild.yaml").write_text(_SETTINGS.format(engine="{ingest: arrow}"))
        (folder / "data" / "made").touch()
    if not built:
        return folder
    there = DATA / f"cluster-{rows}-built"
    if not (there / "built").exists():
        shutil.rmtree(there, ignore_errors=True)
        shutil.copytree(folder, there, copy_function=os.link)
        subprocess.run((PROGRAM, "apply", "--yes"), cwd=there, check=True, capture_output=True)
        (there / "built").touch()
    return there


def _declare(project: Path, case: str) -> None:
    names = ("sales", "shops") if case == "join" else ("sales",)
    inputs = ", ".join(f"{{datasetRef: {name}, alias: {name}}}" for name in names)
    text = _DERIVATIVE.format(name=f"out-{case}", inputs=inputs, query=CASES[case])
    (project / "datasets" / "out.yaml").write_text(text, "utf-8")


def _write_sales(path: Path, rows: int) -> None:
    """Write about 50 bytes a row, in no order of time."""
    drawn = np.random.default_rng(1)
    with path.open("wb") as out:
        for first in range(0, rows, _CHUNK):
            count = min(_CHUNK, rows - first)
            seconds = 1_900_000_000 + drawn.integers(0, _YEAR, count)
            times = pa.array(seconds.astype("datetime64[s]")).cast(pa.string())
            table = pa.table(
                {
                    "time": times,
                    "id": np.arange(first, first + count),
                    "shop": drawn.integers(0, _SHOP_COUNT, count),
                    "customer": drawn.integers(0, 1_000_000, count),
                    "amount": np.round(drawn.random(count) * 1000, 4),
                }
            )
            options = pcsv.WriteOptions(include_header=first == 0, quoting_style="none")
            pcsv.write_csv(table, out, options)


def _write_shops(path: Path) -> None:
    lines = ["time,shop,city,rate"]
    lines += [
        f"2030-01-01 00:00:00,{shop},city {shop % 100},{1 + shop % 7 / 10}"
        for shop in range(_SHOP_COUNT)
    ]
    path.write_text("\n".join([*lines, ""]), "utf-8")


if __name__ == "__main__":
    main()
