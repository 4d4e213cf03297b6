"""odfbuild plan."""

import json
import sys

from odfbuild import app
from odfbuild.cli import exits
from odfbuild.cli.opened import open_given
from odfbuild.cli.options import Given

__all__ = ["no_changes", "show_plan"]


def show_plan(given: Given, *, as_json: bool, verbose: bool) -> int:
    """Print the plan; nothing is changed."""
    project = open_given(given)
    quick = None if as_json else app.unchanged(project)
    if quick is not None:
        sys.stdout.write(no_changes(quick.datasets))
        return exits.DONE
    plan = app.make(project)
    if as_json:
        from odfbuild.planner.plan_json import to_json

        sys.stdout.write(json.dumps(to_json(plan), indent=2, ensure_ascii=False) + "\n")
        return exits.DONE
    from odfbuild.cli.render import blocks_text, plan_text

    sys.stdout.write(plan_text(plan))
    if verbose:
        sys.stdout.write(blocks_text(plan))
    return exits.DONE


def no_changes(datasets: int) -> str:
    """Return the line for a project that has nothing to do."""
    noun = "dataset matches" if datasets == 1 else "datasets match"
    return f"No changes. {datasets:,} {noun} the project.\n"
