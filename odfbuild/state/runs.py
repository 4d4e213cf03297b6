"""Records of past runs: who ran what and when, what was planned, and the outcome.

    runs/<id>/summary.json     a few facts, written at the start and again at the end,
                               with a checksum of the rest of it and the run
    runs/<id>/plan.json        what was to be done
    runs/<id>/events.ndjson    what was done, a line each, as it happened,
                               with a checksum of the rest of it and the run

They are for people, and for going on or back; nothing decides by them what is up to date.  While
a run lasts its folder is locked, so one that was killed can be told from one that still runs.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from enum import Enum
from pathlib import Path
from typing import Any, Final

from odfbuild.errors import OdfBuildError, StateError
from odfbuild.host.files import NO_FILE
from odfbuild.host.json_text import parse_json
from odfbuild.odf.timestamp import InvalidTimestampError, Timestamp
from odfbuild.state.files.checksum import check_sum, checked_object, object_with_check_sum
from odfbuild.state.files.disk import Disk, pending, read_file
from odfbuild.state.files.folder import make_workspace_folder
from odfbuild.state.files.lock import is_locked, open_locked
from odfbuild.values import dataclass

_DIGITS: Final = "0123456789abcdefghjkmnpqrstvwxyz"  # as Crockford writes base 32
_TIME_DIGITS: Final = 9  # milliseconds since 1970 until the year 3084
_RANDOM_DIGITS: Final = 3
_SUMMARY, _PLAN, _EVENTS = "summary.json", "plan.json", "events.ndjson"
FILES: Final = (_SUMMARY, _PLAN, _EVENTS)
ALIVE: Final = "alive"  # is in a record that was brought from elsewhere while its run goes on
_CHECK: Final = "check"  # the last member of an event
_LOOKED_AT: Final = 5  # runs that say how long steps take


class UnknownRunError(StateError):
    """There is no record of a run."""

    code = "unknown-run"


class DamagedRunError(StateError):
    """The record of a run was changed after it was written."""

    code = "damaged-run"


class Ended(Enum):
    """How a run stands or ended; of a run that was killed nothing says so but its silence."""

    RUNNING = "running"
    DONE = "done"
    PARTLY = "partly"
    FAILED = "failed"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run in a few facts.

    `follows` is the run that this one went on with, or took back.  `steps` counts those planned;
    `done`, `failed`, `skipped`, `interrupted` and what was committed are known at the end.
    """

    id: str
    command: str
    started: Timestamp
    user: str
    host: str
    pid: int
    project: str
    target: str
    version: str
    steps: int
    follows: str | None = None
    ended: Timestamp | None = None
    outcome: Ended = Ended.RUNNING
    done: int = 0
    failed: int = 0
    skipped: int = 0
    interrupted: int = 0
    blocks: int = 0
    records: int = 0


@dataclass(frozen=True, slots=True)
class RunList:
    """Runs, newest first, and the ids of those whose summary is damaged."""

    runs: tuple[RunSummary, ...]
    damaged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pruned:
    """The records that were, or would be, deleted, and their bytes."""

    runs: tuple[str, ...]
    bytes: int


def runs_folder(workspace: Path) -> Path:
    """Return where the records of a workspace are."""
    return workspace / "runs"


def new_run_id(millis: int, random: int) -> str:
    """Return a short id: sorted as time is, to the millisecond; `random` has at least 15 bits."""
    time = _digits(millis, _TIME_DIGITS)
    return f"{time}-{_digits(random, _RANDOM_DIGITS)}"


def _digits(number: int, count: int) -> str:
    return "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(count)))


class OpenRun:
    """The record of a run while it lasts; what cannot be written is left out."""

    def __init__(self, folder: Path, summary: RunSummary, lock: int | None) -> None:
        self.summary = summary
        self._folder = folder
        self._lock = lock
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._events = os.open(folder / _EVENTS, flags, 0o600)

    def write(self, event: Mapping[str, Any]) -> None:
        """Add a line, at once and whole."""
        line = _line(event, self.summary.id).encode()
        with suppress(OSError):
            os.write(self._events, line + b"\n")

    def end(self, summary: RunSummary) -> None:
        """Write the summary for good, and let go of the record."""
        with suppress(OSError):
            _write_summary(self._folder, summary)
        self.summary = summary
        self.close()

    def close(self) -> None:
        """Let go of the record as it is."""
        for opened in (self._events, self._lock):
            if opened is not None:
                with suppress(OSError):
                    os.close(opened)


