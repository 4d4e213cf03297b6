"""odfbuild fmt: lay out definitions in one way, keeping their comments."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import Check
from odfbuild.cli.files import definitions_in, editing, read_definition, replace_file
from odfbuild.cli.render.diagnostics import render_diagnostics
from odfbuild.cli.terminal.console import printable
from odfbuild.errors import Diagnostic, Level, ProjectErrors
from odfbuild.project.yaml import decode
from odfbuild.project.yaml.format import UnformattableError, formatted, trimmed
from odfbuild.values import dataclass

_WHY = "files that are not read cannot be formatted"


@dataclass(frozen=True, slots=True)
class _FormattedFile:
    path: Path
    before: bytes
    after: bytes


def fmt(
    given: ProjectArguments,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PATH]...", help="Files or folders. Default: the whole project."),
    ] = None,
    check: Check = False,
) -> int:
    """Format definitions: indentation and order of keys. Comments are preserved.

    What is laid out in an unusual way is left alone with a warning.
    """
    names = list(_definition_files(paths) if paths else _of_project(given))
    with nullcontext() if check else editing(*names):
        files, found = _read(names)
        changed = [each for each in files if each.before != each.after]
        if not check:
            for each in changed:
                replace_file(each.path, each.after)
    sys.stdout.write("".join(f"{printable(str(each.path))}\n" for each in changed))
    sys.stderr.write(f"{_summary(len(changed), len(files), check=check)}\n")
    if found:
        sys.stderr.write(render_diagnostics(found) + "\n")
    if any(each.level is Level.ERROR for each in found):
        return exits.PARTLY if changed and not check else exits.ERROR
    return exits.REFUSED if check and changed else exits.DONE


def _definition_files(paths: Sequence[Path]) -> Iterator[Path]:
    yield from dict.fromkeys(name for path in paths for name in definitions_in(path))


def _of_project(given: ProjectArguments) -> Iterator[Path]:
    """Yield the project file and all definitions, as seen from where the command runs."""
    from odfbuild.project import PROJECT_FILE
    from odfbuild.project.config.project_file import find_project, load_config
    from odfbuild.project.fingerprint import project_files

    root = find_project(Path.cwd(), given.directory)
    config = load_config(root)
    here = Path.cwd()
    shown = root.relative_to(here) if root.is_relative_to(here) else root
    yield from (shown / name for name in (PROJECT_FILE, *project_files(root, config.datasets)))


def _read(paths: Sequence[Path]) -> tuple[list[_FormattedFile], list[Diagnostic]]:
    """Return every file with its new content, and what stands in the way of others."""
    files: list[_FormattedFile] = []
    found: list[Diagnostic] = []
    for path in paths:
        try:
            before = read_definition(path, _WHY)
            files.append(_FormattedFile(path, before, _laid_out(before, path)))
        except UnformattableError as unusual:
            found += _warnings(unusual)
        except ProjectErrors as error:
            found += error.found
    return files, found


def _laid_out(data: bytes, path: Path) -> bytes:
    text = decode(data, str(path))
    made = trimmed(text) if path.name.endswith(".j2") else formatted(text, str(path))
    return made.encode()


def _warnings(error: UnformattableError) -> Iterator[Diagnostic]:
    for each in error.diagnostics():
        yield Diagnostic(
            code=each.code,
            what=each.what,
            why=each.why,
            fix=each.fix,
            span=each.span,
            level=Level.WARNING,
        )


def _summary(changed: int, files: int, *, check: bool) -> str:
    noun = "file" if changed == 1 else "files"
    did = "would change" if check else "changed"
    return f"{changed:,} {noun} {did}, {files - changed:,} unchanged."
