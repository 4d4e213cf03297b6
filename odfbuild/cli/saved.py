"""Saved plans of every kind: written at once, read strictly, printed, and whether they fit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.files import read_bounded, write_output
from odfbuild.cli.formats.outputs import PlanFormat, PlanFormatOptions, plan_output
from odfbuild.cli.terminal.folds import folded
from odfbuild.cli.terminal.streams import as_it_is
from odfbuild.errors import (
    Diagnostic,
    Level,
    OdfBuildError,
    PlanError,
    ProjectError,
    UsageRefusedError,
)
from odfbuild.host.json_text import parse_json
from odfbuild.planner.plan import GitState, Plan
from odfbuild.planner.saved import (
    SavedPlan,
    canonical,
    from_json,
    moved_datasets,
    plan_from_json,
    to_json,
)
from odfbuild.planner.saved.codec import DamagedPlanError, NotAPlanError
from odfbuild.project.files.checkout import refuse_links

if TYPE_CHECKING:
    from odfbuild import app
    from odfbuild.odf.identity import Multihash
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.planner.maintenance.batch import HousekeepingPlan
    from odfbuild.planner.maintenance.undo import Undo

MAX_BYTES = 1 << 30
_NAMED = 5


def save_plan(plan: SavedPlan, path: Path) -> None:
    """Write a plan to a file at once, in the place of what was there."""
    write_output(path, f"{canonical(to_json(plan))}\n")


def save_nothing(path: Path) -> None:
    """Say that no plan is saved; one that was saved there before is no answer, and is removed."""
    refuse_links(path)
    try:
        load_saved(path)
    except (OSError, OdfBuildError):
        removed = ""
    else:
        path.unlink()
        removed = "; it held another plan, which is removed"
    sys.stderr.write(f"{path} is not written, as there is nothing to apply{removed}.\n")


def load_saved(path: Path) -> SavedPlan:
    """Return what is saved in a file, of standard input if it is named `-`.

    Raises NotAPlanError, PlanVersionError, DamagedPlanError; OSError when it cannot be read.
    """
    return from_json(_document(path))


def load_plan(path: Path) -> Plan:
    """Return the plan in a file, which holds no undo or housekeeping.  Raises as `load_saved`."""
    return plan_from_json(_document(path))


def _document(path: Path) -> Any:
    data = read_bounded(path, MAX_BYTES)
    try:
        return parse_json(data)
    except ValueError as error:
        if data.lstrip()[:1] == b"{" and b'_version"' in data:
            raise DamagedPlanError.at(str(path), "it is not a complete JSON document") from error
        raise NotAPlanError(
            what=f"{path} is not a saved plan",
            why="a plan is a JSON document",
            fix="name a file that `odfbuild plan --out FILE` wrote",
        ) from error


def saved_file(arguments: Sequence[str]) -> Path | None:
    """Return the file of a saved plan, if that is what the arguments name.

    Raises UsageRefusedError when they can only mean one and there is none.
    """
    if len(arguments) != 1:
        return None
    path = Path(arguments[0])
    if arguments[0] == "-" or (path.exists() and not path.is_dir()):
        return path
    if path.suffix in (".json", ".plan"):
        raise UsageRefusedError(
            what=f"there is no file '{path}'",
            why="apply reads a saved plan from a file",
            fix="check the name; `odfbuild plan --out FILE` saves a plan",
        )
    return None


def with_git(plan: Plan, root: Path) -> Plan:
    """Return the plan with the commit that the project stands on, where there is one.

    A repository that cannot be read so is a warning: the plan does not depend on it.
    """
    from odfbuild.project.git import GitError
    from odfbuild.project.git.revision import git_state

    try:
        found = git_state(root)
    except GitError as error:
        from odfbuild.cli.render.diagnostics import render_diagnostic

        for each in error.diagnostics():
            warning = replace(each, level=Level.WARNING)
            sys.stderr.write(render_diagnostic(warning) + "\n")
        return plan
    return plan if found is None else replace(plan, git=GitState(*found))


def show_saved(
    given: ProjectArguments, path: Path, output: PlanFormat, settings: PlanFormatOptions
) -> int:
    """Print a saved plan; when datasets moved since, a warning says so.

    Raises UsageRefusedError for a format that a plan of its kind does not have.
    """
    saved = load_saved(path)
    if not isinstance(saved, Plan) and output not in (PlanFormat.TEXT, PlanFormat.JSON):
        raise UsageRefusedError(
            what=f"a plan of this kind cannot be printed as {output.value}",
            why="it has neither a gate nor findings",
            fix="use -o text or -o json",
        )
    project = _project_of(given, saved)
    if project is not None:
        settings = replace(settings, root=project.root)
        _warn_of_moves(saved, project)
    if not isinstance(saved, Plan):
        print_saved(saved, as_json=output is PlanFormat.JSON)
        return exits.DONE
    with as_it_is(output is PlanFormat.GITHUB):
        text = plan_output(saved, output, settings)
        is_prose = output is PlanFormat.TEXT and not settings.blocks
        sys.stdout.write(folded(text) if is_prose else text)
    return exits.DONE


def print_saved(plan: Undo | HousekeepingPlan, *, as_json: bool) -> None:
    """Print what taking back or housekeeping will do."""
    import json

    from odfbuild.cli.render.maintenance import maintenance_lines
    from odfbuild.cli.terminal.console import printable, printable_json

    if as_json:
        text = json.dumps(to_json(plan), indent=2, ensure_ascii=False)
        sys.stdout.write(f"{printable_json(text)}\n")
    else:
        sys.stdout.write("".join(f"{printable(line)}\n" for line in maintenance_lines(plan)))
    sys.stdout.flush()


class UnfitPlanError(PlanError):
    """A saved plan is for another project, target or workspace, or for none."""

    code = "unfit-plan"


def refuse_unfit(plan: SavedPlan, project: app.Opened) -> None:
    """Refuse what was planned for another project, target or workspace, or for none at all.

    Raises UnfitPlanError.
    """
    against = getattr(plan, "against", None)
    if against is not None:
        raise UnfitPlanError(
            what=f"the plan was made against {against}, so there is nothing to apply it to",
            why="it compares two states of the project, not the project with its datasets",
            fix="plan against the workspace: odfbuild plan --out FILE",
        )
    here = {
        "project": project.config.name,
        "target": project.target,
        "workspace": project.config.target(project.target).workspace,
    }
    for word, found in here.items():
        planned = getattr(plan, word)
        if planned != found:
            raise UnfitPlanError(
                what=f"the plan is for the {word} '{planned}', but this is '{found}'",
                why="a saved plan can only be applied to what it was made for",
                fix="apply it there, or plan again here",
            )


def stale_datasets(plan: SavedPlan, project: app.Opened) -> tuple[DatasetAlias, ...]:
    """Return the datasets of a workspace that moved since a plan was saved, in its order."""
    heads: dict[Any, Multihash] = {**project.workspace.named_heads()}
    heads.update(project.workspace.heads())
    return moved_datasets(plan, heads)


def _project_of(given: ProjectArguments, plan: SavedPlan) -> app.Opened | None:
    """Return the project where the command is run, with the plan's target; None if there is none.

    A plan can be looked at anywhere.
    """
    try:
        return open_given(replace(given, target=given.target or plan.target))
    except ProjectError:
        return None


def _warn_of_moves(plan: SavedPlan, project: app.Opened) -> None:
    compared = isinstance(plan, Plan) and plan.against is not None
    if compared or not project.workspace.root.exists():
        return
    moved = stale_datasets(plan, project)
    if not moved:
        return
    from odfbuild.cli.render.diagnostics import render_diagnostic

    shown = ", ".join(map(str, moved[:_NAMED]))
    more = f" and {len(moved) - _NAMED:,} more" if len(moved) > _NAMED else ""
    warning = Diagnostic(
        code="stale-plan",
        what=f"the plan is stale: {shown}{more} changed since it was made",
        why="apply would refuse it",
        fix="plan again" if isinstance(plan, Plan) else "save it again",
        level=Level.WARNING,
    )
    sys.stderr.write(render_diagnostic(warning) + "\n")
