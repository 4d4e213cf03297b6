"""odfbuild lsp: a language server for editors."""

from __future__ import annotations

from typing import Annotated

import typer

from odfbuild.cli.arguments.context import ProjectArguments


def lsp(
    given: ProjectArguments,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="git:REV",
            help="A reviewed revision: what a project permits itself (Python, the environment) is "
            "permitted only if it is there, too.",
        ),
    ] = None,
    _stdio: Annotated[
        bool,
        typer.Option("--stdio", help="Use stdin and stdout, as without it. Editors add it."),
    ] = False,
) -> int:
    """Run a language server for editors (Language Server Protocol). It uses stdin and stdout.

    Diagnostics are those of `odfbuild check` and of the gate, of the texts that the editor shows.
    Nothing is written but a cache of columns, no program is started, and no network is used.
    """
    from odfbuild.cli.commands.author.accept import acceptance_edit
    from odfbuild.cli.commands.author.mv import rename_edits
    from odfbuild.cli.commands.check.check import project_report
    from odfbuild.serve.settings import MissingExtraError

    try:
        from odfbuild.cli.editor.project import EditorCommands
        from odfbuild.cli.editor.server import make_server, serve_stdio
    except ModuleNotFoundError as error:
        raise MissingExtraError("lsp", "answer an editor", error.name) from None
    commands = EditorCommands(project_report, rename_edits, acceptance_edit)
    return serve_stdio(make_server(given, commands, against))
