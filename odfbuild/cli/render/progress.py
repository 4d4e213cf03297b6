"""Progress of a run: a live line a step on a terminal, plain lines elsewhere; all on stderr."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from typing import TYPE_CHECKING

from odfbuild.cli.render.run import outcome_text
from odfbuild.cli.terminal.console import colours, is_quiet, printable
from odfbuild.executors.runs.report import Failed, Interrupted, Outcome, Skipped
from odfbuild.executors.runs.scheduler import Progress, Unwatched
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.engine.context import Round
    from odfbuild.planner.plan import Step


@dataclass(slots=True)
class PlainProgress:
    """One line when a step ends: for logs and pipes."""

    total: int
    say: Callable[[str], None]
    done: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def started(self, step: Step) -> None:
        """Say nothing: a line a step is enough."""

    def advanced(self, step: Step, done: Round) -> None:
        """Say nothing: the last line has the totals."""

    def finished(self, step: Step, outcome: Outcome) -> None:
        """Write the step's last line."""
        with self.lock:
            self.done += 1
            count = f"[{self.done}/{self.total}]"
            self.say(f"{count} {_mark(outcome)} {step.id}: {outcome_text(outcome)}")


class LiveProgress:
    """A line for each running step with its time and last commit; ended ones scroll above."""

    def __init__(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.text import Text

        console = Console(stderr=True, no_color=True if colours() == "never" else None)
        self._plain = PlainProgress(total, lambda line: console.print(Text(line), soft_wrap=True))
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.fields[note]}", style="dim", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._tasks: dict[str, int] = {}
        self._counts: dict[str, list[int]] = {}

    def started(self, step: Step) -> None:
        """Show the step."""
        self._tasks[step.id] = self._bars.add_task(step.id, total=None, note="")
        self._counts[step.id] = [0, 0]

    def advanced(self, step: Step, done: Round) -> None:
        """Show the step's last commit."""
        counts = self._counts[step.id]
        counts[0] += 1
        counts[1] += done.records
        note = f"{printable(done.source)} · {counts[0]} committed · {counts[1]:,} rows"
        self._bars.update(self._tasks[step.id], note=note)  # type: ignore[arg-type]

    def finished(self, step: Step, outcome: Outcome) -> None:
        """Take the step's line away and leave its result above."""
        if step.id in self._tasks:
            self._bars.remove_task(self._tasks.pop(step.id))  # type: ignore[arg-type]
        self._plain.finished(step, outcome)


def _mark(outcome: Outcome) -> str:
    if isinstance(outcome, Failed):
        return "FAILED "
    if isinstance(outcome, Interrupted):
        return "stopped"
    if isinstance(outcome, Skipped):
        return "skipped"
    return "ok     "


def _say(line: str) -> None:
    with suppress(BrokenPipeError):  # nobody reads any more: the work goes on
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


@contextmanager
def run_progress(total: int, *, live: bool) -> Iterator[Progress]:
    """Give the progress that fits where stderr goes, if it is wanted."""
    if is_quiet():
        yield Unwatched()
        return
    if not (live and sys.stderr.isatty()):
        yield PlainProgress(total, _say)
        return
    progress = LiveProgress(total)
    with progress._bars:
        yield progress
