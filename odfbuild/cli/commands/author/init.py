"""odfbuild init: the folder of a new project, with a small example in it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Final

import typer

from odfbuild import __version__
from odfbuild.cli import exits
from odfbuild.cli.files import AlreadyThereError, json_schemas, packaged
from odfbuild.errors import OdfBuildError
from odfbuild.project.files.checkout import refuse_links
from odfbuild.texts.redaction import excerpt

TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    "minimal": ("minimal",),
    "etl": ("etl",),
    "many-datasets": ("many-datasets",),
    "ci-github": ("minimal", "ci", "ci-github"),
    "ci-gitlab": ("minimal", "ci", "ci-gitlab"),
}
"""The folders that each template is made of; later ones go over earlier ones."""

DEFAULT_TEMPLATE: Final = "minimal"
_VERSION_MARK: Final = b"__ODFBUILD_VERSION__"
EDITOR_SCHEMA = "schemas/DatasetSnapshotManifest.schema.json"


class UnknownTemplateError(OdfBuildError):
    """There is no project template of that name."""

    code = "unknown-template"


class UnknownSchemaError(OdfBuildError):
    """There is no JSON Schema of that name."""

    code = "unknown-schema"


def init(
    directory: Annotated[Path, typer.Argument(help="The folder of the new project.")] = Path(),
    template: Annotated[
        str,
        typer.Option(
            "--template",
            metavar="NAME",
            help="The template: minimal, etl, many-datasets, ci-github or ci-gitlab.",
        ),
    ] = "minimal",
) -> int:
    """Create a new project with a small example.

    The JSON Schema that its files name for editors is laid beside them.
    """
    files = _laid_out(template)
    taken = next((name for name in sorted(files) if (directory / name).exists()), None)
    if taken is not None:
        raise AlreadyThereError(
            what=f"{directory / taken} exists already",
            why="init overwrites nothing",
            fix="choose another folder: odfbuild init DIR",
        )
    for name, data in sorted(files.items()):
        target = directory / name
        refuse_links(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        sys.stdout.write(f"  {target}\n")
    where = "" if directory == Path() else f"cd {directory}; "
    sys.stdout.write(f"Next: {where}odfbuild plan\n")
    return exits.DONE


def _laid_out(template: str) -> dict[str, bytes]:
    """Return the files of a new project by their names; what CI needs comes on top of a project."""
    from odfbuild.texts.suggest import did_you_mean

    if template not in TEMPLATES:
        raise UnknownTemplateError(
            what=f"there is no template {excerpt(template, 100)!r}",
            why=f"there are {', '.join(TEMPLATES)}",
            fix=did_you_mean(template, TEMPLATES),
        )
    files = {EDITOR_SCHEMA: json_schemas()["DatasetSnapshotManifest"].read_bytes()}
    for layer in TEMPLATES[template]:
        for name, source in _files(packaged(f"project_template/{layer}"), ""):
            files[name] = source.read_bytes().replace(_VERSION_MARK, __version__.encode())
    return files


def _files(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found = []
    for each in folder.iterdir():
        name = prefix + each.name
        if each.is_dir():
            found += _files(each, f"{name}/")
        elif not each.name.endswith(".pyc"):
            found.append((name, each))
    return found
