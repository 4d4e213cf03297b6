"""Commands in processes of their own at the price of a fork, with the library of faults in them.

`python -m tests.faults.server` reads jobs, a line of JSON each, and answers each with a line.  It
has imported all that commands import and has one thread, so its children start where a new process
does; what they do to a project is seen by nobody but who opens its files.
"""

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from odfbuild.host.pipes import is_readable
from tests.faults.preload import NOTHING, Fault, State
from tests.support.process.children import run_to_end
from tests.support.projects import REPOSITORY, environment

__all__ = ["LIMIT", "CommandServer", "Outcome", "Runner", "SparkCommands"]

LIMIT = 120.0
_LATE = -1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a command ended: its code, minus a signal's number if it was killed, None if too late."""

    command: tuple[str, ...]
    code: int | None
    out: str
    calls: int
    hits: int
    hit: str

    def __str__(self) -> str:
        return f"{' '.join(self.command)}: code {self.code}, {self.hits} hits, at {self.hit}"


class Runner(Protocol):
    """What runs commands of odfbuild in a project, each in a process of its own."""

    def run(
        self,
        project: Path,
        *command: str,
        fault: Fault = NOTHING,
        record: Path | None = None,
    ) -> Outcome:
        """Run one command to its end, with a fault in it; record its calls in a file."""


class CommandServer:
    """Commands with the engine of the tests; `careless` leaves out what puts things on disk."""

    def __init__(self, folder: Path, *, careless: bool = False) -> None:
        self._out = folder / "out"
        self._state = State(folder / "state")
        around = environment(
            PYTHONPATH=str(REPOSITORY), HOME=str(folder), **self._state.environment()
        )
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.server", *(["careless"] if careless else [])],
            env=around,
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def run(
        self, project: Path, *command: str, fault: Fault = NOTHING, record: Path | None = None
    ) -> Outcome:
        self._state.arm(project, fault, record)
        code = self._ask(project=str(project), command=command)
        self._state.disarm()
        return _outcome(command, code, self._out, self._state)

    def warm(self, project: Path, *commands: Sequence[str]) -> None:
        """Import what commands import, as seen by running them."""
        for command in commands:
            self._ask(project=str(project), command=command, learn=True)

    def _ask(self, **job: Any) -> int | None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({**job, "out": str(self._out)}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the server is gone"
        code = int(answer)
        return None if code == _LATE else code


class SparkCommands:
    """Commands as users run them, with Spark; the library is in the JVM, too."""

    def __init__(self, folder: Path) -> None:
        self._out = folder / "out"
        self._state = State(folder / "state")

    def run(
        self, project: Path, *command: str, fault: Fault = NOTHING, record: Path | None = None
    ) -> Outcome:
        program = str(Path(sys.executable).parent / "odfbuild")
        self._state.arm(project, fault, record)
        with self._out.open("wb") as out:
            process = subprocess.Popen(
                [program, *command],
                cwd=project,
                env=environment(**self._state.environment()),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        code = _end_of(process.pid, 4 * LIMIT)
        process.returncode = code or 0  # it was waited for
        self._state.disarm()
        return _outcome(command, code, self._out, self._state)


def _outcome(command: Sequence[str], code: int | None, out: Path, state: State) -> Outcome:
    return Outcome(
        command=tuple(command),
        code=code,
        out=out.read_text("utf-8", "replace"),
        calls=state.calls,
        hits=state.hits,
        hit=state.hit,
    )


def _end_of(process: int, limit: float) -> int | None:
    """Wait for a child and return its code; None if it was too late, and its group is killed."""
    opened = os.pidfd_open(process)
    in_time = is_readable(opened, limit)
    if not in_time:
        os.killpg(process, signal.SIGKILL)
    os.close(opened)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return code if in_time else None


# in the process of the server


def _serve() -> None:
    gc.freeze()
    for line in sys.stdin:
        job = json.loads(line)
        names = Path(job["out"] + ".modules")
        child = os.fork()
        if child == 0:
            _run(job, names if job.get("learn") else None)
        code = _end_of(child, LIMIT)
        if job.get("learn"):
            for name in names.read_text("utf-8").split():
                __import__(name)
        print(_LATE if code is None else code, flush=True)


def _run(job: dict[str, Any], names: Path | None) -> None:
    """Be a process that runs one command."""
    os.setsid()
    os.chdir(job["project"])
    out = os.open(job["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, out), (2, out)):
        os.dup2(source, target)
    code = run_to_end(job["command"])
    sys.stdout.flush()
    sys.stderr.flush()
    if names is not None:
        mine = [name for name in sys.modules if not name.startswith(("__main__", "__mp_main__"))]
        names.write_text("\n".join(mine), "utf-8")
    os._exit(code)


if __name__ == "__main__":
    import odfbuild.cli.main  # noqa: F401 - imported once for all children
    from odfbuild.executors.engine.spark import engine
    from odfbuild.state.files.disk import Disk
    from tests.support.engines import FakeEngine

    if sys.argv[1:] == ["careless"]:
        Disk.sync = lambda *_: None  # type: ignore[method-assign]
    engine.SparkEngine = lambda *_, **__: FakeEngine()  # type: ignore[assignment, misc]
    _serve()
