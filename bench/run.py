"""Measure odfbuild: whole processes, medians, and ratios against a plain way to do the same.

python -m bench.run [CASE ...] [--runs N]; without a case, all of them.  Projects are made once, in
bench/.data.  Results are printed; bench/README.md keeps those that were worth keeping.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count as count_from
from pathlib import Path

from bench.built import built_datasets
from bench.measure import DATA, Command, Run, compare, spread
from bench.projects import many_datasets, one_table, small_files

__all__ = ["main"]

HERE = Path(__file__).parent.absolute()
PROGRAM = str(Path(sys.executable).parent / "odfbuild")
NO_ARCHIVE = {"ODFBUILD_CLASS_ARCHIVE": "off"}
_FEW = 1_000_000  # rows, of which runs take seconds and not minutes


def main() -> None:
    """Run the cases that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="CASE")
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    for name in chosen.cases or CASES:
        print(f"\n## {name}\n", flush=True)
        CASES[name](chosen.runs)


def start_up(runs: int) -> None:
    """Time `odfbuild --help` against an empty interpreter, and say what is imported."""
    empty = Command(
        name="python -c pass", arguments=(sys.executable, "-c", "pass"), folder=DATA, settings={}
    )
    report([odfbuild("--help", folder=DATA), empty], runs)
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import odfbuild.cli.main"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [line.split("|") for line in done.stderr.splitlines() if line.count("|") == 2]
    taken = sorted((int(whole), name) for _, whole, name in lines[1:])
    print("\nslowest imports, ms with what they import:")
    for whole, name in reversed(taken[-15:]):
        print(f"{whole / 1000:8.1f} {name.rstrip()}")


def nothing_to_do(count: int) -> Callable[[int], None]:
    """Time plan and apply of a project where everything is up to date."""

    def case(runs: int) -> None:
        folder = made(f"built-{count}", lambda at: built_datasets(at, count))
        report([odfbuild("plan", folder=folder), odfbuild("apply", "--yes", folder=folder)], runs)

    return case


def one_changed(count: int) -> Callable[[int], None]:
    """Time plan where one definition is another each time, where one file is new, and idle."""

    def case(runs: int) -> None:
        folder = made(f"built-{count}", lambda at: built_datasets(at, count))
        query = folder / "datasets" / "bench.derived-00007.yaml"
        source = folder / "datasets" / "bench.root-00007.yaml"
        before = {each: each.read_text("utf-8") for each in (query, source)}
        news = folder / "data" / "bench.root-00007" / "2.csv"
        rounds = count_from(3)

        def as_built() -> None:
            for path, text in before.items():
                path.write_text(text, "utf-8")
            news.unlink(missing_ok=True)

        def idle() -> None:
            as_built()
            plan.run()

        def change() -> None:
            idle()
            text = before[query].replace("amount * 2", f"amount * {next(rounds)}")
            query.write_text(text, "utf-8")

        def describe() -> None:
            idle()
            info = f"    - {{kind: SetInfo, description: text {next(rounds)}}}\n"
            source.write_text(before[source] + info, "utf-8")

        def bring() -> None:
            idle()
            first = (news.parent / "1.csv").read_text("utf-8")
            news.write_text(first + "\n" * next(rounds), "utf-8")

        plan = odfbuild("plan", folder=folder)
        commands = [
            replace(plan, name="plan, one query changed", prepare=change),
            replace(plan, name="plan, nothing changed", prepare=idle),
            replace(plan, name="plan, one description changed", prepare=describe),
            replace(plan, name="plan, one file new", prepare=bring),
        ]
        try:
            measured = report(commands, runs)
        finally:
            as_built()
        for command, taken in list(zip(commands, measured, strict=True))[2:]:
            against(taken, measured[1], f"{command.name} / {commands[1].name}")

    return case


