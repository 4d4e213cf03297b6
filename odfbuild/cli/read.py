"""odfbuild log."""

import sys

from odfbuild import app
from odfbuild.cli import exits
from odfbuild.cli.opened import open_given
from odfbuild.cli.options import Given

__all__ = ["show_log"]


def show_log(given: Given, name: str, limit: int | None, ref: str) -> int:
    """Print the chain of a reference, newest block first."""
    from odfbuild.cli.chain import block_text
    from odfbuild.state.block_refs import back, find_ref

    project = open_given(given)
    dataset = app.find_dataset(project, name)
    blocks = back(dataset, find_ref(dataset, ref))
    for number, (block_hash, block) in enumerate(blocks):
        if limit is not None and number >= limit:
            break
        sys.stdout.write(block_text(block_hash, block))
    return exits.DONE
