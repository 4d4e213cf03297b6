"""Time an apply of many small steps: roots with 1,000 new rows each, and 100 datasets above them.

python -m bench.hundred [CASE ...] [--engine spark|datafusion] [--runs N] [--roots N] [--peers].
The cases are `linear` (every query row by row) and `keyed` (half of them GROUP BY).  Spark runs on
a JVM of its own and on a resident one (`odfbuild engine start`); with DataFusion no Java runs, also
not to ingest.  Every run begins with the same workspace, which holds 1,000 rows a root, and finds
1,000 more; one more finds nothing new.  With --peers, dbt and SQLMesh do the equivalent
over DuckDB, installed into environments of their own in bench/.data/peers.
"""

import argparse
import random
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.hundred_peers import dbt_commands, sqlmesh_commands
from bench.measure import Command
from bench.run import PROGRAM, made, report
from odfbuild.executors.engine.protocol import engine_version

__all__ = ["DERIVATIVE", "ROOT", "main"]

COUNT = 100
ROWS = 1000
CASES = ("linear", "keyed")
_INGEST = {"spark": "spark", "datafusion": "arrow"}
ROOT = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {{kind: FilesGlob, path: "data/{name}/*.csv"}}
      read:
        kind: Csv
        header: true
        schema: [event_time TIMESTAMP, id BIGINT, k BIGINT, city STRING, amount BIGINT]
      merge: {{kind: Append}}
"""
DERIVATIVE = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{{datasetRef: {source}, alias: source}}]
      transform:
        kind: Sql
        engine: {engine}
        query: >-
          {query}
"""
_LINEAR = (
    "select event_time, id, upper(trim(city)) as city, "
    "case when amount > {number} then amount * 2 else amount end as amount, "
    "concat(city, '-{number}') as note from source where amount is not null"
)
_KEYED = (
    "select k, max(event_time) as event_time, count(1) as n, sum(amount) as total "
    "from source where amount > {number} group by k"
)


def main() -> None:
    """Time what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="CASE")
    parser.add_argument("--engine", choices=_INGEST, default="spark")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--roots", type=int, default=4)
    parser.add_argument("--peers", action="store_true")
    chosen = parser.parse_args()
    for case in chosen.cases or CASES:
        print(f"\n## {case}: {COUNT} datasets, {ROWS} new rows each\n", flush=True)
        _measure(case, chosen.engine, chosen.roots, chosen.runs, peers=chosen.peers)


def _measure(case: str, engine: str, roots: int, runs: int, *, peers: bool) -> None:
    name = f"hundred-{case}-{roots}" + ("" if engine == "spark" else f"-{engine}")
    folder = made(name, partial(_project, case=case, engine=engine, roots=roots))
    base = _built(folder, engine)
    fresh = partial(_fresh, folder, base)
    idle = _apply("apply, nothing new", folder, {}, lambda: None)
    compared = (
        dbt_commands(folder, case, COUNT) + sqlmesh_commands(folder, case, COUNT) if peers else []
    )
    if engine != "spark":
        report([_apply(f"apply, {engine}", folder, {}, fresh), *(compared or [idle])], runs)
        return
    own = _apply("apply, own JVM", folder, {"ODFBUILD_ENGINE": "off"}, fresh)
    resident = _apply("apply, resident JVM", folder, {}, fresh)
    _engine(folder, "start", "--idle", "1h")
    try:
        report([own, resident, idle, *compared], runs)
    finally:
        _engine(folder, "stop")


def _apply(
    name: str, folder: Path, settings: dict[str, str], prepare: Callable[[], None]
) -> Command:
    return Command(
        name=name, arguments=(PROGRAM, "apply", "--yes"), folder=folder, settings=settings,
        prepare=prepare,
    )  # fmt: skip


def _engine(folder: Path, *arguments: str) -> None:
    subprocess.run([PROGRAM, "engine", *arguments], cwd=folder, check=True)


def _project(folder: Path, *, case: str, engine: str, roots: int) -> None:
    (folder / "datasets").mkdir(parents=True)
    settings = (
        f"odfbuild: 1\nname: bench\ndatasets: [datasets]\nengine: {{ingest: {_INGEST[engine]}}}\n"
    )
    (folder / "odfbuild.yaml").write_text(settings)
    for root in range(roots):
        name = f"bench.root-{root:03d}"
        (folder / "datasets" / f"{name}.yaml").write_text(ROOT.format(name=name))
        (folder / "data" / name).mkdir(parents=True)
        _csv(folder / "data" / name / "1.csv", root, first=0)
        (folder / "next").mkdir(exist_ok=True)
        _csv(folder / "next" / f"{name}.csv", root, first=ROWS)
    for number in range(COUNT):
        name = f"bench.made-{number:03d}"
        query = _KEYED if case == "keyed" and number % 2 else _LINEAR
        text = DERIVATIVE.format(
            engine=engine,
            name=name,
            source=f"bench.root-{number % roots:03d}",
            query=query.format(number=number),
        )
        (folder / "datasets" / f"{name}.yaml").write_text(text)


def _csv(path: Path, root: int, *, first: int) -> None:
    chance = random.Random(root * 1000 + first)  # noqa: S311
    with path.open("w", encoding="utf-8") as out:
        out.write("event_time,id,k,city,amount\n")
        for number in range(first, first + ROWS):
            seconds = f"{number // 60 % 60:02d}:{number % 60:02d}"
            city = chance.choice(("Ardle", "Brack", "Corrow", "Dunmere"))
            key, amount = chance.randrange(50), chance.randrange(10_000)
            out.write(f"2031-01-{1 + first // ROWS:02d}T{seconds}Z,".replace("T", "T00:"))
            out.write(f"{number},{key},{city},{amount}\n")


def _built(folder: Path, engine: str) -> Path:
    """Build the first rows, once, and return where the result is kept.

    Another version of the engine refuses to go on, so each has its own.
    """
    base = folder / f"base-{engine_version(engine)}"
    if base.exists():
        return base
    print("building once ...", flush=True)
    shutil.rmtree(folder / ".odfbuild", ignore_errors=True)
    for path in (folder / "data").glob("*/2.csv"):
        path.unlink()
    subprocess.run([PROGRAM, "apply", "--yes"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    shutil.copytree(folder / ".odfbuild", base, ignore=_no_cache)
    return base


def _fresh(folder: Path, base: Path) -> None:
    """Put the workspace back to where the first rows were built, and add the new ones."""
    workspace = folder / ".odfbuild"
    for path in workspace.iterdir():
        if path.name == "cache":
            continue
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(base, workspace, dirs_exist_ok=True)
    for path in (folder / "next").iterdir():
        shutil.copy2(path, folder / "data" / path.stem / "2.csv")


def _no_cache(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "cache"]


if __name__ == "__main__":
    main()
