"""odfbuild apply, and apply --resume."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, assert_never

import typer

from odfbuild import app
from odfbuild.app.plan.changed_inputs import remember_accepted
from odfbuild.app.selection import PlanScope, scoped_plan
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import (
    Allow,
    Busy,
    FailFast,
    Gate,
    Jobs,
    LockTimeout,
    MetadataOnly,
    NoProgress,
    Offline,
    OnBusy,
    PlanExclude,
    Pools,
    RunOutput,
    RunReports,
    Yes,
)
from odfbuild.cli.arguments.problems import with_all_problems
from odfbuild.cli.arguments.project import open_given, retry_if_changed
from odfbuild.cli.arguments.selection import report_notes
from odfbuild.cli.commands.plan.plan import idle_text
from odfbuild.cli.consent import confirm, refuse_unnamed, refuse_unplanned
from odfbuild.cli.files import Reports, parse_reports
from odfbuild.cli.render.diagnostics import render_diagnostics
from odfbuild.cli.render.plan import plan_text
from odfbuild.cli.render.run import failures_of, notes_of, report_json, report_text
from odfbuild.cli.render.words import count
from odfbuild.cli.reservation import reservation, reserved_for
from odfbuild.cli.saved import load_saved, refuse_unfit, saved_file, stale_datasets
from odfbuild.cli.terminal.console import hint, wants_colour
from odfbuild.cli.terminal.events import report_idle_run, say, say_event
from odfbuild.cli.terminal.folds import folded
from odfbuild.cli.unreadable import damage_is_reported
from odfbuild.errors import Diagnostic, Level, ProjectErrors, UsageRefusedError
from odfbuild.executors.runs.report import Done, RunReport
from odfbuild.planner.exclusion import LeftOut, counted, reasons
from odfbuild.planner.maintenance.batch import HousekeepingPlan
from odfbuild.planner.maintenance.undo import Undo
from odfbuild.planner.plan import Plan
from odfbuild.planner.plan.subset import fitting, names_of
from odfbuild.project.config.project_file import load_config
from odfbuild.state.runs import usual_seconds
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.app.plan.file_snapshot import ProjectFiles
    from odfbuild.executors.runs.resume import Resumed
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.planner.declared import Declared


_NAMED = 5
_LISTED = 20
_NONE: Final[LeftOut] = {}


def resumed_text(found: Resumed) -> str:
    """Return what is gone on with, and what is skipped because it was done."""
    run, left = found.run, len(found.plan.steps)
    all_steps = count(len(found.done) + left, "step")
    lines = [
        f"Run     {run.id} ({run.command}, {run.started}, {run.outcome.value})",
        f"        {len(found.done):,} of {all_steps} were done, {left:,} left",
        *(f"  done  {id}" for id in found.done[:_LISTED]),
    ]
    if len(found.done) > _LISTED:
        lines.append(f"        and {len(found.done) - _LISTED:,} more")
    return "\n".join([*lines, ""]) + "\n"


def what_fits(plan: Plan, stale: Sequence[DatasetAlias], *, partial: bool) -> Plan:
    """Return what of a plan may be carried out; with `partial` that is what still fits.

    Raises StalePlanError when anything moved, with `partial` when nothing fits.
    """
    from odfbuild.executors.runs.definition import StalePlanError

    if not stale:
        return plan
    fits = fitting(plan, stale)
    if partial and (fits.steps or not plan.steps):
        _warn(plan, fits, stale)
        return fits
    raise StalePlanError(
        what=_moved_text(stale),
        why="all remaining steps of the plan change or read these"
        if partial
        else "a plan can only be applied to the state that it was made for",
        fix="plan again"
        if partial
        else "plan again, or apply the steps that still fit with --partial",
    )


def refuse_given_up(project: app.Opened, plan: Plan) -> None:
    """Refuse to make a dataset of a name that it gave up since.  Raises StalePlanError."""
    from odfbuild.executors.runs.definition import StalePlanError
    from odfbuild.planner.plan.policy import last_names

    moved = load_config(project.root).moved  # as they are now that leases were waited for
    names = project.workspace.names() if moved else {}
    for old, new in last_names(moved).items():
        makes = any(s.target == old and plan.datasets[old].based_on is None for s in plan.steps)
        if makes and new in names and old not in names:
            raise StalePlanError(
                what=f"{old} was renamed to {new}",
                why="the plan would create a second dataset under the old name",
                fix="plan again",
            )


def _warn(plan: Plan, fits: Plan, stale: Sequence[DatasetAlias]) -> None:
    from odfbuild.cli.render.diagnostics import render_diagnostic

    warning = Diagnostic(
        code="stale-plan",
        what="\n  ".join([_moved_text(stale), *_left_out(plan, fits)]),
        why="steps that change or read these are left out",
        fix="plan again for the rest",
        level=Level.WARNING,
    )
    sys.stderr.write(render_diagnostic(warning) + "\n")


def _left_out(plan: Plan, fits: Plan) -> Iterator[str]:
    kept = {step.id for step in fits.steps}
    for step in plan.steps:
        if step.id not in kept:
            yield f"left out: {step.id}"


def _moved_text(found: Sequence[DatasetAlias]) -> str:
    first, *more = map(str, found)
    shown = ", ".join(more[: _NAMED - 1])
    rest = f" and {len(found) - _NAMED:,} others" if len(found) > _NAMED else ""
    also = f", nor {'is' if len(more) == 1 else 'are'} {shown}{rest}" if more else ""
    return f"{first} changed since the plan was made{also}"


def _unheard(_run: str) -> None: ...


_WHOLE = PlanScope()
_NO_REPORTS = Reports()
_OPENLINEAGE = "openlineage"
_FORMATS = {_OPENLINEAGE: "events of the run", "json": "what -o json prints"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """What was asked of `apply`; `file` is a saved plan, None to plan now, and then `scope`.

    `output` is text, json or ndjson: stdout then has one document, or events, and the plan goes to
    stderr.  `reports` are files beside it, of what json prints or of the events of the run as
    OpenLineage has them.  `resume` names a run to go on with; with `partial` what still fits of a
    stale plan is done.  `pools` are given as NAME=N.
    """

    file: Path | None = None
    scope: PlanScope = _WHOLE
    yes: bool = False
    jobs: int = 4
    progress: bool = True
    lock_timeout: float = 10.0
    output: str = "text"
    reports: Reports = _NO_REPORTS
    resume: str | None = None
    partial: bool = False
    fail_fast: bool = False
    pools: tuple[str, ...] = ()
    on_busy: str = OnBusy.WAIT


def run_reports(texts: Sequence[str]) -> Reports:
    """Return the files that `--report FMT=FILE` names; that of OpenLineage is made empty.

    Raises UsageRefusedError for any other format, and EventsFileError.
    """
    reports = parse_reports(texts, _FORMATS)
    files = reports.of(_OPENLINEAGE)
    if len(files) > 1:
        raise UsageRefusedError(
            what=f"--report {_OPENLINEAGE}=... is given {len(files)} times",
            why="the events of a run are written to one file",
            fix="name one file",
        )
    if files:
        from odfbuild.executors.runs.openlineage.sinks import begin_events

        begin_events(files[0])
    return reports


def apply(
    given: ProjectArguments,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE | SEL...]",
            help="A plan that `plan --out FILE` saved; or datasets, by name or selector.",
        ),
    ] = None,
    exclude: PlanExclude = None,
    gate: Gate = "default",
    allow: Allow = None,
    metadata_only: MetadataOnly = False,
    offline: Offline = False,
    yes: Yes = False,
    jobs: Jobs = 4,
    no_progress: NoProgress = False,
    output: RunOutput = "text",
    report: RunReports = None,
    lock_timeout: LockTimeout = 10.0,
    on_busy: Busy = OnBusy.WAIT,
    fail_fast: FailFast = False,
    pool: Pools = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="RUN",
            help="Continue the plan of a run that failed or was killed; see `runs`.",
        ),
    ] = None,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial",
            help="Apply the steps of a saved plan, or of a run, that still fit, even if datasets "
            "changed since.",
        ),
    ] = False,
) -> int:
    """Carry out a plan. Makes it and asks for confirmation, or takes a saved one."""
    given_what = tuple(what or ())
    file = saved_file(given_what)
    scope = PlanScope(
        select=() if file is not None else given_what,
        exclude=tuple(exclude or ()),
        gate=gate,
        allow=tuple(allow or ()),
        metadata_only=metadata_only,
        repositories="offline" if offline else None,
    )
    if file is not None and not scope.is_plain:
        raise typer.BadParameter("a saved plan is applied as it is, without further options")
    if resume is not None and (file is not None or not scope.is_plain):
        raise typer.BadParameter("--resume continues one run, without further options")
    if partial and file is None and resume is None:
        raise typer.BadParameter("--partial needs a saved plan, or --resume")
    options = ApplyOptions(
        file=file,
        scope=scope,
        yes=yes,
        jobs=jobs,
        progress=not no_progress,
        lock_timeout=lock_timeout,
        output=output,
        reports=run_reports(report or ()),
        resume=resume,
        partial=partial,
        fail_fast=fail_fast,
        pools=tuple(pool or ()),
        on_busy=on_busy,
    )
    return apply_project(given, options)


def apply_project(given: ProjectArguments, options: ApplyOptions) -> int:
    """Carry out a saved plan; without one plan, print, ask, and do that very plan."""
    if options.resume is not None:
        return _apply_rest(given, options.resume, options)
    if options.file is not None:
        return _apply_saved(given, options.file, options)
    return retry_if_changed(lambda: _apply_now(given, options))


def _apply_now(given: ProjectArguments, options: ApplyOptions) -> int:
    try:
        project = open_given(given, lock_timeout=options.lock_timeout)
        refuse_unplanned(project, given)
        quick = app.unchanged_plan(project) if options.scope.is_plain else None
        if quick is not None and quick.idle:
            answer_idle(project, options, idle_text(quick.datasets))
            return exits.DONE
        return _apply_planned(project, options)
    except ProjectErrors as error:
        raise with_all_problems(given, error) from None


def _apply_planned(project: app.Opened, options: ApplyOptions) -> int:
    with reserved_for(
        project,
        lambda: scoped_plan(project, options.scope.looking),
        lambda made: made.plan,
        command="apply",
        on_busy=options.on_busy,
    ) as (made, plan, mine):
        if mine.waited and made.files is not None:
            made.files.check(project)
        report_notes(made.notes)
        is_over = _is_over(project, plan, options, made.left_out)
        report_left_out(made.left_out)
        if is_over:
            return exits.ERROR if made.left_out else _idle_code(plan)
        if not plan.is_empty and not options.yes:
            confirm("apply")
        settle = options.scope.is_plain and not mine.busy
        run = Running(
            settle=settle,
            declared=made.loaded.declared,
            unplanned=reasons(made.left_out),
            begun=mine.begun,
            files=made.files,
        )
        return carry_out(project, plan, options, run)


def report_left_out(left_out: LeftOut) -> None:
    """Say which datasets are not in a plan, and why."""
    if left_out:
        damage_is_reported()
        sys.stderr.write(render_diagnostics(reasons(left_out)) + "\n")
        sys.stderr.flush()


def _apply_saved(given: ProjectArguments, file: Path, options: ApplyOptions) -> int:
    """Carry out exactly a saved plan; the definitions of the project are not looked at."""
    saved = load_saved(file)
    if not isinstance(saved, Plan):
        _refuse_formats(options)
    target = given.target or saved.target
    project = open_given(replace(given, target=target), lock_timeout=options.lock_timeout)
    refuse_unfit(saved, project)
    match saved:
        case Plan():
            return _apply_saved_plan(project, saved, options)
        case Undo():
            from odfbuild.cli.commands.apply.undo import apply_saved_undo

            return apply_saved_undo(project, saved, options.on_busy)
        case HousekeepingPlan():
            from odfbuild.cli.commands.apply.maintenance import apply_saved_housekeeping

            return apply_saved_housekeeping(project, saved, options.on_busy)
        case _:
            assert_never(saved)


def _apply_saved_plan(project: app.Opened, plan: Plan, options: ApplyOptions) -> int:
    written, read = names_of(plan)
    with reservation(project, written, read, command="apply", on_busy=options.on_busy) as mine:
        plan = fitting(plan, mine.busy)
        refuse_given_up(project, plan)
        moved = stale_datasets(plan, project)
        plan = what_fits(plan, moved, partial=options.partial)
        if _is_over(project, plan, options):
            return _idle_code(plan)
        doing = Running(left_out=bool(moved), begun=mine.begun)
        return carry_out(project, plan, options, doing)


def _apply_rest(given: ProjectArguments, run: str, options: ApplyOptions) -> int:
    """Carry out what is left of the plan of a run."""
    from odfbuild.executors.runs.resume import resume

    project = open_given(given, lock_timeout=options.lock_timeout)
    refuse_unnamed(project, given, "apply")
    found = resume(project, run)
    refuse_unfit(found.plan, project)
    written, read = names_of(found.plan)
    with reservation(project, written, read, command="apply", on_busy=options.on_busy) as mine:
        found = resume(project, run) if mine.waited else found
        (sys.stdout if options.output == "text" else sys.stderr).write(resumed_text(found))
        stale = [each for each in found.stale if each not in mine.busy]
        plan = what_fits(fitting(found.plan, mine.busy), stale, partial=options.partial)
        refuse_given_up(project, plan)
        if not found.plan.steps:
            answer_idle(project, options, "Nothing is left to do.\n", plan)
            return exits.DONE
        if _is_over(project, plan, options):
            return _idle_code(plan)
        doing = Running(left_out=bool(stale), follows=found.run.id, begun=mine.begun)
        return carry_out(project, plan, options, doing)


def _is_over(
    project: app.Opened, plan: Plan, options: ApplyOptions, left_out: LeftOut = _NONE
) -> bool:
    """Show the plan; tell whether there is nothing to do, or nothing that may be done."""
    if not plan.steps:
        plan = app.with_pins(project, plan)
    shown = counted(plan, left_out)
    text = plan_text(shown, colour=options.progress and wants_colour(), partly=True)
    if options.output == "text":
        say(folded(text))
    else:
        sys.stderr.write(text)
    over = not plan.steps or not plan.verdict.passed
    if over:
        remember_accepted(project, plan)
        answer_idle(project, options, "", plan, unplanned=reasons(left_out))
    return over


def _idle_code(plan: Plan) -> int:
    """Return how a command ends that has nothing to do, or nothing that may be done."""
    return exits.DONE if plan.verdict.passed else exits.REFUSED


def answer_idle(
    project: app.Opened,
    options: ApplyOptions,
    text: str,
    plan: Plan | None = None,
    command: str = "apply",
    unplanned: Sequence[Diagnostic] = (),
) -> None:
    """Answer where nothing is done: in words, which are given, or as options ask."""
    if options.output == "ndjson":
        passed = plan is None or plan.verdict.passed
        report_idle_run(project, command, unplanned, passed=passed)
    elif options.output == "text":
        say(folded(text))
    _answer_json(options, plan, RunReport(()), (), unplanned)


def _answer_json(
    options: ApplyOptions,
    plan: Plan | None,
    report: RunReport,
    notes: Sequence[Diagnostic],
    unplanned: Sequence[Diagnostic],
    run: str | None = None,
) -> None:
    """Print or write the one document, where it was asked for."""
    if options.output == "json" or options.reports.wants("json"):
        passed = not unplanned and (plan is None or plan.verdict.passed)
        document = report_json(report, (*unplanned, *notes), run, gate_passed=passed)
        if options.output == "json":
            say(document)
        options.reports.write("json", document)


def _refuse_formats(options: ApplyOptions) -> None:
    if options.output != "text" or options.reports.wants("json"):
        raise UsageRefusedError(
            what="this plan has no steps to report",
            why="it resets heads, or replaces blocks",
            fix="leave out -o and --report json",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """What a run is to those who carry it out.

    `settle` as in `app.apply`; `declared` the definitions, if they were read; `left_out` says that
    something of the plan did not fit, `unplanned` why datasets could not be planned; `follows`
    is the run that this one goes on with; `begun` hears the id of the run; `files` as in
    `app.apply`.
    """

    command: str = "apply"
    settle: bool = False
    declared: Sequence[Declared] | None = None
    left_out: bool = False
    unplanned: Sequence[Diagnostic] = ()
    follows: str | None = None
    slices: int | None = None
    begun: Callable[[str], None] = _unheard
    files: ProjectFiles | None = None


def carry_out(project: app.Opened, plan: Plan, options: ApplyOptions, doing: Running) -> int:
    """Run a plan, tell what became of it, and return the exit code.

    Raises KeyboardInterrupt, after all was told, where the run was interrupted.
    """
    report, run, stopped = _run(project, plan, options, doing)
    for each in failures_of(project, plan, report):
        sys.stderr.write(render_diagnostics([each]) + "\n")
    notes = tuple(notes_of(project, plan, report))
    if notes:
        sys.stderr.write(render_diagnostics(notes) + "\n")
    if options.output == "text":
        say(report_text(report))
    _answer_json(options, plan, report, notes, doing.unplanned, run)
    if run is not None and not report.is_complete:
        _print_resume(run)
    if stopped:
        raise KeyboardInterrupt
    code = run_code(plan, report, left_out=doing.left_out)
    if doing.unplanned and code == exits.DONE:
        return exits.PARTLY if report.committed else exits.ERROR
    return code


def _print_resume(run: str) -> None:
    hint(
        f"To continue this plan: odfbuild apply --resume {run}\n"
        "To plan again with the present files: odfbuild apply\n"
    )


def _run(
    project: app.Opened, plan: Plan, options: ApplyOptions, doing: Running
) -> tuple[RunReport, str | None, bool]:
    """Return what became of the steps, the id of the run if it is recorded, and its interrupt."""
    from odfbuild.cli.arguments.pools import run_settings_of
    from odfbuild.cli.render.progress import run_progress
    from odfbuild.executors.runs.record import RunRequest
    from odfbuild.executors.runs.scheduler import InterruptedRun

    begun: list[str] = []

    def began(run: str) -> None:
        begun.append(run)
        doing.begun(run)

    asking = RunRequest(
        command=doing.command,
        follows=doing.follows,
        left_out=tuple(doing.unplanned),
        began=began,
    )
    if options.output == "ndjson":
        asking = replace(asking, heard=say_event)
    stopped = False
    settings = run_settings_of(
        project,
        options.pools,
        fail_fast=options.fail_fast,
        slices=doing.slices,
        declared=doing.declared,
    )
    try:
        usual = partial(usual_seconds, project.workspace.root)
        with run_progress(len(plan.steps), usual, live=options.progress) as progress:
            report = app.apply(
                project,
                plan,
                jobs=options.jobs,
                progress=progress,
                settle=doing.settle,
                settings=settings,
                asking=asking,
                events=next(iter(options.reports.of(_OPENLINEAGE)), None),
                files=doing.files,
                declared=doing.declared,
            )
    except InterruptedRun as ended:
        report, stopped = ended.report, True
    except KeyboardInterrupt:
        if begun:
            _print_resume(begun[0])
        raise
    return report, begun[0] if begun else None, stopped


def run_code(plan: Plan, report: RunReport, *, left_out: bool = False) -> int:
    """Return how a run ended: as done only if each step of its plan is."""
    if left_out:
        return exits.PARTLY if report.committed else exits.STALE
    done = {step.id for step, outcome in report.outcomes if isinstance(outcome, Done)}
    if all(step.id in done for step in plan.steps):
        return exits.DONE
    if report.committed:
        return exits.PARTLY
    codes = {exits.exit_code(failed.error) for _, failed in report.failures}
    return codes.pop() if len(codes) == 1 else exits.ERROR
