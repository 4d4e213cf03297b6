"""odfbuild undo: say where heads go back to and who diverges, ask, and do it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild.app.undo import prepare_undo, take_back
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import Busy, DryRun, LockTimeout, OnBusy, Out, TextFormat, Yes
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.consent import confirm, refuse_unplanned
from odfbuild.cli.render.words import count
from odfbuild.cli.reservation import reservation
from odfbuild.cli.saved import print_saved, save_nothing, save_plan
from odfbuild.executors.runs.record import RunRequest
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild import app
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.planner.maintenance.undo import Undo


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoOptions:
    """What was asked of `undo`."""

    out: Path | None = None
    dry_run: bool = False
    yes: bool = False
    as_json: bool = False
    lock_timeout: float = 10.0
    on_busy: str = OnBusy.WAIT


def undo(
    given: ProjectArguments,
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="The id of a run, an unambiguous part of it, or `last`."
        ),
    ],
    output: TextFormat = "text",
    dry_run: DryRun = False,
    out: Out = None,
    yes: Yes = False,
    lock_timeout: LockTimeout = 10.0,
    on_busy: Busy = OnBusy.WAIT,
) -> int:
    """Reset every dataset to its head before a run. Blocks that the run wrote are dropped."""
    options = UndoOptions(
        out=out,
        dry_run=dry_run,
        yes=yes,
        as_json=output == "json",
        lock_timeout=lock_timeout,
        on_busy=on_busy,
    )
    return undo_run(given, run, options)


def undo_run(given: ProjectArguments, run: str, options: UndoOptions) -> int:
    """Print what taking a run back does; then save it, or ask and do it."""
    project = open_given(given, lock_timeout=options.lock_timeout)
    is_dry = options.dry_run or options.out is not None
    if not is_dry:
        refuse_unplanned(project, given, "undo")
    undo = prepare_undo(project, run)
    if is_dry or not undo.steps:
        return confirm_undo(project, undo, options)
    with reservation(project, _names(undo), command="undo", on_busy=options.on_busy) as mine:
        if mine.busy:
            return exits.DONE
        again = prepare_undo(project, run) if mine.waited else undo
        return confirm_undo(project, again, options)


def _names(undo: Undo) -> set[DatasetAlias]:
    old = {each.old_name for each in undo.steps if each.old_name is not None}
    return old | {each.alias for each in undo.steps}


def confirm_undo(project: app.Opened, undo: Undo, options: UndoOptions) -> int:
    """Print what is taken back; then save it, or ask and do it."""
    print_saved(undo, as_json=options.as_json)
    if options.out is not None and undo.steps:
        save_plan(undo, options.out)
    elif options.out is not None:
        save_nothing(options.out)
    if options.dry_run or options.out is not None or not undo.steps:
        return exits.DONE
    if not options.yes:
        confirm(_command(undo))
    return _done(project, undo, as_json=options.as_json)


def apply_saved_undo(project: app.Opened, saved: Undo, on_busy: str) -> int:
    """Do exactly what was saved; StalePlanError, with nothing done, if it would now be another."""
    from odfbuild.executors.runs.definition import StalePlanError
    from odfbuild.planner.maintenance.staleness import undo_changes

    run, names = saved.run, {step.alias for step in saved.steps}
    undo = _prepare(project, run, names)
    with reservation(
        project, names | _names(undo), command=_command(undo), on_busy=on_busy
    ) as mine:
        if mine.busy:
            return exits.DONE
        undo = _prepare(project, run, names) if mine.waited else undo
        if undo != saved:
            changed = "; ".join(undo_changes(saved, undo))
            raise StalePlanError(
                what=f"undoing the run {run} would have another effect now: {changed}"
                if run is not None
                else f"retiring these datasets would have another effect now: {changed}",
                why="a saved plan can only be applied as it was reviewed",
                fix=f"save it again: odfbuild undo {run} --out FILE"
                if run is not None
                else "save it again: odfbuild retire SEL --out FILE",
            )
        print_saved(undo, as_json=False)
        return _done(project, undo, as_json=False)


def _prepare(project: app.Opened, run: str | None, names: set[DatasetAlias]) -> Undo:
    if run is not None:
        return prepare_undo(project, run)
    from odfbuild.app.undo import prepare_retirement

    return prepare_retirement(project, names & project.workspace.states().keys())


def _command(undo: Undo) -> str:
    return "retire" if undo.run is None else "undo"


def _done(project: app.Opened, undo: Undo, *, as_json: bool) -> int:
    begun: list[str] = []
    asking = RunRequest(command=_command(undo), follows=undo.run, began=begun.append)
    take_back(project, undo, asking)
    out = sys.stderr if as_json else sys.stdout
    word, again = ("reset", "restores them") if undo.run else ("retired", "brings them back")
    forth = f"; odfbuild undo {begun[0]} {again}, until gc" if begun else ""
    out.write(f"\nDone: {count(len(undo.steps), 'dataset')} {word}{forth}.\n")
    return exits.DONE
