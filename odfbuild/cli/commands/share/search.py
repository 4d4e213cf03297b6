"""odfbuild search: what repositories have."""

from __future__ import annotations

import json
import sys
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.render.words import bytes_text, kind_word
from odfbuild.cli.terminal.console import print_table, printable, printable_json
from odfbuild.errors import OdfBuildError

if TYPE_CHECKING:
    from odfbuild.repositories.catalogue import CatalogueEntry

_COLUMNS = ("dataset", "kind", "blocks", "records", "size", "last block")


def search(
    given: ProjectArguments,
    text: Annotated[
        str, typer.Argument(help="A part of a name, or a pattern with * and ?. Default: all.")
    ] = "*",
    repo: Annotated[
        list[str] | None,
        typer.Option("--repo", metavar="NAME", help="Only in this repository; may be repeated."),
    ] = None,
    output: Annotated[
        Literal["table", "json", "ndjson"],
        typer.Option("-o", "--output", help="ndjson: one dataset a line."),
    ] = "table",
) -> int:
    """List the datasets of repositories. They are found by what they publish."""
    from odfbuild.repositories.catalogue import entries
    from odfbuild.repositories.remotes import find_repository, open_repository

    repositories = open_given(given).config.repositories
    chosen = [find_repository(name, repositories) for name in repo or repositories]
    pattern = text.lower() if set("*?") & set(text) else f"*{text.lower()}*"
    found: list[tuple[str, CatalogueEntry]] = []
    failed: list[OdfBuildError] = []
    for settings in chosen:
        try:
            every = entries(open_repository(settings))
        except OdfBuildError as error:
            if len(chosen) == 1:
                raise
            failed.append(error)
            continue
        found += [
            (settings.name, entry)
            for entry in every
            if fnmatchcase(str(entry.alias).lower(), pattern)
        ]
    _print(found, output)
    for each in failed:
        sys.stderr.write(printable(f"warning: {each.what}") + "\n")
    return exits.PARTLY if failed else exits.DONE


def _print(found: list[tuple[str, CatalogueEntry]], output: str) -> None:
    forms = [_form(repository, each) for repository, each in found]
    if output == "json":
        document = {"format_version": "1.0", "datasets": forms}
        sys.stdout.write(printable_json(json.dumps(document, indent=2)) + "\n")
        return
    if output == "ndjson":
        sys.stdout.writelines(printable_json(json.dumps(each)) + "\n" for each in forms)
        return
    rows = [
        (
            f"{repository}/{each.alias}",
            "" if each.kind is None else kind_word(each.kind),
            "" if each.sequence is None else f"{each.sequence + 1:,}",
            "" if each.records is None else f"{each.records:,}",
            "" if each.size is None else bytes_text(each.size),
            "" if each.time is None else str(each.time),
        )
        for repository, each in found
    ]
    print_table(_COLUMNS, rows, [False, False, True, True, True, False])


def _form(repository: str, entry: CatalogueEntry) -> dict[str, Any]:
    return {
        "reference": f"{repository}/{entry.alias}",
        "id": None if entry.id is None else str(entry.id),
        "kind": None if entry.kind is None else entry.kind.value,
        "head": None if entry.head is None else str(entry.head),
        "sequence_number": entry.sequence,
        "records": entry.records,
        "bytes": entry.size,
        "time": None if entry.time is None else str(entry.time),
    }
