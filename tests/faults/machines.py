"""Commands of two machines at once on one bucket of a real server, some of them killed.

    python -m tests.faults.machines --rounds 1000 --seed 0
    python -m tests.faults.machines --rounds 300 --kills

Each machine has a copy of the project and folders of its own for caches and state.  In every fourth
round, with `--kills` in all, commands get SIGKILL, and so does the server at times, which goes on
with what is on its disk.  In about every second round nobody heeds leases but that of `gc`, since
they only spare work; in the others they are stale after half a minute.  To `gc`, what is there
before a round is old, and what comes with it young.

Afterwards a third machine, which is one process, applies and verifies, and brings the workspace
into a folder, where all must be true that is true after the commands of one machine
(`tests.faults.processes`).  Rounds go on lanes (`tests.faults.lanes`), each with a server of its
own; what is drawn in a round depends on its number alone.  A round takes 2 s of
a processor, those of the server included.
"""

import argparse
import gc
import importlib
import os
import pkgutil
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

import odfbuild
from odfbuild.app.maintenance import collection
from odfbuild.cli import reservation
from odfbuild.cli.main import main as main_of_commands
from odfbuild.state import lease
from odfbuild.state.remote import leases
from odfbuild.state.remote import workspace as bucket_workspace
from tests.faults.concurrent import MERGES, World, without_spark
from tests.faults.lanes import on_lanes
from tests.faults.processes import Process, check_all, problems_of
from tests.faults.races import forked, wait, world_apart
from tests.faults.workload import memory
from tests.support.servers.object_store import CREDENTIALS, PORTS, KilledServer, free_ports

__all__ = ["Machine", "begun", "draw_command", "machines"]

_DAY = 86_400.0
_PERIOD = 15.0  # seconds; leases are renewed every twenty
_LONGEST = 600.0  # seconds for the commands of a round, and for its checks
_LATEST = 0.5
_LOOK = 0.005
_PAUSE = 0.1  # seconds between two looks at who has a lease
_LANES = 4
_GIVEN_UP = 0.7
_CODES = frozenset((0, 1, 3, 4, 5, 6, 7, 130, 143))


def draw_command(draw: random.Random) -> list[str]:
    busy = draw.choice(([], [], ["--on-busy", "skip"]))
    return draw.choice(
        [
            ["apply", "--yes", *busy],
            ["apply", "--yes", *busy],
            ["ingest", "posts", "posts/a.csv", "--id", "a.csv", *busy],
            ["ingest", "posts", "posts/b.csv", "--id", "b.csv", *busy],
            ["reset", "src", "--sequence", str(draw.randint(3, 6)), "--yes", *busy],
            ["undo", "last", "--yes", *busy],
            ["undo", "last", "--yes", *busy],
            ["compact", "src", "--hard", "--yes", *busy],
            ["rebuild", "out", "--yes", *busy],
            ["gc", "--older-than", "1d"],
            ["gc", "--older-than", "1d"],
            ["verify"],
        ]
    )


class Machine:
    """A folder with a copy of the project, and what a user has beside it."""

    def __init__(
        self, folder: Path, project: Path, url: str, moment: float, *, leased: bool = True
    ) -> None:
        self.folder = folder
        self._leased = leased
        self.project = folder / "project"
        self._moment = moment
        without_workspace = shutil.ignore_patterns(".odfbuild")
        shutil.copytree(project, self.project, ignore=without_workspace)
        settings = self.project / "odfbuild.yaml"
        settings.write_text(f"{settings.read_text()}targets: {{dev: {{workspace: '{url}'}}}}\n")

    def process(self, arguments: list[str], stopped: float | None = None) -> Process:
        """Return a command of this machine, killed after some seconds."""
        made = Process(arguments, "kept", stopped, signal.SIGKILL)
        made.prepare = self.prepare
        return made

    def prepare(self) -> None:
        os.environ.update(
            CREDENTIALS,
            XDG_CACHE_HOME=str(self.folder / "cache"),
            XDG_STATE_HOME=str(self.folder / "state"),
            ODFBUILD_POLICY=str(_policy(self.folder)),
            CI="",
        )
        mock.patch.object(leases, "PERIOD", _PERIOD).start()
        mock.patch.object(lease, "_FAR_PAUSE", _PAUSE).start()
        mock.patch.object(bucket_workspace, "_PAUSE", _PAUSE).start()
        if not self._leased:
            mock.patch.object(reservation, "take_lease", _no_lease).start()
        # to gc, what came before the round is a day old
        mock.patch.object(collection, "earlier_now", lambda _: self._moment + _DAY).start()

    def said(self, *arguments: str) -> tuple[object, str]:
        """Run a command in this process, which is the machine's; return its code and stderr."""
        os.chdir(self.project)
        said, code = StringIO(), None
        with (
            mock.patch.object(sys, "argv", ["odfbuild", *arguments]),
            redirect_stdout(StringIO()),
            redirect_stderr(said),
        ):
            try:
                main_of_commands()
            except SystemExit as end:
                code = end.code
        return code, said.getvalue()[-3000:]

    def do(self, *arguments: str) -> None:
        """Run a command in this process, which has to succeed."""
        code, said = self.said(*arguments)
        assert code == 0, f"{' '.join(arguments)}: {code}: {said}"