def manners(count: int) -> Callable[[int], None]:
    """Time what is asked of a workspace now and then: status, doctor, gc with nothing to free."""

    def case(runs: int) -> None:
        folder = made(f"built-{count}", lambda at: built_datasets(at, count))
        asked = [("status",), ("doctor",), ("gc", "--dry-run"), ("gc",)]
        report([odfbuild(*each, folder=folder) for each in asked], runs)

    return case


def first_build(runs: int) -> None:
    """Time the first apply of one small dataset, without a class archive and with one."""
    folder = made("one", lambda at: one_table(at, 1000))
    warm_archive(folder)
    plain = fresh_apply("apply, no archive", folder, NO_ARCHIVE)
    report([plain, fresh_apply("apply, archive", folder, {})], runs)


def twenty_small(runs: int) -> None:
    """Time the first apply of ten small roots and a derivative of each, against one dataset."""
    twenty = made("many-20", lambda at: many_datasets(at, 20, rows=1000))
    one = made("one", lambda at: one_table(at, 1000))
    warm_archive(one)
    report([fresh_apply("apply of 20", twenty, {}), fresh_apply("apply of 1", one, {})], runs)


def bulk(rows: int, form: str) -> Callable[[int], None]:
    """Time the ingest of one file against a bare Spark script: all of it, and the work alone.

    Of much data every run counts.
    """

    def case(runs: int) -> None:
        folder = made(f"{form}-{rows}", lambda at: one_table(at, rows, form))
        warm_archive(made("one", lambda at: one_table(at, 1000)))
        usual, ready = fresh_apply("apply", folder, {}), ready_apply(folder)
        plain = bare(folder, form)
        _, theirs, ours = report([usual, plain, ready], runs, cold=rows > _FEW)
        works = [spread([run.work for run in taken]) for taken in (ours, theirs)]
        shares = [a.work / b.work for a, b in zip(ours, theirs, strict=True)]
        print(f"work without the start of Spark: apply {works[0]} s, bare Spark {works[1]} s")
        print(f"apply / bare Spark: {spread(shares)}")

    return case


def without_java(rows: int) -> Callable[[int], None]:
    """Time the ingest of one file without Java, against DuckDB, which only sorts and writes, and
    against a merge by Spark.
    """

    def case(runs: int) -> None:
        arrow = made(f"csv-{rows}-arrow", lambda at: one_table(at, rows, ingest="arrow"))
        spark = made(f"csv-{rows}", lambda at: one_table(at, rows))
        warm_archive(made("one", lambda at: one_table(at, 1000)))
        source, target = arrow / "data" / "bench.table" / "1.csv", arrow / "bare.parquet"
        script = (sys.executable, str(HERE / "bare_duckdb.py"), str(source), str(target))
        commands = [
            fresh_apply("apply, ingest: arrow", arrow, {}),
            Command(name="DuckDB", arguments=script, folder=arrow, settings={}),
            fresh_apply("apply, ingest: spark", spark, {}),
        ]
        measured = report(commands, runs, cold=rows > _FEW)
        against(measured[0], measured[2], f"{commands[0].name} / {commands[2].name}")

    return case


def many_files(runs: int) -> None:
    """Time the ingest of 1,000 files of 100 rows, against one file of as many rows."""
    folder = made("files-1000", lambda at: small_files(at, 1000, 100))
    one = made("csv-100000", lambda at: one_table(at, 100_000))
    warm_archive(made("one", lambda at: one_table(at, 1000)))
    files = fresh_apply("apply of 1,000 files", folder, {})
    report([files, fresh_apply("apply of one file", one, {})], runs)


def bare(folder: Path, form: str) -> Command:
    """Return the plain script that does the same with a project's only file."""
    source = folder / "data" / "bench.table" / f"1.{form}"
    arguments = (sys.executable, str(HERE / "bare_spark.py"), str(source), str(folder / "bare"))
    return Command(name="bare Spark", arguments=arguments, folder=folder, settings={})


