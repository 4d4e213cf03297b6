"""Whether a block is still among those that a dataset's head reaches."""

from odfbuild.odf.identity import Multihash
from odfbuild.state.dataset import Dataset

__all__ = ["holds"]


def holds(dataset: Dataset, hash: Multihash) -> bool:
    """Say whether the head reaches a block.  Reads only the blocks that came after it.

    A block whose bytes are gone is reached by nothing: then no block is read but the head's.
    """
    at = dataset.head()
    if at == hash or not dataset.stores.blocks.has(hash):
        return at == hash
    number = dataset.block(hash).sequence_number
    while at is not None and at != hash:
        block = dataset.block(at)
        at = block.prev_block_hash if block.sequence_number > number else None
    return at == hash
