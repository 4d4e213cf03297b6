"""The commands of the command line: what the workspace holds.

Each imports what it needs when it runs, so that all start fast.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import Exit

from odfbuild.cli.arguments.context import given
from odfbuild.cli.arguments.options import Name, ProjectCommand, SafeCsv
from odfbuild.cli.declarations.look import Exclude, Selection
from odfbuild.cli.formats.rows import TABLE_ROWS, RowFormat

commands = typer.Typer()

AsAt = Annotated[
    str | None,
    typer.Option(
        "--as-at",
        metavar="TIME|BLOCK",
        help="What was known then: blocks up to this one, or up to this system time.",
    ),
]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        help="What should have been known then: of each key the row in force at this event time.",
    ),
]
Key = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="COLUMN",
        help="With --as-of: whose versions rows are. Default: the primary key of the source.",
    ),
]
Log = Annotated[
    bool, typer.Option("--log", help="The changelog: offset, operation and system time, too.")
]
Output = Annotated[
    RowFormat | None,
    typer.Option("-o", "--output", help="The format. Default: that of the file, else table."),
]
To = Annotated[
    Path | None, typer.Option("--to", metavar="FILE", help="Write the rows to this file.")
]
MOST = f"Default: {TABLE_ROWS} in a table, else all."


class StatusFormat(StrEnum):
    """How the standing of datasets is told."""

    TABLE = "table"
    JSON = "json"


@commands.command(cls=ProjectCommand)
def status(
    context: typer.Context,
    selection: Selection = None,
    exclude: Exclude = None,
    output: Annotated[StatusFormat, typer.Option("-o", "--output")] = StatusFormat.TABLE,
) -> None:
    """Say where datasets stand: head, watermark, lag, last result, who holds a lock."""
    from odfbuild.cli.commands.read.status import show_status

    as_json = output is StatusFormat.JSON
    raise Exit(show_status(given(context), selection or [], exclude or [], as_json=as_json))


@commands.command(cls=ProjectCommand)
def log(
    context: typer.Context,
    name: Name,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", min=1, help="The newest N blocks only.")
    ] = None,
    ref: Annotated[str, typer.Option("--ref", help="The chain of this reference.")] = "head",
) -> None:
    """Show the metadata chain of a dataset, newest block first."""
    from odfbuild.cli.commands.read.log import show_log

    raise Exit(show_log(given(context), name, limit, ref))


@commands.command(cls=ProjectCommand)
def show(
    context: typer.Context,
    name: Name,
    current: Annotated[
        bool, typer.Option("--current", help="The rows that nothing took back.")
    ] = False,
    log: Log = False,
    as_at: AsAt = None,
    as_of: AsOf = None,
    key: Key = None,
    output: Output = None,
    to: To = None,
    safe_csv: SafeCsv = False,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", min=1, help=f"The last N rows. {MOST}")
    ] = None,
) -> None:
    """Show rows of a dataset, as recorded or as they stand."""
    from odfbuild.cli.commands.read.show import show_rows
    from odfbuild.cli.commands.read.views import Asked

    asked = Asked(at=as_at, of=as_of, log=log, key=tuple(key or ()))
    done = show_rows(
        given(context),
        name,
        asked,
        current=current,
        output=output,
        path=to,
        limit=limit,
        safe_csv=safe_csv,
    )
    raise Exit(done)


@commands.command(cls=ProjectCommand)
def sql(
    context: typer.Context,
    query: Annotated[
        str | None,
        typer.Argument(help="One SELECT; names of datasets with dots go in backticks."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="Read the query from this file; - is stdin.")
    ] = None,
    log: Log = False,
    as_at: AsAt = None,
    as_of: AsOf = None,
    key: Key = None,
    output: Output = None,
    to: To = None,
    safe_csv: SafeCsv = False,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", min=1, help=f"The first N rows. {MOST}")
    ] = None,
) -> None:
    """Query datasets by name with Spark SQL; nothing is changed."""
    from odfbuild.cli.commands.read.sql import answer
    from odfbuild.cli.commands.read.views import Asked

    asked = Asked(at=as_at, of=as_of, log=log, key=tuple(key or ()))
    done = answer(
        given(context),
        query,
        file,
        asked,
        output=output,
        path=to,
        limit=limit,
        safe_csv=safe_csv,
    )
    raise Exit(done)
