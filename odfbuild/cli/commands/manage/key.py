"""odfbuild key list, export and import, and passphrases.

They are not printed, and what asks for one says for what.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild import app
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import TableFormat
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.files import read_bounded, refuse_taken, write_new
from odfbuild.cli.render.diagnostics import render_diagnostics
from odfbuild.errors import Diagnostic, Level, OdfBuildError, StateError
from odfbuild.odf.identity import DatasetId
from odfbuild.state.keys import KeptKey, sealed
from odfbuild.state.keys.sealed import (
    MAX_FILE_BYTES,
    OpenKey,
    SealedKey,
    key_text,
    parse_key,
    unseal,
)

if TYPE_CHECKING:
    from odfbuild.odf.refs import DatasetAlias

VARIABLE = "ODFBUILD_KEY_PASSPHRASE"
_LONGEST = 4096
PassphraseFd = Annotated[
    int | None,
    typer.Option(
        "--passphrase-fd",
        min=0,
        metavar="FD",
        help="Read the passphrase from this file descriptor. Default: the variable "
        "ODFBUILD_KEY_PASSPHRASE, else a prompt.",
    ),
]


class PassphraseError(OdfBuildError):
    """A passphrase is needed, but none or an unusable one was given."""

    code = "usage"


def passphrase(purpose: str, *, new: bool, descriptor: int | None = None) -> str:
    """Return a passphrase; on a terminal a new one is asked for twice."""
    if descriptor is not None:
        return _check_passphrase(_from_descriptor(descriptor))
    if (given := os.environ.get(VARIABLE)) is not None:
        return _check_passphrase(given)
    if not sys.stdin.isatty():
        raise PassphraseError(
            what=f"a passphrase is needed to {purpose}, and there is no terminal to enter it",
            why="standard input is not a terminal",
            fix=f"set the variable {VARIABLE}, or name a descriptor: --passphrase-fd 3",
        )
    return _check_passphrase(_ask_passphrase(purpose, new=new))


def asked_once(descriptor: int | None = None) -> Callable[[DatasetId], str]:
    """Return what gives the passphrase of a sealed key; what a descriptor has is read once."""
    known: list[str] = []

    def secret(key: DatasetId) -> str:
        if descriptor is None:
            return passphrase(f"unlock the key {key}", new=False)
        if not known:
            known.append(passphrase(f"unlock the key {key}", new=False, descriptor=descriptor))
        return known[0]

    return secret


def _ask_passphrase(purpose: str, *, new: bool) -> str:
    from getpass import getpass

    given = getpass(f"Passphrase to {purpose}: ", stream=sys.stderr)
    if new and getpass("Repeat it: ", stream=sys.stderr) != given:
        raise PassphraseError(
            what="the two passphrases differ",
            why="one of them is mistyped, and a sealed key cannot be unlocked without its "
            "passphrase",
            fix="run the command again",
        )
    return given


def _from_descriptor(descriptor: int) -> str:
    """Return the first line that a descriptor gives."""
    try:
        with open(descriptor, "rb", closefd=False) as opened:
            line = opened.read(_LONGEST + 1).partition(b"\n")[0]
        return line.removesuffix(b"\r").decode()
    except (OSError, UnicodeDecodeError):
        raise PassphraseError(
            what=f"no passphrase can be read from descriptor {descriptor}",
            why="it is not open for reading, or does not give UTF-8 text",
            fix="open it in the same command: odfbuild key ... --passphrase-fd 3 3<FILE",
        ) from None


def _check_passphrase(given: str) -> str:
    if not given or len(given) > _LONGEST or not _is_text(given):
        raise PassphraseError(
            what="this is not a valid passphrase",
            why=f"a passphrase is text of 1 to {_LONGEST:,} characters",
            fix="choose another one",
        )
    return given


def _is_text(given: str) -> bool:
    try:
        given.encode()
    except UnicodeEncodeError:
        return False
    return True


_COLUMNS = ("dataset", "key", "mode", "id", "did:key")


class AlreadySealedError(StateError):
    """The key is sealed already."""

    code = "already-sealed"


def list_(
    given: ProjectArguments,
    output: TableFormat = "table",
) -> int:
    """List the private keys of the workspace, and warn of those that others can read."""
    from odfbuild.cli.terminal.console import print_table

    project = open_given(given)
    kept = project.workspace.keys.kept()
    names = project.workspace.aliases()
    if output == "json":
        listed = [_mapping(each, names.get(each.dataset)) for each in kept]
        sys.stdout.write(json.dumps(listed, indent=2) + "\n")
    else:
        rows = [_row(each, names.get(each.dataset)) for each in kept]
        print_table(_COLUMNS, rows, [False] * len(_COLUMNS))
        sys.stdout.write(f"{_summary(kept, set(names))}\n")
    _warn([each for each in kept if not each.is_private])
    return exits.DONE


def new(
    given: ProjectArguments,
    seal: Annotated[bool, typer.Option("--seal", help="Encrypt it with a passphrase.")] = False,
    passphrase_fd: PassphraseFd = None,
) -> int:
    """Make a working key, to which a dataset's key can delegate, and print its did:key."""
    project = open_given(given)
    if seal:
        secret = passphrase("seal the new key", new=True, descriptor=passphrase_fd)
        made = project.workspace.keys.new_working_key(lambda key: sealed.seal(key, secret))
    else:
        made = project.workspace.keys.new_working_key()
    sys.stdout.write(f"{made.did_key()}\n")
    return exits.DONE


