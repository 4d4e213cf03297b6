"""Time plans of projects with thousands of datasets, and other tools on the same graph.

python -m bench.planning [COUNT ...] [--runs N] [--peers].  Cold is without any cache of the
project; warm follows a plan of the same files.  With --peers, dbt and SQLMesh are installed into
environments of their own, in bench/.data/peers, and read the same graph over DuckDB: what they do
then is the nearest thing to a plan without a warehouse, `dbt parse` and `sqlmesh info`.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.layered import Node, for_dbt, for_odfbuild, for_sqlmesh, layered
from bench.measure import DATA, Command
from bench.run import PROGRAM, made, report

__all__ = ["QUIET", "installed", "main"]

PEERS = DATA / "peers"
QUIET = {
    "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
    "SQLMESH__DISABLE_ANONYMIZED_ANALYTICS": "true",
    "DO_NOT_TRACK": "1",
}
PACKAGES = {
    "dbt": ("dbt-core>=1.10,<1.12", "dbt-duckdb>=1.9,<2"),
    "sqlmesh": ("sqlmesh>=0.200,<1",),
}


def main() -> None:
    """Time what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", nargs="*", type=int, default=[1000, 5000, 10000])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peers", action="store_true")
    chosen = parser.parse_args()
    for count in chosen.counts:
        print(f"\n## {count} datasets\n", flush=True)
        nodes = layered(count)
        commands = _ours(count, nodes)
        if chosen.peers:
            commands += _dbt(count, nodes) + _sqlmesh(count, nodes)
        report(commands, chosen.runs)


def _ours(count: int, nodes: tuple[Node, ...]) -> list[Command]:
    folder = _made(f"layered-{count}", for_odfbuild, nodes)
    cache = DATA / "plan-cache"
    settings = {"XDG_CACHE_HOME": str(cache)}
    forget = partial(shutil.rmtree, cache, ignore_errors=True)
    plan = (PROGRAM, "plan")
    return [
        Command(
            name="odfbuild plan, cold",
            arguments=plan,
            folder=folder,
            settings=settings,
            prepare=forget,
        ),
        Command(name="odfbuild plan, warm", arguments=plan, folder=folder, settings=settings),
    ]


def _dbt(count: int, nodes: tuple[Node, ...]) -> list[Command]:
    folder = _made(f"layered-{count}-dbt", for_dbt, nodes)
    forget = partial(shutil.rmtree, folder / "target", ignore_errors=True)
    parse = (str(installed("dbt") / "dbt"), "parse", "--profiles-dir", ".")
    return [
        Command(
            name="dbt parse, cold", arguments=parse, folder=folder, settings=QUIET, prepare=forget
        ),
        Command(name="dbt parse, warm", arguments=parse, folder=folder, settings=QUIET),
    ]


def _sqlmesh(count: int, nodes: tuple[Node, ...]) -> list[Command]:
    folder = _made(f"layered-{count}-sqlmesh", for_sqlmesh, nodes)
    forget = partial(shutil.rmtree, folder / ".cache", ignore_errors=True)
    load = (str(installed("sqlmesh") / "sqlmesh"), "info", "--skip-connection")
    return [
        Command(
            name="sqlmesh info, cold", arguments=load, folder=folder, settings=QUIET, prepare=forget
        ),
        Command(name="sqlmesh info, warm", arguments=load, folder=folder, settings=QUIET),
    ]


def _made(
    name: str, write: Callable[[Path, tuple[Node, ...]], None], nodes: tuple[Node, ...]
) -> Path:
    return made(name, lambda folder: write(folder, nodes))


def installed(peer: str) -> Path:
    """Return where the programs of another tool are, installing it the first time."""
    place = PEERS / peer
    programs = place / "bin"
    if not programs.exists():
        print(f"installing {peer} into {place.relative_to(Path.cwd())} ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        pip = [str(programs / "python"), "-m", "pip", "--quiet", "install", *PACKAGES[peer]]
        subprocess.run(pip, check=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    return programs


if __name__ == "__main__":
    main()