def ready_apply(folder: Path) -> Command:
    """Return an apply that times itself once Spark is ready."""
    arguments = (sys.executable, str(HERE / "apply_work.py"))
    return Command(
        name="Spark, then apply", arguments=arguments, folder=folder, settings={},
        prepare=lambda: shutil.rmtree(folder / ".odfbuild", ignore_errors=True),
    )  # fmt: skip


def odfbuild(*arguments: str, folder: Path) -> Command:
    """Return the command that runs odfbuild in a folder."""
    name = f"odfbuild {arguments[0]}"
    return Command(name=name, arguments=(PROGRAM, *arguments), folder=folder, settings={})


def fresh_apply(name: str, folder: Path, settings: dict[str, str]) -> Command:
    """Return an apply that finds no workspace, whatever was built before."""
    return Command(
        name=name, arguments=(PROGRAM, "apply", "--yes"), folder=folder, settings=settings,
        prepare=lambda: shutil.rmtree(folder / ".odfbuild", ignore_errors=True),
    )  # fmt: skip


def made(name: str, make: Callable[[Path], object]) -> Path:
    """Return a project folder, making it if it is not there yet."""
    folder = DATA / name
    if not folder.exists():
        print(f"making {name} ...", flush=True)
        partial = DATA / f"{name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        make(partial)
        partial.rename(folder)
    return folder


def warm_archive(folder: Path) -> None:
    """Build once with the class archive on, and wait until it is there."""
    fresh_apply("warm-up", folder, {}).run()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "odfbuild"
    for _ in range(120):
        if any(cache.rglob("*.jsa")) or any(cache.rglob("*.aot")):
            return
        time.sleep(1)


def report(
    commands: list[Command], runs: int, *, cold: bool = False
) -> tuple[tuple[Run, ...], ...]:
    """Run the commands in turn, print a row for each and the ratios of the first two."""
    measured = compare(commands, runs=runs, cold=cold)
    print("| command | wall s | cpu s | peak MiB | of one process |\n|---|---|---|---|---|")
    for command, taken in zip(commands, measured, strict=True):
        figures = f"{of(taken, 'wall')} | {of(taken, 'cpu')} | {peak(taken, 'memory')}"
        print(f"| {command.name} | {figures} | {peak(taken, 'largest')} |")
    print()
    against(measured[0], measured[1], f"{commands[0].name} / {commands[1].name}")
    return measured


def against(first: Iterable[Run], second: Iterable[Run], name: str) -> None:
    """Print the ratios of two commands, run by run."""
    pairs = list(zip(first, second, strict=True))
    walls = spread([a.wall / b.wall for a, b in pairs])
    times = spread([a.cpu / b.cpu for a, b in pairs])
    print(f"{name}, median of {len(pairs)} pairs: wall {walls}, cpu {times}")


def of(taken: Iterable[Run], figure: str) -> str:
    """Say the spread of one figure."""
    return str(spread([getattr(run, figure) for run in taken]))


def peak(taken: Iterable[Run], figure: str) -> str:
    """Say the greatest of one figure of memory."""
    return f"{max(getattr(run, figure) for run in taken):.0f}"


CASES: dict[str, Callable[[int], None]] = {
    "start-up": start_up,
    "idle-1000": nothing_to_do(1000),
    "idle-5000": nothing_to_do(5000),
    "idle-10000": nothing_to_do(10000),
    "changed-1000": one_changed(1000),
    "changed-10000": one_changed(10000),
    "manners-1000": manners(1000),
    "first": first_build,
    "small-20": twenty_small,
    "files-1000": many_files,
    "csv-1m": bulk(1_000_000, "csv"),
    "ndjson-1m": bulk(1_000_000, "ndjson"),
    "csv-10m": bulk(10_000_000, "csv"),
    "ndjson-10m": bulk(10_000_000, "ndjson"),
    "arrow-1m": without_java(1_000_000),
    "arrow-10m": without_java(10_000_000),
}

if __name__ == "__main__":
    main()
