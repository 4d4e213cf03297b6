"""Commands of two machines at once on one bucket of a real server, some of them killed.

    python -m tests.faults.machines --rounds 1000 --seed 0
    python -m tests.faults.machines --rounds 300 --kills

Each machine has a copy of the project and folders of its own for caches and state.  In every fourth
round, with `--kills` in all, commands get SIGKILL, and so does the server at times, which goes on
with what is on its disk; leases are stale after half a minute.  To `gc`, what is there before a
round is old, and what comes with it young.  Afterwards a third machine applies and verifies, and
brings the workspace into a folder, where all must be true that is true after the commands of one
machine (`tests.faults.processes`).
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from unittest import mock

from odfbuild.state.remote import leases
from odfbuild.state.remote import workspace as bucket_workspace
from tests.faults.concurrent import MERGES, World, without_spark
from tests.faults.processes import Process, check_all, problems_of
from tests.faults.races import forked, wait, world_apart
from tests.faults.workload import memory
from tests.support.servers.object_store import CREDENTIALS, KilledServer

__all__ = ["Machine", "begun", "machines"]

_DAY = 86_400.0
_PERIOD = 15.0  # seconds; leases are renewed every twenty
_LONGEST = 240.0
_LATEST = 0.5
_GIVEN_UP = 0.7
_CODES = frozenset((0, 1, 3, 4, 5, 6, 7, 130, 143))


def _commands(draw: random.Random) -> list[str]:
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

    def __init__(self, folder: Path, project: Path, url: str, moment: float) -> None:
        self.folder = folder
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
        # to gc, what came before the round is a day old
        mock.patch.object(bucket_workspace, "now_of", lambda _: self._moment + _DAY).start()


def _policy(folder: Path) -> Path:
    path = folder / "policy.yaml"
    path.write_text('odfbuild_policy: 1\nstores: ["*"]\n')
    return path


def machines(
    rounds: int, seed: int = 0, say: Callable[[str], None] = print, *, kills: bool = False
) -> int:
    """Run so many rounds and return how many broke the law."""
    broken = 0
    with tempfile.TemporaryDirectory(dir=memory()) as place, without_spark():
        worlds = [world_apart(Path(place) / f"{n}", merge) for n, merge in enumerate(MERGES)]
        (Path(place) / "server").mkdir()
        store = KilledServer(Path(place) / "server")
        try:
            assert wait(forked(store.wait)) == 0
            for number in range(seed, seed + rounds):
                folder = Path(place) / f"round-{number}"
                folder.mkdir()
                draw = random.Random(number)
                cut = kills or number % 4 == 0
                problem = _round(draw, draw.choice(worlds), folder, store, kills=cut)
                if problem is not None:
                    broken += 1
                    say(f"BROKEN, seed {number}: {problem}")
                shutil.rmtree(folder)
                if (number - seed + 1) % 10 == 0:
                    say(f"{number - seed + 1:,} rounds, {broken} broken")
        finally:
            store.close()
    return broken


def _round(
    draw: random.Random, world: World, folder: Path, store: KilledServer, *, kills: bool
) -> str | None:
    """Run commands of two machines at once and return what is wrong."""
    url = store.server.url(folder.name)
    if problem := begun(draw, Machine(folder / "first", world.origin, url, 0), world.origin, url):
        return problem
    moment = int(time.time()) + 1
    time.sleep(moment - time.time())
    pair = [Machine(folder / name, world.origin, url, moment) for name in ("one", "two")]
    work = []
    for _ in range(draw.choice((2, 2, 3, 4))):
        for machine in pair:
            stopped = draw.uniform(0.05, 2) if kills and draw.random() < 0.5 else None
            work.append((machine, machine.process(_commands(draw), stopped)))
    dies = draw.uniform(0.05, 1.5) if kills and draw.random() < 0.3 else None
    _run(draw, work, store, dies)
    third = Machine(folder / "third", world.origin, url, moment)
    done = [process for _, process in work]
    problems = [each for process in done if (each := _problem(process, kills=kills))]
    problems = problems or _settled(third) or _checked(third, folder, done)
    return "\n  ".join([*map(str, done), *problems]) if problems else None


def begun(draw: random.Random, machine: Machine, origin: Path, url: str) -> str | None:
    """Have the workspace in the store, mostly with blocks that only an undo brings back."""
    settings = machine.project / "odfbuild.yaml"
    of_store = settings.read_text()
    shutil.copytree(origin / ".odfbuild", machine.project / ".odfbuild")
    shutil.copy(origin / "odfbuild.yaml", settings)
    code, said = _said(machine, "workspace", "move", url)
    settings.write_text(of_store)
    if code == 0 and draw.random() < _GIVEN_UP:
        number = str(draw.randint(3, 6))
        code, said = _said(machine, "reset", "src", "--sequence", number, "--yes")
    return None if code == 0 else f"the beginning: {code}: {said}"


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
    store: KilledServer | None = None,
    dies: float | None = None,
) -> None:
    """Run commands; the server dies after some seconds, and begins again at once."""
    for number, (machine, process) in enumerate(work):
        process.start(machine.project, number)
        time.sleep(draw.random() * _LATEST / len(work))
    began = time.monotonic()
    while sum(process.has_ended() for _, process in work) < len(work):
        if store is not None and dies is not None and time.monotonic() > began + dies:
            store.kill()
            dies = None
        if time.monotonic() > began + _LONGEST:
            for _, process in work:
                if process.code is None:
                    os.kill(process.id, signal.SIGKILL)
        time.sleep(0.01)
    if store is not None:
        assert wait(forked(store.wait)) == 0


def _settled(machine: Machine) -> list[str]:
    """Do what is left, from another machine; a derivative whose input was rewritten is rebuilt."""
    for name in ("src", "posts", "out", "new", ".gc"):
        _said(machine, "unlock", name)
    for number in range(4):
        code, said = _said(machine, *(("apply", "--yes"), ("rebuild", "out", "--yes"))[number % 2])
        if code == 0 and number % 2 == 0:
            break
    else:
        return [f"apply: {code}: {said}"]
    for more in (("verify",), ("plan", "--detailed-exitcode")):
        code, said = _said(machine, *more)
        if code != 0:
            return [f"{' '.join(more)}: {code}: {said}"]
    return []


def _said(machine: Machine, *arguments: str) -> tuple[int | None, str]:
    done = machine.process(list(arguments))
    _run(random.Random(0), [(machine, done)])
    return done.code, done.errors.read_text("utf-8", "replace")[-3000:]


def _checked(machine: Machine, folder: Path, work: Sequence[Process]) -> list[str]:
    """Bring the workspace into a folder, and check all that is true of one machine's."""
    code, said = _said(machine, "workspace", "move", ".odfbuild")
    if code != 0:
        return [f"move: {code}: {said}"]
    collected = any(each.arguments[0] == "gc" for each in work)
    check = partial(check_all, machine.project, work, collected=collected)
    return problems_of(check, folder / "found")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as many rounds as asked for; 1 if one of them broke the law."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.machines")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", action="store_true")
    asked = parser.parse_args(arguments)
    began = time.monotonic()
    broken = machines(
        asked.rounds, asked.seed, lambda text: print(text, flush=True), kills=asked.kills
    )
    print(f"{asked.rounds:,} rounds, {broken} broken, {time.monotonic() - began:,.0f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
