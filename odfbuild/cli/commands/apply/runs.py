"""odfbuild runs: past runs, one run, and what it did to one dataset."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import TableFormat
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.render.words import count
from odfbuild.cli.terminal.console import printable, printable_json
from odfbuild.errors import Diagnostic, Level, StateError
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.runs import (
    DamagedRunError,
    Ended,
    RecordedStep,
    RunSummary,
    count_runs,
    damaged_lines,
    find_run,
    list_runs,
    read_events,
    recorded_steps,
)
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.odf.timestamp import Timestamp

_UNDO = "undo"
_NOT_RESUMED = (_UNDO, "retire")
_UNFINISHED = (Ended.PARTLY, Ended.FAILED, Ended.STOPPED, Ended.INTERRUPTED)


@dataclass(frozen=True, slots=True)
class Later:
    """The newest run that went on with another, and the one that took it back, if any did.

    `left` is the run whose rest is what is left to be done; None if nothing is.
    """

    resumed: RunSummary | None = None
    taken_back: RunSummary | None = None
    left: RunSummary | None = None


def later_runs(runs: Iterable[RunSummary]) -> dict[str, Later]:
    """Return what became of each of these runs later on, by id; they are given newest first."""
    found: dict[str, Later] = {}
    followers: dict[str, list[RunSummary]] = {}
    for run in runs:
        found[run.id] = _later(run, followers.get(run.id, ()), found)
        if run.follows is not None:
            followers.setdefault(run.follows, []).append(run)
    return found


def _later(run: RunSummary, followers: Iterable[RunSummary], known: dict[str, Later]) -> Later:
    """Say what became of a run, of which the followers and their own fates are known."""
    standing = [each for each in followers if known[each.id].taken_back is None]
    backs = (e for e in standing if e.command == _UNDO and e.outcome is Ended.DONE)
    if (back := next(backs, None)) is not None:
        return Later(taken_back=back)
    resumed = next((each for each in standing if each.command not in _NOT_RESUMED), None)
    return Later(resumed=resumed, left=next(_unfinished_runs(run, resumed, known), None))


def _unfinished_runs(
    run: RunSummary, resumed: RunSummary | None, known: dict[str, Later]
) -> Iterator[RunSummary]:
    if resumed is not None:
        left = known[resumed.id].left
        if left is not None:
            yield left
    elif run.command not in _NOT_RESUMED and run.outcome in _UNFINISHED:
        yield run


TABLE_RUNS = 20
_COLUMNS = ("run", "started", "took", "command", "outcome", "blocks", "rows", "failed", "by")
_STEPS = ("step", "outcome", "took", "blocks", "rows", "head before", "head after")
_RIGHT = frozenset({"took", "blocks", "rows", "failed"})
_NOT_BEGUN = ("skipped", "not-begun")
_HASH_END = 8
_NAMED = 5

Event = Mapping[str, Any]


def runs(
    given: ProjectArguments,
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]", help="The id of a run, an unambiguous part of it, or `last`."
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Show what the run did to this dataset, in order."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("-n", "--limit", min=1, help="Only the newest N. Default: 20 in a table."),
    ] = None,
    output: TableFormat = "table",
) -> int:
    """List past runs, or show the steps of one. Times and heads are included."""
    as_json = output == "json"
    project = open_given(given)
    project.workspace.bring_runs()
    root = project.workspace.root
    if run is None:
        most = limit or (None if as_json else TABLE_RUNS)
        listed = list_runs(root, most)
        _warn_of_records(listed.damaged)
        return _list(listed.runs, count_runs(root), as_json=as_json)
    found = find_run(root, run)
    events = list(read_events(root, found.id))
    _warn_of_lines(found.id, damaged_lines(root, found.id))
    if name is None:
        listed = list_runs(root)
        _warn_of_records(listed.damaged)
        later = later_runs(listed.runs).get(found.id, Later())
        return _one(found, later, events, as_json=as_json)
    return _dataset(found, events, name, as_json=as_json)


def _list(shown: Sequence[RunSummary], total: int, *, as_json: bool) -> int:
    later = later_runs(shown)  # a run comes after the one that it goes on with
    if as_json:
        _print_json([_summary_json(each, later[each.id]) for each in shown])
        return exits.DONE
    from odfbuild.cli.terminal.console import print_table

    rows = [
        (
            each.id,
            _short(each.started),
            _took(each),
            each.command,
            each.outcome.value + _fate(later[each.id]),
            *_counts(each),
            each.user,
        )
        for each in shown
    ]
    print_table(_COLUMNS, rows, [name in _RIGHT for name in _COLUMNS])
    more = "" if len(shown) == total else f", the newest {len(shown):,} shown; -n for more"
    sys.stdout.write(f"{count(total, 'run')}{more}\n")
    return exits.DONE


def _warn_of_records(damaged: Sequence[str]) -> None:
    """Say which records are left out, as their summaries are not what was written."""
    if damaged:
        shown = ", ".join(damaged[:_NAMED]) + (", ..." if len(damaged) > _NAMED else "")
        _warn(
            what=f"{count(len(damaged), 'record')} with a damaged summary left out: {shown}",
            why="the checksum of a summary is missing or does not match; notes that earlier runs "
            "were undone or resumed may be missing, too",
            fix="restore summary.json in .odfbuild/runs/ID from a copy; odfbuild gc --keep-runs N "
            "deletes old records",
        )


def _warn_of_lines(run: str, lines: Sequence[int]) -> None:
    """Say that a record has lines that say nothing."""
    if lines:
        _warn(
            what=f"the record of the run {run} has {count(len(lines), 'damaged line')}, the first "
            f"is line {lines[0]} of events.ndjson",
            why="its checksum does not match, so what the run did there is not shown",
            fix="restore the file from a copy; odfbuild log NAME shows what is in a chain",
        )


def _warn(*, what: str, why: str, fix: str) -> None:
    from odfbuild.cli.render.diagnostics import render_diagnostics

    found = Diagnostic(code=DamagedRunError.code, what=what, why=why, fix=fix, level=Level.WARNING)
    sys.stderr.write(f"{render_diagnostics([found])}\n")


def _counts(run: RunSummary) -> tuple[str, str, str]:
    """Return blocks, rows and failed steps; of a run without an end its events would tell."""
    if run.ended is None:
        return "-", "-", "-"
    return f"{run.blocks:,}", f"{run.records:,}", f"{run.failed:,}"


def _fate(later: Later) -> str:
    if later.taken_back is not None:
        return ", undone"
    return "" if later.resumed is None else ", resumed"


def _summary_json(run: RunSummary, later: Later) -> dict[str, Any]:
    """Return the facts of a run."""
    return {
        "run": run.id,
        "command": run.command,
        "outcome": run.outcome.value,
        "started": str(run.started),
        "ended": None if run.ended is None else str(run.ended),
        "user": run.user,
        "host": run.host,
        "pid": run.pid,
        "project": run.project,
        "target": run.target,
        "version": run.version,
        "follows": run.follows,
        "resumed_by": None if later.resumed is None else later.resumed.id,
        "taken_back_by": None if later.taken_back is None else later.taken_back.id,
        "steps": run.steps,
        "done": run.done,
        "failed": run.failed,
        "skipped": run.skipped,
        "interrupted": run.interrupted,
        "blocks": run.blocks,
        "records": run.records,
    }


def _one(run: RunSummary, later: Later, events: Sequence[Event], *, as_json: bool) -> int:
    steps = recorded_steps(events)
    if as_json:
        each_step = [_step_json(each) for each in steps]
        _print_json({**_summary_json(run, later), "each_step": each_step})
        return exits.DONE
    from odfbuild.cli.terminal.console import print_table

    sys.stdout.write("".join(f"{printable(line)}\n" for line in _facts(run, later, steps)))
    rows = [
        (
            each.id,
            each.outcome,
            "-" if each.seconds is None else _seconds(each.seconds),
            f"{each.blocks:,}",
            f"{each.records:,}",
            _hash(each.before),
            _hash(each.after),
        )
        for each in steps
    ]
    if rows:
        sys.stdout.write("\n")
        print_table(_STEPS, rows, [name in _RIGHT for name in _STEPS])
    for line in _reasons(steps):
        sys.stdout.write(f"{printable(line)}\n")
    return exits.DONE


def _step_json(step: RecordedStep) -> dict[str, Any]:
    return {
        "step": step.id,
        "dataset": step.dataset,
        "outcome": step.outcome.replace(" ", "-"),
        "seconds": step.seconds,
        "blocks": step.blocks,
        "records": step.records,
        "head_before": step.before,
        "head_after": step.after,
        "because": step.because,
        "errors": list(step.errors),
    }


def _facts(run: RunSummary, later: Later, steps: Sequence[RecordedStep]) -> Iterator[str]:
    yield f"Run      {run.id}  odfbuild {run.command}"
    if run.follows is not None:
        yield f"After    {run.follows}"
    yield f"Target   {run.target} of {run.project}"
    yield f"By       {run.user} on {run.host}, process {run.pid}, odfbuild {run.version}"
    yield f"Started  {run.started}, took {_took(run)}"
    begun = sum(each.outcome not in _NOT_BEGUN for each in steps)
    steps_done = f"{run.outcome.value}: {count(run.steps, 'step')} planned, {begun:,} started"
    blocks = sum(each.blocks for each in steps)
    rows = sum(each.records for each in steps)
    yield f"Ended    {steps_done}, {count(blocks, 'block')}, {count(rows, 'row')}"
    if later.taken_back is not None:
        yield f"         undone by {later.taken_back.id}"
    if later.resumed is not None:
        yield f"         resumed by {later.resumed.id}: {later.resumed.outcome.value}"
    if later.left is not None:
        yield f"         to continue: odfbuild apply --resume {later.left.id}"


def _reasons(steps: Sequence[RecordedStep]) -> Iterator[str]:
    for step in steps:
        for error in step.errors:
            what = str(error.get("what", "")).split("\n")[0]
            yield f"  {step.id}: error[{error.get('code')}]: {what}"


def _dataset(run: RunSummary, events: Sequence[Event], name: str, *, as_json: bool) -> int:
    wanted = DatasetAlias.parse(name)
    found = [each for each in events if each.get("dataset") == str(wanted)]
    if not found:
        known = sorted({str(each["dataset"]) for each in events if each.get("dataset")})
        raise StateError(
            what=f"the run {run.id} did nothing to {name}",
            why=f"it worked on {count(len(known), 'dataset')}",
            fix=f"odfbuild runs {run.id} lists its steps",
        )
    if as_json:
        _print_json(found)
        return exits.DONE
    for event in found:
        sys.stdout.write(f"{printable(_event_line(event))}\n")
    return exits.DONE


def _event_line(event: Event) -> str:
    parts = [f"{event.get('time')}  {event.get('event'):<16}", str(event.get("step", ""))]
    kind = event.get("event")
    if kind == "slice_committed":
        records = count(int(event.get("records", 0)), "row")
        parts.append(f"{event.get('source')}: {count(int(event.get('blocks', 0)), 'block')}")
        parts.append(records)
    elif kind == "dataset_finished":
        parts.append(str(event.get("outcome")))
        parts += [str(error.get("what", "")).split("\n")[0] for error in event.get("errors", ())]
        if event.get("because"):
            parts.append(f"because {event['because']} failed")
    parts.append(f"head {_hash(event.get('head'))}")
    return "  ".join(parts)


def _print_json(value: object) -> None:
    sys.stdout.write(printable_json(json.dumps(value, indent=2, ensure_ascii=False)) + "\n")


def _short(time: Timestamp) -> str:
    return str(time)[:19] + "Z"


def _took(run: RunSummary) -> str:
    if run.ended is None:
        return "-"
    return _seconds((run.ended.nanos - run.started.nanos) / 10**9)


def _seconds(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _hash(text: str | None) -> str:
    return "-" if text is None else text[-_HASH_END:]
