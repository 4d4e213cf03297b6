"""Repositories in object stores: S3 and what is compatible with it.

    s3://bucket/prefix/            the bucket is the host
    s3+https://host/bucket/prefix/ a server, and the bucket is the first part of the path

A dataset is laid out as in a folder.  Objects are created, never replaced, and the head is swapped
by its ETag, so that of two who push at a time one wins; a store that ignores such conditions is
found by `probe`, and nothing is pushed to it.  A request that was sent again may fail because it
had succeeded before: what is there is read back then, and decides.  Credentials come from the
environment, a web identity or the machine, as is usual; none is in a URL.
"""

import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

from odfbuild.errors import StateError
from odfbuild.host.files import open_regular
from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias, is_name
from odfbuild.odf.wire.blocks import decode_block, decode_link
from odfbuild.repositories.download import each_of
from odfbuild.repositories.protocol import (
    LARGEST_BLOCK,
    BrokenSourceError,
    ChainUpdate,
    Moved,
    RefusedByRepositoryError,
    TransferError,
    UnreachableRepositoryError,
)
from odfbuild.repositories.transports.simple import SimpleTarget, missing_file
from odfbuild.repositories.transports.store_verdicts import is_known_safe, keep_verdict
from odfbuild.state.chain.heads import HEAD, HeadMovedError, parse_head
from odfbuild.texts.redaction import excerpt, keep_hidden

if TYPE_CHECKING:
    from obstore.store import S3Store

PARALLEL: Final = 16
_CHUNK: Final = 1 << 20
_PART: Final = 8 << 20
_AT_ONCE: Final = 64 << 20  # bytes; larger files are sent in parts
_SEQUENTIAL: Final = 64  # blocks that are read one after the other before all are read at once
_TRIES: Final = 5
_SECONDS: Final = 600
_PREFIX: Final = "odfbuild-probe/"

_CODE: Final = re.compile(r"<Code>([^<]{1,100})</Code>")
_MESSAGE: Final = re.compile(r"<Message>([^<]{1,1000})</Message>")
_LIBRARY: Final = re.compile(
    r"Generic S3 error: |Error performing [A-Z]+ \S+ in [^-]*?- |after \d+ retries[^-]*?- "
)
_SECRETS: Final = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_METADATA_SERVERS: Final = ("169.254.169.254", "169.254.170.2", "[fd00:ec2::254]")
_LONGEST: Final = 300  # characters of what a store says that are shown

T = TypeVar("T")


class UnsafeStoreError(TransferError):
    """An object store does not keep the conditions that a push rests on."""

    code = "unsafe-store"


