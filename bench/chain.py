"""Measure long chains and many heads: reading, checking and folding blocks from their files.

Run as `python -m bench.chain [BLOCKS]`; by default 100,000 blocks and a tenth as many heads.  Data
is made once, in bench/.data.  Reading and hashing the same files alone is run in turn with the
whole, each in a process of its own; the ratio is what to go by.
"""

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.measure import Command, Spread, compare, spread
from odfbuild.odf.chain import check_append
from odfbuild.odf.chain.state import ChainState, fold
from odfbuild.odf.events import (
    AddData,
    DataField,
    DataSchema,
    DatasetKind,
    DataSlice,
    DataTypeInt64,
    MetadataBlock,
    MetadataEvent,
    OffsetInterval,
    Seed,
    SetDataSchema,
    SourceState,
)
from odfbuild.odf.identity import DatasetId, Multihash, sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.odf.wire.blocks import block_hash, encode_block
from odfbuild.state.chain.heads import HEAD
from odfbuild.state.files.disk import Disk
from odfbuild.state.workspace import Workspace

DATA = Path(__file__).parent / ".data"
RUNS = 5
ROWS = 1000
START = Timestamp.parse("2024-01-01T00:00:00Z")


class LooseDisk(Disk):
    """A disk that is not waited for: what is made here can be made again."""

    def write(self, path: Path, data: bytes, mode: int = 0o666) -> None:  # noqa: ARG002
        path.write_bytes(data)

    def sync(self, path: Path) -> None:
        pass


