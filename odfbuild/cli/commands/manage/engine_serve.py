"""odfbuild engine serve: the engines of this machine over gRPC, to coordinators of ODF."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild.cli import exits
from odfbuild.cli.arguments.memory import heap
from odfbuild.cli.render.diagnostics import render_diagnostics
from odfbuild.errors import Diagnostic, Level, UsageRefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

_READ = "/opt/engine/in"  # where coordinators mount what engines read and write
_WRITE = "/opt/engine/out"


def serve(
    host: Annotated[str, typer.Option("--host", help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--port",
            min=0,
            max=65_535,
            help="The port; 0 is any free one, 2884 that of the reference engines.",
        ),
    ] = 5544,
    read: Annotated[
        list[Path] | None,
        typer.Option(
            "--read", metavar="FOLDER", help=f"Files in it may be read. Default: {_READ}."
        ),
    ] = None,
    write: Annotated[
        list[Path] | None,
        typer.Option(
            "--write",
            metavar="FOLDER",
            help=f"Files in it may be read and written. Default: {_WRITE}.",
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option("-j", "--jobs", min=1, max=64, help="Number of queries at a time.")
    ] = 2,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory", metavar="SIZE", help="The Java heap of Spark for each of them: 2g."
        ),
    ] = None,
) -> int:
    """Serve Spark and DataFusion to coordinators over gRPC, until stopped."""
    from odfbuild.executors.engine.contract.folders import Folders
    from odfbuild.serve.settings import MissingExtraError, UnusablePortError, is_loopback

    folders = Folders(
        _folders("--read", read or [Path(_READ)]), _folders("--write", write or [Path(_WRITE)])
    )
    try:
        from odfbuild.executors.engine.contract.server import (
            ContractLimits,
            ContractSettings,
            run,
        )
    except ModuleNotFoundError as error:
        raise MissingExtraError("engine", "serve engines", error.name) from None
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if not is_loopback(host):
        _warn_of_strangers(host)
    settings = ContractSettings(
        folders=folders, memory=heap(memory), limits=ContractLimits(jobs=jobs)
    )
    try:
        run(settings, host, port, lambda bound: _announce(host, bound, folders.read, folders.write))
    except OSError as error:
        raise UnusablePortError(
            what=f"{host}, port {port}, cannot be used",
            why="another program uses it, or the machine has no such address",
            fix="choose another one with --host and --port",
        ) from error
    return exits.DONE


def _folders(option: str, given: Sequence[Path]) -> tuple[Path, ...]:
    for each in given:
        if not each.is_dir():
            raise UsageRefusedError(
                what=f"{each} is not a folder",
                why="requests may only name files of certain folders",
                fix=f"name an existing one with {option}",
            )
    return tuple(each.resolve() for each in given)


def _announce(host: str, port: int, read: Sequence[Path], write: Sequence[Path]) -> None:
    shown = f"[{host}]" if ":" in host else host
    read_of, written = ", ".join(map(str, read)), ", ".join(map(str, write))
    sys.stdout.write(f"Engines at {shown}:{port} (read {read_of}; write {written})\n")
    sys.stdout.flush()


def _warn_of_strangers(host: str) -> None:
    found = Diagnostic(
        code="no-tls",
        what=f"{host} serves everyone who can reach it",
        why="the engine contract has neither TLS nor users: anyone who reaches the port reads and "
        "writes the folders",
        fix="do this only in an isolated container or network, or listen at 127.0.0.1",
        level=Level.WARNING,
    )
    sys.stderr.write(render_diagnostics([found]) + "\n")
