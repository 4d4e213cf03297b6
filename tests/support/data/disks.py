"""Disks that fail, and datasets to fail on: what the tests of commits share."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.odf.chain import check_append
from odfbuild.odf.chain.state import ChainState, fold
from odfbuild.odf.events import AddData, Checkpoint, DataSlice, ExecuteTransform, OffsetInterval
from odfbuild.odf.identity import sha3_256
from odfbuild.odf.wire.blocks import decode_block
from odfbuild.state.chain.commit_request import CommitRequest, StagedFile
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import LocalHeads
from odfbuild.state.chain.index import Index
from odfbuild.state.chain.objects import LocalObjects, hash_file
from odfbuild.state.chain.stores import Stores
from odfbuild.state.files.disk import Disk
from tests.support.data.chains import OUR_ID, SCHEMA, later, some_hash

__all__ = [
    "Crash",
    "StoppingDisk",
    "crash",
    "dataset_in",
    "kill",
    "stage",
    "stage_slice",
    "verified",
]


class Crash(Exception):
    """The process is gone."""


def crash() -> None:
    raise Crash


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class StoppingDisk(Disk):
    """A disk that stops before its n-th step; a write is two steps, half of it and all of it."""

    def __init__(self, at: int, stop: Callable[[], None] = crash) -> None:
        self.steps = 0
        self._at = at
        self._stop = stop

    def write(self, path: Path, data: bytes, mode: int = 0o666) -> None:
        self._step()
        if self.steps == self._at:  # the next step is the one to stop at
            path.write_bytes(data[: len(data) // 2])
        self._step()
        super().write(path, data, mode)

    def sync(self, path: Path) -> None:
        self._step()
        super().sync(path)

    def rename(self, old: Path, new: Path) -> None:
        self._step()
        super().rename(old, new)

    def link(self, old: Path, new: Path) -> None:
        self._step()
        super().link(old, new)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)

    def _step(self) -> None:
        if self.steps == self._at:
            self._stop()
        self.steps += 1


def dataset_in(folder: Path, disk: Disk | None = None, index: Index | None = None) -> Dataset:
    stores = Stores(
        heads=LocalHeads(folder, disk),
        blocks=LocalObjects(folder / "blocks", disk),
        data=LocalObjects(folder / "data", disk),
        checkpoints=LocalObjects(folder / "checkpoints", disk),
    )
    return Dataset(OUR_ID, stores, index)


def stage_slice(staging: Path, start: int, rows: int) -> tuple[DataSlice, StagedFile]:
    """Write a slice of so many rows."""
    staging.mkdir(exist_ok=True)
    path = staging / f"slice {start}"
    pq.write_table(pa.table({"offset": pa.array(range(start, start + rows), pa.int64())}), path)
    hash = hash_file(path)
    slice = DataSlice(
        logical_hash=some_hash(f"logical {start}"),
        physical_hash=hash,
        offset_interval=OffsetInterval(start, start + rows - 1),
        size=path.stat().st_size,
    )
    return slice, StagedFile(path, hash, "data")


def stage(staging: Path, state: ChainState, *, rows: int = 3) -> CommitRequest:
    """Prepare a wider schema if there is none yet, a slice and a checkpoint."""
    slice, data = stage_slice(staging, state.next_offset, rows)
    content = f"checkpoint {state.sequence}".encode()
    path = staging / "checkpoint"
    path.write_bytes(content)
    add = AddData(
        prev_checkpoint=state.checkpoint,
        prev_offset=state.last_offset,
        new_data=slice,
        new_checkpoint=Checkpoint(physical_hash=sha3_256(content), size=len(content)),
    )
    schema = () if state.schema is not None else (SCHEMA,)
    files = (data, StagedFile(path, sha3_256(content), "checkpoint"))
    return CommitRequest((*schema, add), later(state.sequence), files)


def verified(dataset: Dataset) -> ChainState:
    """Return the state at the head after checking all that the head reaches, trusting nothing."""
    encoded, hash = [], dataset.head()
    while hash is not None:
        data = dataset.stores.blocks.get(hash)
        assert sha3_256(data) == hash
        encoded.append((hash, decode_block(data)))
        hash = encoded[-1][1].prev_block_hash
    state = None
    for hash, block in reversed(encoded):
        check_append(state, block)
        state = fold(state, block, hash)
        if isinstance(block.event, AddData | ExecuteTransform):
            _verify_files(dataset, block.event)
    assert state is not None
    return state


def _verify_files(dataset: Dataset, event: AddData | ExecuteTransform) -> None:
    if event.new_data is not None:
        path = dataset.data_path(event.new_data.physical_hash)
        assert hash_file(path) == event.new_data.physical_hash
        assert path.stat().st_size == event.new_data.size
    if event.new_checkpoint is not None:
        path = dataset.checkpoint_path(event.new_checkpoint.physical_hash)
        assert hash_file(path) == event.new_checkpoint.physical_hash
