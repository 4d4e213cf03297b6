"""Objects of a dataset in a store, its attestations too; files come through the user's cache.

A collector elsewhere may be about to delete what no head reaches yet.  What was there already when
it was to be written is therefore written again, which makes it young, and so is what a new head
reaches though it was not written just now; after the swap both are looked for once more, and sent
again where they are gone.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

from odfbuild.errors import OdfBuildError
from odfbuild.host.files import read_regular
from odfbuild.odf.identity import Multihash
from odfbuild.odf.wire.blocks import decode_link
from odfbuild.state.chain.attestations import AttestationName, head_of
from odfbuild.state.chain.objects import (
    LARGEST_BLOCK,
    CorruptObjectError,
    MissingObjectError,
    ObjectEntry,
    StoredFile,
    as_hash,
    check_bytes,
)
from odfbuild.state.chain.origins import FileOrigin, note_origin, origin_of
from odfbuild.state.remote.cache import ObjectCache
from odfbuild.state.remote.client import (
    ListObjects,
    ObjectClient,
    StoredObject,
    side_by_side,
)
from odfbuild.state.remote.errors import BrokenSourceError

FILES_AT_ONCE: Final = 8
YOUNG: Final = 6 * 3_600.0  # seconds; an object that was written since is far from any collector
_LARGEST_ATTESTATION: Final = 1 << 20  # bytes
_SINGLE: Final = 3  # blocks that are read one after the other before all are read at once


class UploadedObjects:
    """What this process wrote of one dataset: which of it was there before, and when.

    Objects are known by their keys.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._written: dict[str, float] = {}
        self._again: set[str] = set()

    def note(self, key: str, *, is_new: bool) -> None:
        """Note that an object was written; not `is_new`: in the place of the same bytes."""
        with self._lock:
            self._written[key] = self._clock()
            if not is_new:
                self._again.add(key)

    def is_recent(self, key: str) -> bool:
        """Tell whether an object was written not long ago."""
        with self._lock:
            written = self._written.get(key)
        return written is not None and self._clock() - written < YOUNG

    def take_existing(self) -> tuple[str, ...]:
        """Return the objects that were there before they were written, once."""
        with self._lock:
            found, self._again = self._again, set()
        return tuple(sorted(found))


