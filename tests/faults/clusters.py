"""Kills of all that takes part where the machines of a cluster exchange files by a store.

    python -m tests.faults.clusters --kills 300 --seed 0

A master, two workers that see the folder of the project empty, and a store that is reached by a
proxy, stay up over all kills but for what is killed.  Before each a file arrives, some of whose
rows correct older ones, and `apply` runs with every step as a large one.  At a drawn moment one of

    task           the Python processes of one worker
    executor       the Java process of an executor
    worker         a worker with all that it started, which is back afterwards
    driver         Java of the command, or of the resident engine
    coordinator    the command
    both           the command, and Java with it
    store          the store, which goes on with what is on its disk
    line           no process: an answer of the store is lost

gets SIGKILL.  A moment is a request to the store: before it goes on, or once the store has done it
and nobody has heard so, which is after a task has written and before its message; else a time.
Up to three kills that a command outlives come before one of any kind, each at a request behind
the last; a worker is back at once.

Then each chain is what it was before with blocks behind, or without.  After several such applies,
each upon what the one before has left, `verify` passes; the next apply ends with 0 and with
the rows that a plain script makes of the files; nothing of it stays in the store but files, and
gc, once they are old, would take all that is there.

A command may end before the moment that was drawn for it: a kill is counted where it took place.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow.parquet as pq

from odfbuild.executors.engine.objects.leftovers import collect_jobs
from odfbuild.executors.engine.spark.jvm.java import find_java
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.remote.store.bucket import Bucket
from odfbuild.state.workspace import Workspace
from tests.executors.engine.spark.standalone import Standalone, descendants, standalone
from tests.support.projects import REPOSITORY, environment
from tests.support.servers.cutting_proxy import Cut, CuttingProxy, Where
from tests.support.servers.object_store import BUCKET, CREDENTIALS, KilledServer

__all__ = ["KILLS", "Disturbed", "Rig", "clusters", "main"]

KILLS: Final = ("task", "executor", "worker", "driver", "coordinator", "both", "store", "line")
_LONGEST: Final = 3_600.0  # seconds for one command, on a busy machine
_RESIDENT: Final = 0.7  # of applies are on a resident engine, if one lives
_OUTLIVED: Final = ("task", "executor", "worker", "store", "line")
_CHECKED: Final = 0.3  # of disturbed applies are followed by one that is not, and by all checks
_BY_REQUEST: Final = 0.8  # of moments are requests
_OLD: Final = 30 * 86_400.0
_HOSTS: Final = ("127.0.0.1", "127.0.0.2")
_REQUESTS: Final[Mapping[str, Callable[[bytes], bool]]] = {
    "any": lambda _: True,
    "write of a task": lambda head: head.startswith(b"PUT ") and b"/engine-spark-" in head,
    "file of a step": lambda head: head.startswith(b"PUT ") and b"/files/" in head,
    "read": lambda head: head.startswith(b"GET ") and b"list-type" not in head,
    "delete": lambda head: head.startswith(b"DELETE ") or b"?delete" in head.partition(b"\r\n")[0],
}
_WHERE: Final[tuple[Where, ...]] = ("before", "after", "after")

_SETTINGS: Final = """\
odfbuild: 1
name: ours
engine:
  ingest: spark
  spark: {{master: "{master}", objects: "{objects}", memory: 1g, wait: 15m}}
