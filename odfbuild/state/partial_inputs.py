"""Chains that end inside of an input: not read on from; reset refuses to make one."""

from collections.abc import Iterable, Mapping
from typing import Final

from odfbuild.errors import OdfBuildError, StateError
from odfbuild.odf.chain.partial_inputs import blocks_in_part, is_partial
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace

_WHY: Final = (
    "an input is in several blocks if it has many rows, if files were read again together, or if "
    "pushes were merged; continuing from the middle of it would duplicate rows"
)


class PartialInputError(StateError):
    """A chain ends, or would end, between the blocks of one source file."""

    code = "partial-input"


def in_part(dataset: Dataset, state: ChainState, called: str) -> PartialInputError:
    """Return what is wrong with a chain whose last data has an input in part."""
    found = blocks_in_part(dataset.blocks(upto=state.head))
    before = [hash for hash, inside in found if not inside][-1]
    return PartialInputError(
        what=(
            f"'{called}' ends in the middle of an input: its last block has only a part of the rows"
        ),
        why=f"it was reset by hand or by another program, or copied in part; {_WHY}",
        fix=f"odfbuild reset {called} {before.short()} resets it to before that input, then "
        "apply; or pull the rest of the chain",
    )


def chains_in_part(
    workspace: Workspace, names: Iterable[DatasetAlias], states: Mapping[DatasetAlias, ChainState]
) -> dict[DatasetAlias, OdfBuildError]:
    """Return what is wrong with those of the named chains that end inside of an input."""
    return {
        name: in_part(workspace.dataset(state.dataset), state, str(name))
        for name in names
        if (state := states.get(name)) is not None and is_partial(state.last_add_data)
    }


def check_target(dataset: Dataset, to: Multihash, head: Multihash, called: str) -> None:
    """Refuse a block that has an input in part as the last one.  Raises PartialInputError.

    `head` is the last block now; `to` is before it, or was the last one at some time.
    """
    found = dict(blocks_in_part(dataset.blocks(upto=head)))
    if to not in found:
        found = dict(blocks_in_part(dataset.blocks(upto=to)))
    if not found[to]:
        return
    hashes = list(found)
    at = hashes.index(to)
    before = next(hash for hash in reversed(hashes[:at]) if not found[hash])
    after = next((hash for hash in hashes[at:] if not found[hash]), None)
    ways = [f"odfbuild reset {called} {before.short()}, the last block before that input"]
    ways += (
        []
        if after in {None, head}
        else [f"odfbuild reset {called} {after.short()}, its last block"]
    )
    raise PartialInputError(
        what=f"the block {to.short()} of {called} is in the middle of an input: more of its rows "
        "follow",
        why=_WHY,
        fix="; or ".join(ways),
    )