class BucketObjects:
    """Objects below a prefix; `keeps_blocks` tells blocks, which are small, from files."""

    is_at_hand = False

    def __init__(
        self,
        client: ObjectClient,
        prefix: str,
        cache: ObjectCache,
        sent: UploadedObjects,
        *,
        keeps_blocks: bool,
        trusts: Callable[[], bool] = lambda: True,
        check: Callable[[], None] = lambda: None,
        listed: ListObjects | None = None,
    ) -> None:
        self._client = client
        self._list_objects = listed or client.listed
        self._prefix = prefix
        self._cache = cache
        self._sent = sent
        self._keeps_blocks = keeps_blocks
        self._trusts = trusts
        self._check = check
        self._listed: dict[Multihash, StoredObject] = {}
        self._brought: set[Multihash] = set()
        self._missed = 0
        self._walking = Lock()

    def key(self, hash: Multihash) -> str:
        return f"{self._prefix}{hash}"

    # reading

    def get(self, hash: Multihash) -> bytes:
        if not self._keeps_blocks:
            return read_regular(self._file(hash))
        data = self._known_block(hash)
        if data is None:
            with self._walking:  # others may walk the same chain
                data = self._known_block(hash)
                return self._walked_to(hash) if data is None else data
        return data

    def _walked_to(self, hash: Multihash) -> bytes:
        """Bring a block that is not here; after a few of them all."""
        data = None
        self._missed += 1
        if self._missed > _SINGLE:
            wanted = self._remembered(hash)
            self._missed = 0 if wanted else -(1 << 30)  # after a list, blocks are read one by one
            self._bring_blocks(wanted or list(self.list()))
            data = self._known_block(hash)
        return self._bring_block(hash) if data is None else data

    def _known_block(self, hash: Multihash) -> bytes | None:
        return self._cache.block(hash) if self._may_use(hash) else None

    def _may_use(self, hash: Multihash) -> bool:
        """Tell whether the cache may be asked: if it is distrusted, for what came since alone."""
        return self._trusts() or hash in self._brought

    def _bring_block(self, hash: Multihash) -> bytes:
        data = self._client.get(self.key(hash), LARGEST_BLOCK)
        if data is None:
            raise self._missing(hash)
        check_bytes(hash, data, self._place)
        self._cache.put_block(hash, data)
        self._brought.add(hash)
        return data

    def _remembered(self, last: Multihash) -> list[Multihash]:
        """Return the blocks up to one if the cache knows them all, else none.

        A cache that is distrusted still names them, which saves a list of all objects.
        """
        found: list[Multihash] = []
        at: Multihash | None = last
        while at is not None:
            data = self._cache.block(at)
            if data is None:
                return []
            found.append(at)
            at = decode_link(data)
        return found

    def _bring_blocks(self, hashes: Collection[Multihash]) -> None:
        """Bring blocks that are not here, many at a time; who reads a chain asks for each."""
        wanted = [hash for hash in hashes if self._known_block(hash) is None]

        def bring(hash: Multihash) -> None:
            with suppress(OdfBuildError):  # which who asks for the block will meet
                self._bring_block(hash)

        side_by_side(wanted, bring)

    def has(self, hash: Multihash) -> bool:
        return self.size(hash) is not None

    def size(self, hash: Multihash) -> int | None:
        found = self._client.facts(self.key(hash))
        return None if found is None else found.size

    def path(self, hash: Multihash) -> Path:
        with suppress(MissingObjectError):
            return self._file(hash)
        # the cache may have it of another dataset, which is of no use if that is not trusted
        return self._cache.place(hash) if self._trusts() else self._cache.nowhere(hash)

    def bring(self, hashes: Collection[Multihash]) -> None:
        side_by_side(tuple(dict.fromkeys(hashes)), self.path, parallel=FILES_AT_ONCE)

    def stored(self, hash: Multihash, size: int) -> StoredFile | None:
        key = self.key(hash)
        return StoredFile(
            hash=hash,
            size=size,
            path=self._cache.place(hash),
            url=f"{self._client.place}{key}",
            origin=self._place,
            pieces=lambda: self._client.open(key, 0),
        )

    def renew(self, hash: Multihash) -> bool:
        self._cache.drop(hash)
        self._file(hash)
        return True

    def _file(self, hash: Multihash) -> Path:
        """Return the file of an object in the cache, having brought it if it is not there."""
        if not self._may_use(hash):
            return self._brought_file(hash)
        found = self._cache.find(hash)
        if found is None:
            with self._cache.turn(hash):
                found = self._cache.find(hash)
                return self._brought_file(hash) if found is None else self._noted(hash, found)
        return self._noted(hash, found)

    def _brought_file(self, hash: Multihash) -> Path:
        key = self.key(hash)
        if self._client.facts(key) is None:
            if self._trusts():
                self._cache.drop(hash)
            raise self._missing(hash)
        with self._client.open(key, 0) as pieces:
            found = self._cache.bring(hash, pieces, self._place)
        self._brought.add(hash)
        return self._noted(hash, found)

    def _noted(self, hash: Multihash, path: Path) -> Path:
        note_origin(path, FileOrigin(self._client.place, self.key(hash), hash))
        return path

    def list(self) -> Iterator[Multihash]:
        for each in self.entries():
            yield each.hash

    def entries(self) -> Iterator[ObjectEntry]:
        for each in self._list_objects(self._prefix):
            hash = as_hash(each.key.rpartition("/")[2])
            if hash is not None:
                self._listed[hash] = each
                yield ObjectEntry(hash, each.size, each.touched)

    # writing

    def put(self, objects: Mapping[Multihash, bytes | Path]) -> None:
        if not objects:
            return
        self._check()
        parallel = FILES_AT_ONCE if not self._keeps_blocks else 64
        side_by_side(tuple(objects.items()), self._put, parallel=parallel)

    def _put(self, item: tuple[Multihash, bytes | Path]) -> None:
        hash, source = item
        if isinstance(source, Path):
            if not source.exists() and self._is_written(hash):
                return
            if self._keeps_blocks:
                self._put_block(hash, read_regular(source))
                source.unlink()
            else:
                self._put_file(hash, source)
        elif self._keeps_blocks:
            self._put_block(hash, source)
        else:
            check_bytes(hash, source, "memory")
            self._cache.bring(hash, [source], "memory")
            self._send_file(hash, self._cache.place(hash))

    def _is_written(self, hash: Multihash) -> bool:
        """Tell whether an attempt that failed later has written an object already."""
        return self._sent.is_recent(self.key(hash)) and self.has(hash)

    def _put_block(self, hash: Multihash, data: bytes) -> None:
        check_bytes(hash, data, "memory")
        key, is_new = self.key(hash), True
        try:
            self._client.put(key, data, "create")
        except FileExistsError:
            is_new = False
            self._client.put(key, data)
        self._cache.put_block(hash, data)
        self._sent.note(key, is_new=is_new)

    def _put_file(self, hash: Multihash, source: Path) -> None:
        self._send_file(hash, source)
        self._noted(hash, self._cache.move_in(hash, source))

    def _send_file(self, hash: Multihash, source: Path) -> None:
        key = self.key(hash)
        is_new = self._copied(hash, source)
        if is_new is None:
            try:
                is_new = self._client.put_file(key, source)
            except BrokenSourceError:  # one of another size, which is written over
                is_new = False
            if not is_new:
                self._client.put_file(key, source, overwrite=True)
        self._sent.note(key, is_new=is_new)

    def _copied(self, hash: Multihash, source: Path) -> bool | None:
        """Let the store copy a file from where it has its bytes, if it does.

        Tell whether there was none of its name before; None if it has to be sent.
        """
        key, origin = self.key(hash), origin_of(source)
        if origin is None or origin.hash != hash:
            return None
        before = self._client.facts(key)
        if not self._client.copy(origin.url, key):
            return None
        after = self._client.facts(key)
        is_whole = after is not None and after.size == source.stat().st_size
        return before is None if is_whole else None

    def refresh(self, hash: Multihash) -> None:
        """Write an object again that no head may have reached for long, so that it is young.

        Raises MissingObjectError and CorruptObjectError.
        """
        key = self.key(hash)
        if self._sent.is_recent(key):
            return
        self.resend(hash)
        self._sent.note(key, is_new=False)

    def resend(self, hash: Multihash) -> None:
        """Write an object from what is here of it; a file with other bytes is brought again first.

        Raises MissingObjectError, and CorruptObjectError if the store has other bytes as well.
        """
        key = self.key(hash)
        if self._keeps_blocks:
            self._client.put(key, self.get(hash))
            return
        path = self._file(hash)
        try:
            self._client.put_file(key, path, overwrite=True)
        except CorruptObjectError:
            self.renew(hash)
            self._client.put_file(key, path, overwrite=True)

    def mend(self, keys: Collection[str]) -> None:
        """Write those objects again that are gone from the store, and whose bytes are here."""
        for key in keys:
            hash = as_hash(key.rpartition("/")[2]) if key.startswith(self._prefix) else None
            if hash is not None and not self.has(hash):
                self.resend(hash)

    def remove(self, hashes: Sequence[Multihash]) -> None:
        """Take objects away that are as they were when they were listed; blocks in their order."""
        if self._keeps_blocks:
            for hash in hashes:
                self._remove(hash)
        else:
            side_by_side(hashes, self._remove)

    def _remove(self, hash: Multihash) -> None:
        key, listed = self.key(hash), self._listed.get(hash)
        now = self._client.facts(key)
        if now is not None and (listed is None or not now.was_written_since(listed)):
            self._client.delete(key)

    @property
    def _place(self) -> str:
        return f"{self._client.place}{self._prefix}".rstrip("/")

    def _missing(self, hash: Multihash) -> MissingObjectError:
        return MissingObjectError(hash, self._place)


