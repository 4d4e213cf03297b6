"""odfbuild status and log."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from odfbuild import app
from odfbuild.cli import exits
from odfbuild.cli.opened import open_given
from odfbuild.cli.options import Given

if TYPE_CHECKING:
    from odfbuild.state.applied import Applied
    from odfbuild.state.lock import Holder

__all__ = ["show_log", "show_status"]

_COLUMNS = (
    "dataset", "kind", "head", "blocks", "records", "watermark", "last block", "last result",
)  # fmt: skip


def show_status(given: Given, selectors: Sequence[str] = (), exclude: Sequence[str] = ()) -> int:
    """Print one line a dataset; who is changing one just now is told, too."""
    from odfbuild.cli.selection import chosen_existing
    from odfbuild.cli.tables import print_table
    from odfbuild.state.applied import recall_applied

    project = open_given(given)
    states = project.workspace.states()
    if selectors or exclude:
        wanted = chosen_existing(project, selectors, exclude)
        states = {alias: state for alias, state in states.items() if alias in wanted}
    applied = recall_applied(project.workspace.root, states)
    locks = project.workspace.locks()
    rows = [
        (
            str(alias),
            state.kind.value.lower(),
            state.head.short(),
            f"{state.sequence + 1:,}",
            f"{state.next_offset:,}",
            "-" if state.watermark is None else str(state.watermark),
            str(state.system_time),
            _result(applied.get(alias)),
            *([_holder(locks.get(state.dataset))] if locks else []),
        )
        for alias, state in sorted(states.items())
    ]
    columns = (*_COLUMNS, *(["locked by"] if locks else []))
    print_table(columns, rows, [name in {"blocks", "records"} for name in columns])
    noun = "dataset" if len(rows) == 1 else "datasets"
    sys.stdout.write(f"{len(rows):,} {noun}\n")
    return exits.DONE


def _result(applied: "Applied | None") -> str:
    """Return how the last apply that ended left a dataset."""
    if applied is None:
        return "-"
    return "failed" if applied.failed else "ok"


def _holder(holder: "Holder | None") -> str:
    return "-" if holder is None else str(holder)


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
