"""odfbuild run: take in what sources have, and derive what follows: once, or again and again."""

import sys
import time
from dataclasses import dataclass

from odfbuild import app
from odfbuild.app.running import Data, data_plan
from odfbuild.cli import exits
from odfbuild.cli.act import ApplyOptions, Running, answer_idle, carry_out
from odfbuild.cli.opened import open_given
from odfbuild.cli.options import Given
from odfbuild.cli.outputs import wants_colour
from odfbuild.cli.protected import refuse_unnamed
from odfbuild.cli.render import plan_text
from odfbuild.cli.whole import whole
from odfbuild.errors import Diagnostic, Level, ProjectErrors
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Plan
from odfbuild.planner.restrict import restrict

__all__ = ["RunOptions", "run_data"]

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
    apply: ApplyOptions = _AS_USUAL


def run_data(given: Given, options: RunOptions) -> int:
    """Run data, pass after pass as asked; return the worst exit code."""
    told: tuple[DatasetAlias, ...] | None = None
    worst = exits.DONE
    while True:
        project = open_given(given, lock_timeout=options.apply.lock_timeout)
        refuse_unnamed(project, given, "run")
        before = project.workspace.heads()
        data = _planned(given, project)
        waiting = (*data.pending, *data.missing)
        if waiting != told:
            _tell_waiting(data)
            told = waiting
        code = _pass(project, data, options)
        worst = worst if code == exits.DONE else code
        moved = project.workspace.heads() != before
        if options.until_idle and moved and code == exits.DONE:
            continue
        if options.watch is None:
            return worst
        time.sleep(options.watch)


def _planned(given: Given, project: app.Opened) -> Data:
    try:
        return data_plan(project)
    except ProjectErrors as error:
        raise whole(given, error) from None


def _pass(project: app.Opened, data: Data, options: RunOptions) -> int:
    plan = _chosen(project, data, options)
    if not plan.steps:
        if options.watch is None:
            answer_idle(project, options.apply, _IDLE, command="run")
        return exits.DONE
    if not plan.is_empty and options.apply.output == "text":
        sys.stdout.write(plan_text(plan, colour=options.apply.progress and wants_colour()))
        sys.stdout.flush()
    doing = Running(command="run", declared=data.declared, slices=options.slices)
    return carry_out(project, plan, options.apply, doing)


def _chosen(project: app.Opened, data: Data, options: RunOptions) -> Plan:
    if not options.select and not options.exclude:
        return data.plan
    from odfbuild.cli.selection import chosen

    found = chosen(project, data.declared, options.select, options.exclude, plan=lambda: data.plan)
    return restrict(data.plan, found)


def _tell_waiting(data: Data) -> None:
    from odfbuild.cli.diagnostics import render_diagnostics

    found = []
    if data.pending:
        found.append(
            _note(
                f"{_names(data.pending)}: the definition changed, and goes on as it was applied",
                "run takes data in and changes no definition",
            )
        )
    if data.missing:
        found.append(
            _note(
                f"{_names(data.missing)}: declared, and not there yet",
                "run works on the datasets that there are",
            )
        )
    if found:
        sys.stderr.write(render_diagnostics(found) + "\n")


def _note(what: str, why: str) -> Diagnostic:
    return Diagnostic(
        code="definition-waits", what=what, why=why, fix="odfbuild apply", level=Level.NOTE
    )


def _names(found: tuple[DatasetAlias, ...]) -> str:
    shown = ", ".join(map(str, found[:_NAMED]))
    return f"{shown} and {len(found) - _NAMED:,} more" if len(found) > _NAMED else shown
