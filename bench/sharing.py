"""Transfers against plain ones of the same objects, and pulls that find nothing new.

python -m bench.sharing [--blocks 10000] [--megabytes 1000] [--datasets 100] [--pairs 5]

The store is a real one on loopback, the server `odfbuild serve`; the plain copy gets the same
objects from the same place by obstore, as many at a time as a clone does, without hashing, and has
them on disk in the end; it is given their names, which a clone has to find.  The two are run by
turns and compared pair by pair: wall time, and processor time with that of the server.  When a time
begins nothing of before is left to be written, and small files stay until the end, as ext4 takes
ten times as long to make a file in the minutes after many were removed.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
from obstore.store import HTTPStore, ObjectStore

from bench.tree import processor_seconds
from odfbuild.odf.events import AddData, DatasetKind, DataSlice, OffsetInterval, SetLicense
from odfbuild.odf.identity import sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.repositories.protocol import ChainSource
from odfbuild.repositories.smart.client import SmartDataset
from odfbuild.repositories.smart.messages import VERSION, VERSION_HEADER
from odfbuild.repositories.transfer import TransferMode, pull, push
from odfbuild.repositories.transports import folder, object_store
from odfbuild.state.chain.commit_request import CommitRequest, StagedFile
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.objects import hash_file
from odfbuild.state.workspace import Workspace
from tests.repositories.places import Believing
from tests.support.data.chains import SCHEMA
from tests.support.servers.datasets import serving_datasets
from tests.support.servers.object_store import CREDENTIALS, ObjectServer, serving_objects

START = Timestamp.parse("2024-01-01T00:00:00Z")
SLICE = 10 << 20  # bytes
NAME = DatasetAlias(None, "src")


class Spent(NamedTuple):
    """Seconds that something took: of the wall clock, and of the processor, the server's too."""

    wall: float
    processor: float

    def __str__(self) -> str:
        return f"{self.wall:.1f} s ({self.processor:.1f} of the processor)"


def main() -> None:
    """Measure what was asked for, and print a line for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=10_000)
    parser.add_argument("--megabytes", type=int, default=1_000)
    parser.add_argument("--datasets", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args()
    os.environ.update(CREDENTIALS)
    with tempfile.TemporaryDirectory() as room, serving_objects() as server:
        place = Path(room)
        os.environ["XDG_STATE_HOME"] = str(place / "state")
        made = _made(Workspace(place / "workspace"), given.blocks, given.megabytes, place)
        print(f"{given.blocks:,} blocks and {given.megabytes:,} MB of slices, on loopback")
        _from_store(place, server, made, given.pairs)
        _from_server(place, made, given.pairs)
        _idle(place, given.datasets)


def _from_store(place: Path, server: ObjectServer, made: Dataset, pairs: int) -> None:
    url, folder = server.url("bench"), _folder(place, made)
    plain = _timed(lambda: _sent(server.store("plain"), folder))
    pushed = _timed(lambda: push(made, object_store.dataset_at(url)))
    print(f"S3: plain upload {plain}; push {pushed}", flush=True)
    store = server.store("bench")
    paths = [each["path"] for page in obstore.list(store) for each in page]
    _compared("S3", place, store, paths, lambda: object_store.dataset_at(url), pairs)


def _from_server(place: Path, made: Dataset, pairs: int) -> None:
    folder = _folder(place, made)
    paths = [str(each.relative_to(folder)) for each in folder.glob("[bcdr]*/*")]
    with serving_datasets(place) as server:
        token = server.token("read")
        headers = {"authorization": f"Bearer {token}", VERSION_HEADER: VERSION}
        options: Any = {"allow_http": True, "default_headers": headers}
        store = HTTPStore.from_url(f"{server.url}{NAME}", client_options=options)
        with closing(
            SmartDataset(server.of(str(NAME)), token=token, parallel=object_store.PARALLEL)
        ) as dataset:
            _compared("smart protocol", place, store, paths, lambda: dataset, pairs)


def _folder(place: Path, made: Dataset) -> Path:
    return place / "workspace" / "datasets" / made.id.multibase


def _compared(
    what: str,
    place: Path,
    store: ObjectStore,
    paths: Sequence[str],
    source: Callable[[], ChainSource],
    pairs: int,
) -> None:
    """Copy and clone in turns, so that both meet the same machine."""
    wall, processor = [], []
    for number in range(pairs):
        copy, clone = (place / f"{what}-{part}-{number}" for part in ("copy", "clone"))
        plain = _timed(partial(_copied, store, paths, copy))
        cloned = _timed(partial(_cloned, source, clone))
        for data in (*copy.glob("data"), *clone.glob("datasets/*/data")):
            shutil.rmtree(data)
        wall.append(cloned.wall / plain.wall)
        processor.append(cloned.processor / plain.processor)
        print(f"{what}: plain copy {plain}; clone {cloned}", flush=True)
    for name, ratios in (("wall time", wall), ("processor", processor)):
        print(
            f"{what}: {name}, clone / plain copy = {median(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f})"
        )


def _cloned(source: Callable[[], ChainSource], target: Path) -> None:
    mode = TransferMode(parallel=object_store.PARALLEL)
    pull(Workspace(target), source(), NAME, judge=Believing(), mode=mode)


def _copied(store: ObjectStore, paths: Sequence[str], target: Path) -> None:
    for part in ("refs", "blocks", "data", "checkpoints"):
        (target / part).mkdir(parents=True)

    def copy(path: str) -> None:
        with (target / path).open("wb") as file:
            for piece in obstore.get(store, path).stream(min_chunk_size=1 << 20):
                file.write(piece)

    with ThreadPoolExecutor(object_store.PARALLEL) as threads:
        list(threads.map(copy, paths))
    os.sync()


def _sent(store: ObjectStore, folder: Path) -> None:
    def put(path: Path) -> None:
        name = str(path.relative_to(folder))
        obstore.put(store, name, path.read_bytes(), use_multipart=False)

    with ThreadPoolExecutor(object_store.PARALLEL) as threads:
        list(threads.map(put, folder.glob("[bcdr]*/*")))


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
    print(f"pull of {datasets} datasets with nothing new: {_timed(all_of_them).wall:.2f} s")


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


def _timed(work: Callable[[], object]) -> Spent:
    os.sync()
    wall, processor = time.perf_counter(), processor_seconds(os.getpid())
    work()
    return Spent(time.perf_counter() - wall, processor_seconds(os.getpid()) - processor)


if __name__ == "__main__":
    main()
