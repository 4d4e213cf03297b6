"""Make plans: files and chains in, a plan out."""

from contextlib import suppress
from dataclasses import replace
from time import time_ns

from odfbuild.app.idle import engines, settled
from odfbuild.app.opened import Opened
from odfbuild.app.sources import look
from odfbuild.planner.make import make_plan, project_hash
from odfbuild.planner.plan import Plan
from odfbuild.project.fingerprint import fingerprint
from odfbuild.state.settled import record

__all__ = ["make"]


def make(project: Opened) -> Plan:
    """Load the project, look at chains and local sources, and plan.

    A plan with nothing to do, to ask or to warn of is remembered for `unchanged`.
    Raises ProjectErrors with all that is wrong.
    """
    from odfbuild.project.load import load_project

    seen = fingerprint(project.root, project.folders, now=time_ns())
    heads = project.workspace.heads()
    current = project.workspace.states()
    loaded = load_project(project.root, known={a: s.dataset for a, s in current.items()})
    sources = look(project.root, loaded.declared, current)
    plan = make_plan(
        loaded.declared,
        current=current,
        sources=sources,
        engines=engines(),
        project_hash=project_hash(loaded.declared),
    )
    plan = replace(
        plan,
        notes=(*loaded.notes, *plan.notes),
        project=project.config.name,
        target=project.target,
        workspace=project.config.target(project.target).workspace,
    )
    if not plan.steps and not loaded.notes:
        found = settled(seen, heads, loaded.declared, current)
        with suppress(OSError):  # a plan can be made where nothing may be written
            record(project.workspace.cache, found)
    return plan
