"""Print again what `undo`, `reset`, `compact` and `rebuild` saved, stale or not."""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from odfbuild.cli.arguments.context import Given
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.exits import UsageRefusedError
from odfbuild.cli.render.diagnostics import render_diagnostic
from odfbuild.cli.render.maintenance import plan_lines, several_lines, undo_lines
from odfbuild.cli.terminal.console import printable, printable_json
from odfbuild.errors import Diagnostic, Level, ProjectError
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.planner.maintenance.batch import SEVERAL
from odfbuild.planner.maintenance.read import (
    housekeeping_from_json,
    housekeeping_plan_from_json,
    is_housekeeping,
    is_undo,
    undo_from_json,
)
from odfbuild.planner.maintenance.rewrite import Housekeeping


def goes_back(document: object) -> bool:
    """Say whether a saved plan is one of these, and none of `plan`."""
    return is_undo(document) or is_housekeeping(document)


def show_going_back(given: Given, document: Mapping[str, Any], output: str) -> None:
    """Print what a saved plan says; a warning says if it is stale.

    Raises UsageRefusedError where it has no such format, PlanVersionError, DamagedPlanError.
    """
    if output not in ("text", "json"):
        raise UsageRefusedError(
            what=f"a plan that goes back is not printed as {output}",
            why="it has neither a gate nor findings",
            fix="take -o text or -o json",
        )
    if is_undo(document):
        undo = undo_from_json(document)
        lines, target = undo_lines(undo), undo.target
        heads = {each.id: each.expected for each in undo.steps}
    else:
        steps: tuple[Housekeeping, ...]
        if document.get("work") == SEVERAL:
            several = housekeeping_plan_from_json(document)
            lines, steps = several_lines(several), several.steps
        else:
            steps = (housekeeping_from_json(document),)
            lines = plan_lines(steps[0])
        target = steps[0].target
        heads = {step.id: step.based_on for step in steps}
    for line in _stale(given, target, heads):
        sys.stderr.write(f"{line}\n")
    if output == "json":
        sys.stdout.write(printable_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n")
    else:
        sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))


def _stale(given: Given, target: str, heads: Mapping[DatasetId, Multihash | None]) -> Iterator[str]:
    """Yield a warning where datasets moved; a plan can be looked at anywhere."""
    try:
        workspace = open_given(replace(given, target=given.target or target)).workspace
    except ProjectError:
        return
    now = workspace.heads()
    if workspace.root.exists() and any(now.get(id) != head for id, head in heads.items()):
        yield render_diagnostic(
            Diagnostic(
                code="stale-plan",
                what="the plan is stale: datasets moved since it was made",
                why="apply would refuse it, with nothing done",
                fix="save it again",
                level=Level.WARNING,
            )
        )
