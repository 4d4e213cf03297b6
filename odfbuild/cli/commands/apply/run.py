"""odfbuild run: take in what sources have and derive what follows, once or in passes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild import app
from odfbuild.app.plan.late_files import UNREAD
from odfbuild.app.run import Data, data_plan
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import (
    Busy,
    Exclude,
    FailFast,
    Jobs,
    LockTimeout,
    NoProgress,
    Offline,
    OnBusy,
    Pools,
    RunOutput,
    RunReports,
    Selection,
)
from odfbuild.cli.arguments.problems import with_all_problems
from odfbuild.cli.arguments.project import open_given, retry_if_changed
from odfbuild.cli.commands.apply.apply import (
    ApplyOptions,
    Running,
    answer_idle,
    carry_out,
    report_left_out,
    run_reports,
)
from odfbuild.cli.consent import refuse_unnamed
from odfbuild.cli.render.diagnostics import render_diagnostics
from odfbuild.cli.render.plan import plan_text
from odfbuild.cli.reservation import reserved_for
from odfbuild.cli.terminal.console import hint, wants_colour
from odfbuild.cli.terminal.folds import folded
from odfbuild.errors import Diagnostic, Level, OdfBuildError, ProjectErrors, StateError
from odfbuild.planner.exclusion import LeftOut, reasons
from odfbuild.planner.plan.subset import restrict
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.planner.plan import Plan

_NAMED = 5
_IDLE = "Nothing to run: sources and inputs have nothing new.\n"
_AS_USUAL = ApplyOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What was asked of `run`; `watch` are the seconds between two passes, None for no more."""

    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    until_idle: bool = False
    slices: int | None = None
    watch: float | None = None
    offline: bool = False
    apply: ApplyOptions = _AS_USUAL


@dataclass(slots=True)
class _Seen:
    """What earlier passes reported: datasets that wait or are left out, the last error."""

    passes: int = 0
    waiting: tuple[DatasetAlias, ...] = ()
    left_out: Collection[DatasetAlias | None] = frozenset()
    unread: Sequence[Diagnostic] = ()
    error: str | None = None


def run(
    given: ProjectArguments,
    selection: Selection = None,
    exclude: Exclude = None,
    until_idle: Annotated[
        bool,
        typer.Option("--until-idle", help="Repeat until sources and inputs have nothing new."),
    ] = False,
    max_slices: Annotated[
        int | None,
        typer.Option(
            "--max-slices", metavar="N", min=1, help="Ingest at most N slices of each source."
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Repeat after a pause, until ^C.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, help="With --watch: seconds between two rounds.")
    ] = 10.0,
    offline: Offline = False,
    jobs: Jobs = 4,
    fail_fast: FailFast = False,
    pool: Pools = None,
    no_progress: NoProgress = False,
    output: RunOutput = "text",
    report: RunReports = None,
    lock_timeout: LockTimeout = 10.0,
    on_busy: Busy = OnBusy.WAIT,
) -> int:
    """Ingest new data of sources and update derivatives. Changed definitions are not applied."""
    if until_idle and max_slices is not None:
        raise typer.BadParameter("--until-idle ingests everything, --max-slices does not")
    if output == "json" and (watch or until_idle):
        raise typer.BadParameter(
            "-o json is one document: leave out --watch and --until-idle, or write -o ndjson"
        )
    reports = run_reports(report or ())
    if reports.wants("json") and (watch or until_idle):
        raise typer.BadParameter("--report json is one document: leave out --watch, --until-idle")
    options = RunOptions(
        select=tuple(selection or ()),
        exclude=tuple(exclude or ()),
        until_idle=until_idle,
        slices=max_slices,
        watch=interval if watch else None,
        offline=offline,
        apply=ApplyOptions(
            jobs=jobs,
            progress=not no_progress,
            lock_timeout=lock_timeout,
            on_busy=on_busy,
            output=output,
            reports=reports,
            fail_fast=fail_fast,
            pools=tuple(pool or ()),
        ),
    )
    return run_data(given, options)


def run_data(
    given: ProjectArguments, options: RunOptions, pause: Callable[[float], None] = time.sleep
) -> int:
    """Run data, pass after pass as asked; return the worst exit code.

    `pause` waits the seconds between two passes.
    """
    worst = exits.DONE
    seen = _Seen()
    while True:
        code, moved = _make_pass(given, options, seen)
        worst = worst if code == exits.DONE else code
        if options.until_idle and moved and code == exits.DONE:
            continue
        if options.watch is None:
            return worst
        pause(options.watch)