def main(blocks: int = 100_000) -> None:
    """Make what is missing, then measure each."""
    DATA.mkdir(exist_ok=True)
    chain = _made(f"chain-{blocks}", lambda at: _one_chain(at, blocks))
    heads = _made(f"heads-{blocks // 10}", lambda at: _many_heads(at, blocks // 10))
    print(f"| of {blocks:,} blocks | wall s | peak MiB |\n|---|---|---|")
    whole, bare = compare([_child("fold", chain), _child("read", chain)], runs=RUNS)
    for name, runs in (("read, check, fold", whole), ("read and hash alone", bare)):
        peak = max(run.memory for run in runs)
        print(f"| {name} | {spread([run.wall for run in runs])} | {peak:.0f} |")
    print(f"ratio: {spread([a.wall / b.wall for a, b in zip(whole, bare, strict=True)])}\n")
    _report_heads(heads)
    _report_writing()


def _report_heads(folder: Path) -> None:
    workspace = Workspace(folder)
    workspace.states()  # fills the index, once
    heads = _times(workspace.heads)
    named = _times(workspace.named_heads)
    states = _times(workspace.states)
    print(f"| of {len(workspace.heads()):,} datasets | s |\n|---|---|")
    print(f"| their heads | {heads} |\n| their heads by name | {named} |")
    print(f"| their states, by the index | {states} |\n")


def _report_writing() -> None:
    block = _block(_chain(_id(0), 7)[0], 7, _id(0))
    data = encode_block(block)

    def whole() -> None:
        for _ in range(1000):
            block_hash(encode_block(block))

    def bare() -> None:
        for _ in range(1000):
            hashlib.sha3_256(data).digest()

    print(f"| of one AddData block, {len(data)} bytes | ms for 1,000 |\n|---|---|")
    for name, work in (("encode and hash", whole), ("hash alone", bare)):
        taken = [1000 * each for each in _seconds(work)]
        print(f"| {name} | {spread(taken)} |")


def _times(work: Callable[[], object]) -> Spread:
    return spread(_seconds(work))


def _seconds(work: Callable[[], object]) -> list[float]:
    taken = []
    for _ in range(RUNS):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return taken


# what a process of its own does


def _child(what: str, folder: Path) -> Command:
    root = Path(__file__).parent.parent
    arguments = (sys.executable, "-m", "bench.chain", f"--{what}", str(folder.resolve()))
    return Command(name=what, arguments=arguments, folder=root, settings={})


def fold_chain(folder: Path) -> None:
    """Read, check and fold the one chain of a workspace, as `verify` does."""
    workspace = Workspace(folder)
    (id,) = workspace.heads()
    state: ChainState | None = None
    for name, block in workspace.dataset(id).blocks():
        check_append(state, block)
        state = fold(state, block, name)


def read_chain(folder: Path) -> None:
    """Read and hash every block file of a workspace, and no more."""
    for blocks in folder.glob("datasets/*/blocks"):
        for name in os.listdir(blocks):  # noqa: PTH208
            with open(f"{blocks}/{name}", "rb", buffering=0) as file:  # noqa: PTH123
                if hashlib.sha3_256(file.read()).hexdigest() != name[5:]:
                    raise SystemExit(f"{name} is damaged")


# making


def _made(name: str, make: Callable[[Path], None]) -> Path:
    folder = DATA / name
    if not folder.exists():
        partial = DATA / f"{name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        make(partial)
        partial.rename(folder)
    return folder


def _one_chain(folder: Path, blocks: int) -> None:
    workspace = Workspace(folder, disk=LooseDisk())
    _fill(workspace, _id(0), blocks)


def _many_heads(folder: Path, count: int) -> None:
    workspace = Workspace(folder, disk=LooseDisk())
    for number in range(count):
        _fill(workspace, _id(number), 4)
        workspace.name(DatasetAlias.parse(f"bench.d{number}"), _id(number))


def _fill(workspace: Workspace, id: DatasetId, blocks: int) -> None:
    """Make a dataset of so many blocks."""
    dataset = workspace.make_room(id)
    state, made = _chain(id, blocks)
    dataset.stores.blocks.put(made)
    dataset.stores.heads.swap(HEAD, expected=None, new=state.head)


def _chain(id: DatasetId, blocks: int) -> tuple[ChainState, dict[Multihash, bytes]]:
    """Return a chain that takes in a slice with every block, and its state."""
    block = _block(None, 0, id)
    data = encode_block(block)
    made = {block_hash(data): data}
    state = fold(None, block, block_hash(data))
    for number in range(1, blocks):
        block = _block(state, number, id)
        data = encode_block(block)
        state = fold(state, block, block_hash(data))
        made[state.head] = data
    return state, made


def _block(state: ChainState | None, number: int, id: DatasetId) -> MetadataBlock:
    return MetadataBlock(
        system_time=Timestamp(START.nanos + number * 60_000_000_123),
        prev_block_hash=None if state is None else state.head,
        sequence_number=number,
        event=_event(state, number, id),
    )


def _event(state: ChainState | None, number: int, id: DatasetId) -> MetadataEvent:
    if state is None:
        return Seed(dataset_id=id, dataset_kind=DatasetKind.ROOT)
    if number == 1:
        fields = tuple(DataField(name, DataTypeInt64()) for name in ("offset", "a", "b"))
        return SetDataSchema(schema=DataSchema(fields=fields))
    start = state.next_offset
    return AddData(
        prev_offset=state.last_offset,
        new_data=DataSlice(
            logical_hash=Multihash(0x300016, hashlib.sha256(b"l%d" % number).digest()),
            physical_hash=sha3_256(b"p%d" % number),
            offset_interval=OffsetInterval(start, start + ROWS - 1),
            size=50_000 + number % 1000,
        ),
        new_watermark=Timestamp(START.nanos + number * 60_000_000_000),
        new_source_state=SourceState("default", "odf/etag", f"e{number}"),
    )


def _id(number: int) -> DatasetId:
    return DatasetId(hashlib.sha256(b"id %d" % number).digest())


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--fold", folder]:
            fold_chain(Path(folder))
        case ["--read", folder]:
            read_chain(Path(folder))
        case rest:
            main(*map(int, rest))
