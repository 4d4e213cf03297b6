"""odfbuild log: the blocks of the chain of a dataset, newest first."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild import app
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import Name, StoreOffline
from odfbuild.cli.arguments.project import open_given
from odfbuild.errors import OdfBuildError
from odfbuild.state.chain.dataset import Dataset, ForeignChainError

if TYPE_CHECKING:
    from odfbuild.odf.identity import Multihash


def log(
    given: ProjectArguments,
    name: Name,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", min=1, help="Only the newest N blocks.")
    ] = None,
    ref: Annotated[str, typer.Option("--ref", help="Show the chain of this reference.")] = "head",
    offline: StoreOffline = False,
) -> int:
    """Show the metadata chain of a dataset, newest block first."""
    from odfbuild.cli.render.dataset import block_text
    from odfbuild.state.chain.refs import ancestry, find_ref

    project = open_given(given, offline=offline)
    dataset = app.find_dataset(project, name)
    target = find_ref(dataset, ref)
    _refuse_foreign(dataset, target)
    blocks = ancestry(dataset, target)
    for number, (block_hash, block) in enumerate(blocks):
        if limit is not None and number >= limit:
            break
        sys.stdout.write(block_text(block_hash, block))
    return exits.DONE


def _refuse_foreign(dataset: Dataset, target: Multihash | None) -> None:
    """Raise ForeignChainError; a chain that is damaged is shown as far as it can be read."""
    try:
        dataset.state(target)
    except ForeignChainError:
        raise
    except (OdfBuildError, OSError):
        return
