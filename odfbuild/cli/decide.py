"""odfbuild plan."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from odfbuild import app
from odfbuild.cli import exits
from odfbuild.cli.opened import open_given
from odfbuild.cli.options import Given
from odfbuild.cli.outputs import (
    MAX_BYTES,
    Manner,
    Output,
    parse_reports,
    plan_output,
    problems_output,
    wants_colour,
    write_reports,
)
from odfbuild.errors import OdfBuildError

if TYPE_CHECKING:
    from odfbuild.planner.plan import Plan

__all__ = ["PlanOptions", "no_changes", "show_plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What was asked of `plan`.

    `out` is where the plan is saved, `reports` are texts of the form FMT=FILE, `changes_exit` says
    by the exit code whether there are changes.
    """

    output: Output = Output.TEXT
    out: Path | None = None
    reports: tuple[str, ...] = ()
    max_bytes: int = MAX_BYTES
    changes_exit: bool = False
    explain: bool = False
    blocks: bool = False

    @property
    def is_brief(self) -> bool:
        """Say whether one line is enough when nothing changed."""
        return self.output is Output.TEXT and self.out is None and not self.reports


def show_plan(given: Given, options: PlanOptions) -> int:
    """Print the plan, save it and write its reports; nothing else is changed."""
    reports = parse_reports(options.reports)
    manner = Manner(
        max_bytes=options.max_bytes,
        colour=wants_colour(),
        explain=options.explain,
        blocks=options.blocks,
    )
    try:
        project = open_given(given)
        manner = replace(manner, root=project.root)
        quick = app.unchanged(project) if options.is_brief else None
        if quick is not None:
            sys.stdout.write(no_changes(quick.datasets))
            return exits.DONE
        plan = _made(project, options)
    except OdfBuildError as error:
        found = error.diagnostics()
        write_reports(reports, lambda output: problems_output(found, output, manner))
        sys.stdout.write(problems_output(found, options.output, manner))
        raise
    write_reports(reports, lambda output: plan_output(plan, output, manner))
    sys.stdout.write(plan_output(plan, options.output, manner))
    return _code(plan, options)


def no_changes(datasets: int) -> str:
    """Return the line for a project that has nothing to do."""
    from odfbuild.cli.words import no_changes as said

    return f"{said(datasets)}\n"


def _made(project: app.Opened, options: PlanOptions) -> "Plan":
    plan = app.make(project)
    if options.out is None:
        return plan
    from odfbuild.cli.saved import save_plan, with_git

    plan = with_git(plan, project.root)
    save_plan(plan, options.out)
    return plan


def _code(plan: "Plan", options: PlanOptions) -> int:
    """Return the exit code; that sources have to be asked is no change."""
    if not plan.verdict.passed:
        return exits.REFUSED
    return exits.CHANGES if options.changes_exit and not plan.is_empty else exits.DONE
