"""The commands of the command line: init and what else writes or checks definitions.

Each imports what it needs when it runs, so that all start fast.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import Exit

commands = typer.Typer()


class ManifestFormat(StrEnum):
    """How a manifest is written."""

    YAML = "yaml"
    JSON = "json"
    FB = "fb"


class ManifestKind(StrEnum):
    """What a manifest holds."""

    DATASET_SNAPSHOT = "DatasetSnapshot"
    METADATA_BLOCK = "MetadataBlock"
    METADATA_EVENT = "MetadataEvent"


@commands.command()
def init(
    directory: Annotated[Path, typer.Argument(help="Where the project goes.")] = Path(),
    template: Annotated[
        str,
        typer.Option(
            "--template",
            metavar="NAME",
            help="What is laid out: minimal, etl, many-datasets, ci-github or ci-gitlab.",
        ),
    ] = "minimal",
) -> None:
    """Lay out a new project with a small example in it."""
    from odfbuild.cli.commands.author.init import init_project

    raise Exit(init_project(directory, template))


@commands.command("upgrade")
def upgrade_manifests(
    paths: Annotated[
        list[Path], typer.Argument(help="Files, or folders with all definitions in them.")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; end with 3 if something would change.")
    ] = False,
    to_stdout: Annotated[
        bool, typer.Option("--stdout", help="Print the one file named instead of writing it.")
    ] = False,
) -> None:
    """Rewrite manifests of older specifications. Comments and layout are kept."""
    from odfbuild.cli.commands.author.upgrade import upgrade_paths

    raise Exit(upgrade_paths(paths, check=check, to_stdout=to_stdout))


@commands.command()
def schema(
    kind: Annotated[str | None, typer.Argument(help="What is described.")] = None,
) -> None:
    """Print a JSON Schema for editors; without a kind, list the kinds there are."""
    from odfbuild.cli.commands.author.init import show_json_schema

    raise Exit(show_json_schema(kind))


@commands.command()
def convert(
    file: Annotated[Path, typer.Argument(help="A block, an event or a snapshot; - is stdin.")],
    output: Annotated[ManifestFormat, typer.Option("-o", "--output")] = ManifestFormat.YAML,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write to a new file, not to stdout.")
    ] = None,
    kind: Annotated[
        ManifestKind | None,
        typer.Option("--kind", help="What bytes are that are no block; text says it itself."),
    ] = None,
    manifest_version: Annotated[
        int | None,
        typer.Option("--manifest-version", metavar="N", help="Write a block in version 2 or 3."),
    ] = None,
) -> None:
    """Turn a manifest into YAML, JSON or FlatBuffers; what it is, its content says."""
    from odfbuild.cli.commands.author.convert import convert_file

    told = None if kind is None else kind.value
    raise Exit(convert_file(file, output.value, out=out, kind=told, version=manifest_version))
