"""odfbuild init and schema."""

import sys
from importlib.resources.abc import Traversable
from pathlib import Path

from odfbuild.cli import exits
from odfbuild.cli.files import AlreadyThereError
from odfbuild.cli.packaged import json_schemas, packaged
from odfbuild.errors import OdfBuildError

__all__ = ["UnknownSchemaError", "init_project", "show_json_schema"]

EDITOR_SCHEMA = "schemas/DatasetSnapshotManifest.schema.json"


class UnknownSchemaError(OdfBuildError):
    """There is no JSON Schema of that name."""

    code = "unknown-schema"


def init_project(directory: Path) -> int:
    """Copy the project template into a folder, over nothing that is there.

    The JSON Schema that its files name for editors is laid beside them.
    """
    schema = json_schemas()["DatasetSnapshotManifest"]
    files = sorted([*_files(packaged("project_template"), ""), (EDITOR_SCHEMA, schema)], key=_name)
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


def show_json_schema(kind: str | None) -> int:
    """Print a JSON Schema as it is shipped, or the names of all."""
    from odfbuild.planner.names import did_you_mean

    known = json_schemas()
    if kind is None:
        sys.stdout.write("".join(f"{each}\n" for each in known))
        return exits.DONE
    found = {each.lower(): each for each in known}.get(kind.lower())
    if found is None:
        raise UnknownSchemaError(
            what=f"there is no schema of a {kind[:100]!r}",
            why=f"there are those of {', '.join(known)}",
            fix=did_you_mean(kind, known) or "odfbuild schema lists them",
        )
    sys.stdout.write(known[found].read_text("utf-8"))
    return exits.DONE


def _name(file: tuple[str, Traversable]) -> str:
    return file[0]


def _files(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found = []
    for each in folder.iterdir():
        name = prefix + each.name
        if each.is_dir():
            found += _files(each, f"{name}/")
        elif not each.name.endswith(".pyc"):
            found.append((name, each))
    return found
