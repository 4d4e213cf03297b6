"""The verbs: short functions that wire the edges to the core; each is imported when first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odfbuild.app.applying import apply
    from odfbuild.app.idle import Unchanged, unchanged
    from odfbuild.app.opened import Opened, find_dataset, find_name, open_project
    from odfbuild.app.planning import make

__all__ = [
    "Opened",
    "Unchanged",
    "apply",
    "find_dataset",
    "find_name",
    "make",
    "open_project",
    "unchanged",
]

_HOMES = {
    "Opened": "opened",
    "Unchanged": "idle",
    "apply": "applying",
    "find_dataset": "opened",
    "find_name": "opened",
    "make": "planning",
    "open_project": "opened",
    "unchanged": "idle",
}


def __getattr__(name: str) -> Any:
    """Import what a name stands for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
