"""Divergence: inputs that no longer hold the block that a derivative read last."""

from collections.abc import Mapping

from odfbuild.errors import OdfBuildError
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.dataset import holds
from odfbuild.state.workspace import Workspace


def rewritten_inputs(
    workspace: Workspace, current: Mapping[DatasetAlias, ChainState]
) -> Mapping[DatasetAlias, frozenset[DatasetId]]:
    """Return the rewritten inputs of each dataset that has some.

    Nothing is read of inputs that stand where they stood; of others the blocks since.
    """
    heads = {state.dataset: state.head for state in current.values()}
    known: dict[tuple[DatasetId, Multihash], bool] = {}

    def is_held(input: DatasetId, block: Multihash | None) -> bool:
        head = heads.get(input)
        if block is None or head is None or head == block:
            return True
        if (input, block) not in known:
            known[input, block] = _holds(workspace, input, block, head)
        return known[input, block]

    found: dict[DatasetAlias, frozenset[DatasetId]] = {}
    for alias, state in current.items():
        read = state.progress
        lost = {each for each in read if not is_held(each, read[each].new_block_hash)}
        if lost:
            found[alias] = frozenset(lost)
    return found


def _holds(workspace: Workspace, input: DatasetId, block: Multihash, head: Multihash) -> bool:
    try:
        return holds(workspace.dataset(input), block, head)
    except OdfBuildError:
        return True  # a damaged chain says nothing of the sort: verify does
