"""The record of a run, written as it goes: events as lines, and a summary at its end.

A run that only asks sources is recorded from the first commit or failure on: most find nothing,
and then there is nothing to look back at.

Each has the `run`, its `time`, a `level`, the `event` and the `dataset` that it is about, if any,
first; what more there is depends on the event.  The first is `run_started`, the last `summary`.
"""

import getpass
import os
import secrets
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import time_ns
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from odfbuild import __version__
from odfbuild.errors import Diagnostic, OdfBuildError
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.plan import Plan
from odfbuild.planner.plan.subset import touched
from odfbuild.planner.saved import canonical, to_json
from odfbuild.planner.saved.forms import diagnostic_json
from odfbuild.project.opened import Opened
from odfbuild.state.lease import Worker
from odfbuild.state.runs import Ended, OpenRun, RunSummary, begin_run, new_run_id
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.engine.context import Round
    from odfbuild.executors.runs.report import Outcome, RunReport
    from odfbuild.executors.runs.scheduler import Progress
    from odfbuild.planner.plan import Step


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
class RunRequest:
    """Which command runs, the run that it follows, and who is told of it.

    `began` gets the id of the run once there is a record of it, `heard` every event.  `left_out`
    is why datasets are not in the plan, for which the gate does not pass.
    """

    command: str = "apply"
    follows: str | None = None
    left_out: tuple[Diagnostic, ...] = ()
    began: Callable[[str], None] = _unheard
    heard: Heard = _unheard
    clock: Callable[[], Timestamp] = _now
    random: Callable[[], int] = _random


def gate_facts(left_out: Sequence[Diagnostic], *, passed: bool = True) -> dict[str, Any]:
    """Return what a summary says of the gate, and why datasets are not in the plan."""
    notes = {"notes": [diagnostic_json(each) for each in left_out]} if left_out else {}
    return {"gate_passed": passed and not left_out, **notes}


class Events:
    """The events of one run, from any thread, each told when it happens and one after the other."""

    def __init__(
        self, project: Opened, asking: RunRequest, steps: int, also: Heard = _unheard
    ) -> None:
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


def _summary(project: Opened, asking: RunRequest, steps: int) -> RunSummary:
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


_CHECK = "data-check"  # the code of what checks on new rows found
_WORDS = {"recorded-key": "left_out", "no-event-time-in-rows": "no_event_time"}


class RunRecorder:
    """A record that is begun when it has to be; until then events are kept."""

    def __init__(
        self, project: Opened, asking: RunRequest, steps: int, plan: Callable[[], str]
    ) -> None:
        self._workspace = project.workspace
        self._asking = asking
        self._plan = plan
        self._lock = threading.Lock()
        self._kept: list[Mapping[str, Any]] = []
        self._open: OpenRun | None = None
        self._begun = False
        self._events = Events(project, asking, steps, self._put)
        self._events.begin()

    def begin(self) -> None:
        """Begin the record, if it is not begun yet."""
        with self._lock:
            if self._begun:
                return
            self._begun = True
            root = self._workspace.root
            self._open = begin_run(root, self._events.summary, self._plan())
            if self._open is None:
                return
            self._workspace.send_run(self._events.summary.id)
            self._asking.began(self._events.summary.id)
            for each in self._kept:
                self._open.write(each)

    def add(
        self,
        event: str,
        dataset: DatasetAlias | None = None,
        level: str = "info",
        **more: Any,
    ) -> None:
        """Add an event, to be written once the record is begun."""
        self._events.add(event, dataset, level, **more)

    def end(self, outcome: Ended, found: tuple[Diagnostic, ...] = (), **counts: int) -> None:
        """End the record, if it was begun; `found` is what ended the run as a whole."""
        more: dict[str, Any] = {}
        if found:
            more["errors"] = [diagnostic_json(each) for each in found]
        if self._asking.left_out:
            more |= gate_facts(self._asking.left_out)
        ended = self._events.end(outcome, **counts, **more)
        with self._lock:
            if self._open is not None:
                last = replace(self._open.summary, ended=ended, outcome=outcome, **counts)  # type: ignore[arg-type]
                self._open.end(last)
                self._workspace.send_run(last.id)
                self._open = None  # a thread that was left behind may still tell of its step

    def _put(self, line: Mapping[str, Any]) -> None:
        with self._lock:
            if self._open is not None:
                self._open.write(line)
            elif not self._begun:
                self._kept.append(line)