def begin_run(workspace: Path, summary: RunSummary, plan: str) -> OpenRun | None:
    """Begin a record; None where it cannot be written, which is no reason not to run."""
    folder = runs_folder(workspace) / summary.id
    try:
        make_workspace_folder(workspace, folder.parent, mode=0o700)
        folder.mkdir(mode=0o700)
        lock = open_locked(folder)
        Disk().write(folder / _PLAN, plan.encode(), 0o600)
        _write_summary(folder, summary)
        return OpenRun(folder, summary, lock)
    except OSError:
        return None


def list_runs(workspace: Path, limit: int | None = None) -> RunList:
    """Return the runs that there are records of, newest first, so many of them or all.

    Of damaged records, which are not among so many, those that were met are named.
    """
    folder = runs_folder(workspace)
    runs: list[RunSummary] = []
    damaged: list[str] = []
    for name in reversed(_names(folder)):
        if len(runs) == limit:
            break
        found = _read_summary(folder / name)
        if found is not None:
            runs.append(found)
        elif os.path.lexists(folder / name / _SUMMARY):  # else it was cut off or is being deleted
            damaged.append(name)
    return RunList(tuple(runs), tuple(damaged))


def count_runs(workspace: Path) -> int:
    """Count the records, without a look at them."""
    return len(_names(runs_folder(workspace)))


def find_run(workspace: Path, text: str) -> RunSummary:
    """Return the run of an id, of a part of one that no other has, or the `last` one.

    Raises UnknownRunError, DamagedRunError.
    """
    folder = runs_folder(workspace)
    names = _names(folder)
    fitting = names[-1:] if text == "last" else [each for each in names if text in each]
    exact = [each for each in fitting if each == text]
    fitting = exact or fitting
    found = _read_summary(folder / fitting[0]) if len(fitting) == 1 and text else None
    if found is None and len(fitting) == 1 and os.path.lexists(folder / fitting[0] / _SUMMARY):
        raise DamagedRunError(
            what=f"the record of the run {fitting[0]} is damaged",
            why=f"{_SUMMARY} was changed, so it is not known what the run was",
            fix="restore the file from a copy; other runs are not affected",
        )
    if found is None:
        several = len(fitting) > 1
        raise UnknownRunError(
            what=f"'{text}' names {len(fitting)} runs" if several else f"no run '{text}'",
            why="a run is named by its id, an unambiguous part of it, or `last`",
            fix="odfbuild runs lists them; `gc` deletes old ones",
        )
    return found


def read_plan(workspace: Path, run: str) -> Any:
    """Return what was planned for a run; None if that cannot be read."""
    try:
        data = read_file(runs_folder(workspace) / run / _PLAN)
        return None if data is None else parse_json(data)
    except (OSError, ValueError):
        return None


def read_events(workspace: Path, run: str, *, strict: bool = False) -> Iterator[Mapping[str, Any]]:
    """Yield what is recorded of a run, in order; the last line is left out if it was cut off.

    Damaged lines are left out as well, see `damaged_lines`, or, with `strict`, raise
    DamagedRunError.  So does a file that cannot be read.
    """
    path = runs_folder(workspace) / run / _EVENTS
    lines = _lines(path, run)
    for number, line in enumerate(lines, 1):
        found = _event(line, run)
        if found is not None:
            yield found
        elif strict and number < len(lines):
            raise DamagedRunError(
                what=f"it is not known what the run {run} did: line {number} of {path} is damaged",
                why="its checksum does not match, so it cannot be used",
                fix="restore the file from a copy; or plan again, and odfbuild reset NAME BLOCK "
                "resets one dataset",
            )


@dataclass(slots=True)
class RecordedStep:
    """What the events of a run say of one step."""

    id: str
    dataset: str
    outcome: str = "cut off"
    seconds: float | None = None
    blocks: int = 0
    records: int = 0
    before: str | None = None
    after: str | None = None
    errors: Sequence[Mapping[str, Any]] = ()
    because: str | None = None

    def hear(self, event: Mapping[str, Any]) -> None:
        self.after = event.get("head")
        if event.get("event") == "dataset_started":
            self.before = event.get("head")
        elif event.get("event") == "slice_committed":
            self.blocks += int(event.get("blocks", 0))
            self.records += int(event.get("records", 0))
        elif event.get("event") == "dataset_finished":
            self.outcome = str(event.get("outcome"))
            self.seconds = event.get("seconds")
            self.errors = event.get("errors", ())
            self.because = event.get("because")


def recorded_steps(events: Iterable[Mapping[str, Any]]) -> tuple[RecordedStep, ...]:
    """Return the steps that events of a run speak of, in the order in which they come first."""
    steps: dict[str, RecordedStep] = {}
    for event in events:
        id, dataset = event.get("step"), event.get("dataset")
        if isinstance(id, str) and isinstance(dataset, str):
            steps.setdefault(id, RecordedStep(id, dataset)).hear(event)
    return tuple(steps.values())