class BucketAttestations:
    """Attestations as objects below `attestations/` of a dataset."""

    def __init__(
        self, client: ObjectClient, prefix: str, listed: ListObjects | None = None
    ) -> None:
        self._client = client
        self._prefix = f"{prefix}attestations/"
        self._list_objects = listed or client.listed

    def heads(self) -> tuple[Multihash, ...]:
        return tuple(each.hash for each in self.entries())

    def get(self, name: AttestationName) -> bytes | None:
        return self._client.get(f"{self._prefix}{name}", _LARGEST_ATTESTATION)

    def put(self, name: AttestationName, envelope: bytes) -> None:
        self._client.put(f"{self._prefix}{name}", envelope)

    def path(self, name: AttestationName) -> Path:
        return Path(f"{self._prefix}{name}")

    def entries(self) -> tuple[ObjectEntry, ...]:
        found = []
        for each in self._list_objects(self._prefix):
            head = head_of(each.key.rpartition("/")[2])
            if head is not None:
                found.append(ObjectEntry(head, each.size, each.touched))
        return tuple(sorted(found, key=lambda each: (each.touched, str(each.hash)), reverse=True))

    def remove(self, names: Sequence[Multihash]) -> None:
        side_by_side(names, lambda each: self._client.delete(f"{self._prefix}{each}"))
