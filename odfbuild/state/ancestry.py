"""Whether a block is still among those that a head reaches."""

from odfbuild.odf.identity import Multihash
from odfbuild.state.dataset import Dataset

__all__ = ["holds"]


def holds(dataset: Dataset, hash: Multihash, head: Multihash) -> bool:
    """Say whether a head reaches a block.  Reads that block and those that came after it.

    A block whose bytes are gone is reached by nothing.
    """
    at: Multihash | None = head
    if at == hash or not dataset.stores.blocks.has(hash):
        return at == hash
    number = dataset.block(hash).sequence_number
    while at is not None and at != hash:
        block = dataset.block(at)
        at = block.prev_block_hash if block.sequence_number > number else None
    return at == hash
