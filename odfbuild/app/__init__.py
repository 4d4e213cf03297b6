"""The verbs: short functions that wire the edges to the core; each is imported when first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odfbuild.app.applying import apply
    from odfbuild.app.idle import Known, known
    from odfbuild.app.loading import load, load_at, locked_schemas
    from odfbuild.app.opened import Opened, find_dataset, find_name, open_project
    from odfbuild.app.planning import Asked, Made, make, make_whole
    from odfbuild.app.pushing import Pusher, push

__all__ = [
    "Asked",
    "Known",
    "Made",
    "Opened",
    "Pusher",
    "apply",
    "find_dataset",
    "find_name",
    "known",
    "load",
    "load_at",
    "locked_schemas",
    "make",
    "make_whole",
    "open_project",
    "push",
]

_HOMES = {
    "Asked": "odfbuild.app.planning",
    "Known": "odfbuild.app.idle",
    "Made": "odfbuild.app.planning",
    "Opened": "odfbuild.app.opened",
    "Pusher": "odfbuild.app.pushing",
    "apply": "odfbuild.app.applying",
    "find_dataset": "odfbuild.app.opened",
    "find_name": "odfbuild.app.opened",
    "known": "odfbuild.app.idle",
    "load": "odfbuild.app.loading",
    "load_at": "odfbuild.app.loading",
    "locked_schemas": "odfbuild.app.loading",
    "make": "odfbuild.app.planning",
    "make_whole": "odfbuild.app.planning",
    "open_project": "odfbuild.app.opened",
    "push": "odfbuild.app.pushing",
}


def __getattr__(name: str) -> Any:
    """Import what a name stands for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found
