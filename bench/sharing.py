"""Transfers against a plain copy of the same objects, and pulls that find nothing new.

python -m bench.sharing [--blocks 10000] [--megabytes 1000] [--datasets 100]

The store is a real one on loopback; the plain copy lists the objects and gets each by obstore, as
many at a time as a clone does, without hashing.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import obstore
import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.odf.events import AddData, DatasetKind, DataSlice, OffsetInterval, SetLicense
from odfbuild.odf.identity import sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.repositories.transfer import TransferMode, pull, push
from odfbuild.repositories.transports import folder, object_store
from odfbuild.state.chain.commit_request import CommitRequest, StagedFile
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.objects import hash_file
from odfbuild.state.workspace import Workspace
from tests.repositories.places import Believing
from tests.support.data.chains import SCHEMA
from tests.support.servers.object_store import CREDENTIALS, ObjectServer, serving_objects

START = Timestamp.parse("2024-01-01T00:00:00Z")
SLICE = 10 << 20  # bytes
NAME = DatasetAlias(None, "src")


def main() -> None:
    """Measure what was asked for, and print a line for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=10_000)
    parser.add_argument("--megabytes", type=int, default=1_000)
    parser.add_argument("--datasets", type=int, default=100)
    given = parser.parse_args()
    os.environ.update(CREDENTIALS)
    with tempfile.TemporaryDirectory() as room, serving_objects() as server:
        place = Path(room)
        os.environ["XDG_STATE_HOME"] = str(place / "state")
        _clone(place, server, given.blocks, given.megabytes)
        _idle(place, given.datasets)


def _clone(place: Path, server: ObjectServer, blocks: int, megabytes: int) -> None:
    made = _made(Workspace(place / "made"), blocks, megabytes, place)
    target = object_store.dataset_at(server.url("bench"))
    sent = _timed(lambda: push(made, target))
    plain, cloned = [], []
    for number in range(3):  # in turns, so that both meet the same machine
        plain.append(_timed(partial(_copied, server, place / f"copy-{number}")))
        cloned.append(_timed(partial(_cloned, server, place / f"clone-{number}")))
        shutil.rmtree(place / f"copy-{number}")
        shutil.rmtree(place / f"clone-{number}")
    print(f"{blocks:,} blocks and {megabytes:,} MB of slices, S3 on loopback")
    print(f"push {sent:.1f} s; plain copy {min(plain):.1f} s; clone {min(cloned):.1f} s")
    print(f"clone / plain copy = {min(cloned) / min(plain):.2f}")


def _cloned(server: ObjectServer, target: Path) -> None:
    source = object_store.dataset_at(server.url("bench"))
    mode = TransferMode(parallel=object_store.PARALLEL)
    pull(Workspace(target), source, NAME, judge=Believing(), mode=mode)


def _copied(server: ObjectServer, target: Path) -> None:
    store = server.store("bench")
    for part in ("refs", "blocks", "data", "checkpoints"):
        (target / part).mkdir(parents=True)

    def copy(path: str) -> None:
        with (target / path).open("wb") as file:
            for piece in obstore.get(store, path).stream(min_chunk_size=1 << 20):
                file.write(piece)

    paths = [each["path"] for page in obstore.list(store) for each in page]
    with ThreadPoolExecutor(object_store.PARALLEL) as threads:
        list(threads.map(copy, paths))
    os.sync()


def _idle(place: Path, datasets: int) -> None:
    workspace = Workspace(place / "many")
    sources = []
    for number in range(datasets):
        made = _made(Workspace(place / f"of-{number}"), 3, 0, place)
        there = place / "hub" / f"d{number}"
        push(made, folder.dataset_at(there))
        sources.append((folder.dataset_at(there), DatasetAlias(None, f"d{number}")))

    def all_of_them() -> None:
        for source, alias in sources:
            pull(workspace, source, alias, judge=Believing())

    all_of_them()
    print(f"pull of {datasets} datasets with nothing new: {_timed(all_of_them):.2f} s")


def _made(workspace: Workspace, blocks: int, megabytes: int, place: Path) -> Dataset:
    slices = (megabytes << 20) // SLICE
    state = workspace.make(NAME, DatasetKind.ROOT, CommitRequest((SCHEMA,), START))
    dataset = workspace.dataset(state.dataset)
    for _ in range(slices):
        added, file = _slice(place, state.next_offset, state.last_offset)
        state = dataset.commit(CommitRequest((added,), START, (file,)), on=state)
    licences = tuple(
        SetLicense(short_name=f"l{n}", name="licence", website_url="https://e.org/")
        for n in range(max(0, blocks - 2 - slices))
    )
    dataset.commit(CommitRequest(licences, START), on=state)
    return dataset


def _slice(place: Path, start: int, last: int | None) -> tuple[AddData, StagedFile]:
    rows = 1 << 10
    path = place / "slice"
    columns = {
        "offset": pa.array(range(start, start + rows), pa.int64()),
        "bytes": pa.array([os.urandom(SLICE // rows) for _ in range(rows)], pa.binary()),
    }
    pq.write_table(pa.table(columns), path, compression="none", use_dictionary=False)
    hash = hash_file(path)
    data = DataSlice(
        logical_hash=sha3_256(str(start).encode()),
        physical_hash=hash,
        offset_interval=OffsetInterval(start, start + rows - 1),
        size=path.stat().st_size,
    )
    return AddData(prev_offset=last, new_data=data), StagedFile(path, hash, "data")


def _timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
