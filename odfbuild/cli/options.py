"""Options and arguments that many commands take."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["PROJECT_DIR", "BlockName", "Name", "ProjectDir"]

PROJECT_DIR = "ODFBUILD_PROJECT_DIR"

ProjectDir = Annotated[
    Path | None,
    typer.Option(
        "-C",
        "--project-dir",
        envvar=PROJECT_DIR,
        help="The project folder. Default: the nearest parent with an odfbuild.yaml.",
    ),
]
Name = Annotated[str, typer.Argument(help="The name of a dataset.")]
BlockName = Annotated[
    str,
    typer.Option(
        "--at",
        metavar="BLOCK",
        help="As of this block: head, another reference, a sequence number, or a hash or "
        "six characters of its start or end.",
    ),
]
