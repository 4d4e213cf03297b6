"""The blocks between two points of a chain, and the size of their transfer."""

from collections.abc import Mapping

from odfbuild.odf.identity import Multihash
from odfbuild.odf.wire.blocks import decode_block
from odfbuild.repositories.protocol import ObjectFile, files_of, records_of
from odfbuild.repositories.smart.messages import U32, U64, TransferPlan
from odfbuild.state.chain.dataset import Dataset
from odfbuild.values import dataclass


class NoIntervalError(Exception):
    """The first block is not an ancestor of the second."""


@dataclass(frozen=True, slots=True)
class BlockInterval:
    """Blocks, oldest first, with their bytes, and the files that they name."""

    blocks: tuple[tuple[Multihash, bytes], ...]
    files: Mapping[tuple[str, Multihash], ObjectFile]
    plan: TransferPlan


def block_interval(
    dataset: Dataset, head: Multihash, after: Multihash | None, most: int, *, whole: bool
) -> BlockInterval:
    """Return the blocks in (after, head]; with `whole`, all if `after` is no ancestor of the head.

    Raises NoIntervalError in that case without `whole`, ValueError for blocks with more than `most`
    bytes together, and what reading a block raises.
    """
    blocks: list[tuple[Multihash, bytes]] = []
    files: dict[tuple[str, Multihash], ObjectFile] = {}
    records = size = 0
    at: Multihash | None = head
    while at is not None and at != after:
        data = dataset.stores.blocks.get(at)
        size += len(data)
        if size > most:
            raise ValueError(f"the blocks have more than {most:,} bytes")
        block = decode_block(data)
        blocks.append((at, data))
        records += records_of(block.event)
        files.update(((each.kind, each.hash), each) for each in files_of(block.event))
        at = block.prev_block_hash
    if at != after and not whole:
        raise NoIntervalError
    blocks.reverse()
    plan = TransferPlan(
        num_blocks=U32(len(blocks)),
        num_objects=U32(len(files)),
        num_records=U64(records),
        bytes_in_raw_blocks=U64(size),
        bytes_in_raw_objects=U64(sum(each.size for each in files.values())),
    )
    return BlockInterval(tuple(blocks), files, plan)
