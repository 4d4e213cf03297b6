"""Placement of the steps of a project: which are carried out elsewhere, and what jobs left."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from odfbuild.errors import Diagnostic
from odfbuild.planner.declared import Declared
from odfbuild.project.opened import Opened

if TYPE_CHECKING:
    from odfbuild.executors.engine.contract.job.steps import Placement


def step_placement(
    project: Opened, declared: Sequence[Declared] | None = None
) -> "Placement | None":
    """Return where steps are carried out, by the definitions as they are; None if all are here.

    `declared` are the definitions, if they were read.  Raises NotPermittedError, and ProjectErrors
    if they cannot be read: then nobody knows where a step belongs.
    """
    if all(each.steps is None for each in project.config.engines.values()):
        return None
    from odfbuild.app.load_project import load
    from odfbuild.executors.engine.contract.job.steps import placement_of

    known = load(project, partly=True).declared if declared is None else declared
    return placement_of(project, lambda: {each.alias: each.traits.tags for each in known})


def kept_jobs() -> tuple[Diagnostic, ...]:
    """Return warnings of jobs that a store did not let odfbuild delete."""
    if "odfbuild.executors.engine.objects.leftovers" not in sys.modules:  # there was no job
        return ()
    from odfbuild.executors.engine.objects import leftovers

    return leftovers.kept_jobs()
