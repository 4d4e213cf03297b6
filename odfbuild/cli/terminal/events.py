"""Events on standard output, a line each, written out when they happen."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from odfbuild.cli.terminal.console import printable_json
from odfbuild.errors import Diagnostic, OdfBuildError
from odfbuild.executors.runs.record import Events, RunRequest, gate_facts
from odfbuild.planner.saved.forms import diagnostic_json
from odfbuild.state.runs import Ended

if TYPE_CHECKING:
    from odfbuild import app

FAILED = "failed"


def say(text: str) -> None:
    """Write to stdout; a reader that went away is no reason to leave the work half done."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say_event(event: Mapping[str, Any]) -> None:
    """Write an event; what cannot be written is reported at the end, and fails no step."""
    line = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    with suppress(OSError):
        say(f"{printable_json(line)}\n")


def report_idle_run(
    project: app.Opened, command: str, left_out: Sequence[Diagnostic] = (), *, passed: bool = True
) -> None:
    """Tell of a run that has nothing to do, or of one that the gate keeps from it.

    `left_out` is why datasets are not in its plan.
    """
    events = Events(project, RunRequest(command=command, heard=say_event), 0)
    events.begin()
    facts = gate_facts(left_out, passed=passed)
    events.end(Ended.DONE if facts["gate_passed"] else Ended.FAILED, **facts)


@contextmanager
def printed_events(
    project: app.Opened, command: str, steps: int
) -> Iterator[tuple[Events, Counter[str]]]:
    """Tell of a command that leaves no record: its begin, and its end with what was counted.

    It failed if the block counted any `failed`, or ended with an error, which is told, too.
    """
    events = Events(project, RunRequest(command=command, heard=say_event), steps)
    counts: Counter[str] = Counter()
    events.begin()
    try:
        yield events, counts
    except KeyboardInterrupt:
        events.end(Ended.STOPPED, **counts)
        raise
    except OdfBuildError as error:
        found = [diagnostic_json(each) for each in error.diagnostics()]
        events.end(Ended.FAILED, **counts, errors=found)
        raise
    events.end(Ended.FAILED if counts[FAILED] else Ended.DONE, **counts)