def _make_pass(given: ProjectArguments, options: RunOptions, seen: _Seen) -> tuple[int, bool]:
    """Make one pass.  An error ends no watch, but where nothing could ever be run."""
    try:
        done = retry_if_changed(lambda: _look_and_run(given, options, seen))
    except OdfBuildError as error:
        if options.watch is None or not (seen.passes or isinstance(error, StateError)):
            raise
        text = render_diagnostics(error.diagnostics())
        if text != seen.error:  # it may stay for many passes
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
        seen.error = text
        return exits.exit_code(error), False
    seen.passes += 1
    seen.error = None
    return done


def _look_and_run(given: ProjectArguments, options: RunOptions, seen: _Seen) -> tuple[int, bool]:
    """Plan and run once; return the exit code, and whether any head moved."""
    project = open_given(given, lock_timeout=options.apply.lock_timeout)
    refuse_unnamed(project, given, "run")
    before = project.workspace.heads()
    with reserved_for(
        project,
        lambda: _plan_data(given, project, options),
        lambda planned: planned[1],
        command="run",
        on_busy=options.apply.on_busy,
    ) as ((data, _), plan, mine):
        if mine.waited:
            data.files.check(project)
        waiting = (*data.pending, *data.missing)
        if waiting != seen.waiting:
            _print_waiting(data)
            seen.waiting = waiting
        left_out = _left_out(project, data, options)
        if left_out.keys() != seen.left_out:
            report_left_out(left_out)
            seen.left_out = left_out.keys()
        unread = [note for note in plan.notes if note.code in UNREAD]
        unread += () if plan.steps else app.pin_inputs(project, plan)
        if plan.is_empty and unread and unread != seen.unread:  # else it is in the plan
            sys.stderr.write(f"{render_diagnostics(unread)}\n")
            sys.stderr.flush()
        seen.unread = unread
        doing = Running(
            command="run",
            declared=data.declared,
            slices=options.slices,
            unplanned=reasons(left_out),
            begun=mine.begun,
            files=data.files,
        )
        code = _pass(project, plan, options, doing)
    return code, project.workspace.heads() != before


def _plan_data(
    given: ProjectArguments, project: app.Opened, options: RunOptions
) -> tuple[Data, Plan]:
    """Return what could be run, and what of it was asked for."""
    try:
        data = data_plan(project, "offline" if options.offline else "look")
    except ProjectErrors as error:
        raise with_all_problems(given, error) from None
    return data, _chosen(project, data, options)


def _left_out(project: app.Opened, data: Data, options: RunOptions) -> LeftOut:
    if not data.left_out or not (options.select or options.exclude):
        return data.left_out
    from odfbuild.cli.arguments.selection import selected_datasets

    declared = app.load(project, partly=True).declared
    found = selected_datasets(
        project, declared, options.select, options.exclude, plan=lambda: data.plan
    )
    return {a: why for a, why in data.left_out.items() if a is None or a in found}


def _pass(project: app.Opened, plan: Plan, options: RunOptions, doing: Running) -> int:
    if not plan.steps:
        if options.watch is None:
            answer_idle(project, options.apply, _IDLE, command="run", unplanned=doing.unplanned)
        return exits.ERROR if doing.unplanned else exits.DONE
    if not plan.is_empty and options.apply.output == "text":
        sys.stdout.write(folded(plan_text(plan, colour=options.apply.progress and wants_colour())))
        sys.stdout.flush()
    return carry_out(project, plan, options.apply, doing)


def _chosen(project: app.Opened, data: Data, options: RunOptions) -> Plan:
    if not options.select and not options.exclude:
        return data.plan
    from odfbuild.cli.arguments.selection import selected_datasets

    found = selected_datasets(
        project, data.declared, options.select, options.exclude, plan=lambda: data.plan
    )
    return restrict(data.plan, found)


def _print_waiting(data: Data) -> None:
    found = []
    if data.pending:
        found.append(
            _note(
                f"{_names(data.pending)}: the definition changed; run uses the one that was "
                "applied",
                "run ingests data and applies no definitions",
            )
        )
    if data.missing:
        found.append(
            _note(
                f"{_names(data.missing)}: declared, but not created yet",
                "run works on existing datasets only",
            )
        )
    if found:
        hint(render_diagnostics(found) + "\n")


def _note(what: str, why: str) -> Diagnostic:
    return Diagnostic(
        code="definition-waits", what=what, why=why, fix="odfbuild apply", level=Level.NOTE
    )


def _names(found: tuple[DatasetAlias, ...]) -> str:
    shown = ", ".join(map(str, found[:_NAMED]))
    return f"{shown} and {len(found) - _NAMED:,} more" if len(found) > _NAMED else shown
