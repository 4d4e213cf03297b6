"""Repositories in object stores: S3, what is compatible with it, Azure's and Google's.

    s3://bucket/prefix/            the bucket is the host
    s3+https://host/bucket/prefix/ a server, and the bucket is the first part of the path
    az+https://account.blob.core.windows.net/container/prefix/
    gs://bucket/prefix/            the bucket is the host

A dataset is laid out as in a folder.  Objects are created, never replaced, and the head is swapped
by its ETag, so that of two who push at a time one wins; a store that ignores such conditions is
found by `probe`, and nothing is pushed to it.  A request that was sent again may fail because it
had succeeded before: what is there is read back then, and decides.  Credentials come from the
environment, a web identity or the machine, as is usual; none is in a URL.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import SpooledTemporaryFile
from threading import Lock
from typing import Final

from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.wire.blocks import decode_block, decode_link
from odfbuild.project.config.repositories import RepositorySettings
from odfbuild.repositories.download import each_of
from odfbuild.repositories.protocol import ChainUpdate
from odfbuild.repositories.transports.simple import SimpleTarget
from odfbuild.state.chain.heads import HEAD, HeadMovedError
from odfbuild.state.chain.objects import LARGEST_BLOCK
from odfbuild.state.remote.client import CountBytes
from odfbuild.state.remote.heads import swap_head
from odfbuild.state.remote.store.abilities import Abilities, known_abilities, probed, refuse_unsafe
from odfbuild.state.remote.store.bucket import Bucket

PARALLEL: Final = 16
_SEQUENTIAL: Final = 64  # blocks that are read one after the other before all are read at once
_IN_MEMORY: Final = 32 << 20  # bytes of blocks that no file is made for


class ObjectFiles:
    """The files of a dataset below a prefix of a bucket."""

    def __init__(self, bucket: Bucket, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = prefix

    @property
    def place(self) -> str:
        return f"{self._bucket.place}{self._prefix}"

    def get(self, path: str, most: int) -> bytes | None:
        return self._bucket.get(self._prefix + path, most)

    @contextmanager
    def open(self, path: str, start: int) -> Iterator[Iterator[bytes]]:
        with self._bucket.open(self._prefix + path, start) as pieces:
            yield pieces

    def size(self, path: str) -> int | None:
        return self._bucket.size(self._prefix + path)

    def create(self, path: str, source: bytes | Path, moved: CountBytes) -> None:
        key = self._prefix + path
        if isinstance(source, Path):
            self._bucket.put_file(key, source, moved)
        else:
            self._bucket.create(key, source)

    def replace(self, path: str, data: bytes) -> None:
        self._bucket.put(self._prefix + path, data)

    def swap_head(self, expected: Multihash | None, new: Multihash) -> None:
        actual = swap_head(self._bucket, f"{self._prefix}refs/{HEAD}", expected, new)
        if actual != new:
            raise HeadMovedError(expected, actual)

    def block_sizes(self) -> Iterator[tuple[str, int]]:
        """Yield the names and sizes of all blocks there, of whatever chain."""
        for key, size in self._bucket.keys(f"{self._prefix}blocks/"):
            yield key.rpartition("/")[2], size


class ObjectDataset(SimpleTarget):
    """A dataset in a bucket."""

    def __init__(self, files: ObjectFiles, abilities: Callable[[], Abilities]) -> None:
        super().__init__(files, parallel=PARALLEL)
        self._objects = files
        self._abilities = abilities

    def blocks(self, head: Multihash, after: Multihash | None) -> Iterator[tuple[Multihash, bytes]]:
        """Yield blocks newest first; of many, all that are there are read at once before."""
        if head == after:
            return
        first = self._objects.get(f"blocks/{head}", LARGEST_BLOCK)
        if first is None:
            raise self.lacks(f"blocks/{head}")
        yield head, first
        at = decode_link(first)
        names = self._names(self._count(first, after), after)
        if names is None:
            if at is not None:
                yield from super().blocks(at, after)
            return
        with _Spool(self._objects, names) as spool:
            while at is not None and at != after:
                data = spool.get(str(at)) or self._objects.get(f"blocks/{at}", LARGEST_BLOCK)
                if data is None:
                    raise self.lacks(f"blocks/{at}")
                yield at, data
                at = decode_link(data)

    def _names(self, missing: int, after: Multihash | None) -> Iterable[str] | None:
        """Return the names of blocks to read at once, None where one by one is quicker.

        Those of a whole chain are read while they are listed: most that are there are of it.
        """
        if missing <= _SEQUENTIAL:
            return None
        sizes, most = self._objects.block_sizes(), min(PARALLEL * missing, sys.maxsize - 1)
        names = (name for name, size in sizes if size <= LARGEST_BLOCK)
        if after is None:
            return islice(names, most)
        found = list(islice(names, most + 1))
        return None if len(found) > most else found

    def _count(self, first: bytes, after: Multihash | None) -> int:
        """Return how many blocks there are to a head, after one that is there."""
        count = decode_block(first).sequence_number + 1
        if after is None or count <= _SEQUENTIAL:
            return count
        known = self._objects.get(f"blocks/{after}", LARGEST_BLOCK)
        return count if known is None else count - 1 - decode_block(known).sequence_number

    def push(self, update: ChainUpdate, moved: CountBytes) -> None:
        refuse_unsafe(self._abilities(), self.place)
        super().push(update, moved)


class _Spool:
    """Objects that were read at once, in memory; many in a file without a name, and memory has
    their places only.
    """

    def __init__(self, objects: ObjectFiles, names: Iterable[str]) -> None:
        self._objects = objects
        self._names = names
        self._places: dict[str, tuple[int, int]] = {}
        self._lock = Lock()
        self._end = 0

    def __enter__(self) -> "_Spool":
        self._file = SpooledTemporaryFile(_IN_MEMORY)
        try:
            each_of(self._names, self._fetch, parallel=PARALLEL)
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def get(self, name: str) -> bytes | None:
        """Return an object, None if there was none."""
        place = self._places.get(name)
        if place is None:
            return None
        self._file.seek(place[0])
        return self._file.read(place[1])

    def _fetch(self, name: str) -> None:
        data = self._objects.get(f"blocks/{name}", LARGEST_BLOCK)
        if data is None:  # taken away since the names were read
            return
        with self._lock:
            self._file.write(data)
            self._places[name] = (self._end, len(data))
            self._end += len(data)


class ObjectRepository:
    """Datasets below a prefix of a bucket."""

    def __init__(self, url: str, region: str | None = None, *, is_named: bool = False) -> None:
        self._bucket = Bucket(url, region, is_named=is_named)
        self._found: Abilities | None = None

    @property
    def place(self) -> str:
        return self._bucket.place

    def dataset(self, alias: DatasetAlias) -> ObjectDataset:
        """Return a dataset by its name, be it there or not."""
        return ObjectDataset(ObjectFiles(self._bucket, f"{alias}/"), self.abilities)

    def names(self) -> Iterator[DatasetAlias]:
        """Yield the names of the datasets in it, in order."""
        for name in self._bucket.folders(""):
            inner = self._bucket.folders(f"{name}/")
            if "refs" in inner:
                yield DatasetAlias(None, name)
                continue
            for each in inner:
                if self._bucket.size(f"{name}/{each}/refs/{HEAD}") is not None:
                    yield DatasetAlias(name, each)

    def get(self, path: str, most: int) -> bytes | None:
        """Return a file of the repository itself, None if there is none."""
        return self._bucket.get(path, most)

    def put(self, path: str, data: bytes) -> None:
        """Have a file of the repository itself."""
        self._bucket.put(path, data)

    def abilities(self) -> Abilities:
        """Return what the store was found to do, by this user's earlier looks or a new one."""
        if self._found is None:
            self._found = known_abilities(self._bucket)
        return self._found

    def probed(self) -> Abilities:
        """Return what the store is found to do now."""
        self._found = probed(self._bucket)
        return self._found


def open_repository(settings: RepositorySettings) -> ObjectRepository:
    """Return the repository of these settings."""
    return ObjectRepository(settings.url, settings.region, is_named=settings.is_named)


def open_dataset(url: str, settings: RepositorySettings) -> ObjectDataset:
    """Return the dataset at a URL, which ends with a slash."""
    is_named = settings.is_named and url.startswith(settings.url)
    return dataset_at(url, settings.region, is_named=is_named)


def dataset_at(url: str, region: str | None = None, *, is_named: bool = False) -> ObjectDataset:
    """Return the dataset at a URL, which ends with a slash."""
    bucket = Bucket(url, region, is_named=is_named)
    return ObjectDataset(ObjectFiles(bucket, ""), lambda: known_abilities(bucket))