class Recorder:
    """Watches a run and records it."""

    def __init__(
        self, project: Opened, plan: Plan, asking: RunRequest, watched: "Progress"
    ) -> None:
        self._watched = watched
        self._steps = plan.steps
        self._ended: set[str] = set()
        self._times: dict[str, Timestamp] = {}
        self._heads = {  # of each dataset, where the run found it, then what it committed itself
            alias: None if planned.based_on is None else planned.based_on.head
            for alias, planned in plan.datasets.items()
        }
        words = ("done", "failed", "skipped", "interrupted", "blocks", "records")
        self._counts = dict.fromkeys(words, 0)
        self._lock = threading.Lock()
        self._clock = asking.clock
        self._record = RunRecorder(
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
        if done.head is not None:
            self._heads[step.target] = done.head
        more: dict[str, Any] = {"source": done.source, "blocks": done.blocks}
        more["records"] = done.records
        if done.notes.bad_rows:
            more["bad_rows"] = done.notes.bad_rows
        for code, word in _WORDS.items():
            found = [each.what for each in done.notes.checks if each.code == code]
            if found:
                more[word] = found[0]
        self._count(blocks=done.blocks, records=done.records)
        self._tell_checks(step, done.notes.checks, "warned")
        self._add("slice_committed", step, **more)
        self._watched.advanced(step, done)

    def finished(self, step: "Step", outcome: "Outcome") -> None:
        from odfbuild.executors.runs.report import Failed, Interrupted, Skipped

        if isinstance(outcome, Failed):
            self._record.begin()
        self._ended.add(step.id)
        word = type(outcome).__name__.lower()
        self._count(**{word: 1})
        more: dict[str, Any] = {"outcome": word}
        if isinstance(outcome, Skipped):
            more["because"] = outcome.because
        else:
            if isinstance(outcome, Interrupted) and outcome.cut_off:
                more["cut_off"] = True
            began = self._times.get(step.id, self._clock())
            more["seconds"] = round((self._clock().nanos - began.nanos) / 10**9, 3)
        level = "warning" if isinstance(outcome, Interrupted) else "info"
        if isinstance(outcome, Failed):
            level, found = "error", outcome.error.diagnostics()
            self._tell_checks(step, found, "failed")
            more["errors"] = [diagnostic_json(each) for each in found]
        self._add("dataset_finished", step, level, **more)
        self._watched.finished(step, outcome)

    def close(
        self,
        report: "RunReport | None",
        *,
        stopped: bool = False,
        error: OdfBuildError | None = None,
    ) -> None:
        """End the record: with what became of the steps, or without, if the run was broken off.

        A step of which nothing was reported so far was not begun, or else broken off.
        """
        for step in self._steps:
            if step.id in self._ended:
                continue
            if step.id in self._times:
                self._count(interrupted=1)
                more = {"outcome": "interrupted", "cut_off": True}
                self._add("dataset_finished", step, "warning", **more)
            else:
                self._add("dataset_finished", step, outcome="not-begun")
        if stopped:
            outcome = Ended.STOPPED
        elif report is None:
            outcome = Ended.FAILED
        elif not report.is_complete:
            outcome = Ended.PARTLY if report.committed else Ended.FAILED
        else:
            outcome = Ended.DONE
        found = () if error is None else error.diagnostics()
        self._record.end(outcome, tuple(found), **self._counts)

    def _tell_checks(self, step: "Step", found: "tuple[Diagnostic, ...]", outcome: str) -> None:
        """Tell what checks on new rows found, of all that was found."""
        for each in found:
            if each.code == _CHECK:
                told = {"outcome": outcome, **diagnostic_json(each)}
                self._add("check_result", step, told.pop("level"), **told)

    def _count(self, **more: int) -> None:
        with self._lock:
            self._counts.update({name: self._counts[name] + n for name, n in more.items()})

    def _add(self, event: str, step: "Step", level: str = "info", **more: Any) -> None:
        head = self._heads.get(step.target)
        at = None if head is None else str(head)
        self._record.add(event, step.target, level, step=step.id, head=at, **more)
