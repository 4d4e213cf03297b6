"""Placement of the steps of a project: which are carried out elsewhere, and what jobs left."""

import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from odfbuild.errors import Diagnostic, ProjectErrors
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.project.opened import Opened

if TYPE_CHECKING:
    from odfbuild.executors.engine.contract.job.steps import Placement


def step_placement(
    project: Opened, declared: Sequence[Declared] | None = None
) -> "Placement | None":
    """Return where steps are carried out, by the definitions as they are; None if all are here.

    `declared` are the definitions, if they were read.  Raises NotPermittedError.
    """
    if all(each.steps is None for each in project.config.engines.values()):
        return None
    from odfbuild.app.load_project import load
    from odfbuild.executors.engine.contract.job.steps import placement_of

    def tags() -> Mapping[DatasetAlias, Collection[str]]:
        known = declared
        if known is None:
            with suppress(ProjectErrors):  # they may be broken by now
                known = load(project, partly=True).declared
        return {each.alias: each.traits.tags for each in known or ()}

    return placement_of(project, tags)


def kept_jobs() -> tuple[Diagnostic, ...]:
    """Return warnings of jobs that a store did not let odfbuild delete."""
    if "odfbuild.executors.engine.objects.leftovers" not in sys.modules:  # there was no job
        return ()
    from odfbuild.executors.engine.objects import leftovers

    return leftovers.kept_jobs()
