"""Agreement of a remembered state with the blocks at its head.

A checksum shows that a row of the index is as it was written, not that it was written of this head.
"""

from dataclasses import replace

from odfbuild.odf.chain.state import ChainState, fold
from odfbuild.odf.events import AddData, ExecuteTransform, MetadataBlock, Seed, SetTransform
from odfbuild.odf.identity import Multihash
from odfbuild.odf.wire.blocks import decode_block
from odfbuild.state.chain.objects import ObjectStore


def agrees(state: ChainState, blocks: ObjectStore) -> bool:
    """Tell whether the blocks from the last one with data to the head give nothing but this state.

    Blocks set facts, all but one whatever was before, so folding the last ones on the state that
    they left changes nothing.  Raises MissingObjectError, CorruptObjectError.
    """
    last = _last_blocks(state.head, blocks)
    known = None if isinstance(last[-1][1].event, Seed) else state
    is_whole = known is None
    for hash, block in reversed(last):
        known = fold(known, block, hash)
    if is_whole or not any(isinstance(block.event, SetTransform) for _, block in last):
        return known == state
    # whether a query is new depends on the one before it, which may be far back
    return known is not None and replace(known, transform_is_new=state.transform_is_new) == state


def _last_blocks(head: Multihash, blocks: ObjectStore) -> list[tuple[Multihash, MetadataBlock]]:
    """Return the head and what comes before, up to the last block that speaks of data."""
    found = [(head, decode_block(blocks.get(head)))]
    while not isinstance(found[-1][1].event, AddData | ExecuteTransform):
        before = found[-1][1].prev_block_hash
        if before is None:
            break
        found.append((before, decode_block(blocks.get(before))))
    return found
