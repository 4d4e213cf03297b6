"""odfbuild completion: the scripts that make shells complete."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from odfbuild.cli import exits
from odfbuild.cli.arguments.completion import completion_script


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"],
        typer.Argument(help="bash, zsh or fish.", show_choices=False),
    ],
) -> int:
    """Print a completion script for a shell. It completes commands, options and names."""
    sys.stdout.write(f"{completion_script(shell)}\n")
    return exits.DONE
