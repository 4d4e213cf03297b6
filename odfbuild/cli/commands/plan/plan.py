"""odfbuild plan: what would change and why, and whether the gate lets it pass."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from odfbuild import app
from odfbuild.app.selection import PlanScope, scoped_plan
from odfbuild.cli import exits
from odfbuild.cli.arguments.completion import complete_names
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import (
    Allow,
    Explain,
    Gate,
    MaxBytes,
    MetadataOnly,
    PlanExclude,
    PlanOffline,
    PlanOutput,
    Verbose,
)
from odfbuild.cli.arguments.problems import with_all_problems
from odfbuild.cli.arguments.project import open_given, retry_if_changed
from odfbuild.cli.arguments.selection import report_notes
from odfbuild.cli.formats.outputs import (
    MAX_BYTES,
    PlanFormat,
    PlanFormatOptions,
    parse_reports,
    plan_output,
    problems_output,
    write_reports,
)
from odfbuild.cli.terminal.console import columns, printable, wants_colour
from odfbuild.cli.terminal.folds import folded
from odfbuild.cli.terminal.streams import as_it_is
from odfbuild.errors import OdfBuildError, ProjectErrors, UsageRefusedError
from odfbuild.planner.exclusion import reasons, with_left_out
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.app.inspection.trial import RowsTried
    from odfbuild.planner.plan import Plan
    from odfbuild.planner.plan.remote_inputs import LookMode
    from odfbuild.state.memory.plans import CommandOutput


_MOST = 20


def tried_text(tried: Sequence[RowsTried], rows: int) -> str:
    """Return the rows that would come out otherwise, a line each, the first of each dataset."""
    if not tried:
        return "\nRows  no query of an existing dataset changes.\n"
    lines = [f"\nRows  over the last {rows:,} of each input, the query in force and the new one:"]
    for each in tried:
        lines += _dataset(each)
    return "\n".join(lines) + "\n"


def _dataset(tried: RowsTried) -> Iterator[str]:
    if tried.unknown is not None:
        yield f"  ? {tried.dataset}  {printable(tried.unknown)}"
        return
    gone, come = (sum(times for _, times in part) for part in (tried.gone, tried.come))
    if not gone and not come:
        yield f"  = {tried.dataset}  the same rows of {tried.read:,} read"
        return
    yield f"  ~ {tried.dataset}  -{gone:,} +{come:,} rows of {tried.read:,} read"
    yield from islice(_rows("-", tried.gone), _MOST)
    yield from islice(_rows("+", tried.come), _MOST)
    left = max(0, len(tried.gone) - _MOST) + max(0, len(tried.come) - _MOST)
    if left:
        yield f"      {left:,} more"


def _rows(sign: str, rows: Sequence[tuple[Mapping[str, str], int]]) -> Iterator[str]:
    for row, times in rows:
        values = ", ".join(f"{name}={value}" for name, value in row.items())
        often = f"  ({abs(times)} times)" if abs(times) > 1 else ""
        yield f"      {sign} {printable(values)}{often}"


_WHOLE = PlanScope()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What was asked of `plan`.

    `scope` is what is planned, `out` is where the plan is saved, `reports` are texts of the form
    FMT=FILE, `changes_exit` says by the exit code whether there are changes.  `tried` is over how
    many of the newest rows changed queries are run, None for none: that starts an engine.
    """

    scope: PlanScope = _WHOLE
    output: PlanFormat = PlanFormat.TEXT
    out: Path | None = None
    reports: tuple[str, ...] = ()
    max_bytes: int = MAX_BYTES
    changes_exit: bool = False
    explain: bool = False
    blocks: bool = False
    every: bool = False
    tried: int | None = None

    @property
    def is_repeatable(self) -> bool:
        """Say whether what is printed is all that comes of it, and depends on the plan alone."""
        return self.out is None and not self.reports and self.tried is None and self.scope.is_plain

    @property
    def is_brief(self) -> bool:
        """Say whether one line is enough when nothing changed."""
        return self.is_repeatable and self.output is PlanFormat.TEXT


def plan(
    given: ProjectArguments,
    select: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SEL]...",
            help="Datasets, by name or selector: +name includes its inputs, name+ its readers.",
            autocompletion=complete_names,
        ),
    ] = None,
    exclude: PlanExclude = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="git:REV",
            help="Compare with the project in a git revision, without a workspace.",
        ),
    ] = None,
    gate: Gate = "default",
    allow: Allow = None,
    metadata_only: MetadataOnly = False,
    refresh: Annotated[
        Literal["auto", "off", "all"],
        typer.Option(
            "--refresh",
            help="What is checked for new data: local sources (auto), nothing (off), or also "
            "repositories of inputs (all).",
        ),
    ] = "auto",
    offline: PlanOffline = False,
    output: PlanOutput = PlanFormat.TEXT,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Save the plan for `apply FILE`.")
    ] = None,
    report: Annotated[
        list[str] | None,
        typer.Option(
            "--report",
            metavar="FMT=FILE",
            help="Also write the plan in another format; may be repeated.",
        ),
    ] = None,
    max_bytes: MaxBytes = MAX_BYTES,
    detailed_exitcode: Annotated[
        bool,
        typer.Option("--detailed-exitcode", help="Exit with 2 if there are changes."),
    ] = False,
    data_diff: Annotated[
        int | None,
        typer.Option(
            "--data-diff",
            metavar="N",
            min=1,
            help="Run changed queries over the last N rows of each input, and show which result "
            "rows differ. Starts an engine.",
        ),
    ] = None,
    engine: Annotated[
        bool,
        typer.Option(
            "--engine",
            help="Check new and changed queries with the engine, as apply does first. Starts an "
            "engine.",
        ),
    ] = False,
    explain: Explain = False,
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="Also list each dataset that only has new data, even if there are many."
        ),
    ] = False,
    verbose: Verbose = False,
) -> int:
    """Show what would be appended, what would run, and why. Changes nothing."""
    scope = PlanScope(
        select=tuple(select or ()),
        exclude=tuple(exclude or ()),
        gate=gate,
        allow=tuple(allow or ()),
        metadata_only=metadata_only,
        refresh=refresh != "off",
        repositories=_looking(refresh, out, offline=offline),
        against=against,
        engine=engine,
    )
    options = PlanOptions(
        scope=scope,
        output=output,
        out=out,
        reports=tuple(report or ()),
        max_bytes=max_bytes,
        changes_exit=detailed_exitcode,
        explain=explain,
        blocks=verbose,
        every=every,
        tried=data_diff,
    )
    return show_plan(given, options)