def _no_lease(workspace: Path, *_: object, **__: object) -> tuple[lease.Lease, dict[Any, Any]]:
    return lease.Lease(workspace), {}


def _policy(folder: Path) -> Path:
    path = folder / "policy.yaml"
    path.write_text('odfbuild_policy: 1\nstores: ["*"]\n')
    return path


@dataclass(frozen=True, slots=True)
class RoundReport:
    """What became of a round: what is wrong, and how many were killed in it."""

    problem: str | None
    commands: int = 0
    killed: int = 0
    servers: int = 0


def machines(
    rounds: int,
    seed: int = 0,
    say: Callable[[str], None] = print,
    *,
    kills: bool = False,
    lanes: int = _LANES,
) -> int:
    """Run so many rounds and return how many broke the law."""
    _load_all()
    broken = done = commands = killed = servers = 0
    with tempfile.TemporaryDirectory(dir=memory()) as name, without_spark():
        place = Path(name)
        worlds = [world_apart(place / f"{n}", merge) for n, merge in enumerate(MERGES)]
        ports = free_ports(PORTS * lanes)
        lane = partial(_lane, place, worlds, ports, kills)
        for number, found in on_lanes(lanes, range(seed, seed + rounds), lane):
            done += 1
            if isinstance(found, RoundReport):
                commands, killed = commands + found.commands, killed + found.killed
                servers += found.servers
            problem = found.problem if isinstance(found, RoundReport) else found
            if problem is not None:
                broken += 1
                say(f"BROKEN, seed {number}: {problem}")
            if done % 10 == 0 or done == rounds:
                say(
                    f"{done:,} rounds, {broken} broken, {commands:,} commands, {killed:,} of them "
                    f"killed, {servers:,} servers killed"
                )
    return broken


def _load_all() -> None:
    """Load the product once, so that no command has to."""
    for found in pkgutil.walk_packages(odfbuild.__path__, f"{odfbuild.__name__}."):
        if not found.name.endswith(".__main__"):
            importlib.import_module(found.name)
    gc.collect()
    gc.freeze()  # a collection in a command would copy all of it


def _lane(
    place: Path,
    worlds: Sequence[World],
    ports: Sequence[int],
    kills: bool,
    own: int,
    numbers: Iterator[int],
) -> Iterator[RoundReport]:
    """Do rounds on a server of this lane alone."""
    server = place / f"server-{own}"
    server.mkdir()
    store = KilledServer(server, ports[PORTS * own : PORTS * (own + 1)])
    try:
        _await(store)
        for number in numbers:
            folder = place / f"round-{number}"
            folder.mkdir()
            draw = random.Random(number)
            cut = kills or number % 4 == 0
            yield _round(draw, draw.choice(worlds), folder, store, kills=cut)
            shutil.rmtree(folder)
    finally:
        store.close()


def _await(store: KilledServer) -> None:
    """Return once a server answers; in a process of its own, as who forks may have no threads."""
    assert wait(forked(partial(store.wait, _LONGEST)), 2 * _LONGEST) == 0, "the server is silent"


