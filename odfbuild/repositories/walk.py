"""The blocks of a chain elsewhere, newest first, each checked as it comes.

Every block has the bytes that its name says, is the one that the block after it names, and has the
number before that one's: so the first block says how many there can be, and nobody sends without
end.  Whether the chain keeps the rules is for `intake` to say, which knows what comes before.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from odfbuild.odf.events import MetadataBlock
from odfbuild.odf.identity import Multihash
from odfbuild.odf.wire.blocks import decode_block, decode_link
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.objects import CorruptObjectError, check_bytes
from odfbuild.state.remote.errors import BrokenSourceError


class WalkedBlock(NamedTuple):
    """A block, its name and its bytes."""

    hash: Multihash
    data: bytes
    block: MetadataBlock


class KnownBlocks:
    """The blocks of the chain of a dataset, read no further back than a question needs."""

    def __init__(self, dataset: Dataset | None, head: Multihash | None) -> None:
        self._dataset = dataset
        self._head = head
        self._all: frozenset[Multihash] | None = None

    def __contains__(self, hash: object) -> bool:
        if self._head is None or self._dataset is None or not isinstance(hash, Multihash):
            return False
        if hash == self._head:
            return True
        if not self._dataset.stores.blocks.has(hash):  # one that is may be of a chain of before
            return False
        if self._all is None:
            self._all = frozenset(hash for hash, _ in newest_first(self._dataset, self._head))
        return hash in self._all


def newest_first(dataset: Dataset, head: Multihash) -> Iterator[tuple[Multihash, bytes]]:
    """Yield the blocks of a dataset from a head back to the Seed, as a source gives them."""
    at: Multihash | None = head
    while at is not None:
        data = dataset.stores.blocks.get(at)
        yield at, data
        at = decode_link(data)


def walk(
    blocks: Iterable[tuple[Multihash, bytes]],
    head: Multihash,
    after: Multihash | None,
    place: str,
) -> Iterator[WalkedBlock]:
    """Check blocks that a source yields from a head back to `after`, or to the Seed.

    Raises BrokenSourceError, and a ProtocolError of a block that cannot be read.
    """
    wanted: Multihash | None = head
    number: int | None = None
    for hash, data in blocks:
        if wanted is None or hash != wanted:
            raise _broken(place, f"it gives the block {hash}", f"{wanted} was to come")
        try:
            check_bytes(hash, data, place)
        except CorruptObjectError as error:
            raise _broken(
                place, f"the bytes of block {hash} hash to {error.actual}", "they were changed"
            ) from error
        block = decode_block(data)
        if number is not None and block.sequence_number != number - 1:
            raise _broken(
                place,
                f"block {block.sequence_number:,} comes before block {number:,}",
                "blocks are numbered one by one",
            )
        number, wanted = block.sequence_number, block.prev_block_hash
        if wanted is None and number != 0:
            raise _broken(place, f"its chain begins with block {number:,}", "a Seed has number 0")
        yield WalkedBlock(hash, data, block)
    if wanted is not None and wanted != after:
        raise _broken(place, f"it has no block {wanted}", "the chain speaks of it")


def _broken(place: str, what: str, why: str) -> BrokenSourceError:
    return BrokenSourceError(
        what=f"{place}: {what}",
        why=f"{why}; a chain is a row of blocks, each named by the hash of its bytes",
        fix="try again; if it persists, the copy there is damaged or forged: ask its owner",
    )
