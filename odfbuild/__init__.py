"""Dataset-as-code: plan and build Open Data Fabric datasets with Spark.

The whole API of the package: open a project, plan it, apply that plan, push data, verify what was
built, and read it.
What a name stands for is imported when it is first used, because starting fast is a feature.

    project = odfbuild.open_project(Path("my-project"))
    plan = odfbuild.plan(project)
    report = odfbuild.apply(project, plan)
    table = project.dataset("shop.prices").read()
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from odfbuild.app import Pusher, apply, find_dataset, push
    from odfbuild.app import make as plan
    from odfbuild.app.inspection.built_dataset import BuiltDataset
    from odfbuild.app.inspection.data_project import DataProject, open_project, read
    from odfbuild.errors import (
        EngineError,
        OdfBuildError,
        PlanError,
        ProjectError,
        ProjectErrors,
        ProtocolError,
        StateError,
    )
    from odfbuild.executors.ingest.push.push import Pushed
    from odfbuild.executors.verify.chain import verify
    from odfbuild.project.load import load_project


__all__ = [
    "BuiltDataset",
    "DataProject",
    "EngineError",
    "OdfBuildError",
    "PlanError",
    "ProjectError",
    "ProjectErrors",
    "ProtocolError",
    "Pushed",
    "Pusher",
    "StateError",
    "__version__",
    "apply",
    "find_dataset",
    "load_project",
    "open_project",
    "plan",
    "push",
    "read",
    "verify",
]

_HOMES = {
    "BuiltDataset": ("odfbuild.app.inspection.built_dataset", "BuiltDataset"),
    "DataProject": ("odfbuild.app.inspection.data_project", "DataProject"),
    "Pushed": ("odfbuild.executors.ingest.push.push", "Pushed"),
    "Pusher": ("odfbuild.app", "Pusher"),
    "apply": ("odfbuild.app", "apply"),
    "find_dataset": ("odfbuild.app", "find_dataset"),
    "load_project": ("odfbuild.project.load", "load_project"),
    "open_project": ("odfbuild.app.inspection.data_project", "open_project"),
    "plan": ("odfbuild.app", "make"),
    "push": ("odfbuild.app", "push"),
    "read": ("odfbuild.app.inspection.data_project", "read"),
    "verify": ("odfbuild.executors.verify.chain", "verify"),
}


def __getattr__(name: str) -> Any:
    """Import what a public name stands for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES.get(name, ("odfbuild.errors", name))
    found = getattr(import_module(module), attribute)
    globals()[name] = found
    return found
