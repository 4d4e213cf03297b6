"""History of inputs since their readers took them: blocks that are gone, other definitions.

How an input got to its head does not matter to the judgement of what reads it: a plan may be about
to bring it there, or a pull, a clone or an import has done so before.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from odfbuild.errors import OdfBuildError
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import AddPushSource, SetDataSchema, SetPollingSource, SetTransform
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.state.chain.dataset import holds
from odfbuild.state.memory.accepted_inputs import accepted_inputs
from odfbuild.state.workspace import Workspace

if TYPE_CHECKING:
    from odfbuild.planner.evolution.assess import TakenInputs

_DEFINING = (AddPushSource, SetDataSchema, SetPollingSource, SetTransform)


def rewritten_inputs(
    workspace: Workspace, current: Mapping[DatasetAlias, ChainState]
) -> Mapping[DatasetAlias, frozenset[DatasetId]]:
    """Return the rewritten inputs of each dataset that has some.

    Inputs with an unchanged head are not read; of others the blocks since then are.
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


def taken_inputs(
    workspace: Workspace,
    declared: Sequence[Declared],
    current: Mapping[DatasetAlias, ChainState],
) -> "TakenInputs":
    """Return, by reader, its undeclared inputs whose definition is another one by now.

    `current` are datasets as they are in the workspace.  Inputs with an unchanged head are not
    read; of others the blocks since then are, and all blocks only if one of these is a definition.
    """
    own = {each.alias for each in declared}
    outside = {state.dataset: state for alias, state in current.items() if alias not in own}
    if not outside:
        return {}
    known: dict[tuple[DatasetId, Multihash], ChainState | None] = {}
    found: dict[DatasetAlias, dict[DatasetId, ChainState]] = {}
    for each in declared:
        reader = current.get(each.alias)
        if reader is None:
            continue
        accepted: Mapping[DatasetId, Multihash] | None = None
        for input, read in reader.progress.items():
            last = read.new_block_hash or read.prev_block_hash
            if last is None or input not in outside or outside[input].head == last:
                continue
            if accepted is None:
                accepted = accepted_inputs(workspace, reader.dataset)
            last = _later(workspace, outside[input], last, accepted.get(input))
            if (input, last) not in known:
                known[input, last] = _state_if_redefined(workspace, outside[input], last)
            state = known[input, last]
            if state is not None:
                found.setdefault(each.alias, {})[input] = state
    return found


def _later(
    workspace: Workspace, now: ChainState, last: Multihash, accepted: Multihash | None
) -> Multihash:
    """Return the block up to which changes need no judgement: taken in, or accepted after that."""
    if accepted is None:
        return last
    dataset = workspace.dataset(now.dataset)
    with suppress(OdfBuildError):  # of a history that was rewritten since
        is_after = dataset.block(accepted).sequence_number > dataset.block(last).sequence_number
        if is_after and holds(dataset, accepted, now.head):
            return accepted
    return last


def _state_if_redefined(
    workspace: Workspace, now: ChainState, last: Multihash
) -> ChainState | None:
    dataset = workspace.dataset(now.dataset)
    if now.head == last:
        return None
    try:
        since = dataset.blocks(after=last, upto=now.head)
        if not any(isinstance(block.event, _DEFINING) for _, block in since):
            return None
        return dataset.state(last)
    except OdfBuildError:
        return None  # of a rewritten input and of a damaged chain others tell