def _looking(refresh: str, out: Path | None, *, offline: bool) -> LookMode | None:
    """Say whether repositories are asked: for a plan that is to be carried out, they are."""
    if offline:
        return "offline"
    return "look" if refresh == "all" or out is not None else None


def show_plan(given: ProjectArguments, options: PlanOptions) -> int:
    """Print the plan, save it and write its reports; nothing else is changed."""
    reports = parse_reports(options.reports)
    _refuse_format(options)
    settings = PlanFormatOptions(
        max_bytes=options.max_bytes,
        colour=wants_colour(),
        explain=options.explain,
        blocks=options.blocks,
        every=options.every,
    )
    from odfbuild.state.memory.plans import CommandOutput

    def project_and_plan() -> tuple[app.Opened, app.PlanResult | CommandOutput]:
        nonlocal settings
        project = open_given(given, offline=options.scope.repositories == "offline")
        settings = replace(settings, root=project.root)
        found = app.changes_since_plan(project) if options.is_repeatable else None
        part = found.part if isinstance(found, app.UnchangedPlan) else found
        said = (
            _remembered_output(found, options, settings)
            if isinstance(found, app.UnchangedPlan)
            else None
        )
        made = app.partial_plan(project, part) if said is None and part is not None else said
        return project, scoped_plan(project, options.scope) if made is None else made

    try:
        project, made = retry_if_changed(project_and_plan)
        if isinstance(made, CommandOutput):
            sys.stdout.write(_shown(made.text, options))
            return made.code
        report_notes(made.notes)
        if options.out is not None and made.left_out:
            raise _HalfAPlanErrors(reasons(made.left_out))
        plan = _save(made.plan, project, options)
    except OdfBuildError as error:
        wrong = with_all_problems(given, error, options.scope.against)
        found = wrong.diagnostics()
        write_reports(reports, lambda output: problems_output(found, output, settings))
        with as_it_is(options.output is PlanFormat.GITHUB):
            sys.stdout.write(problems_output(found, options.output, settings))
        raise wrong from None
    plan = with_left_out(plan, made.left_out)
    write_reports(reports, lambda output: plan_output(plan, output, settings))
    text, code = plan_output(plan, options.output, settings), _code(plan, options)
    if made.known is not None and options.is_repeatable:
        made.known.keep(_question(options, settings), code, text)
    with as_it_is(options.output is PlanFormat.GITHUB):
        sys.stdout.write(_shown(text, options))
    if options.tried is not None:
        _try(project, plan, options.tried)
    return code


def _shown(text: str, options: PlanOptions) -> str:
    """Return the output of a plan as it is shown."""
    is_prose = options.output is PlanFormat.TEXT and not options.blocks
    return folded(text) if is_prose else text


class _HalfAPlanErrors(ProjectErrors):
    """What is wrong with the datasets that a plan leaves out, which is not kept then."""


def _refuse_format(options: PlanOptions) -> None:
    if options.tried is not None and (
        options.output is not PlanFormat.TEXT or options.scope.against is not None
    ):
        raise UsageRefusedError(
            what="--data-diff needs the text of a plan against the workspace",
            why="the comparison of rows is not part of the plan itself",
            fix="omit -o and --against, or --data-diff",
        )


def _try(project: app.Opened, plan: Plan, rows: int) -> None:
    """Say which rows changed queries would make otherwise."""
    from odfbuild.app.inspection.trial import try_queries

    sys.stdout.write(tried_text(try_queries(project, plan, rows), rows))


def idle_text(datasets: int) -> str:
    """Return the line for a project that has nothing to do."""
    from odfbuild.cli.render.plan import no_changes

    return f"{no_changes(datasets)}\n"


def _remembered_output(
    known: app.UnchangedPlan, options: PlanOptions, settings: PlanFormatOptions
) -> CommandOutput | None:
    """Return what was said of the same plan before, if that is known."""
    if known.idle and options.is_brief:
        from odfbuild.state.memory.plans import CommandOutput

        return CommandOutput(exits.DONE, idle_text(known.datasets))
    return known.answer(_question(options, settings))


def _question(options: PlanOptions, settings: PlanFormatOptions) -> str:
    """Return all that the answer depends on, beside the plan."""
    return f"{options}\n{settings}\n{columns(10_000)}"


def _save(plan: Plan, project: app.Opened, options: PlanOptions) -> Plan:
    if options.out is None:
        return plan
    from odfbuild.cli.saved import save_plan, with_git

    plan = with_git(plan, project.root)
    save_plan(plan, options.out)
    return plan


def _code(plan: Plan, options: PlanOptions) -> int:
    """Return the exit code, the one of apply if that does nothing; sources to ask are no change."""
    if plan.verdict.errors:
        return exits.ERROR
    if not plan.verdict.passed:
        return exits.REFUSED
    return exits.CHANGES if options.changes_exit and plan.has_changes else exits.DONE
