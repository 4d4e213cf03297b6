"""Commands of the command line at once, in processes of their own, some of them cut off.

    python -m tests.faults.processes --rounds 100 --seed 0

Two to five commands begin within half a second on one project, with leases and whatever
`--on-busy` says; some lose their output (closed, a pipe that nobody reads, a full disk), some get
SIGTERM, SIGHUP or ^C, and `run --watch` always does.  None may end with a traceback, by itself or
by a signal that it heeds; afterwards all chains hold (`check_chains`), and after one more apply
every row of every file is there once.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from odfbuild.cli.main import main as main_of_commands
from odfbuild.errors import OdfBuildError
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.workspace import Workspace
from tests.faults.concurrent import (
    MERGES,
    World,
    check_chains,
    check_readers,
    keys_of,
    without_spark,
)
from tests.faults.races import forked, wait, world_apart
from tests.faults.workload import memory

__all__ = ["Process", "act", "check_all", "problems_of", "processes"]

_LONGEST = 240.0  # seconds for the commands of a round, on a busy machine
_LATEST = 0.5  # seconds after which the last command begins
_CODES = frozenset((0, 1, 3, 4, 5, 6, 7, 129, 130, 143))
_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_OUTPUTS = ("kept", "kept", "kept", "closed", "no-stderr", "unread", "full")


def _commands(draw: random.Random, world: World) -> list[str]:
    busy = draw.choice(([], [], [], ["--on-busy", "skip"], ["--on-busy", "fail"]))
    jobs = draw.choice(([], ["-j", "1"]))
    return draw.choice(
        [
            ["apply", "--yes", *busy, *jobs],
            ["apply", "--yes", *busy, *jobs, "-o", "json"],
            ["run", *busy, *draw.choice(([], ["--until-idle"], ["--max-slices", "1"]))],
            ["run", "--watch", "--interval", "0.1", *busy],
            ["ingest", "posts", "posts/a.csv", "--id", "a.csv", *busy],
            ["ingest", "posts", "posts/b.csv", "--id", "b.csv", *busy],
            ["reset", "src", "--sequence", str(draw.randint(3, 6)), "--yes", *busy],
            ["undo", world.run, "--yes", *busy],
            ["undo", "last", "--yes", *busy],
            ["compact", "src", "--hard", "--yes", *busy],
            ["compact", "src", "--keep-metadata-only", "--yes", *busy],
            ["rebuild", "out", "--yes", *busy],
            ["rebuild", "--restore"],
            ["engine", "upgrade", "--yes", *busy],
            ["gc", "--older-than", draw.choice(("0s", "1h"))],
            ["mv", "src", "called", *busy],
            ["watermark", "posts", "2024-01-01"],
            ["verify"],
        ]
    )


@dataclass(slots=True)
class Process:
    """A command, what becomes of its output, and after how many seconds it gets which signal.

    `prepare` is called first in its process.
    """

    arguments: list[str]
    output: str
    stopped: float | None = None
    by: signal.Signals = signal.SIGTERM
    began: float = 0.0
    id: int = 0
    code: int | None = None
    errors: Path = Path()
    prepare: Callable[[], None] = lambda: None

    def start(self, folder: Path, number: int) -> None:
        self.errors = folder / f"{number}.stderr"
        self.errors.touch()
        self.began = time.monotonic()
        self.id = forked(partial(self._be, folder))

    def _be(self, folder: Path) -> None:
        self.prepare()
        act(self.arguments, self.output, self.errors, folder)

    def has_ended(self) -> bool:
        """Tell whether it ended; send the signal if it is time."""
        if self.code is None:
            ended, status = os.waitpid(self.id, os.WNOHANG)
            if ended:
                self.code = os.waitstatus_to_exitcode(status)
            elif self.stopped is not None and time.monotonic() - self.began >= self.stopped:
                os.kill(self.id, self.by)
                self.stopped = None
        return self.code is not None

    def problem(self) -> str | None:
        """Return what is wrong with how it ended."""
        said = self.errors.read_text("utf-8", "replace")
        if "Traceback" in said or "error[internal]" in said:
            return f"{self}: {said[-2000:]}"
        if self.code not in _CODES and -(self.code or 0) not in _SIGNALS:
            return f"{self}: ended with {self.code}: {said[-500:]}"
        return None

    def __str__(self) -> str:
        return f"{' '.join(self.arguments)} [{self.output}, {self.by.name}] -> {self.code}"


def act(arguments: Sequence[str], output: str, errors: Path, folder: Path) -> None:
    """Be the command, with its output as it is to be."""
    os.chdir(folder)
    with errors.open("wb") as file:
        os.dup2(file.fileno(), 2)
    os.dup2(_stdout(output), 1)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    if output == "closed":
        sys.stdout = None
        os.close(1)
    elif output == "no-stderr":
        sys.stderr = None
        os.close(2)
    sys.argv = ["odfbuild", *arguments]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code: object = 0
    try:
        main_of_commands()
    except SystemExit as end:
        code = end.code
    os._exit(code if isinstance(code, int) else 1)


def _stdout(output: str) -> int:
    if output == "full":
        return os.open("/dev/full", os.O_WRONLY | os.O_CLOEXEC)
    if output == "unread":
        read, write = os.pipe2(os.O_CLOEXEC)
        os.close(read)
        return write
    return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def processes(rounds: int, seed: int = 0, say: Callable[[str], None] = print) -> int:
    """Run so many rounds and return how many broke the law."""
    broken = 0
    with tempfile.TemporaryDirectory(dir=memory()) as place, without_spark():
        worlds = [world_apart(Path(place) / f"{n}", merge) for n, merge in enumerate(MERGES)]
        for number in range(seed, seed + rounds):
            if (
                problem := _round(random.Random(number), worlds, Path(place) / "found")
            ) is not None:
                broken += 1
                say(f"BROKEN, seed {number}: {problem}")
            if (number - seed + 1) % 10 == 0:
                say(f"{number - seed + 1:,} rounds, {broken} broken")
    return broken


def _round(draw: random.Random, worlds: Sequence[World], found: Path) -> str | None:
    """Run commands at once and return what is wrong; what reads rows is in other processes."""
    world = draw.choice(worlds)
    work = []
    for _ in range(draw.choice((2, 2, 3, 3, 4, 5))):
        arguments = _commands(draw, world)
        cut = "--watch" in arguments or draw.random() < 0.2
        stopped = draw.uniform(0.1, 3) if cut else None
        work.append(Process(arguments, draw.choice(_OUTPUTS), stopped, draw.choice(_SIGNALS)))
    with world.copy() as folder:
        _run(draw, work, folder)
        collected = any(each.arguments[0] == "gc" for each in work)
        problems = [each for process in work if (each := process.problem())]
        if not problems:
            check = partial(check_chains, folder, collected=collected, cut=_cut(work))
            problems += problems_of(check, found)
        if not problems:
            problems += _settle(folder)
        if not problems:
            problems += problems_of(partial(check_all, folder, work, collected=collected), found)
    return "\n  ".join([*map(str, work), *problems]) if problems else None


def problems_of(check: Callable[[], None], found: Path, longest: float = _LONGEST) -> list[str]:
    """Check in a process of its own, as who forks may have no threads."""

    def checked() -> None:
        found.write_text("", "utf-8")
        try:
            check()
        except (AssertionError, OdfBuildError, OSError) as error:
            found.write_text(repr(error), "utf-8")

    code = wait(forked(checked), longest)
    text = found.read_text("utf-8")
    if code and not text:
        text = "an error that it does not know" if code > 0 else f"not over after {longest:,.0f} s"
    return [text] if text else []


def _run(draw: random.Random, work: Sequence[Process], folder: Path) -> None:
    for number, each in enumerate(work):
        each.start(folder, number)
        time.sleep(draw.random() * _LATEST / len(work))
    until = time.monotonic() + _LONGEST
    while sum(each.has_ended() for each in work) < len(work):
        if time.monotonic() > until:
            for each in work:
                if each.code is None:
                    os.kill(each.id, signal.SIGKILL)
        time.sleep(0.01)


def _settle(folder: Path) -> list[str]:
    """Do what is left; a derivative whose input was rewritten is rebuilt."""
    for number, arguments in enumerate((["apply", "--yes"], ["rebuild", "out", "--yes"]) * 2):
        done = Process(arguments, "kept")
        _run(random.Random(0), [done], folder / ".")
        said = done.errors.read_text("utf-8", "replace")
        if done.code == 0 and arguments[0] == "apply":
            return []
        if number == 2:
            return [f"{done}: {said[-2000:]}"]
    return ["never"]


def check_all(folder: Path, work: Sequence[Process], *, collected: bool, failed: int = 0) -> None:
    """Check all that must be true after commands; others `failed` as a server was killed."""
    check_chains(folder, collected=collected, cut=_cut(work) + failed)
    check_readers(folder)
    _check_rows(folder, work)


def _cut(work: Sequence[Process]) -> int:
    """Count the commands that a signal has ended, by themselves or at once."""
    return sum(process.code in {130, 143} or (process.code or 0) < 0 for process in work)


def _check_rows(folder: Path, work: Sequence[Process]) -> None:
    names = Workspace(folder / ".odfbuild").names()
    source = "called" if DatasetAlias.parse("called") in names else "src"
    wanted = sorted(f"{letter}{n}" for letter in "kl" for n in (1, 2, 3, 4, 6))
    for name in (source, "out"):
        assert sorted(keys_of(folder, name).elements()) == wanted, (name, keys_of(folder, name))
    assert sorted(keys_of(folder, "new").elements()) == ["k5", "l5"]
    posts = keys_of(folder, "posts")
    for file, key in (("posts/a.csv", "k8"), ("posts/b.csv", "k9")):
        least = any(_succeeded(each) and file in each.arguments for each in work)
        undone = any(each.arguments[0] == "undo" for each in work)
        assert (least and not undone) <= posts[key] <= 1, posts


def _succeeded(process: Process) -> bool:
    return process.code == 0 and "skip" not in process.arguments


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as many rounds as asked for; 1 if one of them broke the law."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.processes")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    began = time.monotonic()
    broken = processes(asked.rounds, asked.seed, lambda text: print(text, flush=True))
    print(f"{asked.rounds:,} rounds, {broken} broken, {time.monotonic() - began:,.0f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
