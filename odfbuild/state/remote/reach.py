"""The reach of a new head in a store: kept from collectors, and looked for once more."""

from collections.abc import Callable, Iterator

from odfbuild.odf.events import AddData, ExecuteTransform, MetadataBlock
from odfbuild.odf.identity import Multihash
from odfbuild.odf.wire.blocks import decode_block
from odfbuild.state.chain.objects import MissingObjectError
from odfbuild.state.remote.client import side_by_side
from odfbuild.state.remote.objects import FILES_AT_ONCE, BucketObjects, UploadedObjects
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class DatasetObjects:
    """The objects of a dataset, and what this process wrote of them."""

    blocks: BucketObjects
    data: BucketObjects
    checkpoints: BucketObjects
    sent: UploadedObjects


class Reach:
    """What heads of a dataset reach; `wait_for_collector` returns once no collector is at work.

    What is to be reached and was not written just now may have been reached by nothing for long,
    so that a collector is after it.  It is written again before the swap.  A collector that had
    looked at it before says of itself that it is at work, until it is done: then what it took is
    written once more.
    """

    def __init__(
        self, objects: DatasetObjects, wait_for_collector: Callable[[], None] = lambda: None
    ) -> None:
        self._objects = objects
        self._wait_for_collector = wait_for_collector

    def is_behind(self, head: Multihash | None, block: Multihash) -> bool:
        try:
            number = self._block(block).sequence_number
            while head is not None and head != block:
                at = self._block(head)
                head = at.prev_block_hash if at.sequence_number > number else None
        except MissingObjectError:
            return False
        return head == block

    def _block(self, hash: Multihash) -> MetadataBlock:
        return decode_block(self._objects.blocks.get(hash))

    def prepare(self, expected: Multihash | None, new: Multihash) -> None:
        objects, found = self._objects, []
        for hash, block in self._newly_reached(expected, new):
            found.append((objects.blocks, hash))
            event = block.event
            if isinstance(event, AddData | ExecuteTransform):
                if event.new_data is not None:
                    found.append((objects.data, event.new_data.physical_hash))
                if event.new_checkpoint is not None:
                    found.append((objects.checkpoints, event.new_checkpoint.physical_hash))
        side_by_side(found, lambda each: each[0].refresh(each[1]), parallel=FILES_AT_ONCE)

    def _newly_reached(
        self, expected: Multihash | None, new: Multihash
    ) -> Iterator[tuple[Multihash, MetadataBlock]]:
        """Yield the blocks that a head reaches and the one before it did not."""
        found = []
        at: Multihash | None = new
        while at is not None and at != expected:
            block = self._block(at)
            found.append((at, block))
            at = block.prev_block_hash
        if at is None and expected is not None:  # it does not go on from there
            known = set(self._ancestors(expected))
            found = [each for each in found if each[0] not in known]
        yield from found

    def _ancestors(self, hash: Multihash) -> Iterator[Multihash]:
        at: Multihash | None = hash
        while at is not None:
            yield at
            at = self._block(at).prev_block_hash

    def check(self) -> None:
        again = self._objects.sent.take_existing()
        if not again:
            return
        self._wait_for_collector()
        for store in (self._objects.data, self._objects.checkpoints, self._objects.blocks):
            store.mend(again)
