"""The command line: global flags, commands, and errors turned into exit codes."""

import atexit
import gc
import os
import signal
import sys
import threading
from contextlib import suppress
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import Exit, TyperException

from odfbuild import __version__
from odfbuild.cli.arguments.command import ProjectGroup
from odfbuild.cli.commands import REGISTRY, SECTIONS
from odfbuild.cli.loader import commands_of
from odfbuild.cli.terminal.console import as_usual
from odfbuild.cli.terminal.signals import ended_by, ending_signals, heed_no_more
from odfbuild.cli.terminal.streams import end_early, failure, open_streams, reader_is_gone
from odfbuild.errors import OdfBuildError


class SystemFailedError(OdfBuildError):
    """The operating system reported an error outside of the steps of a run."""

    code = "system"

    def __init__(self, error: OSError) -> None:
        place = f": {error.filename}" if error.filename else ""
        super().__init__(
            what=f"{error.strerror or error}{place}",
            why="the operating system refused to read or write a file",
            fix="check the path, its access rights and the free space of the disk",
        )


EXIT_USAGE = 64
_SIGNALLED = 128  # and the number of the signal
_SELDOM = 200_000
_PRINTING = frozenset({"show", "sql", "log", "diff", "explain-row", "inspect", "list"})
_COMPLETE = "_ODFBUILD_COMPLETE"  # what a shell asks


class Program(ProjectGroup):
    """The group of all commands, which its help lists by sections."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as typer asks
        """Write the summary of each command, in one column below all titles."""
        indent = max(map(len, self.commands))
        for title, registered in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(each.name.ljust(indent), summary(each.help)) for each in registered]
                )


def summary(text: str) -> str:
    """Return the first sentence of a help."""
    return f"{text.split('. ', 1)[0].removesuffix('.')}."


_options = typer.Typer(
    name="odfbuild",
    cls=Program,
    help="Plan and build Open Data Fabric datasets from a folder of YAML definitions.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@_options.callback(invoke_without_command=True)
def _globals(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"odfbuild {__version__}")
        raise Exit(0)
    if context.invoked_subcommand in _PRINTING:
        end_early()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise Exit(EXIT_USAGE)


def program() -> None:
    """Be the program: run the command line, and end without clearing away what is in memory.

    That takes as long as a fifth of a plan, and ends in an abort where a thread of a library that
    Python does not know of still has something of it.  What is to be done at the end is done where
    an engine was started, or are other threads, for which the process waits; but one that is ended
    by a signal waits for no thread that could not be ended.
    """
    try:
        main(for_good=True)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
        signalled = code > _SIGNALLED
        busy = "odfbuild.executors.engine.spark" in sys.modules or threading.active_count() > 1
        if busy and not signalled:
            threading._shutdown()  # type: ignore[attr-defined]
        if busy or signalled:
            atexit._run_exitfuncs()
        os._exit(code)


def main(*, for_good: bool = False) -> None:
    """Run the command line and end the process with one of the documented exit codes.

    Once the code is known signals to end do nothing; `for_good` says that nothing comes after.
    """
    open_streams()
    as_usual()
    gc.set_threshold(_SELDOM)  # what a command makes lives until it ends
    with ending_signals(for_good=for_good):
        try:
            code = _ended_once()
        except KeyboardInterrupt:  # a second one while the first was reported
            heed_no_more()
            code = _end_by_signal()
        code = _flush(code)
    sys.exit(code)


def _ended_once() -> int:
    try:
        code = _run_to_end()
        heed_no_more()
    except KeyboardInterrupt:  # while it was told how the command ended
        heed_no_more()
        code = _end_by_signal()
    return code


def _run_to_end() -> int:
    """Run the command line; return its exit code, with all said that is to be said."""
    code = 0
    said: str | None = None
    try:
        if (asked := os.environ.get(_COMPLETE)) is not None:
            code = _complete(asked)
        else:
            code = _run(sys.argv[1:])
        sys.stdout.flush()
    except Exit as done:
        code = done.exit_code
    except TyperException as error:
        context = getattr(error, "ctx", None)  # of the command that was misused
        asked = "odfbuild" if context is None else context.command_path
        sys.stderr.write(f"odfbuild: {error.format_message()}\nTry: {asked} --help\n")
        code = EXIT_USAGE
    except OdfBuildError as error:
        said, code = error.what, _explain(error)
    except KeyboardInterrupt:
        code = _end_by_signal()
    except BrokenPipeError as error:
        if not reader_is_gone():  # else whoever read the answer has seen enough
            code = _explain(_unexpected_error(error))
    except Exception as error:
        code = _explain(_unexpected_error(error))
    _print_damage(said)
    return code


def _end_by_signal() -> int:
    by = ended_by()
    word = "interrupted" if by is signal.SIGINT else f"ended by {by.name}"
    sys.stderr.write(f"odfbuild: {word}; no step is left half done\n")
    return _SIGNALLED + by


def _print_damage(said: str | None) -> None:
    """Name the datasets that were left out as damaged; nothing is loaded for that."""
    damage = sys.modules.get("odfbuild.cli.unreadable")
    if damage is not None:
        with suppress(OSError, ValueError):
            damage.report_damage(said)


def _run(arguments: list[str]) -> int:
    """Run a command; typer's own entry would turn interrupts and broken pipes into its words."""
    with command_line().make_context("odfbuild", arguments) as context:
        code: int = command_line().invoke(context)
    return code


@cache
def command_line() -> TyperGroup:
    """Return what reads command lines: made once, for who runs several in one process."""
    top = typer.main.get_group(_options)
    top.commands.update(commands_of(REGISTRY))
    return top


def _complete(asked: str) -> int:
    from odfbuild.cli.arguments.completion import answer_shell

    return answer_shell(command_line(), asked)


def _flush(code: int) -> int:
    """Write what is left, so that nothing can fail when Python ends; return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # which is known by now
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    lost = failure()
    return _explain(_unexpected_error(lost)) if lost is not None and code == 0 else code


def _explain(error: OdfBuildError) -> int:
    from odfbuild.cli.exits import exit_code
    from odfbuild.cli.render.diagnostics import render_diagnostics

    sys.stderr.write(render_diagnostics(error.diagnostics()) + "\n")
    return exit_code(error)


def _unexpected_error(error: Exception) -> OdfBuildError:
    """Put what no part of the program foresaw into words; ODFBUILD_TRACEBACK=1 shows its place."""
    from odfbuild.errors import InternalError

    if os.environ.get("ODFBUILD_TRACEBACK"):
        import traceback

        from odfbuild.texts.redaction import redacted

        sys.stderr.write(redacted("".join(traceback.format_exception(error))))
    return SystemFailedError(error) if isinstance(error, OSError) else InternalError(error)
