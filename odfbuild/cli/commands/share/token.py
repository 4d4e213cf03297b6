"""odfbuild token new, list and revoke."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import TableFormat
from odfbuild.cli.commands.share.serve import (
    ServedWorkspace,
    TokensOption,
    served_place,
    tokens_of,
)
from odfbuild.errors import UsageRefusedError
from odfbuild.serve.tokens import TokenScope

if TYPE_CHECKING:
    from odfbuild.serve.tokens import KeptToken

_COLUMNS = ("id", "label", "scopes", "datasets", "account", "expires")


def new(
    given: ProjectArguments,
    label: Annotated[
        str, typer.Argument(metavar="LABEL", help="Its purpose, as shown in the log.")
    ],
    scope: Annotated[
        list[TokenScope] | None,
        typer.Option("--scope", help="What it allows; may be repeated. Default: read."),
    ] = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            "--dataset",
            metavar="PATTERN",
            help="Names of datasets, such as team/*; may be repeated. Default: all.",
        ),
    ] = None,
    account: Annotated[
        str | None,
        typer.Option(
            "--account",
            help="The account that it writes for, on a multi-tenant server.",
        ),
    ] = None,
    expires: Annotated[
        str, typer.Option("--expires", metavar="TIME", help="Time until it expires, or never.")
    ] = "90d",
    workspace: ServedWorkspace = None,
    tokens: TokensOption = None,
) -> int:
    """Make a token and print it once: only its hash is stored."""
    from odfbuild.serve.tokens import TokenFile

    folder = served_place(given, workspace).folder
    now = datetime.now(UTC).replace(microsecond=0)
    token, kept = TokenFile(tokens_of(folder, tokens)).new(
        label=label,
        scopes=frozenset(scope or (TokenScope.READ,)),
        patterns=tuple(dataset or ("*",)),
        account=account,
        created=now,
        expires=_end(expires, now),
    )
    sys.stderr.write(f"{_words(kept)}\nIt is not stored and not shown again:\n")
    sys.stderr.flush()
    sys.stdout.write(f"{token}\n")
    return exits.DONE


def list_(
    given: ProjectArguments,
    workspace: ServedWorkspace = None,
    tokens: TokensOption = None,
    output: TableFormat = "table",
) -> int:
    """List the tokens of the server: what each allows, and until when."""
    from odfbuild.cli.terminal.console import print_table
    from odfbuild.serve.tokens import TokenFile

    kept = TokenFile(tokens_of(served_place(given, workspace).folder, tokens)).all()
    if output == "json":
        sys.stdout.write(json.dumps([_mapping(each) for each in kept], indent=2) + "\n")
        return exits.DONE
    now = datetime.now(UTC)
    print_table(_COLUMNS, [_row(each, now) for each in kept], [False] * len(_COLUMNS))
    return exits.DONE


def revoke(
    given: ProjectArguments,
    token: Annotated[str, typer.Argument(metavar="ID", help="The id or the label of a token.")],
    workspace: ServedWorkspace = None,
    tokens: TokensOption = None,
) -> int:
    """Revoke a token. A running server refuses it at once."""
    from odfbuild.serve.tokens import TokenFile

    kept = TokenFile(tokens_of(served_place(given, workspace).folder, tokens)).revoke(token)
    sys.stdout.write(f"{kept.id}  {kept.label}  is revoked\n")
    return exits.DONE


def _end(text: str, now: datetime) -> datetime | None:
    from odfbuild.project.config.quantities import parse_lag

    if text == "never":
        return None
    length = parse_lag(text)
    if length is None or length <= 0:
        raise UsageRefusedError(
            what=f"--expires {text}: not a length of time",
            why="tokens expire, so that a lost one does not stay valid",
            fix="write a number with a unit, such as 12h, 90d or 1w; or never",
        )
    return now + timedelta(milliseconds=length)


def _words(kept: KeptToken) -> str:
    scopes = ", ".join(sorted(each.value for each in kept.scopes))
    until = "for ever" if kept.expires is None else f"until {kept.expires:%Y-%m-%d %H:%M} UTC"
    return f"Token {kept.id}, {kept.label}: {scopes} of {', '.join(kept.patterns)}, {until}."


def _row(kept: KeptToken, now: datetime) -> tuple[str, ...]:
    until = "never" if kept.expires is None else f"{kept.expires:%Y-%m-%d %H:%M}"
    return (
        kept.id,
        kept.label,
        " ".join(sorted(each.value for each in kept.scopes)),
        " ".join(kept.patterns),
        kept.account or "-",
        until if kept.is_valid(now) else f"{until} (expired)",
    )


def _mapping(kept: KeptToken) -> dict[str, object]:
    return {
        "id": kept.id,
        "label": kept.label,
        "scopes": sorted(each.value for each in kept.scopes),
        "datasets": list(kept.patterns),
        "account": kept.account,
        "created": kept.created.isoformat(),
        "expires": None if kept.expires is None else kept.expires.isoformat(),
    }
