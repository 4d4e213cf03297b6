"""odfbuild engine plugin: the archive that the owner of a server of Spark Connect loads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from odfbuild.app.engine import server_plugin
from odfbuild.cli import exits
from odfbuild.cli.files import write_bytes


def plugin(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The JAR file to write.")],
) -> int:
    """Write the plugin that a server of Spark Connect needs, as a JAR file."""
    name, archive = server_plugin()
    write_bytes(file, archive)
    sys.stdout.write(
        f"Written: {file}. Start the server with it on its class path, and with\n"
        f"  spark.connect.extensions.relation.classes {name}\n"
    )
    return exits.DONE