class NoObstoreError(StateError):
    """The library for object stores is not installed."""

    code = "no-obstore"


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a store was found to do: create an object only if there is none, swap one by its
    ETag."""

    creates_only: bool
    swaps: bool


class Bucket:
    """A prefix of a bucket; keys are paths below it."""

    def __init__(self, url: str, region: str | None = None) -> None:
        self.place = url
        name, server, _ = bucket_of(url)
        self.store = f"{server or 's3:/'}/{name}"
        self._store = _store(url, region)

    def get(self, key: str, most: int) -> bytes | None:
        """Return an object of at most so many bytes, None if there is none."""
        found = self._found(key)
        return None if found is None else self._bytes(found, key, most)

    def tagged(self, key: str, most: int) -> tuple[bytes, str | None] | None:
        """Return an object and its ETag, None if there is none."""
        found = self._found(key)
        if found is None:
            return None
        return self._bytes(found, key, most), found.meta["e_tag"]

    def _found(self, key: str) -> Any:
        import obstore

        try:
            return self._asked(lambda: obstore.get(self._store, key))
        except FileNotFoundError:
            return None

    def _bytes(self, found: Any, key: str, most: int) -> bytes:
        if found.meta["size"] > most:
            raise BrokenSourceError(
                what=f"{self.place}{key} has {found.meta['size']:,} bytes",
                why=f"what is in its place has {most:,} at most",
                fix="ask who keeps the copy there",
            )
        return self._asked(lambda: bytes(found.bytes()))

    @contextmanager
    def open(self, key: str, start: int) -> Iterator[Iterator[bytes]]:
        """Open an object from a byte on, in pieces."""
        import obstore

        options: Any = {"range": {"offset": start}} if start else {}
        try:
            found = self._asked(lambda: obstore.get(self._store, key, options=options))
        except FileNotFoundError:
            raise missing_file(self.place, key) from None
        pieces = iter(found.stream(min_chunk_size=_CHUNK))

        def each() -> Iterator[bytes]:
            while (piece := self._asked(lambda: next(pieces, None))) is not None:
                yield bytes(piece)

        yield each()

    def size(self, key: str) -> int | None:
        """Return how many bytes an object has, None if there is none."""
        import obstore

        try:
            return int(self._asked(lambda: obstore.head(self._store, key))["size"])
        except FileNotFoundError:
            return None

    def put(self, key: str, data: bytes, mode: Any = "overwrite") -> None:
        """Have an object; mode is "create", or {"e_tag": ...} of the one that is replaced.

        Raises FileExistsError when the condition does not hold, or may not have held.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            self._asked(lambda: obstore.put(self._store, key, data, mode=mode, use_multipart=False))
        except (AlreadyExistsError, PreconditionError) as error:
            raise FileExistsError(key) from error

    def put_file(self, key: str, path: Path, moved: Moved) -> None:
        """Have an object that is named by its hash; one that is there has the same bytes."""
        import obstore

        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size <= _AT_ONCE:
                data = file.read()
                try:
                    self.put(key, data, "create")
                except FileExistsError:  # of another who pushes the same, or of this request
                    if self.size(key) != len(data):
                        raise _damaged(self.place, key) from None
                moved(len(data))
                return
            pieces = _counted(iter(lambda: file.read(_PART), b""), moved)
            self._asked(lambda: obstore.put(self._store, key, pieces, chunk_size=_PART))

    def delete(self, key: str) -> None:
        """Take an object away."""
        import obstore

        self._asked(lambda: obstore.delete(self._store, key))

    def keys(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield the keys below a prefix that ends with a slash, and the sizes of objects."""
        import obstore

        pages = iter(obstore.list(self._store, prefix, chunk_size=1000))
        while (page := self._asked(lambda: next(pages, None))) is not None:
            for each in page:
                yield str(each["path"]), int(each["size"])

    def folders(self, prefix: str) -> list[str]:
        """Return the names right below a prefix."""
        import obstore

        found = self._asked(lambda: obstore.list_with_delimiter(self._store, prefix or None))
        names = (str(each).rstrip("/").rpartition("/")[2] for each in found["common_prefixes"])
        return sorted(filter(is_name, names))

    def _asked(self, request: Callable[[], T]) -> T:
        """Turn what the library says into errors of ours; a missing object stays what it is."""
        from obstore.exceptions import (
            AlreadyExistsError,
            BaseError,
            PermissionDeniedError,
            PreconditionError,
            UnauthenticatedError,
        )

        try:
            return request()
        except (FileNotFoundError, AlreadyExistsError, PreconditionError):
            raise
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise RefusedByRepositoryError(
                what=f"{self.place} refuses the request: {_said(error)}",
                why="the credentials are missing, wrong, or may not do this",
                fix="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or what else the machine "
                'has: docs/sharing.md, "Credentials"',
            ) from error
        except (BaseError, OSError) as error:
            if _is_of_machine(error):
                raise RefusedByRepositoryError(
                    what=f"no credentials were found for {self.place}",
                    why="none are in the environment, and the machine has no role that gives some; "
                    "~/.aws is not read",
                    fix="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for a bucket that "
                    "anybody may read, AWS_SKIP_SIGNATURE=true",
                ) from error
            raise UnreachableRepositoryError(
                what=f"{self.place} cannot be used: {_said(error)}",
                why="the store gave no answer, or one that is not understood",
                fix="try again, which goes on where it broke off; odfbuild repo check says more",
            ) from error


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

    def create(self, path: str, source: bytes | Path, moved: Moved) -> None:
        key = self._prefix + path
        if isinstance(source, Path):
            self._bucket.put_file(key, source, moved)
            return
        try:
            self._bucket.put(key, source, "create")
        except FileExistsError:
            if self._bucket.get(key, len(source)) != source:
                raise _damaged(self._bucket.place, key) from None

    def replace(self, path: str, data: bytes) -> None:
        self._bucket.put(self._prefix + path, data)

    def swap_head(self, expected: Multihash | None, new: Multihash) -> None:
        key, data = f"{self._prefix}refs/{HEAD}", str(new).encode()
        failed: UnreachableRepositoryError | None = None
        for _ in range(_TRIES):
            found = self._bucket.tagged(key, 256)
            actual = (
                None if found is None else parse_head(found[0].strip(), f"{self.place}refs/head")
            )
            if actual == new:
                return  # by this request, whose answer was lost, or by another who pushed the same
            if actual != expected:
                raise HeadMovedError(expected, actual)
            try:
                self._bucket.put(key, data, "create" if found is None else {"e_tag": found[1]})
            except FileExistsError:
                failed = None
            except UnreachableRepositoryError as error:
                failed = error
            else:
                return
        raise failed or UnreachableRepositoryError(
            what=f"{self.place}refs/head could not be set in {_TRIES} attempts",
            why="others change it all the time, or the store does not keep conditions",
            fix="push again; odfbuild repo check says what the store can do",
        )

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
        first = self._objects.get(f"blocks/{head}", LARGEST_BLOCK)
        if first is None:
            raise self.lacks(f"blocks/{head}")
        missing = self._count(first, after)
        if missing <= _SEQUENTIAL:
            yield from super().blocks(head, after)
            return
        names = {name: size for name, size in self._objects.block_sizes() if size <= LARGEST_BLOCK}
        if len(names) > PARALLEL * missing:  # one by one is quicker
            yield from super().blocks(head, after)
            return
        with _Spool(self._objects, list(names)) as spool:
            at: Multihash | None = head
            while at is not None and at != after:
                data = spool.get(str(at))
                if data is None:
                    raise self.lacks(f"blocks/{at}")
                yield at, data
                at = decode_link(data)

    def _count(self, first: bytes, after: Multihash | None) -> int:
        """Return how many blocks there are to a head, after one that is there."""
        count = decode_block(first).sequence_number + 1
        if after is None or count <= _SEQUENTIAL:
            return count
        known = self._objects.get(f"blocks/{after}", LARGEST_BLOCK)
        return count if known is None else count - 1 - decode_block(known).sequence_number

    def push(self, update: ChainUpdate, moved: Moved) -> None:
        refuse_unsafe(self._abilities(), self.place)
        super().push(update, moved)


class _Spool:
    """Objects that were read at once, in a file without a name: memory has their places only."""

    def __init__(self, objects: ObjectFiles, names: Sequence[str]) -> None:
        self._objects = objects
        self._names = names
        self._places: dict[str, tuple[int, int]] = {}
        self._lock = Lock()
        self._end = 0

    def __enter__(self) -> "_Spool":
        self._file = TemporaryFile()
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

    def __init__(self, url: str, region: str | None = None) -> None:
        self._bucket = Bucket(url, region)
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


def dataset_at(url: str, region: str | None = None) -> ObjectDataset:
    """Return the dataset at a URL, which ends with a slash."""
    bucket = Bucket(url, region)
    return ObjectDataset(ObjectFiles(bucket, ""), lambda: known_abilities(bucket))


def known_abilities(bucket: Bucket) -> Abilities:
    """Return what pushes rest on of a store that this user found to be safe; else look."""
    if is_known_safe(bucket.store):
        return Abilities(creates_only=True, swaps=True)
    return probed(bucket)


def probed(bucket: Bucket) -> Abilities:
    """Look what a store does, and keep the verdict."""
    found = probe(bucket)
    keep_verdict(bucket.store, safe=found.creates_only and found.swaps)
    return found


def probe(bucket: Bucket) -> Abilities:
    """Try on an object of no meaning what pushes rest on, and take it away."""
    key = f"{_PREFIX}{secrets.token_hex(8)}"
    bucket.put(key, b"one", "create")
    try:
        creates_only = not _succeeds(bucket, key, b"two", "create")
        found = bucket.tagged(key, 16)
        tag = None if found is None else found[1]
        if not creates_only or tag is None:
            return Abilities(creates_only, swaps=False)
        swaps = _succeeds(bucket, key, b"three", {"e_tag": tag})
        swaps = swaps and not _succeeds(bucket, key, b"four", {"e_tag": tag})
        return Abilities(creates_only, swaps)
    finally:
        bucket.delete(key)


def refuse_unsafe(abilities: Abilities, place: str) -> None:
    """Raise UnsafeStoreError unless a store does what a push rests on."""
    if abilities.creates_only and abilities.swaps:
        return
    lacks = "overwrites objects that were to be created only"
    if abilities.creates_only:
        lacks = "does not replace an object by its ETag, or replaces one that has changed"
    raise UnsafeStoreError(
        what=f"nothing is pushed to {place}: the store {lacks}",
        why="of two who push at a time one would lose what it was told is there",
        fix="use a store with conditional writes (If-None-Match, If-Match), or push through an ODF "
        "server; reading from it is safe",
    )


def bucket_of(url: str) -> tuple[str, str | None, str]:
    """Return the bucket of a URL, its server (None: that of AWS), and the prefix."""
    parts = urlsplit(url)
    path = unquote(parts.path).strip("/")
    if parts.scheme == "s3":
        return parts.netloc, None, path
    bucket, _, prefix = path.partition("/")
    return bucket, f"{parts.scheme.removeprefix('s3+')}://{parts.netloc}", prefix


def _store(url: str, region: str | None) -> "S3Store":
    try:
        from obstore.store import S3Store
    except ImportError as error:
        raise NoObstoreError(
            what=f"{url} cannot be used: the library for object stores is not here",
            why="it is an extra of this program",
            fix="install it: pip install 'odfbuild[s3]'",
        ) from error
    keep_hidden(*filter(None, map(os.environ.get, _SECRETS)))
    bucket, endpoint, prefix = bucket_of(url)
    given: dict[str, Any] = {"virtual_hosted_style_request": endpoint is None}
    if endpoint is not None:
        given["endpoint"] = endpoint
    if region is not None or not (os.environ.keys() & {"AWS_REGION", "AWS_DEFAULT_REGION"}):
        given["region"] = region or "us-east-1"
    options: Any = {
        "allow_http": endpoint is not None and endpoint.startswith("http://"),
        "timeout": timedelta(seconds=_SECONDS),
        "connect_timeout": timedelta(seconds=10),
    }
    retries: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}
    return S3Store(
        bucket, prefix=prefix or None, client_options=options, retry_config=retries, **given
    )


def _succeeds(bucket: Bucket, key: str, data: bytes, mode: object) -> bool:
    try:
        bucket.put(key, data, mode)
    except FileExistsError:
        return False
    return True


def _counted(pieces: Iterator[bytes], moved: Moved) -> Iterator[bytes]:
    for piece in pieces:
        yield piece
        moved(len(piece))


def _said(error: Exception) -> str:
    """Return what a store says: its code and message, else the line of the library without how
    often it asked, and without the text of the answer, which may be a page.
    """
    text = str(error).strip()
    code, message = _CODE.search(text), _MESSAGE.search(text)
    if code is not None:
        words = code[1] if message is None else f"{code[1]}: {message[1]}"
    else:
        line = (text or type(error).__name__).splitlines()[0].partition("<")[0]
        words = _LIBRARY.sub("", line).strip(" :-") or type(error).__name__
    return excerpt(" ".join(words.split()), _LONGEST)


def _is_of_machine(error: Exception) -> bool:
    """Say whether the library asked the machine for credentials, having found none elsewhere."""
    return any(each in str(error) for each in _METADATA_SERVERS)


def _damaged(place: str, key: str) -> BrokenSourceError:
    return BrokenSourceError(
        what=f"{place}{key} is there with other bytes",
        why="it is named by the hash of its bytes, so the one there is damaged",
        fix="delete it there, and push again",
    )
