"""Prefetch of what a verification will look at in an object store.

Many datasets are brought side by side, while few at a time are looked at: what waits for its turn
is in the cache on disk, not in memory.  Whatever goes wrong here is met again by who looks.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from odfbuild.executors.verify.chain import BlockFilter
from odfbuild.odf.events import AddData, ExecuteTransform
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.wire.blocks import decode_link
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.refs import ancestry

_FILES: Final = 64  # after which it is asked whether more are needed


def bring_chain(dataset: Dataset, head: Multihash) -> None:
    """Bring the blocks up to one that are in a store."""
    if dataset.stores.blocks.is_at_hand:
        return
    with suppress(Exception):
        at: Multihash | None = head
        while at is not None:
            at = decode_link(dataset.stores.blocks.get(at))


def bring_dataset(
    dataset: Dataset,
    targets: Collection[Multihash],
    wanted: BlockFilter | None,
    inputs: Callable[[Collection[DatasetId]], None],
    go_on: Callable[[], None],
) -> None:
    """Bring the blocks up to some, and the files of those `wanted`; have their `inputs` brought.

    `go_on` raises an error once nothing more is needed.
    """
    if dataset.stores.blocks.is_at_hand:
        return
    with suppress(Exception):
        seen: set[Multihash] = set()
        data: dict[Multihash, None] = {}
        checkpoints: dict[Multihash, None] = {}
        read: dict[DatasetId, None] = {}
        for target in targets:
            for hash, block in ancestry(dataset, target):
                if hash in seen:
                    break
                go_on()
                seen.add(hash)
                event = block.event
                if wanted is not None and not wanted(block):
                    continue
                if isinstance(event, ExecuteTransform):
                    read.update(dict.fromkeys(each.dataset_id for each in event.query_inputs))
                if isinstance(event, AddData | ExecuteTransform):
                    if event.new_data is not None:
                        data[event.new_data.physical_hash] = None
                    if event.new_checkpoint is not None:
                        checkpoints[event.new_checkpoint.physical_hash] = None
        inputs(read)
        for store, files in (
            (dataset.stores.data, data),
            (dataset.stores.checkpoints, checkpoints),
        ):
            left = list(files)
            while left:
                go_on()
                store.bring(left[:_FILES])
                del left[:_FILES]
