"""The commands that come in groups: key, ref and inspect.

As in `main`, each imports what it needs when it runs.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.arguments.context import given
from odfbuild.cli.arguments.options import BlockName, Name, ProjectCommand
from odfbuild.cli.declarations.plan import Explain, MaxBytes, PlanOutput, Verbose
from odfbuild.cli.formats.outputs import MAX_BYTES, Output


class ListFormat(StrEnum):
    """How a list is printed."""

    TABLE = "table"
    JSON = "json"


class BlockFormat(StrEnum):
    """How a block is printed."""

    YAML = "yaml"
    JSON = "json"
    HEX = "hex"


class SchemaFormat(StrEnum):
    """How a schema is printed."""

    DDL = "ddl"
    ARROW = "arrow"
    JSON = "json"


class QueryFormat(StrEnum):
    """How a query is printed."""

    TEXT = "text"
    JSON = "json"


ListOutput = Annotated[ListFormat, typer.Option("-o", "--output")]
PassphraseFd = Annotated[
    int | None,
    typer.Option(
        "--passphrase-fd",
        min=0,
        metavar="FD",
        help="Read the passphrase from this file descriptor. Default: the variable "
        "ODFBUILD_KEY_PASSPHRASE, else the terminal is asked.",
    ),
]
RefName = Annotated[str, typer.Argument(metavar="REF", help="The name of a reference.")]
Wait = Annotated[
    float,
    typer.Option(
        "--lock-timeout",
        envvar="ODFBUILD_LOCK_TIMEOUT",
        min=0,
        help="Seconds to wait for a dataset that another process is changing.",
    ),
]

key_app = typer.Typer(help="Look at private keys, take them elsewhere, and bring them in.")
ref_app = typer.Typer(help="Name blocks: branches that share all objects with the dataset.")
inspect_app = typer.Typer(help="Look at one block, schema, query or saved plan.")


@key_app.command("list", cls=ProjectCommand)
def list_keys(context: typer.Context, output: ListOutput = ListFormat.TABLE) -> None:
    """List the private keys of the workspace, and warn of those that others can read."""
    from odfbuild.cli.commands.manage import key as keys

    raise Exit(keys.list_keys(given(context), as_json=output is ListFormat.JSON))


@key_app.command("export", cls=ProjectCommand)
def export_key(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="DATASET", help="A name, or a did:odf.")],
    file: Annotated[Path, typer.Argument(help="The file to write; it must not be there yet.")],
    seal: Annotated[bool, typer.Option("--seal", help="Encrypt it under a passphrase.")] = False,
    passphrase_fd: PassphraseFd = None,
) -> None:
    """Write the private key of a dataset to a file that only you can read."""
    from odfbuild.cli.commands.manage import key as keys

    raise Exit(keys.export_key(given(context), name, file, sealed=seal, descriptor=passphrase_fd))


@key_app.command("import", cls=ProjectCommand)
def import_key(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A file that `key export` wrote.")],
    passphrase_fd: PassphraseFd = None,
) -> None:
    """Take a private key into the workspace. One that is sealed stays so."""
    from odfbuild.cli.commands.manage import key as keys

    raise Exit(keys.import_key(given(context), file, descriptor=passphrase_fd))


@ref_app.command("list", cls=ProjectCommand)
def list_refs(context: typer.Context, name: Name, output: ListOutput = ListFormat.TABLE) -> None:
    """List the references of a dataset, and how far each is from the head."""
    from odfbuild.cli.commands.manage import ref as refs

    raise Exit(refs.list_refs(given(context), name, as_json=output is ListFormat.JSON))


@ref_app.command("set", cls=ProjectCommand)
def set_ref(
    context: typer.Context,
    name: Name,
    ref: RefName,
    block: Annotated[
        str,
        typer.Argument(
            help="head, another reference, a sequence number, or a hash or six characters of its "
            "start or end."
        ),
    ] = "head",
    lock_timeout: Wait = 10.0,
) -> None:
    """Make a reference to a block, or move one forward. The head is moved by apply only."""
    from odfbuild.cli.commands.manage import ref as refs

    raise Exit(refs.set_ref(given(context), name, ref, block, lock_timeout))


@ref_app.command("delete", cls=ProjectCommand)
def delete_ref(context: typer.Context, name: Name, ref: RefName, lock_timeout: Wait = 10.0) -> None:
    """Delete a reference. Blocks and data stay."""
    from odfbuild.cli.commands.manage import ref as refs

    raise Exit(refs.delete_ref(given(context), name, ref, lock_timeout))


@inspect_app.command("block", cls=ProjectCommand)
def inspect_block(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="FILE|HASH",
            help="A block file, or a hash in the workspace, or six characters of its start or end.",
        ),
    ],
    output: Annotated[BlockFormat, typer.Option("-o", "--output")] = BlockFormat.YAML,
) -> None:
    """Show one block whole, as a manifest or byte by byte."""
    from odfbuild.cli.commands.plan import inspect

    raise Exit(inspect.show_block(given(context), name, output.value))


@inspect_app.command("schema", cls=ProjectCommand)
def inspect_schema(
    context: typer.Context,
    name: Name,
    at: BlockName = "head",
    output: Annotated[SchemaFormat, typer.Option("-o", "--output")] = SchemaFormat.DDL,
) -> None:
    """Show the columns of a dataset, system columns included."""
    from odfbuild.cli.commands.plan import inspect

    raise Exit(inspect.show_schema(given(context), name, at, output.value))


@inspect_app.command("query", cls=ProjectCommand)
def inspect_query(
    context: typer.Context,
    name: Name,
    at: BlockName = "head",
    output: Annotated[QueryFormat, typer.Option("-o", "--output")] = QueryFormat.TEXT,
) -> None:
    """Show the query that makes a dataset: engine, inputs and steps as they are in force."""
    from odfbuild.cli.commands.plan import inspect

    raise Exit(inspect.show_query(given(context), name, at, output.value))


@inspect_app.command("plan", cls=ProjectCommand)
def inspect_plan(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A plan that `plan --out FILE` saved; - is stdin."),
    ],
    output: PlanOutput = Output.TEXT,
    max_bytes: MaxBytes = MAX_BYTES,
    explain: Explain = False,
    verbose: Verbose = False,
) -> None:
    """Print a saved plan in any format; a warning says if it is stale."""
    from odfbuild.cli.formats.outputs import Manner, wants_colour
    from odfbuild.cli.saved import show_saved

    manner = Manner(max_bytes=max_bytes, colour=wants_colour(), explain=explain, blocks=verbose)
    raise Exit(show_saved(given(context), file, output, manner))