def usual_seconds(workspace: Path) -> dict[str, float]:
    """Return how many seconds each step took when it was last done, by its id.

    The last few runs are looked at; damaged records count for nothing.
    """
    found: dict[str, float] = {}
    for run in list_runs(workspace, _LOOKED_AT).runs:
        with suppress(OdfBuildError, OSError):
            for each in recorded_steps(read_events(workspace, run.id)):
                if each.outcome == "done" and each.seconds is not None:
                    found.setdefault(each.id, each.seconds)
    return found


def damaged_lines(workspace: Path, run: str) -> tuple[int, ...]:
    """Return the numbers of the lines that `read_events` leaves out, but for one cut off.

    Raises DamagedRunError.
    """
    lines = _lines(runs_folder(workspace) / run / _EVENTS, run)[:-1]
    return tuple(n for n, line in enumerate(lines, 1) if _event(line, run) is None)


def _lines(path: Path, run: str) -> list[bytes]:
    try:
        return (read_file(path) or b"").split(b"\n")
    except OSError as error:
        if error.errno not in NO_FILE:
            raise
        raise DamagedRunError(
            what=f"it is not known what the run {run} did: {path} cannot be read: {error.strerror}",
            why="it is not a regular file, or the operating system reports an error",
            fix="restore the file from a copy; other runs are not affected",
        ) from error


def _line(event: Mapping[str, Any], run: str) -> str:
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    text = text.encode("utf-8", "backslashreplace").decode()
    return f'{text[:-1]},"{_CHECK}":"{check_sum(text, run)}"}}'


def _event(line: bytes, run: str) -> Mapping[str, Any] | None:
    """Return what a line says; None if it is damaged."""
    with suppress(ValueError):
        found = parse_json(line)
        if isinstance(found, dict) and isinstance(found.pop(_CHECK, None), str):
            return found if _line(found, run).encode() == line else None
    return None


def prune_runs(workspace: Path, *, keep: int, dry_run: bool = False) -> Pruned:
    """Delete the records of all runs but the newest `keep`; those that still run stay.

    With `dry_run` only say which, and how many bytes.
    """
    folder = runs_folder(workspace)
    names = _names(folder)
    old, size = [], 0
    for name in names[: max(0, len(names) - keep)]:
        with suppress(OSError):
            lock = open_locked(folder / name)
            if lock is None:
                continue
            size += sum(each.stat().st_size for each in (folder / name).iterdir())
            old.append(name)
            if not dry_run:
                (folder / name / _SUMMARY).unlink(missing_ok=True)  # half of a record is none
                shutil.rmtree(folder / name, ignore_errors=True)
            os.close(lock)
    return Pruned(tuple(old), size)


def _names(folder: Path) -> list[str]:
    """Return the ids of runs, oldest first."""
    try:
        return sorted(each for each in os.listdir(folder) if not each.startswith("."))  # noqa: PTH208
    except FileNotFoundError:
        return []


def _write_summary(folder: Path, summary: RunSummary) -> None:
    values = {each.name: _plain(getattr(summary, each.name)) for each in fields(summary)}
    disk, draft = Disk(), pending(folder)
    data = object_with_check_sum({"format_version": "1.0", **values}, folder.name)
    disk.write(draft, data, 0o600)
    disk.rename(draft, folder / _SUMMARY)


def _plain(value: object) -> object:
    if isinstance(value, Ended):
        return value.value
    return str(value) if isinstance(value, Timestamp) else value


def _read_summary(folder: Path) -> RunSummary | None:
    """Return the summary of a record; whether the run goes on, its lock says."""
    try:
        data = read_file(f"{folder}{os.sep}{_SUMMARY}")
    except OSError:
        return None
    if data is None:
        return None
    with suppress(ValueError, TypeError, LookupError, InvalidTimestampError):
        found = checked_object(data, os.path.basename(folder)) or {}  # noqa: PTH119 - thousands
        names = (each.name for each in fields(RunSummary))
        given = {name: found[name] for name in names if name in found}  # an old one has fewer
        given["started"] = Timestamp.parse(given["started"])
        given["ended"] = None if given["ended"] is None else Timestamp.parse(given["ended"])
        given["outcome"] = Ended(given["outcome"])
        summary = RunSummary(**given)
        goes_on = is_locked(folder) or os.path.exists(f"{folder}{os.sep}{ALIVE}")  # noqa: PTH110
        if summary.outcome is Ended.RUNNING and not goes_on:
            return replace(summary, outcome=Ended.INTERRUPTED)
        return summary
    return None
