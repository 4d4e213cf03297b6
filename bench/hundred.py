"""Time an apply of many small steps: roots with 1,000 new rows each, and 100 datasets above them.

python -m bench.hundred [CASE ...] [--runs N] [--roots N] [--peers].  The cases are `linear` (every
query row by row) and `keyed` (half of them GROUP BY); each on a JVM of its own, on a resident one
(`odfbuild engine start`), and with nothing new.  Every run begins with the same workspace, which
holds 1,000 rows a root, and finds 1,000 more.  With --peers, dbt and SQLMesh do the equivalent
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
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--roots", type=int, default=4)
    parser.add_argument("--peers", action="store_true")
    chosen = parser.parse_args()
    for case in chosen.cases or CASES:
        print(f"\n## {case}: {COUNT} datasets, {ROWS} new rows each\n", flush=True)
        _measure(case, chosen.roots, chosen.runs, peers=chosen.peers)


def _measure(case: str, roots: int, runs: int, *, peers: bool) -> None:
    name = f"hundred-{case}-{roots}"
    folder = made(name, partial(_project, case=case, roots=roots))
    _built(folder)
    own = _apply("apply, own JVM", folder, {"ODFBUILD_ENGINE": "off"}, partial(_fresh, folder))
    resident = _apply("apply, resident JVM", folder, {}, partial(_fresh, folder))
    idle = _apply("apply, nothing new", folder, {}, lambda: None)
    _engine(folder, "start", "--idle", "1h")
    try:
        commands = [own, resident, idle]
        if peers:
            commands += dbt_commands(folder, case, COUNT) + sqlmesh_commands(folder, case, COUNT)
        report(commands, runs)
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


def _project(folder: Path, *, case: str, roots: int) -> None:
    (folder / "datasets").mkdir(parents=True)
    (folder / "odfbuild.yaml").write_text("odfbuild: 1\nname: bench\ndatasets: [datasets]\n")
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
            engine="spark",
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


def _built(folder: Path) -> None:
    """Build the first rows, once, and keep what came of it."""
    if _base(folder).exists():
        return
    print("building once ...", flush=True)
    shutil.rmtree(folder / ".odfbuild", ignore_errors=True)
    for path in (folder / "data").glob("*/2.csv"):
        path.unlink()
    subprocess.run([PROGRAM, "apply", "--yes"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    shutil.copytree(folder / ".odfbuild", _base(folder), ignore=_no_cache)


def _base(folder: Path) -> Path:
    """Return where the first build is kept: another version of the engine refuses to go on."""
    return folder / f"base-{engine_version('spark')}"


def _fresh(folder: Path) -> None:
    """Put the workspace back to where the first rows were built, and add the new ones."""
    workspace = folder / ".odfbuild"
    for path in workspace.iterdir():
        if path.name == "cache":
            continue
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(_base(folder), workspace, dirs_exist_ok=True)
    for path in (folder / "next").iterdir():
        shutil.copy2(path, folder / "data" / path.stem / "2.csv")


def _no_cache(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "cache"]


if __name__ == "__main__":
    main()
