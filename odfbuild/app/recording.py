"""The record of a run, written as it goes: events as lines, and a summary at its end.

A run that only asks sources is recorded from the first commit or failure on: most find nothing,
and then there is nothing to look back at.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from odfbuild.app.events import Asking, Events
from odfbuild.app.opened import Opened
from odfbuild.errors import Diagnostic, OdfBuildError
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.plan import Plan
from odfbuild.planner.plan_json import canonical, diagnostic_json, to_json
from odfbuild.planner.remaining import touched
from odfbuild.state.runs import Ended, OpenRun, begin_run

if TYPE_CHECKING:
    from odfbuild.executors.report import Outcome, Report, Round
    from odfbuild.executors.runner import Progress
    from odfbuild.planner.plan import Step

__all__ = ["Record", "Recorder"]

_CHECK = "data-check"  # the code of what checks on new rows found


class Record:
    """A record that is begun when it has to be; until then events are kept."""

    def __init__(
        self, project: Opened, asking: Asking, steps: int, plan: Callable[[], str]
    ) -> None:
        self._workspace = project.workspace.root
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
            self._open = begin_run(self._workspace, self._events.summary, self._plan())
            if self._open is None:
                return
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
        errors = {"errors": [diagnostic_json(each) for each in found]} if found else {}
        ended = self._events.end(outcome, **counts, **errors)
        with self._lock:
            if self._open is not None:
                last = replace(self._open.summary, ended=ended, outcome=outcome, **counts)  # type: ignore[arg-type]
                self._open.end(last)
                self._open = None  # a thread that was left behind may still tell of its step

    def _put(self, line: Mapping[str, Any]) -> None:
        with self._lock:
            if self._open is not None:
                self._open.write(line)
            elif not self._begun:
                self._kept.append(line)


class Recorder:
    """Watches a run and records it."""

    def __init__(self, project: Opened, plan: Plan, asking: Asking, watched: "Progress") -> None:
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
        if done.head is not None:
            self._heads[step.target] = done.head
        more: dict[str, Any] = {"source": done.source, "blocks": done.blocks}
        more["records"] = done.records
        if done.told.bad_rows:
            more["bad_rows"] = done.told.bad_rows
        self._count(blocks=done.blocks, records=done.records)
        self._tell_checks(step, done.told.checks, "warned")
        self._add("slice_committed", step, **more)
        self._watched.advanced(step, done)

    def finished(self, step: "Step", outcome: "Outcome") -> None:
        from odfbuild.executors.report import Failed, Interrupted, Skipped

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
        report: "Report | None",
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
        elif not report.is_whole:
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