def _round(
    draw: random.Random, world: World, folder: Path, store: KilledServer, *, kills: bool
) -> RoundReport:
    """Run commands of two machines at once and tell what became of them."""
    url = store.server.url(folder.name)
    if problem := begun(draw, Machine(folder / "first", world.origin, url, 0), world.origin, url):
        return RoundReport(problem)
    moment = int(time.time()) + 1
    time.sleep(moment - time.time())
    leased = draw.random() < 0.5
    pair = [
        Machine(folder / name, world.origin, url, moment, leased=leased) for name in ("one", "two")
    ]
    work = []
    for _ in range(draw.choice((2, 2, 3, 4))):
        for machine in pair:
            stopped = draw.uniform(0.05, 2) if kills and draw.random() < 0.5 else None
            work.append((machine, machine.process(draw_command(draw), stopped)))
    dies = draw.uniform(0.05, 1.5) if kills and draw.random() < 0.3 else None
    servers = _run(draw, work, store, dies)
    third = Machine(folder / "third", world.origin, url, moment)
    done = [process for _, process in work]
    problems = [each for process in done if (each := _problem(process, kills=kills))]
    problems = problems or _checked(third, done, failed=servers * len(done))
    killed = sum(process.code == -signal.SIGKILL for process in done)
    said = f"leases {'are' if leased else 'are not'} heeded"
    problem = "\n  ".join([said, *map(str, done), *problems]) if problems else None
    return RoundReport(problem, len(done), killed, servers)


def begun(draw: random.Random, machine: Machine, origin: Path, url: str) -> str | None:
    """Have the workspace in the store, mostly with blocks that only an undo brings back."""
    given_up = str(draw.randint(3, 6)) if draw.random() < _GIVEN_UP else None
    settings = machine.project / "odfbuild.yaml"
    of_store = settings.read_text()
    shutil.copytree(origin / ".odfbuild", machine.project / ".odfbuild")

    def begin() -> None:
        machine.prepare()
        shutil.copy(origin / "odfbuild.yaml", settings)
        machine.do("workspace", "move", url)
        settings.write_text(of_store)
        if given_up is not None:
            machine.do("reset", "src", "--sequence", given_up, "--yes")

    return next(iter(problems_of(begin, machine.folder / "found", _LONGEST)), None)


def _problem(process: Process, *, kills: bool) -> str | None:
    said = process.errors.read_text("utf-8", "replace")
    if "Traceback" in said or "error[internal]" in said:
        return f"{process}: {said[-3000:]}"
    if process.code not in _CODES and not (kills and process.code == -signal.SIGKILL):
        return f"{process}: ended with {process.code}: {said[-500:]}"
    return None


def _run(
    draw: random.Random,
    work: Sequence[tuple[Machine, Process]],
    store: KilledServer,
    dies: float | None,
) -> int:
    """Run commands; the server dies after some seconds, and begins again at once.

    Returns how often it died.
    """
    died = 0
    for number, (machine, process) in enumerate(work):
        if number:
            time.sleep(draw.random() * _LATEST / len(work))
        process.start(machine.project, number)
    began = time.monotonic()
    while sum(process.has_ended() for _, process in work) < len(work):
        if dies is not None and time.monotonic() > began + dies:
            store.kill()
            died, dies = died + 1, None
        if time.monotonic() > began + _LONGEST:
            late = [str(process) for _, process in work if process.code is None]
            for _, process in work:
                if process.code is None:
                    os.kill(process.id, signal.SIGKILL)
            raise AssertionError(f"not over after {_LONGEST:,.0f} s: {late}")
        time.sleep(_LOOK)
    if died:
        _await(store)
    return died


def _checked(machine: Machine, work: Sequence[Process], failed: int) -> list[str]:
    """Do what is left from another machine, in a process that is all of it, and check all.

    A derivative whose input was rewritten is rebuilt.  The workspace is brought into a folder, for
    all to be checked that is true of one machine's.
    """
    collected = any(each.arguments[0] == "gc" for each in work)

    def check() -> None:
        machine.prepare()
        for name in ("src", "posts", "out", "new", ".gc"):
            machine.said("unlock", name)
        for command in (("apply", "--yes"), ("rebuild", "out", "--yes")):
            if machine.said(*command)[0] == 0 and command[0] == "apply":
                break
        else:
            machine.do("apply", "--yes")
        machine.do("verify")
        machine.do("plan", "--detailed-exitcode")
        machine.do("workspace", "move", ".odfbuild")
        check_all(machine.project, work, collected=collected, failed=failed)

    return problems_of(check, machine.folder / "found", _LONGEST)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as many rounds as asked for; 1 if one of them broke the law."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.machines")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", action="store_true")
    parser.add_argument("--lanes", type=int, default=_LANES, help="rounds at a time")
    asked = parser.parse_args(arguments)
    began = time.monotonic()
    broken = machines(
        asked.rounds, asked.seed, partial(print, flush=True), kills=asked.kills, lanes=asked.lanes
    )
    print(f"{asked.rounds:,} rounds, {broken} broken, {time.monotonic() - began:,.0f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
