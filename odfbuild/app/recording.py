"""The record of a run, written as it goes: events as lines, and a summary at its end.

A run that only asks sources is recorded from the first commit or failure on: most find nothing,
and then there is nothing to look back at.
"""

import getpass
import os
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import time_ns
from typing import TYPE_CHECKING, Any, TypeAlias

from odfbuild import __version__
from odfbuild.app.opened import Opened
from odfbuild.errors import OdfBuildError
from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.plan import Plan
from odfbuild.planner.plan_json import canonical, diagnostic_json, to_json
from odfbuild.planner.remaining import touched
from odfbuild.state.runs import Ended, OpenRun, RunSummary, begin_run, new_run_id
from odfbuild.state.workspace import Workspace

if TYPE_CHECKING:
    from odfbuild.executors.report import Outcome, Report, Round
    from odfbuild.executors.runner import Progress
    from odfbuild.planner.plan import Step

__all__ = ["Asking", "Began", "Record", "Recorder"]

Began: TypeAlias = Callable[[str], None]
_RANDOM_BITS = 15


def _now() -> Timestamp:
    return Timestamp.from_millis(time_ns() // 1_000_000)


def _random() -> int:
    return secrets.randbits(_RANDOM_BITS)


def _unheard(_: str) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Which command runs, the run that it follows, and who is told the id of the new one."""

    command: str = "apply"
    follows: str | None = None
    began: Began = _unheard
    clock: Callable[[], Timestamp] = _now
    random: Callable[[], int] = _random


@dataclass(slots=True)
class Record:
    """A record that is begun when it has to be; until then events are kept."""

    project: Opened
    asking: Asking
    steps: int
    plan: Callable[[], str]
    _kept: list[dict[str, Any]] = field(default_factory=list)
    _open: OpenRun | None = None
    _begun: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self) -> None:
        """Begin the record, if it is not begun yet."""
        with self._lock:
            if self._begun:
                return
            self._begun = True
            summary = self._summary()
            self._open = begin_run(self.project.workspace.root, summary, self.plan())
            if self._open is None:
                return
            self.asking.began(summary.id)
            self._write(_started(summary))
            for each in self._kept:
                self._write(each)

    def add(
        self,
        event: str,
        dataset: DatasetAlias | None = None,
        level: str = "info",
        **more: Any,
    ) -> None:
        """Add an event, to be written once the record is begun."""
        line = _line(event, self.asking.clock(), dataset, level, more)
        with self._lock:
            if self._begun:
                self._write(line)
            else:
                self._kept.append(line)

    def end(self, outcome: Ended, **counts: int) -> None:
        """End the record, if it was begun."""
        with self._lock:
            if self._open is None:
                return
            now = self.asking.clock()
            last = replace(self._open.summary, ended=now, outcome=outcome, **counts)  # type: ignore[arg-type]
            more = {"outcome": outcome.value, **counts}
            self._write(_line("summary", now, None, "info", more))
            self._open.end(last)

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._open is not None:
            self._open.write({"run": self._open.summary.id, **line})

    def _summary(self) -> RunSummary:
        started = self.asking.clock()
        return RunSummary(
            id=new_run_id(started.nanos // 1_000_000, self.asking.random()),
            command=self.asking.command,
            started=started,
            user=_user(),
            host=socket.gethostname(),
            pid=os.getpid(),
            project=self.project.config.name,
            target=self.project.target,
            version=__version__,
            steps=self.steps,
            follows=self.asking.follows,
        )


class Recorder:
    """Watches a run and records it."""

    def __init__(self, project: Opened, plan: Plan, asking: Asking, watched: "Progress") -> None:
        self._workspace = project.workspace
        self._watched = watched
        self._times: dict[str, Timestamp] = {}
        self._counts = dict.fromkeys(("done", "failed", "skipped", "blocks", "records"), 0)
        self._lock = threading.Lock()
        self._clock = asking.clock
        self._record = Record(
            project, asking, len(plan.steps), lambda: canonical(to_json(touched(plan)))
        )
        if not plan.is_empty:
            self._record.begin()

    def started(self, step: "Step") -> None:
        self._times[step.id] = self._clock()
        self._add("dataset_started", step, work=type(step.work).__name__.lower())
        self._watched.started(step)

    def advanced(self, step: "Step", done: "Round") -> None:
        self._record.begin()
        more: dict[str, Any] = {"source": done.source, "blocks": done.blocks}
        more["records"] = done.records
        if done.told.bad_rows:
            more["bad_rows"] = done.told.bad_rows
        self._count(blocks=done.blocks, records=done.records)
        self._add("slice_committed", step, **more)
        self._watched.advanced(step, done)

    def finished(self, step: "Step", outcome: "Outcome") -> None:
        from odfbuild.executors.report import Failed, Skipped

        if isinstance(outcome, Failed):
            self._record.begin()
        word = type(outcome).__name__.lower()
        self._count(**{word: 1})
        more: dict[str, Any] = {"outcome": word}
        if isinstance(outcome, Skipped):
            more["because"] = outcome.because
        else:
            began = self._times.get(step.id, self._clock())
            more["seconds"] = round((self._clock().nanos - began.nanos) / 10**9, 3)
        if isinstance(outcome, Failed):
            more["errors"] = [diagnostic_json(each) for each in outcome.error.diagnostics()]
        level = "error" if isinstance(outcome, Failed) else "info"
        self._add("dataset_finished", step, level, **more)
        self._watched.finished(step, outcome)

    def close(self, report: "Report | None", *, stopped: bool = False) -> None:
        """End the record: with what became of the steps, or without, if the run was broken off."""
        if report is None:
            outcome = Ended.STOPPED if stopped else Ended.FAILED
        elif report.failures:
            outcome = Ended.PARTLY if report.committed else Ended.FAILED
        else:
            outcome = Ended.DONE
        self._record.end(outcome, **self._counts)

    def _count(self, **more: int) -> None:
        with self._lock:
            self._counts.update({name: self._counts[name] + n for name, n in more.items()})

    def _add(self, event: str, step: "Step", level: str = "info", **more: Any) -> None:
        head = _head(self._workspace, step.target)
        at = None if head is None else str(head)
        self._record.add(event, step.target, level, step=step.id, head=at, **more)


def _head(workspace: Workspace, alias: DatasetAlias) -> Multihash | None:
    try:
        dataset = workspace.open(alias)
        return None if dataset is None else dataset.head()
    except (OdfBuildError, OSError):
        return None


def _started(summary: RunSummary) -> Mapping[str, Any]:
    names = ("command", "user", "host", "pid", "project", "target", "version", "steps", "follows")
    more = {name: getattr(summary, name) for name in names}
    return _line("run_started", summary.started, None, "info", more)


def _line(
    event: str,
    time: Timestamp,
    dataset: DatasetAlias | None,
    level: str,
    more: Mapping[str, Any],
) -> dict[str, Any]:
    named = None if dataset is None else str(dataset)
    return {"time": str(time), "level": level, "event": event, "dataset": named, **more}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return str(os.getuid())
