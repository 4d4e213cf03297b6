"""What happens while a command works, as events of one shape, told to whoever listens.

Each has the `run`, its `time`, a `level`, the `event` and the `dataset` that it is about, if any,
first; what more there is depends on the event.  The first is `run_started`, the last `summary`.
"""

import getpass
import os
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import time_ns
from typing import Any, Final, TypeAlias

from odfbuild import __version__
from odfbuild.app.opened import Opened
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.lease import Worker
from odfbuild.state.runs import Ended, RunSummary, new_run_id

__all__ = ["Asking", "Events", "Heard", "worker"]

Heard: TypeAlias = Callable[[Mapping[str, Any]], None]

_RANDOM_BITS: Final = 15
_LEVELS: Final = {Ended.DONE: "info", Ended.PARTLY: "warning", Ended.STOPPED: "warning"}


def _now() -> Timestamp:
    return Timestamp.from_millis(time_ns() // 1_000_000)


def _random() -> int:
    return secrets.randbits(_RANDOM_BITS)


def _unheard(_: object) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Which command runs, the run that it follows, and who is told of it.

    `began` is told the id of the run once there is a record of it, `heard` every event.
    """

    command: str = "apply"
    follows: str | None = None
    began: Callable[[str], None] = _unheard
    heard: Heard = _unheard
    clock: Callable[[], Timestamp] = _now
    random: Callable[[], int] = _random


class Events:
    """The events of one run, from any thread, each told when it happens and one after the other."""

    def __init__(self, project: Opened, asking: Asking, steps: int, also: Heard = _unheard) -> None:
        self.summary = _summary(project, asking, steps)
        self._asking = asking
        self._also = also
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Tell that the run began: who runs what, where."""
        names = ("command", "user", "host", "pid", "project", "target", "version", "steps")
        facts = {name: getattr(self.summary, name) for name in (*names, "follows")}
        self._tell("run_started", None, "info", facts, lambda: self.summary.started)

    def add(
        self,
        event: str,
        dataset: DatasetAlias | str | None = None,
        level: str = "info",
        **more: Any,
    ) -> None:
        """Tell an event."""
        self._tell(event, dataset, level, more, self._asking.clock)

    def end(self, outcome: Ended, **more: Any) -> Timestamp:
        """Tell how the run ended, and return when."""
        level = _LEVELS.get(outcome, "error")
        more = {"outcome": outcome.value, **more}
        return self._tell("summary", None, level, more, self._asking.clock)

    def _tell(
        self,
        event: str,
        dataset: DatasetAlias | str | None,
        level: str,
        more: Mapping[str, Any],
        clock: Callable[[], Timestamp],
    ) -> Timestamp:
        """Tell an event; its time is read when its turn has come, so that times never go back."""
        named = None if dataset is None else str(dataset)
        with self._lock:
            now = clock()
            where = {"run": self.summary.id, "time": str(now), "level": level}
            line = {**where, "event": event, "dataset": named, **more}
            self._also(line)
            self._asking.heard(line)
        return now


def _summary(project: Opened, asking: Asking, steps: int) -> RunSummary:
    started = asking.clock()
    return RunSummary(
        id=new_run_id(started.nanos // 1_000_000, asking.random()),
        command=asking.command,
        started=started,
        user=_user(),
        host=socket.gethostname(),
        pid=os.getpid(),
        project=project.config.name,
        target=project.target,
        version=__version__,
        steps=steps,
        follows=asking.follows,
    )


def worker(command: str) -> Worker:
    """Return who runs a command now, for those who wait for it."""
    since = str(Timestamp.from_millis(time_ns() // 1_000_000))
    return Worker(
        user=_user(), host=socket.gethostname(), pid=os.getpid(), since=since, command=command
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return str(os.getuid())
