"""The command ingest, which pushes files into a root dataset.

It imports what it needs when it runs, so that all commands start fast.
"""

from enum import StrEnum
from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.arguments.context import given
from odfbuild.cli.arguments.options import Busy, Name, OnBusy, ProjectCommand
from odfbuild.cli.declarations.groups import Wait

commands = typer.Typer()


class IngestFormat(StrEnum):
    """How the answer is printed."""

    TEXT = "text"
    JSON = "json"


@commands.command(cls=ProjectCommand)
def ingest(
    context: typer.Context,
    name: Name,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Files, each one commit, in this order; - is standard input. What ends with .gz, "
            ".bz2, .xz or .zst is unpacked.",
        ),
    ],
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="NAME",
            help="The push source. Default: the only one, or the one named default.",
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            "--media-type",
            metavar="FORMAT",
            help="csv, tsv, json, ndjson, geojson, ndgeojson, parquet, esrishapefile, or a media "
            "type such as text/csv. Default: by the file's name, else what the source reads.",
        ),
    ] = None,
    event_time: Annotated[
        str | None,
        typer.Option(
            "--event-time",
            metavar="TIME",
            help="Of rows without one: 2024-03-01T12:00:00Z, 2024-03-01, -12h, -1d. Default: now.",
        ),
    ] = None,
    id: Annotated[
        list[str] | None,
        typer.Option(
            "--id",
            metavar="ID",
            help="A push with an id that the dataset has already changes nothing, so it can be "
            "tried again; once for each file, in their order.",
        ),
    ] = None,
    id_from_content: Annotated[
        bool, typer.Option("--id-from-content", help="The id is the hash of the file's bytes.")
    ] = False,
    output: Annotated[IngestFormat, typer.Option("-o", "--output")] = IngestFormat.TEXT,
    lock_timeout: Wait = 10.0,
    on_busy: Busy = OnBusy.WAIT,
    called: Annotated[str | None, typer.Option("--called", hidden=True)] = None,
) -> None:
    """Push files into a root dataset through one of its push sources, each as one commit."""
    from odfbuild.cli.commands.apply.ingest import IngestOptions, ingest_files

    options = IngestOptions(
        files=tuple(files),
        source=source,
        format=format,
        event_time=event_time,
        ids=tuple(id or ()),
        ids_from_content=id_from_content,
        json=output is IngestFormat.JSON,
        lock_timeout=lock_timeout,
        on_busy=on_busy,
        called=called,
    )
    raise Exit(ingest_files(given(context), name, options))
