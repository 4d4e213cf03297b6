"""The verbs: short functions that wire the edges to the core; each is imported when first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odfbuild.app.apply_plan import apply
    from odfbuild.app.load_project import load, load_at, locked_schemas
    from odfbuild.app.plan.cache import Part, UnchangedPlan, changes_since_plan, unchanged_plan
    from odfbuild.app.plan.make_plan import PlanRequest, PlanResult, make, plan_result
    from odfbuild.app.plan.part import partial_plan
    from odfbuild.app.plan.remote_inputs import pin_inputs, with_pins
    from odfbuild.app.push_rows import Pusher, push
    from odfbuild.project.opened import Opened, find_dataset, find_name, open_project


__all__ = [
    "Opened",
    "Part",
    "PlanRequest",
    "PlanResult",
    "Pusher",
    "UnchangedPlan",
    "apply",
    "changes_since_plan",
    "find_dataset",
    "find_name",
    "load",
    "load_at",
    "locked_schemas",
    "make",
    "open_project",
    "partial_plan",
    "pin_inputs",
    "plan_result",
    "push",
    "unchanged_plan",
    "with_pins",
]

_HOMES = {
    "PlanResult": "odfbuild.app.plan.make_plan",
    "Opened": "odfbuild.project.opened",
    "Part": "odfbuild.app.plan.cache",
    "PlanRequest": "odfbuild.app.plan.make_plan",
    "Pusher": "odfbuild.app.push_rows",
    "UnchangedPlan": "odfbuild.app.plan.cache",
    "apply": "odfbuild.app.apply_plan",
    "find_dataset": "odfbuild.project.opened",
    "find_name": "odfbuild.project.opened",
    "load": "odfbuild.app.load_project",
    "load_at": "odfbuild.app.load_project",
    "locked_schemas": "odfbuild.app.load_project",
    "changes_since_plan": "odfbuild.app.plan.cache",
    "partial_plan": "odfbuild.app.plan.part",
    "make": "odfbuild.app.plan.make_plan",
    "plan_result": "odfbuild.app.plan.make_plan",
    "open_project": "odfbuild.project.opened",
    "pin_inputs": "odfbuild.app.plan.remote_inputs",
    "push": "odfbuild.app.push_rows",
    "unchanged_plan": "odfbuild.app.plan.cache",
    "with_pins": "odfbuild.app.plan.remote_inputs",
}


def __getattr__(name: str) -> Any:
    """Import what a name stands for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found
