"""The commands of the command line: what looks at a project and its chains, and changes nothing.

Each imports what it needs when it runs, so that all start fast.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.arguments.context import given
from odfbuild.cli.arguments.options import Name, ProjectCommand, SafeCsv, complete_names

commands = typer.Typer()

Selection = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SEL]...",
        help="Datasets: name, glob*, +up, down+, tag:x, path:dir, state:stale and more. "
        "Default: all of them.",
        autocompletion=complete_names,
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="SEL", help="Leave out what this selects; repeatable."),
]


class ListFormat(StrEnum):
    """How datasets are listed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class GraphFormat(StrEnum):
    """How a graph is written."""

    TEXT = "text"
    DOT = "dot"
    MERMAID = "mermaid"


class TextFormat(StrEnum):
    """How findings are told."""

    TEXT = "text"
    JSON = "json"


@commands.command("list", cls=ProjectCommand)
def list_(
    context: typer.Context,
    selection: Selection = None,
    exclude: Exclude = None,
    workspace: Annotated[
        bool, typer.Option("-w", "--workspace", help="List what the workspace holds instead.")
    ] = False,
    output: Annotated[ListFormat, typer.Option("-o", "--output")] = ListFormat.TABLE,
    safe_csv: SafeCsv = False,
) -> None:
    """List the datasets of the project: kind, tags, owner, file, inputs, class of query."""
    from odfbuild.cli.commands.author.list import list_datasets, list_workspace

    show = list_workspace if workspace else list_datasets
    project = given(context)
    raise Exit(show(project, selection or [], exclude or [], output.value, safe_csv=safe_csv))


@commands.command(cls=ProjectCommand)
def graph(
    context: typer.Context,
    selection: Selection = None,
    exclude: Exclude = None,
    columns: Annotated[
        bool, typer.Option("--columns", help="Say which column is made of which, where known.")
    ] = False,
    output: Annotated[GraphFormat, typer.Option("-o", "--output")] = GraphFormat.TEXT,
) -> None:
    """Draw which dataset reads which."""
    from odfbuild.cli.commands.author.graph import show_graph

    raise Exit(
        show_graph(
            given(context), selection or [], exclude or [], columns=columns, output=output.value
        )
    )


@commands.command(cls=ProjectCommand)
def explain(
    context: typer.Context,
    name: Name,
) -> None:
    """Say why a dataset will or will not run, down to files and lines."""
    from odfbuild.cli.commands.plan.explain import explain_dataset

    raise Exit(explain_dataset(given(context), name))


@commands.command(cls=ProjectCommand)
def diff(
    context: typer.Context,
    name: Name,
    before: Annotated[
        str | None,
        typer.Argument(
            metavar="[A]",
            help="A block (head, another reference, a number, a hash or six characters of it), "
            "`declared`, or git:REVISION.  Default: head.",
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Argument(metavar="[B]", help="The same.  Default: declared, with --data the head."),
    ] = None,
    data: Annotated[
        bool, typer.Option("--data", help="Compare the rows of two blocks instead.")
    ] = False,
    limit: Annotated[
        int, typer.Option("-n", "--limit", min=0, help="With --data: show so many rows.")
    ] = 20,
) -> None:
    """Show what differs between two states of a dataset: definition and schema, or rows."""
    from odfbuild.cli.commands.plan.diff import show_difference, show_row_difference

    if data:
        raise Exit(show_row_difference(given(context), name, before, after, limit))
    raise Exit(show_difference(given(context), name, before, after))


@commands.command(cls=ProjectCommand)
def drift(
    context: typer.Context,
    selection: Selection = None,
    exclude: Exclude = None,
    ignore_file: Annotated[
        Path | None,
        typer.Option(
            "--ignore-file",
            metavar="FILE",
            help="A YAML list of {dataset, kind, until} that are known and let pass.",
        ),
    ] = None,
    output: Annotated[TextFormat, typer.Option("-o", "--output")] = TextFormat.TEXT,
) -> None:
    """Say where chains are not what this project made of them. Reads only; exit code 2 if so."""
    from odfbuild.cli.commands.plan.drift import show_drift

    raise Exit(
        show_drift(given(context), selection or [], exclude or [], ignore_file, output.value)
    )


@commands.command("explain-row", cls=ProjectCommand)
def explain_row(
    context: typer.Context,
    name: Name,
    offset: Annotated[int, typer.Argument(min=0, help="The offset of a record.")],
    depth: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="So many steps back; by default to the roots."),
    ] = None,
    rows: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Follow so many rows of each input of a step."),
    ] = 10,
    by_block: Annotated[
        bool,
        typer.Option(
            "--by-block", help="Tell what the chains alone tell, block by block: no engine runs."
        ),
    ] = False,
    output: Annotated[TextFormat, typer.Option("-o", "--output")] = TextFormat.TEXT,
) -> None:
    """Say which rows a record was made of and why, by which queries, down to the sources."""
    from odfbuild.cli.commands.read.explain_row import explain_row as explain

    raise Exit(
        explain(
            given(context),
            name,
            offset,
            depth=depth,
            rows=rows,
            by_block=by_block,
            as_json=output is TextFormat.JSON,
        )
    )
