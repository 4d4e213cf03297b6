"""Time whole processes, in turn, and say medians and ratios."""

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.tree import Tree

__all__ = ["DATA", "WORK", "Command", "Run", "Spread", "compare", "spread"]

DATA = Path(__file__).parent / ".data"
"""Where data is made and what commands print is kept."""

WORK = "BENCH_WORK"
"""The environment variable that names the file in which a process leaves its seconds of work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one finished process took, with all that it started: seconds, and memory in MiB.

    `memory` is the greatest sum of all, `largest` that of the largest; `work` are the seconds that
    the process itself says it worked, 0 if it does not.
    """

    wall: float
    cpu: float
    memory: float
    largest: float
    work: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A process to time: its name, arguments, folder and settings, and what makes it ready."""

    name: str
    arguments: tuple[str, ...]
    folder: Path
    settings: Mapping[str, str]
    prepare: Callable[[], None] = lambda: None

    def run(self) -> Run:
        """Make ready, run to the end, and return what the run alone took."""
        self.prepare()
        DATA.mkdir(exist_ok=True)
        said = DATA / "work"
        said.unlink(missing_ok=True)
        environment = {**os.environ, **self.settings, WORK: str(said)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program is compiled
        with (DATA / "bench.log").open("ab") as log:
            started = time.perf_counter()
            process = subprocess.Popen(
                self.arguments, cwd=self.folder, env=environment, stdout=log, stderr=log
            )
            with Tree(process.pid) as tree:
                _, status, spent = os.wait4(process.pid, 0)
                wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"{self.name}: exit {process.returncode}, see {log.name}")
        used = tree.used()
        return Run(
            wall=wall,
            cpu=max(used.cpu, spent.ru_utime + spent.ru_stime),
            memory=used.memory,
            largest=max(used.largest, spent.ru_maxrss / 1024),
            work=float(said.read_text()) if said.exists() else 0.0,
        )


@dataclass(frozen=True, slots=True)
class Spread:
    """The least, middle and greatest of some figures."""

    least: float
    median: float
    most: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.least:.2f} to {self.most:.2f})"


def spread(figures: Sequence[float]) -> Spread:
    """Return the spread of some figures."""
    return Spread(min(figures), statistics.median(figures), max(figures))


def compare(
    commands: Sequence[Command], *, runs: int, cold: bool = False
) -> tuple[tuple[Run, ...], ...]:
    """Run the commands in turn, A B A B ..., one round uncounted; return the runs of each.

    Turns make the ratio of a pair hold when the machine's speed drifts.  `cold` counts the first
    round too: of runs that take minutes.
    """
    if not cold:
        for command in commands:
            command.run()
    rounds = [[command.run() for command in commands] for _ in range(runs)]
    return tuple(zip(*rounds, strict=True))
