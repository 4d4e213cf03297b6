"""odfbuild delegate: let working keys sign for a dataset, and take that back."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import Name, TableFormat
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.commands.manage.key import PassphraseFd, asked_once
from odfbuild.cli.commands.share.sign import parse_key
from odfbuild.errors import UsageRefusedError

if TYPE_CHECKING:
    from odfbuild import app
    from odfbuild.repositories.signatures.delegation import Delegation
    from odfbuild.repositories.signatures.signing import Passphrase
    from odfbuild.state.chain.dataset import Dataset
    from odfbuild.state.keys import PrivateKey

_COLUMNS = ("key", "from", "to", "serial", "state")


def delegate(
    given: ProjectArguments,
    name: Name,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="KEY", help="The did:key that may sign, from `odfbuild key new` there."
        ),
    ] = None,
    days: Annotated[
        int, typer.Option("--days", min=1, max=3_660, help="Number of days that it may sign.")
    ] = 90,
    withdraw: Annotated[
        str | None,
        typer.Option(
            "--withdraw",
            metavar="KEY",
            help="Revoke this key's delegation. Its signatures no longer count, so a head that it "
            "signed is signed by the dataset's key.",
        ),
    ] = None,
    passphrase_fd: PassphraseFd = None,
    output: TableFormat = "table",
) -> int:
    """Let another key sign heads of a dataset for some days. Without a key, list who may."""
    from odfbuild import app

    project = open_given(given)
    dataset = app.find_dataset(project, name)
    if to is not None and withdraw is not None:
        raise UsageRefusedError(
            what="--to and --withdraw are given together",
            why="one permits a key to sign, the other revokes that",
            fix="run one after the other",
        )
    if to is not None:
        _give(project, dataset, to, days, asked_once(passphrase_fd))
    elif withdraw is not None:
        _take_back(project, dataset, withdraw, asked_once(passphrase_fd))
    _list(dataset, output)
    return exits.DONE


def _give(project: app.Opened, dataset: Dataset, to: str, days: int, secret: Passphrase) -> None:
    from odfbuild.repositories.signatures import signing
    from odfbuild.repositories.signatures.acceptance import current_time
    from odfbuild.repositories.signatures.keys import PublicKey

    key = PublicKey.of(parse_key(to))
    if key == PublicKey.of(dataset.id):
        raise UsageRefusedError(
            what=f"{to} is the key of the dataset itself",
            why="it may always sign",
            fix="make a working key where heads are to be signed: odfbuild key new",
        )
    signing.delegate(dataset, _owner(project, dataset, secret), key, days, current_time())


def _take_back(project: app.Opened, dataset: Dataset, key: str, secret: Passphrase) -> None:
    from odfbuild.repositories.signatures import signing
    from odfbuild.repositories.signatures.acceptance import current_time
    from odfbuild.repositories.signatures.keys import PublicKey

    owner = _owner(project, dataset, secret)
    signing.withdraw(dataset, owner, PublicKey.of(parse_key(key)), current_time())


def _owner(project: app.Opened, dataset: Dataset, secret: Passphrase) -> PrivateKey:
    """Return the dataset's own key: nobody else can delegate."""
    keys = project.workspace.keys
    is_sealed = any(each.sealed for each in keys.kept() if each.dataset == dataset.id)
    return keys.load(dataset.id, secret(dataset.id) if is_sealed else None)


def _list(dataset: Dataset, output: str) -> None:
    from odfbuild.cli.terminal.console import print_table
    from odfbuild.repositories.signatures.acceptance import current_time
    from odfbuild.repositories.signatures.signing import read_delegations

    known, now = read_delegations(dataset), current_time()
    found = [] if known is None else known.read()
    states = ["in force" if each.covers(now) else "over" for each in found]
    if output == "json":
        listed = [_mapping(each, state) for each, state in zip(found, states, strict=True)]
        withdrawn = [] if known is None else sorted(map(str, known.withdrawn.serials))
        document = {"dataset": str(dataset.id), "delegations": listed, "withdrawn": withdrawn}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return
    rows = [
        (str(each.to), str(each.not_before), str(each.not_after), str(each.serial), state)
        for each, state in zip(found, states, strict=True)
    ]
    print_table(_COLUMNS, rows, [False, False, False, True, False])
    for key in () if known is None else sorted(map(str, known.withdrawn.serials)):
        sys.stdout.write(f"withdrawn: {key}\n")
    if rows or known is not None:
        sys.stdout.write("Readers see changes with the next push.\n")


def _mapping(delegation: Delegation, state: str) -> dict[str, Any]:
    return {
        "to": str(delegation.to),
        "notBefore": str(delegation.not_before),
        "notAfter": str(delegation.not_after),
        "serial": delegation.serial,
        "state": state,
    }