def export(
    given: ProjectArguments,
    name: Annotated[
        str,
        typer.Argument(metavar="DATASET", help="A dataset by name or did:odf, or a did:key."),
    ],
    file: Annotated[Path, typer.Argument(help="The file to write; it must not exist.")],
    seal: Annotated[bool, typer.Option("--seal", help="Encrypt it with a passphrase.")] = False,
    passphrase_fd: PassphraseFd = None,
) -> int:
    """Write the private key of a dataset to a file that only you can read."""
    project = open_given(given)
    dataset = _dataset(project, name)
    key = project.workspace.keys.export(dataset)
    refuse_taken(file)
    if seal:
        if isinstance(key, SealedKey):
            raise AlreadySealedError(
                what=f"the key of {name} is sealed already",
                why="it is stored as it was imported, with its own passphrase",
                fix="export it without --seal",
            )
        key = sealed.seal(
            key, passphrase(f"seal the key of {name}", new=True, descriptor=passphrase_fd)
        )
    write_new(file, key_text(key).encode(), mode=0o600)
    how = (
        "sealed" if isinstance(key, SealedKey) else "not sealed: anyone who can read it has the key"
    )
    sys.stdout.write(f"{file}: the key of {dataset}, {how}\n")
    return exits.DONE


def import_(
    given: ProjectArguments,
    file: Annotated[Path, typer.Argument(help="A file that `key export` wrote.")],
    passphrase_fd: PassphraseFd = None,
) -> int:
    """Import a private key into the workspace. A sealed key stays sealed."""
    project = open_given(given)
    key = parse_key(read_bounded(file, MAX_FILE_BYTES), str(file))
    if isinstance(key, SealedKey):
        secret = passphrase(f"check the key in {file}", new=False, descriptor=passphrase_fd)
        unseal(key, secret)
    elif str(file) != "-" and (mode := file.stat().st_mode) & 0o077:
        _say(_mode_warning(str(file), mode))
    taken = project.workspace.keys.take(key)
    how = "open" if isinstance(key, OpenKey) else "sealed"
    outcome = f"stored, {how}" if taken else "here already; nothing was changed"
    sys.stdout.write(f"the key of {key.dataset} is {outcome}\n")
    return exits.DONE


def _dataset(project: app.Opened, name: str) -> DatasetId:
    """Return the id of a dataset or key that is given by it, or by a dataset's name."""
    if name.startswith("did:key:"):
        return DatasetId.from_did_key(name)
    if name.startswith("did:"):
        return DatasetId.parse(name)
    return project.workspace.names()[app.find_name(project, name)]


def _row(kept: KeptKey, alias: DatasetAlias | None) -> tuple[str, ...]:
    return (
        "-" if alias is None else str(alias),
        "sealed" if kept.sealed else "open",
        f"{kept.mode:04o}" + ("" if kept.is_private else " (!)"),
        str(kept.dataset),
        kept.dataset.did_key(),
    )


def _mapping(kept: KeptKey, alias: DatasetAlias | None) -> dict[str, str | bool | None]:
    return {
        "id": str(kept.dataset),
        "didKey": kept.dataset.did_key(),
        "dataset": None if alias is None else str(alias),
        "sealed": kept.sealed,
        "mode": f"{kept.mode:04o}",
        "private": kept.is_private,
    }


def _summary(kept: Sequence[KeptKey], datasets: set[DatasetId]) -> str:
    total = f"{len(kept):,} key{'' if len(kept) == 1 else 's'}"
    without = len(datasets - {each.dataset for each in kept})
    if not without:
        return total
    return f"{total}; {without:,} dataset{'' if without == 1 else 's'} without one"


def _warn(exposed: Sequence[KeptKey]) -> None:
    if exposed:
        _say(*(_mode_warning(str(each.path), each.mode) for each in exposed))


def _mode_warning(path: str, mode: int) -> Diagnostic:
    return Diagnostic(
        code="unsafe-key",
        what=f"{path} has mode {mode & 0o777:04o}",
        why="only its owner may read a private key",
        fix=f"chmod 600 {path}",
        level=Level.WARNING,
    )


def _say(*found: Diagnostic) -> None:
    sys.stderr.write(render_diagnostics(found) + "\n")
