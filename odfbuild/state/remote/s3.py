"""S3 client of object stores: requests, retries, errors, and whether a store keeps conditions.

    s3://bucket/prefix/            the bucket is the host
    s3+https://host/bucket/prefix/ a server, and the bucket is the first part of the path

Objects are created, never replaced, and the few small ones that change are swapped by their ETag,
so that of two who write at a time one wins; a store that ignores such conditions is found by
`probe`, and nothing is written to it.  A request that was sent again may fail because it had
succeeded before: what is there is read back then, and decides.  Credentials come from the
environment, a web identity or the machine, as is usual; none is in a URL.
"""

import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

from odfbuild.errors import StateError
from odfbuild.host.files import open_regular
from odfbuild.odf.refs import is_name
from odfbuild.state.remote.client import (
    UNCHANGED,
    CountBytes,
    ObjectClient,
    StoredObject,
    TaggedBytes,
    Unchanged,
)
from odfbuild.state.remote.errors import (
    BrokenSourceError,
    RefusedByRepositoryError,
    TransferError,
    UnreachableRepositoryError,
    missing_file,
)
from odfbuild.state.remote.verdicts import is_known_safe, keep_verdict
from odfbuild.texts.redaction import excerpt, keep_hidden
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from obstore.store import S3Store

_SMALL: Final = 64 << 10  # bytes of an object that is swapped
_CHUNK: Final = 1 << 20
_PART: Final = 8 << 20
_AT_ONCE: Final = 64 << 20  # bytes; larger files are sent in parts
_GAP: Final = 64 << 10  # bytes between two parts of an object that are read in one request
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
    """An object store does not support the conditional writes that a push needs."""

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
        found = self._object(key)
        return None if found is None else self._bytes(found, key, most)

    def tagged(self, key: str, most: int) -> tuple[bytes, str | None] | None:
        """Return an object and its ETag, None if there is none."""
        found = self._object(key)
        if found is None:
            return None
        return self._bytes(found, key, most), found.meta["e_tag"]

    def look(self, key: str, most: int, known: str | None) -> TaggedBytes | Unchanged | None:
        """Return an object and its ETag, None if there is none; UNCHANGED if it is the known."""
        from obstore.exceptions import NotModifiedError

        try:
            found = self._object(key, {} if known is None else {"if_none_match": known})
        except NotModifiedError:
            return UNCHANGED
        if found is None:
            return None
        return TaggedBytes(self._bytes(found, key, most), found.meta["e_tag"])

    def _object(self, key: str, options: Any = None) -> Any:
        import obstore

        try:
            return self._asked(lambda: obstore.get(self._store, key, options=options or None))
        except FileNotFoundError:
            return None

    def _bytes(self, found: Any, key: str, most: int) -> bytes:
        if found.meta["size"] > most:
            raise BrokenSourceError(
                what=f"{self.place}{key} has {found.meta['size']:,} bytes",
                why=f"such an object has {most:,} at most",
                fix="ask the owner of that copy",
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

    def ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return parts of an object, each from a byte up to, but without, another.

        Parts that are close to one another are one request.  Raises BrokenSourceError if there is
        no object, or a shorter one.
        """
        read = {each: self._range(key, *each) for each in _joined(ranges)}
        found: list[bytes] = []
        for start, end in ranges:
            if start == end:
                found.append(b"")
                continue
            (first, _), data = next(each for each in read.items() if each[0][1] >= end)
            found.append(data[start - first : end - first])
        return found

    def _range(self, key: str, start: int, end: int) -> bytes:
        import obstore

        try:
            found = self._asked(lambda: obstore.get_range(self._store, key, start=start, end=end))
        except FileNotFoundError:
            raise missing_file(self.place, key) from None
        except UnreachableRepositoryError:
            if (size := self.size(key)) is None or size < end:
                raise self._short(key, end) from None
            raise
        if len(found) < end - start:
            raise self._short(key, end)
        return bytes(found)

    def _short(self, key: str, least: int) -> BrokenSourceError:
        return BrokenSourceError(
            what=f"{self.place}{key} has fewer than {least:,} bytes",
            why="it had more when it was stored",
            fix="delete it, and run again",
        )

    def size(self, key: str) -> int | None:
        """Return how many bytes an object has, None if there is none."""
        import obstore

        try:
            return int(self._asked(lambda: obstore.head(self._store, key))["size"])
        except FileNotFoundError:
            return None

    def facts(self, key: str) -> StoredObject | None:
        """Return what the store says of an object, None if there is none."""
        import obstore

        try:
            return _stored(self._asked(lambda: obstore.head(self._store, key)))
        except FileNotFoundError:
            return None

    def put(self, key: str, data: bytes, mode: Any = "overwrite") -> str | None:
        """Have an object, and return its ETag; mode is "create", or {"e_tag": ...} of the one that
        is replaced.

        Raises FileExistsError when the condition does not hold, or may not have held.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            put = partial(obstore.put, self._store, key, data, mode=mode, use_multipart=False)
            return self._asked(put, conditional=mode != "overwrite")["e_tag"]
        except (AlreadyExistsError, PreconditionError) as error:
            raise FileExistsError(key) from error

    def create(self, key: str, data: bytes) -> None:
        """Have an object of these bytes; raises BrokenSourceError if it is there with others."""
        found = self.create_or_look(key, data, lambda: self.get(key, len(data)))
        if found not in (None, data):
            raise _damaged(self.place, key)

    def create_or_look(self, key: str, data: bytes, look: Callable[[], T | None]) -> T | None:
        """Create an object and return None, or what `look` finds of one that is there.

        That may be of another who wrote the same, or of this request, whose first answer was lost.
        Stores also refuse to create where requests meet (409) and nothing is there: it is tried
        again then.
        """
        for _ in range(_TRIES):
            try:
                self.put(key, data, "create")
            except FileExistsError:
                found = look()
                if found is not None:
                    return found
            else:
                return None
        raise UnreachableRepositoryError(
            what=f"{self.place}{key} could not be created in {_TRIES} attempts",
            why="the store refuses it as if it existed, and it does not",
            fix="try again; odfbuild repo check shows what the store supports",
        )

    def swap(self, key: str, may: Callable[[bytes | None], bool], new: bytes) -> bytes | None:
        """Replace a small object if what it holds `may` be replaced; return what it holds then.

        An object of no byte is as none.  What is returned is `new` if it was set: by this request,
        whose first answer may have been lost, or by another who set the same.
        """
        failed: UnreachableRepositoryError | None = None
        for _ in range(_TRIES):
            found = self.tagged(key, _SMALL)
            actual = None if found is None else found[0] or None
            if actual == (new or None) or not may(actual):
                return actual
            try:
                self.put(key, new, "create" if found is None else {"e_tag": found[1]})
            except FileExistsError:
                failed = None
            except UnreachableRepositoryError as error:
                failed = error
            else:
                return new or None
        raise failed or UnreachableRepositoryError(
            what=f"{self.place}{key} could not be set in {_TRIES} attempts",
            why="others keep changing it, or the store does not support conditional writes",
            fix="try again; odfbuild repo check shows what the store supports",
        )

    def put_file(
        self, key: str, path: Path, moved: CountBytes = lambda _: None, *, overwrite: bool = False
    ) -> bool:
        """Have an object that is named by its hash; tell whether it was written now.

        One that is there has the same bytes; with `overwrite` it is written all the same.
        """
        import obstore

        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size <= _AT_ONCE:
                data, found = file.read(), None
                if overwrite:
                    self.put(key, data)
                else:
                    found = self.create_or_look(key, data, lambda: self.size(key))
                if found not in (None, len(data)):
                    raise _damaged(self.place, key)
                moved(len(data))
                return found is None
            pieces = _counted(iter(lambda: file.read(_PART), b""), moved)
            self._asked(lambda: obstore.put(self._store, key, pieces, chunk_size=_PART))
        return True

    def copy(self, url: str, key: str) -> bool:
        """Have what another object is; tell whether the store made the copy by itself.

        It does within one bucket, up to a size of its own.
        """
        import obstore

        bucket, server, source = bucket_of(url)
        mine, server_of_mine, prefix = bucket_of(self.place)
        if (bucket, server) != (mine, server_of_mine):
            return False
        root = _store(f"s3://{bucket}" if server is None else f"s3+{server}/{bucket}", None)
        target = f"{prefix}/{key}".lstrip("/")
        with suppress(StateError, FileNotFoundError):  # then its bytes have to pass here
            self._asked(lambda: obstore.copy(root, source, target))
            return True
        return False

    def put_pieces(self, key: str, size: int, pieces: Iterator[bytes]) -> None:
        """Have an object of so many bytes, of which a few are in memory at a time.

        What `pieces` raises leaves the object as it was.
        """
        import obstore

        if size <= _PART:
            self.put(key, b"".join(pieces))
        else:
            self._asked(lambda: obstore.put(self._store, key, pieces, chunk_size=_PART))

    def delete(self, key: str) -> None:
        """Take an object away, if there is one."""
        import obstore

        with suppress(FileNotFoundError):
            self._asked(lambda: obstore.delete(self._store, key))

    def listed(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects below a prefix that ends with a slash."""
        import obstore

        pages = iter(obstore.list(self._store, prefix, chunk_size=1000))
        while (page := self._asked(lambda: next(pages, None))) is not None:
            for each in page:
                yield _stored(each)

    def keys(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield the keys below a prefix that ends with a slash, and the sizes of objects."""
        for each in self.listed(prefix):
            yield each.key, each.size

    def folders(self, prefix: str) -> list[str]:
        """Return the names of datasets and accounts right below a prefix."""
        return list(filter(is_name, self.below(prefix)))

    def below(self, prefix: str) -> list[str]:
        """Return the names right below a prefix that have something below them, in order."""
        import obstore

        found = self._asked(lambda: obstore.list_with_delimiter(self._store, prefix or None))
        return sorted(str(e).rstrip("/").rpartition("/")[2] for e in found["common_prefixes"])

    def _asked(self, request: Callable[[], T], *, conditional: bool = False) -> T:
        """Turn what the library says into errors of ours; a missing object stays what it is, and so
        does a condition that does not hold.
        """
        from obstore.exceptions import (
            AlreadyExistsError,
            BaseError,
            NotModifiedError,
            PermissionDeniedError,
            PreconditionError,
            UnauthenticatedError,
        )

        try:
            return request()
        except (FileNotFoundError, NotModifiedError):
            raise
        except (AlreadyExistsError, PreconditionError) as error:
            if conditional:
                raise
            raise self._unreachable(error) from error
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise RefusedByRepositoryError(
                what=f"{self.place} refuses the request: {_said(error)}",
                why="the credentials are missing, wrong, or may not do this",
                fix="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or other credentials: "
                'docs/sharing.md, "Credentials"',
            ) from error
        except (BaseError, OSError) as error:
            if _is_of_machine(error):
                raise RefusedByRepositoryError(
                    what=f"no credentials were found for {self.place}",
                    why="the environment has none, and the machine has no role with some; ~/.aws "
                    "is not read",
                    fix="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for a bucket that "
                    "anyone may read, AWS_SKIP_SIGNATURE=true",
                ) from error
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> UnreachableRepositoryError:
        return UnreachableRepositoryError(
            what=f"{self.place} cannot be used: {_said(error)}",
            why="the store did not answer, or its answer is not understood",
            fix="try again, which continues where it stopped; odfbuild repo check has details",
        )


def known_abilities(bucket: ObjectClient) -> Abilities:
    """Return what pushes rest on of a store that this user found to be safe; else look."""
    if is_known_safe(bucket.store):
        return Abilities(creates_only=True, swaps=True)
    return probed(bucket)


def probed(bucket: ObjectClient) -> Abilities:
    """Look what a store does, and keep the verdict."""
    found = probe(bucket)
    keep_verdict(bucket.store, safe=found.creates_only and found.swaps)
    return found


def probe(bucket: ObjectClient) -> Abilities:
    """Try on an object of no meaning what pushes rest on, and take it away."""
    key = f"{_PREFIX}{secrets.token_hex(8)}"
    bucket.put(key, b"one")
    try:
        creates_only = not _succeeds(bucket, key, b"two", "create")
        found = bucket.look(key, 16, None)
        tag = found.tag if isinstance(found, TaggedBytes) else None
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
    lacks = "overwrites objects that must only be created"
    if abilities.creates_only:
        lacks = "does not replace an object by its ETag, or replaces one that has changed"
    raise UnsafeStoreError(
        what=f"nothing is pushed to {place}: the store {lacks}",
        why="of two simultaneous pushes one would be lost",
        fix="use a store with conditional writes (If-None-Match, If-Match), or push through an ODF "
        "server; reading from it is safe",
    )


def _joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges that hold all of some, in order, those with small gaps as one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(each for each in ranges if each[0] < each[1]):
        if found and start - found[-1][1] <= _GAP:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


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
            what=f"{url} cannot be used: the library for object stores is not installed",
            why="it is an optional dependency",
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


def _stored(found: Any) -> StoredObject:
    touched = found["last_modified"].timestamp()
    return StoredObject(str(found["path"]), int(found["size"]), touched, found["e_tag"])


def _succeeds(bucket: ObjectClient, key: str, data: bytes, mode: object) -> bool:
    try:
        bucket.put(key, data, mode)
    except FileExistsError:
        return False
    return True


def _counted(pieces: Iterator[bytes], moved: CountBytes) -> Iterator[bytes]:
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
        what=f"{place}{key} exists with other bytes",
        why="its name is the hash of its bytes, so that object is damaged",
        fix="delete it there, and push again",
    )
