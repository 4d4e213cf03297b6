"""odfbuild retire: say what is taken away and what stays, ask, and do it."""

from __future__ import annotations

from collections.abc import Sequence

from odfbuild.app.undo import prepare_retirement
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import (
    Busy,
    DryRun,
    Exclude,
    ExistingSelection,
    LockTimeout,
    OnBusy,
    Out,
    TextFormat,
    Yes,
)
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.arguments.selection import chosen_existing
from odfbuild.cli.commands.apply.undo import UndoOptions, confirm_undo
from odfbuild.cli.consent import refuse_unplanned
from odfbuild.cli.reservation import reservation


def retire(
    given: ProjectArguments,
    selection: ExistingSelection,
    exclude: Exclude = None,
    output: TextFormat = "text",
    dry_run: DryRun = False,
    out: Out = None,
    yes: Yes = False,
    lock_timeout: LockTimeout = 10.0,
    on_busy: Busy = OnBusy.WAIT,
) -> int:
    """Remove datasets that are no longer declared. Their files stay until gc."""
    options = UndoOptions(
        out=out,
        dry_run=dry_run,
        yes=yes,
        as_json=output == "json",
        lock_timeout=lock_timeout,
        on_busy=on_busy,
    )
    return retire_selected(given, selection, exclude or [], options)


def retire_selected(
    given: ProjectArguments, selectors: Sequence[str], exclude: Sequence[str], options: UndoOptions
) -> int:
    """Print what retiring datasets takes away; then save it, or ask and do it."""
    project = open_given(given, lock_timeout=options.lock_timeout)
    is_dry = options.dry_run or options.out is not None
    if not is_dry:
        refuse_unplanned(project, given, "retire")
    names = chosen_existing(project, selectors, exclude)
    undo = prepare_retirement(project, names)
    if is_dry or not undo.steps:
        return confirm_undo(project, undo, options)
    with reservation(project, names, command="retire", on_busy=options.on_busy) as mine:
        names -= mine.busy
        if mine.waited or mine.busy:
            undo = prepare_retirement(project, names & project.workspace.names().keys())
        return confirm_undo(project, undo, options) if undo.steps else exits.DONE
