"""The command line: global flags, commands, and errors turned into exit codes.

Each command imports what it needs when it runs, so that `--help` and `plan` start fast.
"""

import os
import sys
from enum import StrEnum
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import Exit, TyperException

from odfbuild import __version__
from odfbuild.cli.groups import inspect_app, key_app, ref_app
from odfbuild.cli.options import PROJECT_DIR, Name, ProjectDir
from odfbuild.errors import OdfBuildError

__all__ = ["app", "main"]

EXIT_USAGE = 64
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="odfbuild",
    help="Plan and build Open Data Fabric datasets from a folder of YAML definitions.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


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


class PlanFormat(StrEnum):
    """How a plan is printed."""

    TEXT = "text"
    JSON = "json"


class RowFormat(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    NDJSON = "ndjson"


@app.callback(invoke_without_command=True)
def _globals(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
    project_dir: Annotated[
        Path | None,
        typer.Option("-C", "--project-dir", help="The project folder; goes after a command, too."),
    ] = None,
) -> None:
    if version:
        typer.echo(f"odfbuild {__version__}")
        raise Exit(0)
    if project_dir is not None:
        os.environ[PROJECT_DIR] = str(project_dir)
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise Exit(EXIT_USAGE)


@app.command()
def init(
    directory: Annotated[Path, typer.Argument(help="Where the project goes.")] = Path(),
) -> None:
    """Lay out a new project with a small example in it."""
    from odfbuild.cli.author import init_project

    raise Exit(init_project(directory))


@app.command()
def plan(
    project_dir: ProjectDir = None,
    output: Annotated[PlanFormat, typer.Option("-o", "--output")] = PlanFormat.TEXT,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Print the whole blocks to append.")
    ] = False,
) -> None:
    """Say which blocks would be appended, what would run, and why. Changes nothing."""
    from odfbuild.cli.decide import show_plan

    raise Exit(show_plan(project_dir, as_json=output is PlanFormat.JSON, verbose=verbose))


@app.command()
def apply(
    project_dir: ProjectDir = None,
    yes: Annotated[
        bool, typer.Option("-y", "--yes", envvar="ODFBUILD_YES", help="Do not ask.")
    ] = False,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Steps at a time.")] = 4,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="Plain lines only.")] = False,
    lock_timeout: Annotated[
        float,
        typer.Option(
            "--lock-timeout",
            envvar="ODFBUILD_LOCK_TIMEOUT",
            min=0,
            help="Seconds to wait for a dataset that another process is changing.",
        ),
    ] = 10.0,
) -> None:
    """Plan, ask, and do what was planned."""
    from odfbuild.cli.act import apply_project

    raise Exit(
        apply_project(
            project_dir,
            yes=yes,
            jobs=jobs,
            progress=not no_progress,
            lock_timeout=lock_timeout,
        )
    )


@app.command()
def status(project_dir: ProjectDir = None) -> None:
    """List the datasets of the workspace: head, rows, watermark."""
    from odfbuild.cli.read import show_status

    raise Exit(show_status(project_dir))


@app.command()
def log(
    name: Name,
    project_dir: ProjectDir = None,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", min=1, help="The newest N blocks only.")
    ] = None,
    ref: Annotated[str, typer.Option("--ref", help="The chain of this reference.")] = "head",
) -> None:
    """Show the metadata chain of a dataset, newest block first."""
    from odfbuild.cli.read import show_log

    raise Exit(show_log(project_dir, name, limit, ref))


@app.command()
def show(
    name: Name,
    project_dir: ProjectDir = None,
    output: Annotated[RowFormat, typer.Option("-o", "--output")] = RowFormat.TABLE,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="The last N rows.")] = 20,
) -> None:
    """Show the last rows of a dataset."""
    from odfbuild.cli.read import show_rows

    raise Exit(show_rows(project_dir, name, output.value, limit))


@app.command()
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(help="Datasets; all of them if none is named.")
    ] = None,
    project_dir: ProjectDir = None,
) -> None:
    """Rehash every block and data file, and recheck links and rules."""
    from odfbuild.cli.act import verify_datasets

    raise Exit(verify_datasets(project_dir, names or []))


@app.command("upgrade")
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
    from odfbuild.cli.upgrade import upgrade_paths

    raise Exit(upgrade_paths(paths, check=check, to_stdout=to_stdout))


@app.command()
def schema(
    kind: Annotated[str | None, typer.Argument(help="What is described.")] = None,
) -> None:
    """Print a JSON Schema for editors; without a kind, list the kinds there are."""
    from odfbuild.cli.author import show_json_schema

    raise Exit(show_json_schema(kind))


@app.command()
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
    from odfbuild.cli.convert import convert_file

    told = None if kind is None else kind.value
    raise Exit(convert_file(file, output.value, out=out, kind=told, version=manifest_version))


app.add_typer(inspect_app, name="inspect")
app.add_typer(ref_app, name="ref")
app.add_typer(key_app, name="key")


def main() -> None:
    """Run the command line and end the process with one of the documented exit codes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # of what an encoding lacks
    code = 0
    try:
        _run(sys.argv[1:])
        sys.stdout.flush()
    except Exit as done:
        code = done.exit_code
    except TyperException as error:
        sys.stderr.write(f"odfbuild: {error.format_message()}\nTry: odfbuild --help\n")
        code = EXIT_USAGE
    except OdfBuildError as error:
        code = _explain(error)
    except KeyboardInterrupt:
        sys.stderr.write("odfbuild: interrupted; nothing half done is left\n")
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        pass  # whoever read the answer has seen enough
    except Exception as error:
        code = _explain(_unexpected(error))
    sys.exit(_settled(code))


def _run(arguments: list[str]) -> None:
    """Run a command; typer's own entry would turn interrupts and broken pipes into its words."""
    command = typer.main.get_command(app)
    with command.make_context("odfbuild", arguments) as context:
        command.invoke(context)


def _settled(code: int) -> int:
    """Write what is left, so that nothing can fail when Python ends; return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if code == 0 and stream is sys.stdout and not isinstance(error, BrokenPipeError):
                return _explain(_unexpected(error))
    return code


def _explain(error: OdfBuildError) -> int:
    from odfbuild.cli.diagnostics import render_diagnostics
    from odfbuild.cli.exits import exit_code

    sys.stderr.write(render_diagnostics(error.diagnostics()) + "\n")
    return exit_code(error)


def _unexpected(error: Exception) -> OdfBuildError:
    """Put what no part of the program foresaw into words; ODFBUILD_TRACEBACK=1 shows its place."""
    from odfbuild.cli.unexpected import InternalError, SystemFailedError

    if os.environ.get("ODFBUILD_TRACEBACK"):
        import traceback

        traceback.print_exception(error)
    return SystemFailedError(error) if isinstance(error, OSError) else InternalError(error)
