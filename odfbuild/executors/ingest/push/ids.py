"""Ids of the pushes of a chain, found without walking the complete chain.

A push with an id leaves it as the state of its source, of the kind `odfbuild/push-id`, in the block
that it makes.  That block is the truth; the index only remembers where it is, and where what it
remembers is not as it was written, all blocks are read again.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from odfbuild.odf.chain.partial_inputs import PUSH_ID, source_state_of
from odfbuild.odf.events import AddData, MetadataBlock, SourceState
from odfbuild.odf.identity import Multihash
from odfbuild.state.chain.dataset import Dataset, NotInChainError
from odfbuild.state.chain.index import Index, PushId
from odfbuild.state.chain.objects import MissingObjectError


def push_state(source: str, id: str) -> SourceState:
    """Return what a block says of a push with an id."""
    return SourceState(source_name=source, kind=PUSH_ID, value=id)


def has_push(dataset: Dataset, index: Index, source: str, id: str) -> bool:
    """Tell whether the chain of a dataset has a push of this source with this id.

    The blocks since the last time anybody asked are read, and one more where the id is found.
    """
    state = dataset.state()
    if state is None or source not in state.source_state:
        return False
    wanted = push_state(source, id)
    if state.source_state[source] == wanted:
        return True
    known = index.pushed_upto(dataset.id)
    try:
        return _is_known(dataset, index, wanted, known, state.head)
    except NotInChainError:
        if dataset.head() != state.head:  # somebody else went on meanwhile
            return has_push(dataset, index, source, id)
        return _is_known(dataset, index, wanted, None, state.head)  # the head was set back


def _is_known(
    dataset: Dataset,
    index: Index,
    wanted: SourceState,
    known: Multihash | None,
    head: Multihash,
) -> bool:
    new = list(_pushes(dataset.blocks(after=known, upto=head)))
    if known != head:
        index.put_pushes(dataset.id, new, after=known, upto=head)
    if any((each.source, each.id) == (wanted.source_name, wanted.value) for each in new):
        return True
    if known is None:
        return False
    found = index.push(dataset.id, wanted.source_name, wanted.value, head)
    if found is not None and (found.block is None or _holds(dataset, found.block, wanted)):
        return found.block is not None
    return _is_known(dataset, index, wanted, None, head)  # the index is wrong


def _holds(dataset: Dataset, block: Multihash, wanted: SourceState) -> bool:
    with suppress(MissingObjectError):
        return _state_in(dataset.block(block)) == wanted
    return False


def _pushes(blocks: Iterable[tuple[Multihash, MetadataBlock]]) -> Iterator[PushId]:
    for hash, block in blocks:
        state = _state_in(block)
        if state is not None and state.kind == PUSH_ID:
            yield PushId(state.source_name, state.value, hash)


def _state_in(block: MetadataBlock) -> SourceState | None:
    return source_state_of(block.event) if isinstance(block.event, AddData) else None
