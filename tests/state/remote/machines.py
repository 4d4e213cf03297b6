"""Machines that work on one workspace in a store, each with folders of its own."""

from collections.abc import Callable
from pathlib import Path

from odfbuild.odf.events import AddData, ExecuteTransform
from odfbuild.odf.identity import Multihash
from odfbuild.odf.wire.blocks import decode_block
from odfbuild.state.chain.objects import check_bytes
from odfbuild.state.remote.cache import ObjectCache
from odfbuild.state.remote.client import ObjectClient
from odfbuild.state.remote.workspace import BucketWorkspace
from tests.support.servers.memory_store import MemoryClient

__all__ = ["chains", "machine", "objects"]

PARTS = ("blocks", "data", "checkpoints")


def machine(
    folder: Path, client: ObjectClient, pause: Callable[[float], None] = lambda _: None
) -> BucketWorkspace:
    """Return the workspace of a store as a machine sees it that keeps its files in a folder."""
    cache = ObjectCache(folder / "cache", 1 << 30)
    return BucketWorkspace(
        client.place, client=client, cache=cache, root=folder / "local", pause=pause
    )


def chains(client: MemoryClient) -> dict[str, list[Multihash]]:
    """Return the blocks of every head, oldest first, having checked all that they speak of.

    It is read by plain decoding from the bytes of the store alone.
    """
    files = {key: data for key, (data, _) in client.objects.items()}
    found = {}
    for key, data in files.items():
        if key.startswith("datasets/") and key.endswith("/refs/head") and data:
            base = key.removesuffix("refs/head")
            at: Multihash | None = Multihash.parse(data.decode())
            chain: list[Multihash] = []
            while at is not None:
                content = files[f"{base}blocks/{at}"]
                check_bytes(at, content, "the store")
                block = decode_block(content)
                if isinstance(block.event, AddData | ExecuteTransform):
                    for part, file in (("data", block.event.new_data),):
                        if file is not None:
                            held = files[f"{base}{part}/{file.physical_hash}"]
                            check_bytes(file.physical_hash, held, "the store")
                chain.append(at)
                at = block.prev_block_hash
            found[base] = chain[::-1]
    return found


def objects(client: MemoryClient) -> set[str]:
    """Return the keys of blocks, slices and checkpoints."""
    return {key for key in client.objects if key.split("/")[-2:-1] and key.split("/")[-2] in PARTS}
