"""The commands about lineage: where datasets come from, and what a change would touch.

Each imports what it needs when it runs, so that all start fast.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import Exit

from odfbuild.cli.arguments.context import given
from odfbuild.cli.arguments.options import ProjectCommand, SafeCsv


class LineageGroup(TyperGroup):
    """A group that takes what is none of its commands for the arguments of `show`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["show", *args]
        return super().parse_args(ctx, args)


class LineageFormat(StrEnum):
    """How lineage is written."""

    TREE = "tree"
    JSON = "json"
    DOT = "dot"
    MERMAID = "mermaid"
    CSV = "csv"
    HTML = "html"


class ExportFormat(StrEnum):
    """How lineage is written for other programs."""

    CSV = "csv"
    EO3 = "eo3"


class ImpactFormat(StrEnum):
    """How the impact of a change is told."""

    TEXT = "text"
    JSON = "json"


commands = typer.Typer()
lineage_app = typer.Typer(
    cls=LineageGroup,
    help="Show where a dataset comes from and what was made of it; note what chains cannot know.",
    no_args_is_help=True,
)

Subject = Annotated[
    str, typer.Argument(metavar="NAME", help="A dataset: its name, a did:odf or a UUID.")
]
Source = Annotated[str, typer.Argument(metavar="SOURCE", help="What it was made of, likewise.")]


@lineage_app.command("show", cls=ProjectCommand)
def show(
    context: typer.Context,
    name: Subject,
    up: Annotated[bool, typer.Option("--up", help="Only what it was made of.")] = False,
    down: Annotated[bool, typer.Option("--down", help="Only what was made of it.")] = False,
    depth: Annotated[
        int, typer.Option("--depth", min=0, help="At most so many steps; 0: all of them.")
    ] = 0,
    as_at: Annotated[
        str | None,
        typer.Option(
            "--as-at",
            metavar="TIME|BLOCK",
            help="As chains told it by a time, or by a block of the dataset.",
        ),
    ] = None,
    columns: Annotated[
        bool, typer.Option("--columns", help="Column by column, as the definitions say.")
    ] = False,
    output: Annotated[LineageFormat, typer.Option("-o", "--output")] = LineageFormat.TREE,
    safe_csv: SafeCsv = False,
) -> None:
    """Show the lineage of a dataset. `odfbuild lineage NAME` is short for this."""
    from odfbuild.cli.commands.read import impact as column_lineage
    from odfbuild.cli.commands.read import lineage

    project, both = given(context), up == down
    if columns:
        raise Exit(
            column_lineage.show_columns(
                project,
                name,
                up=both or up,
                down=both or down,
                depth=depth,
                as_at=as_at,
                output=output.value,
                safe_csv=safe_csv,
            )
        )
    raise Exit(
        lineage.show_lineage(
            project,
            name,
            up=both or up,
            down=both or down,
            depth=depth,
            as_at=as_at,
            output=output.value,
            safe_csv=safe_csv,
        )
    )


@lineage_app.command("add", cls=ProjectCommand)
def add(
    context: typer.Context,
    name: Subject,
    source: Source,
    classifier: Annotated[
        str, typer.Option("--as", metavar="CLASSIFIER", help="In which role it was used.")
    ] = "source",
    home: Annotated[
        str | None, typer.Option("--home", metavar="HOME", help="Where the source is kept.")
    ] = None,
) -> None:
    """Note that a dataset was made of another, which may be anywhere."""
    from odfbuild.cli.commands.read import lineage

    raise Exit(lineage.add(given(context), name, source, classifier, home))


@lineage_app.command("remove", cls=ProjectCommand)
def remove(context: typer.Context, name: Subject, source: Source) -> None:
    """Take back what was noted with `add`. What chains tell stays."""
    from odfbuild.cli.commands.read import lineage

    raise Exit(lineage.remove(given(context), name, source))


@lineage_app.command("home", cls=ProjectCommand)
def home(
    context: typer.Context,
    name: Subject,
    home: Annotated[
        str | None, typer.Argument(metavar="[HOME]", help="Where it is kept. Default: show it.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Also if it has another.")] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Forget it.")] = False,
) -> None:
    """Show or set the home of a dataset: the place, index or repository that keeps it."""
    from odfbuild.cli.commands.read import lineage

    raise Exit(lineage.home(given(context), name, home, replace=replace, clear=clear))


@lineage_app.command("import", cls=ProjectCommand)
def import_(
    context: typer.Context,
    files: Annotated[
        list[Path], typer.Argument(help="CSV, or documents of datasets (EO3) in YAML or JSON.")
    ],
    home: Annotated[
        str | None, typer.Option("--home", metavar="HOME", help="Where the sources are kept.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="The files are right where they differ.")
    ] = False,
) -> None:
    """Take in relations and homes from files: all of them, or nothing."""
    from odfbuild.cli.commands.read import lineage

    raise Exit(lineage.take_in(given(context), files, home, replace=replace))


@lineage_app.command("export", cls=ProjectCommand)
def export(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="For eo3: whose.")] = None,
    output: Annotated[ExportFormat, typer.Option("-o", "--output")] = ExportFormat.CSV,
    safe_csv: SafeCsv = False,
) -> None:
    """Print all relations and homes as CSV, or what one dataset was made of as in its document."""
    from odfbuild.cli.commands.read import lineage

    raise Exit(
        lineage.put_out(given(context), name, eo3=output is ExportFormat.EO3, safe_csv=safe_csv)
    )


@commands.command(cls=ProjectCommand)
def impact(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME[.COLUMN]", help="What would change.")],
    output: Annotated[ImpactFormat, typer.Option("-o", "--output")] = ImpactFormat.TEXT,
) -> None:
    """Say which datasets and columns a change of a dataset, or of one column, would touch."""
    from odfbuild.cli.commands.read import impact as column_lineage

    raise Exit(column_lineage.impact(given(context), name, output=output.value))
