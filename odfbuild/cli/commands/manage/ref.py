"""odfbuild ref list, set and delete."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from odfbuild import app
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import LockTimeout, Name, TableFormat
from odfbuild.cli.arguments.project import open_given
from odfbuild.state.chain.refs import RefPosition, advance, find_block, positions, remove

RefName = Annotated[str, typer.Argument(metavar="REF", help="The name of a reference.")]
_COLUMNS = ("reference", "block", "number", "to the head")


def list_(
    given: ProjectArguments,
    name: Name,
    output: TableFormat = "table",
) -> int:
    """List the references of a dataset, and how far each is from the head."""
    from odfbuild.cli.terminal.console import print_table

    dataset = app.find_dataset(open_given(given), name)
    found = positions(dataset)
    if output == "json":
        sys.stdout.write(json.dumps([_mapping(each) for each in found], indent=2) + "\n")
        return exits.DONE
    rows = [(each.name, str(each.block), _number(each), _distance(each)) for each in found]
    print_table(_COLUMNS, rows, [column == "number" for column in _COLUMNS])
    return exits.DONE


def set_(
    given: ProjectArguments,
    name: Name,
    ref: RefName,
    block: Annotated[
        str,
        typer.Argument(
            help="head, another reference, a sequence number, a hash, or six characters of its "
            "start or end."
        ),
    ] = "head",
    lock_timeout: LockTimeout = 10.0,
) -> int:
    """Create a reference to a block, or move one forward. Only apply moves the head."""
    dataset = app.find_dataset(open_given(given, lock_timeout=lock_timeout), name)
    target = find_block(dataset, block)
    before = advance(dataset, ref, target)
    change = "new" if before is None else "as it was" if before == target else f"was {before}"
    sys.stdout.write(f"{ref}  {target}  ({change})\n")
    return exits.DONE


def delete(
    given: ProjectArguments,
    name: Name,
    ref: RefName,
    lock_timeout: LockTimeout = 10.0,
) -> int:
    """Delete a reference. Blocks and data stay."""
    dataset = app.find_dataset(open_given(given, lock_timeout=lock_timeout), name)
    sys.stdout.write(f"{ref} is deleted; it was {remove(dataset, ref)}\n")
    return exits.DONE


def _number(at: RefPosition) -> str:
    return "-" if at.sequence is None else f"{at.sequence:,}"


def _distance(at: RefPosition) -> str:
    if at.problem is not None:
        return at.problem
    parts = [f"{at.ahead:,} beside"] if at.ahead else []
    return ", ".join([*parts, f"{at.behind:,} behind"]) if parts or at.behind else "-"


def _mapping(at: RefPosition) -> dict[str, str | int | None]:
    return {
        "name": at.name,
        "block": str(at.block),
        "sequenceNumber": at.sequence,
        "behind": None if at.problem else at.behind,
        "ahead": None if at.problem else at.ahead,
        "problem": at.problem,
    }
