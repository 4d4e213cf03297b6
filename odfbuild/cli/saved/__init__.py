"""Saved plans: written whole, read strictly, printed in any format, stale or not."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from odfbuild import app
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import Given
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.exits import UsageRefusedError
from odfbuild.cli.files import read_bounded, write_output
from odfbuild.cli.formats.outputs import Manner, Output, plan_output
from odfbuild.cli.terminal.streams import as_it_is
from odfbuild.errors import Diagnostic, Level, ProjectError
from odfbuild.host.json_text import parse_json
from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import GitState, Plan
from odfbuild.planner.plan.read import DamagedPlanError, NotAPlanError
from odfbuild.planner.plan.write import canonical, from_json, to_json

MAX_BYTES = 1 << 30
_NAMED = 5


def save_plan(plan: Plan, path: Path) -> None:
    """Write a plan to a file at once, in the place of what was there."""
    write_output(path, f"{canonical(to_json(plan))}\n")


def load_saved(path: Path) -> Plan:
    """Return the plan in a file, of standard input if it is named `-`.

    Raises NotAPlanError, PlanVersionError, DamagedPlanError; OSError when it cannot be read.
    """
    return from_json(load_document(path))


def load_document(path: Path) -> Any:
    """Return the JSON document in a file, whatever it holds.  Raises as `load_saved` does."""
    data = read_bounded(path, MAX_BYTES)
    try:
        return parse_json(data)
    except ValueError as error:
        if data.lstrip()[:1] == b"{" and b'"format_version"' in data:
            raise DamagedPlanError.at(str(path), "it is no whole JSON document") from error
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
            what=f"no file named '{path}'",
            why="apply takes the file of a saved plan",
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


def show_saved(given: Given, path: Path, output: Output, manner: Manner) -> int:
    """Print a saved plan; when datasets moved since, a warning says so."""
    from odfbuild.cli.saved.maintenance import goes_back, show_going_back

    document = load_document(path)
    if goes_back(document):
        show_going_back(given, document, output.value)
        return exits.DONE
    plan = from_json(document)
    project = _project_of(given, plan)
    if project is not None:
        manner = replace(manner, root=project.root)
        _warn_of_moves(plan, project)
    with as_it_is(output is Output.GITHUB):
        sys.stdout.write(plan_output(plan, output, manner))
    return exits.DONE


def moved_datasets(plan: Plan, heads: Mapping[DatasetAlias, Multihash]) -> tuple[DatasetAlias, ...]:
    """Return the datasets that are not where the plan found them, in the plan's order."""
    return tuple(
        alias
        for alias, planned in plan.datasets.items()
        if heads.get(planned.moved_from or alias)
        != (None if planned.based_on is None else planned.based_on.head)
    )


def _project_of(given: Given, plan: Plan) -> app.Opened | None:
    """Return the project where the command is run, with the plan's target; None if there is none.

    A plan can be looked at anywhere.
    """
    try:
        return open_given(replace(given, target=given.target or plan.target))
    except ProjectError:
        return None


def _warn_of_moves(plan: Plan, project: app.Opened) -> None:
    if plan.against is not None or not project.workspace.root.exists():
        return
    moved = moved_datasets(plan, project.workspace.named_heads())
    if not moved:
        return
    from odfbuild.cli.render.diagnostics import render_diagnostic

    shown = ", ".join(map(str, moved[:_NAMED]))
    more = f" and {len(moved) - _NAMED:,} more" if len(moved) > _NAMED else ""
    warning = Diagnostic(
        code="stale-plan",
        what=f"the plan is stale: {shown}{more} moved since it was made",
        why="apply would refuse it, with nothing done",
        fix="plan again",
        level=Level.WARNING,
    )
    sys.stderr.write(render_diagnostic(warning) + "\n")
