"""Files that come with the program: from the wheel, or the source tree of an editable install."""

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

__all__ = ["json_schemas", "packaged"]


def packaged(name: str) -> Traversable:
    """Return a file or folder by its path in the repository."""
    inside = resources.files("odfbuild") / "_data"
    root: Traversable = inside if inside.is_dir() else Path(__file__).parents[2]
    for part in name.split("/"):
        root = root / part
    return root


def json_schemas() -> dict[str, Traversable]:
    """Return the JSON Schemas by kind: those of ODF, plans, settings, policies and tests."""
    found = {
        each.name.removesuffix(".schema.json"): each for each in packaged("schemas/json").iterdir()
    }
    return {
        **dict(sorted(found.items())),
        "Plan": packaged("schemas/plan.schema.json"),
        "Project": packaged("schemas/project.schema.json"),
        "Policy": packaged("schemas/policy.schema.json"),
        "UnitTest": packaged("schemas/unit-test.schema.json"),
        "DataTest": packaged("schemas/data-test.schema.json"),
    }
