"""odfbuild sign: sign the heads of datasets by hand."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import ExistingSelection, TableFormat
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.commands.manage.key import PassphraseFd, asked_once
from odfbuild.errors import ProtocolError, StateError, UsageRefusedError

if TYPE_CHECKING:
    from odfbuild import app
    from odfbuild.odf.identity import DatasetId
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.odf.timestamp import Timestamp
    from odfbuild.repositories.signatures.signing import Passphrase
    from odfbuild.state.chain.dataset import Dataset

_DAY = 86_400 * 10**9


class UnknownKeyError(StateError):
    """The workspace does not have a key."""

    code = "unknown-key"


def sign(
    given: ProjectArguments,
    selection: ExistingSelection,
    witness: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="KEY",
            help="Sign as a witness with this did:key of the workspace: it states that the head "
            "was seen, not that it is right. Default: the dataset's key, or one it delegates "
            "to.",
        ),
    ] = None,
    days: Annotated[
        int | None,
        typer.Option(
            "--days",
            min=1,
            max=3_660,
            help="Number of days that the signature is valid; later, readers who require "
            "signatures refuse the head until it is signed again. Default: no expiry.",
        ),
    ] = None,
    passphrase_fd: PassphraseFd = None,
    output: TableFormat = "table",
) -> int:
    """Sign the heads of datasets. Push does this by itself if the workspace has the key."""
    from odfbuild.cli.arguments.selection import chosen_existing
    from odfbuild.repositories.signatures.acceptance import current_time

    project, now = open_given(given), current_time()
    known = project.workspace.names()
    secret = asked_once(passphrase_fd)
    signed = []
    for name in sorted(chosen_existing(project, selection)):
        dataset = project.workspace.dataset(known[name])
        if witness is not None:
            keys = _witness(project, dataset, witness, now, secret)
        else:
            keys = _owner(project, dataset, days, now, secret)
        signed.append(_json(name, dataset, keys))
    if output == "json":
        sys.stdout.write(json.dumps(signed, indent=2) + "\n")
    else:
        for each in signed:
            sys.stdout.write(f"{each['dataset']}  {each['head']}  signed by {each['by']}\n")
    return exits.DONE


def _owner(
    project: app.Opened, dataset: Dataset, days: int | None, now: Timestamp, secret: Passphrase
) -> str:
    from dataclasses import replace

    from odfbuild.repositories.signatures.memory import AcceptedHeads
    from odfbuild.repositories.signatures.signing import find_signing_key, sign_here

    memory = AcceptedHeads()
    void, published = memory.read_withdrawn(dataset.id), memory.read(dataset.id)
    key = find_signing_key(project.workspace.keys, dataset, now, secret, withdrawn=void)
    expires = None if days is None else replace(now, nanos=now.nanos + days * _DAY)
    sign_here(dataset, key, now, None if published is None else published.head, expires)
    return key.key_id


def _witness(
    project: app.Opened, dataset: Dataset, text: str, now: Timestamp, secret: Passphrase
) -> str:
    from odfbuild.repositories.signatures import signing

    id = kept_key(project, text)
    sealed = {each.dataset for each in project.workspace.keys.kept() if each.sealed}
    key = project.workspace.keys.load(id, secret(id) if id in sealed else None)
    signing.witness(dataset, key, now)
    return id.did_key()


def kept_key(project: app.Opened, text: str) -> DatasetId:
    """Return the key of the workspace that a did:key or did:odf names.  Raises UnknownKeyError."""
    id = parse_key(text)
    if not project.workspace.keys.has(id):
        raise UnknownKeyError(
            what=f"the workspace has no key {text}",
            why="signing needs the private part of the key",
            fix="odfbuild key list shows the keys; odfbuild key new makes one",
        )
    return id


def parse_key(text: str) -> DatasetId:
    """Read the name of a key, did:key or did:odf.  Raises UsageRefusedError."""
    from odfbuild.odf.identity import DatasetId

    try:
        return (
            DatasetId.from_did_key(text) if text.startswith("did:key:") else DatasetId.parse(text)
        )
    except ProtocolError as error:
        raise UsageRefusedError(
            what=error.what,
            why="a key is named by its public part",
            fix="write it as odfbuild key list shows it: did:key:z6Mk...",
        ) from None


def _json(name: DatasetAlias, dataset: Dataset, by: str) -> dict[str, str]:
    return {"dataset": str(name), "id": str(dataset.id), "head": str(dataset.head()), "by": by}
