"""Progress of a run: a live line a step on a terminal, plain lines elsewhere; all on stderr."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from time import perf_counter
from typing import TYPE_CHECKING, Final

from odfbuild.cli.render.run import outcome_text
from odfbuild.cli.render.words import count, files_of
from odfbuild.cli.terminal.console import is_quiet, printable, stderr_console
from odfbuild.executors.runs.report import Failed, Interrupted, Outcome, Skipped
from odfbuild.executors.runs.scheduler import Progress, Unwatched
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.engine.context import Round
    from odfbuild.planner.plan import Step

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE


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


@dataclass(slots=True)
class StepPace:
    """What a running step has committed, and what tells how long it may still take.

    `files` counts those that it is to read, 0 if that is not known; `usual` is how many seconds it
    took before, None if that is not known.  The last commit was `at` so many seconds, the first one
    at `first`: what was before it, an engine's start among it, comes once.
    """

    files: int = 0
    usual: float | None = None
    source: str = ""
    commits: int = 0
    rows: int = 0
    at: float = 0.0
    first: float = 0.0
    began: float = field(default_factory=perf_counter)

    def note(self, elapsed: float) -> str:
        """Return what there is to say after so many seconds, what matters most first."""
        left = self._left(elapsed)
        parts = [] if left is None or left < 1 else [f"about {_length(left)} left"]
        if self.rows and self.at >= 1:
            parts.append(f"{self.rows / self.at:,.0f} rows/s")
        if self.commits:
            of = f" of {self.files:,}" if self.files > 1 else ""
            parts += [f"{self.commits:,}{of} committed", count(self.rows, "row")]
        return " · ".join([*parts, self.source] if self.source else parts)

    def _left(self, elapsed: float) -> float | None:
        """Return the seconds left: by the files so far, else as long as it took before.

        Of a single file it is not known how long it took, only how long with what came before.
        """
        expects = self.usual is not None and self.usual > elapsed
        if 0 < self.commits < self.files and not (self.commits == 1 and expects):
            once = self.first if self.commits > 1 else 0.0
            a_file = (self.at - once) / (self.commits - (once > 0))
            return max(0.0, self.at + a_file * (self.files - self.commits) - elapsed)
        if self.usual is None or self.usual <= elapsed or 0 < self.files <= self.commits:
            return None
        return self.usual - elapsed


class LiveProgress:
    """A line for each running step: its rows, their rate and the time; ended ones scroll above.

    `usual` returns how many seconds steps took before, by their ids.
    """

    def __init__(self, total: int, usual: Callable[[], Mapping[str, float]]) -> None:
        from rich.progress import Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
        from rich.table import Column
        from rich.text import Text

        class NoteColumn(TextColumn):
            def render(self, task: Task) -> Text:
                return Text(task.fields["pace"].note(task.elapsed or 0.0), "dim")

        class NameColumn(TextColumn):
            def render(self, task: Task) -> Text:
                return Text(short_name(task.description, console.width * 2 // 5))

        console = stderr_console()
        name = Column(no_wrap=True, overflow="ellipsis")
        note = Column(no_wrap=True, overflow="ellipsis", ratio=1)
        self._plain = PlainProgress(total, lambda line: console.print(Text(line), soft_wrap=True))
        self._bars = Progress(
            SpinnerColumn(),
            NameColumn("", table_column=name),
            NoteColumn("", table_column=note),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            expand=True,
        )
        self._usual, self._known = usual, threading.Lock()
        self._seconds: Mapping[str, float] | None = None
        self._tasks: dict[str, int] = {}
        self._paces: dict[str, StepPace] = {}

    def started(self, step: Step) -> None:
        """Show the step."""
        with self._known:
            if self._seconds is None:
                self._seconds = self._usual()
        pace = StepPace(files=files_of(step), usual=self._seconds.get(step.id))
        self._paces[step.id] = pace
        self._tasks[step.id] = self._bars.add_task(printable(step.id), total=None, pace=pace)

    def advanced(self, step: Step, done: Round) -> None:
        """Show the step's last commit."""
        pace = self._paces[step.id]
        pace.source = printable(done.source)
        pace.commits += 1
        pace.rows += done.records
        pace.at = perf_counter() - pace.began
        if pace.commits == 1:
            pace.first = pace.at

    def finished(self, step: Step, outcome: Outcome) -> None:
        """Take the step's line away and leave its result above."""
        if step.id in self._tasks:
            self._bars.remove_task(self._tasks.pop(step.id))  # type: ignore[arg-type]
        self._plain.finished(step, outcome)


def short_name(step: str, width: int) -> str:
    """Return the name of a step in so many columns: what is done, and the end of the dataset."""
    if len(step) <= width:
        return step
    first = min(step.find(":") + 1, width // 3)
    return f"{step[:first]}…{step[len(step) - max(1, width - first - 1) :]}"


def _length(seconds: float) -> str:
    """Return a length of time in its two largest units."""
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m {whole % _MINUTE}s"
    return f"{whole // _HOUR}h {whole % _HOUR // _MINUTE}m"


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
def run_progress(
    total: int, usual: Callable[[], Mapping[str, float]], *, live: bool
) -> Iterator[Progress]:
    """Give the progress that fits where stderr goes, if it is wanted; `usual` as LiveProgress."""
    if is_quiet():
        yield Unwatched()
        return
    if not (live and sys.stderr.isatty()):
        yield PlainProgress(total, _say)
        return
    progress = LiveProgress(total, usual)
    with progress._bars:
        yield progress
