"""odfbuild schema: the JSON Schemas of manifests, for editors."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from odfbuild.cli import exits
from odfbuild.cli.files import json_schemas
from odfbuild.errors import OdfBuildError
from odfbuild.texts.redaction import excerpt


class UnknownSchemaNameError(OdfBuildError):
    """There is no JSON Schema of that name."""

    code = "unknown-schema"


def schema(
    kind: Annotated[str | None, typer.Argument(help="The kind to describe.")] = None,
) -> int:
    """Print a JSON Schema for editors, or list the kinds."""
    from odfbuild.texts.suggest import did_you_mean

    known = json_schemas()
    if kind is None:
        sys.stdout.write("".join(f"{each}\n" for each in known))
        return exits.DONE
    found = {each.lower(): each for each in known}.get(kind.lower())
    if found is None:
        raise UnknownSchemaNameError(
            what=f"there is no schema of a {excerpt(kind, 100)!r}",
            why=f"there are those of {', '.join(known)}",
            fix=did_you_mean(kind, known) or "odfbuild schema lists them",
        )
    sys.stdout.write(known[found].read_text("utf-8"))
    return exits.DONE
