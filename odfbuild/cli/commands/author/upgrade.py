"""odfbuild upgrade: rewrite manifests of older specifications, in place and file by file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from odfbuild.cli import exits
from odfbuild.cli.arguments.options import Check
from odfbuild.cli.files import definitions_in, editing, read_definition, refusal_of, replace_file
from odfbuild.cli.render.diagnostics import render_diagnostics
from odfbuild.cli.terminal.console import printable
from odfbuild.errors import Diagnostic, ProjectError, ProjectErrors
from odfbuild.project import upgrade as manifests
from odfbuild.project.yaml import decode
from odfbuild.values import dataclass

_WHY = "files that are not read cannot be upgraded"
_BOM = b"\xef\xbb\xbf"


class UsageError(ProjectError):
    """Options of the command line exclude each other."""

    code = "usage"


@dataclass(frozen=True, slots=True)
class _UpgradedFile:
    path: Path
    data: bytes
    upgrade: manifests.ManifestUpgrade

    @property
    def changes(self) -> bool:
        return bool(self.upgrade.edits)

    def upgraded(self) -> bytes:
        mark = _BOM if self.data.startswith(_BOM) else b""
        return mark + self.upgrade.text.encode()


def upgrade(
    paths: Annotated[list[Path], typer.Argument(help="Files, or folders of definitions.")],
    check: Check = False,
    to_stdout: Annotated[
        bool,
        typer.Option("--stdout", help="Print the result instead of writing it; for a single file."),
    ] = False,
) -> int:
    """Rewrite manifests of older specifications. Comments and layout are preserved.

    With `check` nothing is written; with `to_stdout` the one file is printed instead.
    """
    names = [name for path in paths for name in definitions_in(path)]
    if to_stdout and (check or len(paths) != 1 or names != [*paths]):
        raise UsageError(
            what="--stdout takes one file, and no --check",
            why="the texts of several files could not be separated",
            fix="odfbuild upgrade --stdout FILE",
        )
    with nullcontext() if check or to_stdout else editing(*names):
        files, problems = _read(names)
        changed = [each for each in files if each.changes]
        if to_stdout:
            sys.stdout.write("".join(each.upgraded().decode("utf-8-sig") for each in files))
        elif not check:
            for each in changed:
                replace_file(each.path, each.upgraded())
    print(
        _summary(files, written=not check and not to_stdout),
        file=sys.stderr if to_stdout else sys.stdout,
    )
    if problems:
        sys.stderr.write(render_diagnostics(problems) + "\n")
        wrote = changed and not check and not to_stdout
        return exits.PARTLY if wrote else exits.ERROR
    return exits.REFUSED if check and changed else exits.DONE


def upgrade_safely(paths: Sequence[Path]) -> str:
    """Rewrite the files of which nothing is lost; say what was changed, nothing if nothing was.

    What is wrong with others is left to be said when they are read.
    """
    names = [name for path in paths for name in definitions_in(path)]
    with editing(*names):
        files, _ = _read(names)
        changed = [each for each in files if each.changes and not each.upgrade.lost]
        for each in changed:
            replace_file(each.path, each.upgraded())
    return f"{_summary(changed, written=True)}\n" if changed else ""


def _read(paths: Sequence[Path]) -> tuple[list[_UpgradedFile], list[Diagnostic]]:
    """Return every file with its new text, and what stands in the way of others."""
    files: list[_UpgradedFile] = []
    problems: list[Diagnostic] = []
    for path in dict.fromkeys(paths):
        try:
            data = _bytes(path)
            new = manifests.upgrade(decode(data, str(path)), str(path))
        except ProjectErrors as error:
            problems += error.found
            continue
        problems += new.refused
        files.append(_UpgradedFile(path, data, new))
    return files, problems


def _bytes(path: Path) -> bytes:
    if path.name.endswith(".j2"):
        fix = "change it by hand: docs/upgrade.md"
        raise refusal_of(path, "templates are not rewritten", _WHY, fix)
    return read_definition(path, _WHY)


def _summary(files: Sequence[_UpgradedFile], *, written: bool) -> str:
    """Return one line for each change, then what could not be expressed, then the count."""
    parts = [
        printable(f"{each.span}: {each.what}") for file in files for each in file.upgrade.rewrites
    ]
    lost = [found for file in files for found in file.upgrade.lost]
    if lost:
        parts += ["", render_diagnostics(lost), ""]
    changed = sum(file.changes for file in files)
    if not changed:
        parts.append(f"Nothing to change in {_count(len(files), 'file')}.")
    else:
        did = "rewritten" if written else "would be rewritten"
        parts.append(f"{_count(changed, 'file')} {did}, {len(files) - changed} up to date.")
    return "\n".join(parts)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
