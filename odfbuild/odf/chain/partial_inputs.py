"""Inputs in several blocks, and which blocks of a chain have one in part only.

The rows of a large input are in several AddData blocks, so are those of files that are read again
together, and the ids of pushes that were merged follow their rows.  The last of such blocks has the
state that the source is left in.  Each before it says in its place, with a kind of its own, that
more follows: reading on from there would give the rows of that block a second time.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from odfbuild.odf.events import (
    AddData,
    FetchStepFilesGlob,
    MetadataBlock,
    SetPollingSource,
    SourceState,
)
from odfbuild.odf.identity import Multihash

PUSH_ID: Final = "odfbuild/push-id"
"""The kind of a state that says which push a block is of."""
PARTIAL: Final = "odfbuild/partial"
"""The kind of a state that says that more blocks of the same input follow."""
_PARTIAL_OF: Final = f"{PARTIAL}:"
"""What the kind of a state begins with that says so beside its own."""


def partial_state(source: str, state: SourceState | None = None) -> SourceState:
    """Return the state of a block after which more of the same input follows."""
    if state is None:
        return SourceState(source_name=source, kind=PARTIAL, value="")
    return replace(state, kind=f"{_PARTIAL_OF}{state.kind}")


def is_partial(last: AddData | None) -> bool:
    """Tell of the last AddData of a chain whether more of the same input is to follow."""
    state = None if last is None else last.new_source_state
    return state is not None and (state.kind == PARTIAL or state.kind.startswith(_PARTIAL_OF))


def source_state_of(event: AddData) -> SourceState | None:
    """Return what a block says of its source, None if that is as before."""
    state = event.new_source_state
    if state is None or state.kind == PARTIAL:
        return None
    kind = state.kind.removeprefix(_PARTIAL_OF)
    return state if kind == state.kind else replace(state, kind=kind)


def blocks_in_part(
    blocks: Iterable[tuple[Multihash, MetadataBlock]],
) -> Iterator[tuple[Multihash, bool]]:
    """Yield each block of a chain, oldest first, and whether a chain that ends there is cut.

    Chains of earlier versions do not say it.  There it is what the same commit went on with: rows
    of a file whose name had not come yet, or the id of another push.
    """
    partial = by_files = False
    read: SourceState | None = None  # the state in the AddData before
    known: tuple[Multihash, MetadataBlock] | None = None
    for hash, block in blocks:
        if known is not None:
            at, before = known
            yield at, partial or _goes_on(before, block, read, by_files=by_files)
            if isinstance(before.event, AddData):
                read = before.event.new_source_state
        if isinstance(block.event, SetPollingSource):
            by_files = isinstance(block.event.fetch, FetchStepFilesGlob)
        if isinstance(block.event, AddData):
            partial = is_partial(block.event)
        known = hash, block
    if known is not None:
        yield known[0], partial


def _goes_on(
    block: MetadataBlock, following: MetadataBlock, read: SourceState | None, *, by_files: bool
) -> bool:
    """Tell of a block that does not say so whether the one after it is of the same input."""
    event, other = block.event, following.event
    if not (isinstance(event, AddData) and isinstance(other, AddData)):
        return False
    if block.system_time != following.system_time:
        return False
    if other.new_data is None:
        state = other.new_source_state
        return state is not None and state.kind == PUSH_ID
    return by_files and event.new_data is not None and event.new_source_state == read