"""
_SOURCE: Final = """\
kind: DatasetSnapshot
version: 1
content:
  name: src
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {kind: FilesGlob, path: data/*.csv}
      read: {kind: Csv, header: true, schema: ["t TIMESTAMP", "k STRING NOT NULL", "v BIGINT"]}
      merge: {kind: UpsertStream, primaryKey: [k]}
    - {kind: SetVocab, eventTimeColumn: t}
"""
_DERIVED: Final = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{{datasetRef: src, alias: src}}]
      transform: {{kind: Sql, engine: spark, query: "{query}"}}
    - {{kind: SetVocab, eventTimeColumn: t}}
"""
_QUERIES: Final = {
    "some": "select t, k, v * 2 as w from src where v % 3 > 0",
    "groups": "select max(t) as t, substr(k, 2, 1) as g, count(*) as n, sum(v) as s from src "
    "group by substr(k, 2, 1)",
}
_NAMES: Final = ("src", *_QUERIES)


class KillingProxy(CuttingProxy):
    """A proxy that lets something happen at a request, whose line alone is cut."""

    def __init__(self, target: int) -> None:
        super().__init__(target)
        self._wanted = threading.Lock()
        self._match: Callable[[bytes], bool] = lambda _: False
        self._before = 0
        self._at: Where = "before"
        self._act: Callable[[], None] = lambda: None
        self.has_acted = False
        self.seen: Counter[str] = Counter()
        """Requests of the last command by kind."""

    def expect(
        self, match: Callable[[bytes], bool], number: int, where: Where, act: Callable[[], None]
    ) -> None:
        """Act at the request of a number, from 0 on, of those that match."""
        with self._wanted:
            self._match, self._before, self._at, self._act = match, number, where, act
            self.has_acted = False
            self.seen = Counter()

    def forget(self) -> None:
        """Let all requests pass from now on."""
        self.expect(lambda _: False, 0, "before", lambda: None)

    def count(self, head: bytes = b"") -> Where | None:
        with self._wanted:
            self.seen.update(kind for kind, matches in _REQUESTS.items() if matches(head))
            if self.has_acted or not self._match(head):
                return None
            self._before -= 1
            if self._before >= 0:
                return None
            self.has_acted = True
        return self._at

    def cut(self) -> None:
        self._act()
        raise Cut


@dataclass
class Rig:
    """What stays up over all kills, and the project."""

    project: Path
    store: KilledServer
    proxy: KillingProxy
    cluster: Standalone
    usual: Counter[str] = field(default_factory=Counter)
    """Requests of an apply, by kind."""
    workers: dict[str, int] = field(default_factory=dict)
    """The process of the worker on each host."""

    @property
    def objects(self) -> str:
        return f"s3+http://127.0.0.1:{self.proxy.port}/{BUCKET}/steps/"

    def start(self, *arguments: str, resident: bool) -> "subprocess.Popen[str]":
        """Begin a command."""
        policy, settings = (self.project.with_name(name) for name in ("policy.yaml", "settings"))
        around = environment(
            **CREDENTIALS,
            ODFBUILD_POLICY=str(policy),
            ODFBUILD_ENGINE="auto" if resident else "off",
            XDG_CONFIG_HOME=str(settings),
            PYTHONPATH=str(REPOSITORY),
        )
        command = [sys.executable, "-P", "-m", "tests.executors.engine.spark.large_steps"]
        return subprocess.Popen(
            [*command, *arguments],
            cwd=self.project,
            env=around,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, resident: bool = False) -> tuple[int, str]:
        """Run a command to its end; return its code and what it said."""
        return _ended(self.start(*arguments, resident=resident))

    def kill(self, what: str, command: "subprocess.Popen[str]", draw: float) -> None:
        """Kill one of those that take part; `draw` chooses the worker, which is back at once."""
        host = _HOSTS[int(draw * len(_HOSTS))]
        worker = self.workers[host]
        match what:
            case "task":
                _kill([pid for pid in descendants(worker) if "python" in _program(pid)])
            case "executor":
                _kill([pid for pid in descendants(worker) if "java" in _program(pid)])
            case "worker":
                _kill([*descendants(worker), worker])
                self._have_workers()
            case "driver":
                _kill(self._java_of(command))
            case "coordinator":
                _kill([command.pid])
            case "both":
                _kill([*self._java_of(command), command.pid])
            case "store":
                self.store.kill()

    def _java_of(self, command: "subprocess.Popen[str]") -> list[int]:
        """Return the Java of a command and, as that may use it, of the resident engine."""
        found = descendants(command.pid)
        kept = self.project / ".odfbuild" / "cache" / "engine"
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if str(kept).encode() in (process / "cmdline").read_bytes():
                    found.append(int(process.name))
        return [pid for pid in found if "java" in _program(pid)]

    def mend(self) -> None:
        """Have two workers that live and a store that answers."""
        self.proxy.forget()
        self.store.wait()
        self._have_workers()

    def _have_workers(self) -> None:
        """Start a worker on each host where none lives."""
        for host in _HOSTS:
            if not _program(self.workers.get(host, 0)):
                self.cluster.add_worker(host=host, masked=self.project.parent)
                self.workers[host] = self.cluster.workers[-1]

    def stored(self) -> set[str]:
        """Return the keys of all objects."""
        return {each.key for each in Bucket(self.objects).listed("")}

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a dataset, in order; none where it has no head."""
        found = Workspace(self.project / ".odfbuild").open(DatasetAlias.parse(name))
        if found is None:
            return []
        return [row for _, path in found.slices() for row in pq.read_table(path).to_pylist()]


def _program(pid: int) -> str:
    """Return the program of a process, nothing of one that has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/exe").readlink().name
    return ""


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    said, _ = process.communicate(timeout=_LONGEST)
    return process.returncode, said


@contextmanager
def _rig(folder: Path) -> Iterator[Rig]:
    """Have all that takes part, and a project without files."""
    project, machines, store = folder / "projects" / "ours", folder / "machines", folder / "store"
    for each in (project / "data", project / "datasets", machines, store):
        each.mkdir(parents=True)
    os.environ.update(CREDENTIALS)  # of the workers, which are started with them
    os.environ["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1"  # executors live for one apply
    with ExitStack() as up:
        server = KilledServer(store)
        up.callback(server.close)
        server.wait()
        proxy = KillingProxy(server.server.port)
        up.callback(proxy.close)
        rig = Rig(project, server, proxy, up.enter_context(standalone(machines)))
        up.callback(rig.run, "engine", "stop", "--now")
        (project / "odfbuild.yaml").write_text(
            _SETTINGS.format(master=rig.cluster.address, objects=rig.objects), "utf-8"
        )
        (project / "datasets" / "src.yaml").write_text(_SOURCE, "utf-8")
        for name, query in _QUERIES.items():
            text = _DERIVED.format(name=name, query=query)
            (project / "datasets" / f"{name}.yaml").write_text(text, "utf-8")
        policy = 'odfbuild_policy: 1\nmasters: ["spark://*", local]\nstores: ["s3+http://127.*"]\n'
        (project.parent / "policy.yaml").write_text(policy, "utf-8")
        rig.mend()
        _arrive(project, _first - 1)
        rig.proxy.forget()
        code, said = rig.run("apply", "--yes")
        assert code == 0, said
        rig.usual = rig.proxy.seen
        yield rig


@dataclass(frozen=True, slots=True)
class Strike:
    """What is to be killed, and when: at a request of a kind, or after some seconds."""

    what: str
    worker: float
    """Of 0 to 1, which chooses the worker."""
    kind: str = ""
    number: int = 0
    where: Where = "before"
    seconds: float = 0.0

    @classmethod
    def draw(cls, draw: random.Random, what: str, usual: Counter[str]) -> "Strike":
        """Draw a moment; `usual` are the requests of an apply by kind."""
        worker = draw.random()
        if draw.random() < _BY_REQUEST or what == "line":
            kind = draw.choice(tuple(_REQUESTS))
            number = int(draw.random() * max(1, usual[kind]))
            return cls(what, worker, kind, number, draw.choice(_WHERE))
        return cls(what, worker, seconds=draw.uniform(1, 30))

    @classmethod
    def next(cls, draw: random.Random, what: str) -> "Strike":
        """Draw a moment not long after another."""
        return cls(what, draw.random(), "any", draw.randrange(12), draw.choice(_WHERE))

    def __str__(self) -> str:
        if not self.kind:
            return f"{self.what} after {self.seconds:.1f} s"
        return f"{self.what} {self.where} {self.kind} {self.number}"


@dataclass(slots=True)
class Disturbed:
    """One apply: what is to be killed and when, and what became of it."""

    rig: Rig
    number: int
    draw: random.Random
    strikes: list["Strike"] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)
    """What was killed so far; the strikes behind it are not reached."""
    resident: bool = False
    code: int | None = None
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        place = "resident" if self.resident else "own Java"
        hit, missed = self.strikes[: len(self.killed)], self.strikes[len(self.killed) :]
        not_reached = "".join(f", not reached: {each}" for each in missed)
        return f"{self.number}: {', '.join(map(str, hit))}{not_reached}, {place} -> {self.code}"

    def play(self) -> None:
        """Let a file arrive, apply with a kill, and check what is there."""
        rig, draw = self.rig, self.draw
        rig.mend()
        self.resident = draw.random() < _RESIDENT
        # one that stays has all executors, for which a command with a Java of its own would wait
        code, said = rig.run("engine", "start" if self.resident else "stop", resident=True)
        self._hold(code == 0, f"the resident engine: {code}: {said[-1500:]}")
        before = {name: rig.rows(name) for name in _NAMES}
        _arrive(rig.project, self.number)
        several = draw.choices(_OUTLIVED, k=draw.choice((0, 1, 2, 3)))
        first, *more = *several, draw.choice(KILLS)
        self.strikes = [Strike.draw(draw, first, rig.usual)]
        self.strikes += (Strike.next(draw, what) for what in more)
        said = self._disturbed()
        if not self.killed and rig.proxy.seen["any"]:
            rig.usual = rig.proxy.seen
        rig.mend()
        self._check_end(said)
        for name in _NAMES:
            now = rig.rows(name)
            self._hold(now[: len(before[name])] == before[name], f"{name} is not what it was")

    def settle(self) -> None:
        """Verify, apply undisturbed, and check all."""
        rig = self.rig
        code, said = rig.run("verify")
        self._hold(code == 0, f"verify: {code}: {said[-1500:]}")
        stored = rig.stored()
        code, said = rig.run("apply", "--yes", resident=self.resident)
        self._hold(code == 0, f"the next apply: {code}: {said[-3000:]}")
        self._check_rows()
        new = [key for key in rig.stored() - stored if not key.startswith("files/")]
        self._hold(not new, f"an apply leaves {new}")
        gone = collect_jobs(
            Bucket(rig.objects), age=0, limit=0, dry_run=True, clock=lambda: time.time() + _OLD
        )
        self._hold(gone.files == len(rig.stored()), f"gc leaves {gone} of {rig.stored()}")

    def _hold(self, holds: bool, problem: str) -> None:
        if not holds:
            self.problems.append(problem)

    def _disturbed(self) -> str:
        """Apply, and kill at the moments that are drawn."""
        rig = self.rig
        command: list[subprocess.Popen[str]] = []

        def act() -> None:
            strike = self.strikes[len(self.killed)]
            self.killed.append(strike.what)
            rig.kill(strike.what, command[0], strike.worker)
            expect()

        def expect() -> None:
            for strike in self.strikes[len(self.killed) : len(self.killed) + 1]:
                rig.proxy.expect(_REQUESTS[strike.kind], strike.number, strike.where, act)

        command.append(rig.start("apply", "--yes", resident=self.resident))
        if self.strikes[0].kind:
            expect()
        else:
            with suppress(subprocess.TimeoutExpired):
                command[0].wait(self.strikes[0].seconds)
            if command[0].poll() is None:
                act()
        self.code, said = _ended(command[0])
        return said

    def _check_end(self, said: str) -> None:
        killed = bool({"coordinator", "both"} & set(self.killed))
        self._hold("Traceback" not in said and "error[internal]" not in said, said[-4000:])
        self._hold(
            self.code in {0, 1, 4} or (killed and self.code == -signal.SIGKILL), said[-3000:]
        )

    def _check_rows(self) -> None:
        """Compare what stands in each dataset with what a plain script makes of the files."""
        wanted = _standing(self.number)
        found = {name: _replayed(self.rig.rows(name)) for name in _NAMES}
        some = Counter({(k, v * 2): 1 for k, v in wanted.items() if v % 3})
        groups: Counter[tuple[Any, ...]] = Counter()
        for g in {k[1] for k in wanted}:
            values = [v for k, v in wanted.items() if k[1] == g]
            groups[g, len(values), sum(values)] = 1
        expected = {"src": Counter(dict.fromkeys(wanted.items(), 1)), "some": some}
        expected["groups"] = groups
        for name, rows in expected.items():
            self._hold(found[name] == rows, f"{name}: {found[name] - rows}, {rows - found[name]}")
        offsets = [row["offset"] for row in self.rig.rows("src")]
        self._hold(offsets == list(range(len(offsets))), "offsets of src")


def _file(number: int) -> dict[str, int]:
    """Return keys and values of a file: twenty new ones, and five of the file before corrected."""
    new = {f"k{(number * 20 + at):06}": number + at for at in range(20)}
    old = {f"k{((number - 1) * 20 + at):06}": 1_000 + number + at for at in range(5)}
    return new | old


def _arrive(project: Path, number: int) -> None:
    lines = [f"2024-01-01 00:00:{at:02},{k},{v}" for at, (k, v) in enumerate(_file(number).items())]
    path = project / "data" / f"{number:05}.csv"
    path.write_text("\n".join(["t,k,v", *lines, ""]), "utf-8")


_first = 0


def _standing(last: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for number in range(_first - 1, last + 1):
        found |= _file(number)
    return found


def _replayed(rows: Sequence[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    left: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        kept = {k: v for k, v in row.items() if k not in {"offset", "op", "system_time", "t"}}
        left[tuple(kept.values())] += 1 if row["op"] in {0, 3} else -1
    return left


def clusters(
    kills: int, seed: int = 0, say: Callable[[str], None] = print, seconds: float | None = None
) -> int:
    """Kill so often, for so many seconds at most, and return how many applies broke the law."""
    global _first  # noqa: PLW0603 - the files of earlier seeds are not there
    _first = seed + 1
    broken = done = checks = 0
    killed: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    began = time.monotonic()
    with TemporaryDirectory(prefix="odfbuild-clusters-") as name, _rig(Path(name)) as rig:
        for number in count(_first):
            draw = random.Random(number)
            is_checked = draw.random() < _CHECKED
            played = Disturbed(rig, number, draw)
            played.play()
            done += 1
            killed.update(played.killed)
            ends[str(played.code)] += 1
            late = seconds is not None and time.monotonic() - began > seconds
            is_last = killed.total() >= kills or late
            if (is_checked or is_last) and not played.problems:
                played.settle()
                checks += 1
            say(f"{played}, {killed.total():,} kills, {time.monotonic() - began:,.0f} s")
            for problem in played.problems:
                say(f"BROKEN, seed {number}: {problem}")
            broken += bool(played.problems)
            if played.problems or is_last:  # after a problem, what comes next would say it again
                break
    say(
        f"{killed.total():,} kills in {done:,} applies, {broken} broken, all checked {checks:,} "
        f"times; killed {dict(killed)}; ended with {dict(ends)}"
    )
    return broken


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill as often as asked for; 1 if an apply broke the law."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.clusters")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, help="after which no apply is disturbed")
    asked = parser.parse_args(arguments)
    if os.getuid() != 0 or not find_java().has_vector_module:
        print("left out: it takes root, for a mount, and a JDK, for executors")
        return 0
    broken = clusters(asked.kills, asked.seed, partial(print, flush=True), asked.seconds)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
