"""odfbuild init."""

import sys
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from odfbuild.cli import exits
from odfbuild.errors import ProjectError

__all__ = ["AlreadyThereError", "init_project"]


class AlreadyThereError(ProjectError):
    """A file that init would write is there already."""

    code = "already-there"


def init_project(directory: Path) -> int:
    """Copy the project template into a folder, over nothing that is there."""
    files = sorted(_files(_template(), ""))
    taken = next((name for name, _ in files if (directory / name).exists()), None)
    if taken is not None:
        raise AlreadyThereError(
            what=f"{directory / taken} is there already",
            why="init overwrites nothing",
            fix="choose another folder: odfbuild init DIR",
        )
    for name, source in files:
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
        sys.stdout.write(f"  {target}\n")
    where = "" if directory == Path() else f"cd {directory}; "
    sys.stdout.write(f"Next: {where}odfbuild plan\n")
    return exits.DONE


def _template() -> Traversable:
    """Return the template: from the wheel, or from the source tree of an editable install."""
    packaged = resources.files("odfbuild") / "_data" / "project_template"
    if packaged.is_dir():
        return packaged
    return Path(__file__).parents[2] / "project_template"


def _files(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found = []
    for each in folder.iterdir():
        name = prefix + each.name
        if each.is_dir():
            found += _files(each, f"{name}/")
        elif not each.name.endswith(".pyc"):
            found.append((name, each))
    return found
