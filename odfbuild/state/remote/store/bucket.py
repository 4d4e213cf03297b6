"""Client of object stores: requests, retries and errors.

Objects are created, never replaced, and the few small ones that change are swapped by their ETag,
so that of two who write at a time one wins; a store that ignores such conditions is found by
`abilities.probe`, and nothing is written to it.  Google swaps by generations, which its lists and
answers to conditional reads lack: that of an ETag is asked for before the swap.  A request that was
sent again may fail because it had succeeded before: what is there is read back then, and decides.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

from odfbuild.errors import StateError
from odfbuild.host.files import open_regular
from odfbuild.odf.refs import is_name
from odfbuild.state.chain.objects import as_hash, check_bytes, checked_pieces
from odfbuild.state.remote.client import (
    UNCHANGED,
    CountBytes,
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
from odfbuild.state.remote.store.azure import azure_access
from odfbuild.state.remote.store.credentials import StoreAccess
from odfbuild.state.remote.store.google import google_access
from odfbuild.state.remote.store.place import StorePlace
from odfbuild.state.remote.store.services import HINTS, opened
from odfbuild.texts.redaction import excerpt

_SMALL: Final = 64 << 10  # bytes of an object that is swapped
_CHUNK: Final = 1 << 20
_PART: Final = 8 << 20
_AT_ONCE: Final = 64 << 20  # bytes; larger files are sent in parts
_GAP: Final = 64 << 10  # bytes between two parts of an object that are read in one request
_TRIES: Final = 5

_CODE: Final = re.compile(r"<Code>([^<]{1,100})</Code>")
_MESSAGE: Final = re.compile(r"<Message>([^<]{1,1000})</Message>")
_LIBRARY: Final = re.compile(
    r"Generic (?:S3|MicrosoftAzure|GCS) error: |Error performing (?:list|token) request: "
    r"|Error performing [A-Z]+ \S+ in [^-]*?- |"
    r"after \d+ retries[^-]*?- "
)
_REFUSED: Final = re.compile(
    r"status code: 40[13]\b|\b40[13] (?:Unauthorized|Forbidden)"
    r"|\(code: 40[13]\)|Auth[A-Za-z]+(?:Failure|Failed|Mismatch)"
)
_HIDDEN_BUCKET: Final = "ResourceNotFound"  # also of a container that is not for everyone
_NO_BUCKET: Final = ("NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted", _HIDDEN_BUCKET)
_SKEWED: Final = "RequestTimeTooSkewed"
_OVERTAKEN: Final = "InvalidBlockList"
_METADATA_SERVERS: Final = (
    *("169.254.169.254", "169.254.170.2", "[fd00:ec2::254]"),
    "/computeMetadata/",
)
_VERSION: Final = {"x-ms-version": "2021-12-02"}
_SECONDS: Final = 60  # of one deletion
_PAUSE: Final = 0.5  # seconds, before a deletion is sent again
_LONGEST: Final = 300  # characters of what a store says that are shown

T = TypeVar("T")


class MissingBucketError(TransferError):
    """A bucket or container does not exist."""

    code = "missing-bucket"


class Bucket:
    """A prefix of a bucket, or of a container of Azure; keys are paths below it.

    At Google, objects of everyone are served from caches for an hour, unless they say otherwise.

    `is_named` says that the user's policy names the store.  With `silence`, a request fails when
    the store says nothing for so many seconds.
    """

    def __init__(
        self,
        url: str,
        region: str | None = None,
        *,
        is_named: bool = False,
        silence: float | None = None,
    ) -> None:
        self.place = url
        self._place = StorePlace.of(url)
        self.store = self._place.store
        self._access: StoreAccess | None = None
        if self._place.kind == "az":
            self._access = azure_access(self._place, os.environ, is_named=is_named)
        elif self._place.kind == "gs":
            self._access = google_access(self._place, os.environ, is_named=is_named)
        self._attributes: Any = {"Cache-Control": "no-cache"} if self._place.kind == "gs" else None
        self._store = opened(self._place, self._access, region, silence=silence)

    def get(self, key: str, most: int) -> bytes | None:
        """Return an object of at most so many bytes, None if there is none."""
        found = self._object(key)
        return None if found is None else self._bytes(found, key, most)

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
        except UnreachableRepositoryError:
            if not start or (size := self.size(key)) is None or size > start:
                raise
            if size < start:
                raise self._short(key, start) from None
            yield iter(())  # no store has a range without bytes
            return
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

        Raises FileExistsError when the condition does not hold, or may not have held, and
        MissingBucketError.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        if self._place.kind == "gs" and isinstance(mode, dict) and "version" not in mode:
            mode = self._of_generation(key, mode["e_tag"])
        try:
            put = partial(
                obstore.put,
                self._store,
                key,
                data,
                attributes=self._attributes,
                mode=mode,
                use_multipart=False,
            )
            return self._asked(put, conditional=mode != "overwrite")["e_tag"]
        except (AlreadyExistsError, PreconditionError) as error:
            raise FileExistsError(key) from error
        except FileNotFoundError as error:
            if isinstance(mode, dict):  # what shall be replaced was taken away
                raise FileExistsError(key) from error
            raise self._missing(error) from error

    def _of_generation(self, key: str, tag: str) -> Mapping[str, Any]:
        """Return the condition that an object is the generation of it that has an ETag now.

        Raises FileExistsError if it has another one, or is not there.
        """
        import obstore

        try:
            found = self._asked(lambda: obstore.head(self._store, key))
        except FileNotFoundError as error:
            raise FileExistsError(key) from error
        condition = self._condition(key, found)
        if found["e_tag"] != tag or "version" not in condition:
            raise FileExistsError(key)
        return condition

    def _condition(self, key: str, found: Any) -> Mapping[str, Any]:
        """Return the condition that an object is the one that was read.

        Raises UnreachableRepositoryError of a store that does not say which one that is.
        """
        if found["e_tag"] is None:
            raise UnreachableRepositoryError(
                what=f"{self.place}{key} cannot be set: the store, or a proxy before it, gives no "
                "ETag",
                why="an object is replaced only while it has the ETag that was read with it",
                fix="use a store that supports If-Match, and let ETag pass through a proxy",
            )
        condition = {"e_tag": found["e_tag"]}
        if self._place.kind == "gs" and found["version"] is not None:
            condition["version"] = found["version"]
        return condition

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
            found = self._object(key)
            actual = None if found is None else self._bytes(found, key, _SMALL) or None
            if actual == (new or None) or not may(actual):
                return actual
            try:
                condition = "create" if found is None else self._condition(key, found.meta)
                self.put(key, new, condition)
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

        One that is there has the same bytes; with `overwrite` it is written all the same.  Raises
        CorruptObjectError of a file with other bytes than its name says, and nothing is written.
        """
        named = as_hash(key.rpartition("/")[2])
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size <= _AT_ONCE:
                data, found = file.read(), None
                if named is not None:
                    check_bytes(named, data, str(path))
                if overwrite:
                    self.put(key, data)
                else:
                    found = self.create_or_look(key, data, lambda: self.size(key))
                if found not in (None, len(data)):
                    raise _damaged(self.place, key)
                moved(len(data))
                return found is None
            size = os.fstat(file.fileno()).st_size
            progress = _Progress(moved)
            for _ in range(_TRIES):
                file.seek(0)
                pieces = iter(lambda: file.read(_PART), b"")
                if named is not None:
                    pieces = checked_pieces(named, pieces, str(path))
                if self._put_parts(key, progress.of(pieces)):
                    return True
                if self.size(key) == size:
                    return False
        raise self._overtaken(key)

    def _put_parts(self, key: str, pieces: Iterator[bytes]) -> bool:
        """Send an object in parts; tell whether it was put together.

        In Azure it is not if another upload of it was, since the parts were sent.
        """
        import obstore

        try:
            self._asked(lambda: obstore.put(self._store, key, pieces, chunk_size=_PART))
        except UnreachableRepositoryError as error:
            if _code(error.__cause__) == _OVERTAKEN:
                return False
            raise
        except FileNotFoundError as error:
            raise self._missing(error) from error
        return True

    def _overtaken(self, key: str) -> UnreachableRepositoryError:
        return UnreachableRepositoryError(
            what=f"{self.place}{key} could not be stored",
            why="other uploads of it ended meanwhile, and left another size",
            fix="try again",
        )

    def copy(self, url: str, key: str) -> bool:
        """Have what another object is; tell whether the store made the copy by itself.

        It does within one bucket of S3 or Google, up to a size of its own.  A copy in Azure may
        still be pending when the answer comes, so there is none.
        """
        import obstore

        source = StorePlace.of(url)
        if source.store != self.store or source.kind == "az":
            return False
        root = opened(source, self._access, above=True)
        target = f"{self._place.prefix}/{key}".lstrip("/")
        with suppress(StateError, FileNotFoundError):  # then its bytes have to pass here
            self._asked(lambda: obstore.copy(root, source.prefix, target))
            return True
        return False

    def put_pieces(self, key: str, size: int, pieces: Iterator[bytes]) -> None:
        """Have an object of so many bytes, of which a few are in memory at a time.

        What `pieces` raises leaves the object as it was.
        """
        if size <= _PART:
            self.put(key, b"".join(pieces))
        elif not self._put_parts(key, pieces) and self.size(key) != size:
            raise self._overtaken(key)

    def delete(self, key: str) -> None:
        """Take an object away, if there is one."""
        import obstore

        if self._access is not None and self._access.sas is not None:
            self._delete_alone(key, self._access.sas)
            return
        with suppress(FileNotFoundError):
            self._asked(lambda: obstore.delete(self._store, key))

    def _delete_alone(self, key: str, sas: str) -> None:
        """Take an object away by a request of its own: not every signature is for several."""
        import httpx

        path = quote(f"{self._place.bucket}/{self._place.prefix}/{key}".replace("//", "/"))
        url, said = f"{self._place.server}/{path}?{sas}", "no answer"
        for attempt in range(_TRIES):
            time.sleep(_PAUSE * attempt)
            try:
                answer = httpx.delete(url, headers=_VERSION, timeout=_SECONDS)
            except httpx.TransportError as error:
                said = str(error) or type(error).__name__
                continue
            if answer.status_code in (200, 202, 404):
                return
            said = _said(RuntimeError(f"HTTP {answer.status_code}: {answer.text}"))
            if answer.status_code in (401, 403):
                raise self._refused(said)
            if answer.status_code < 500:
                break
        raise self._unreachable(said)

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
        except NotModifiedError:
            raise
        except FileNotFoundError as error:
            if _code(error) in _NO_BUCKET:
                raise self._missing(error) from error
            raise
        except (AlreadyExistsError, PreconditionError) as error:
            if conditional:
                raise
            raise self._unreachable(_said(error)) from error
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise self._refused(_said(error)) from error
        except (BaseError, OSError) as error:
            if _is_of_machine(error):
                raise RefusedByRepositoryError(
                    what=f"no credentials were found for {self.place}",
                    why="the environment has none, and the machine has no role with some; "
                    f"{HINTS[self._place.kind].unread} is not read",
                    fix=f"{HINTS[self._place.kind].given}; {HINTS[self._place.kind].anonymous}",
                ) from error
            if _REFUSED.search(str(error)):
                raise self._refused(_said(error)) from error
            if _code(error) in _NO_BUCKET:
                raise self._missing(error) from error
            raise self._unreachable(_said(error)) from error

    def _refused(self, said: str) -> RefusedByRepositoryError:
        if said.startswith(_SKEWED):
            return RefusedByRepositoryError(
                what=f"{self.place} refuses the request: {said}",
                why="requests are signed with the time of this machine, and the clock of the store "
                "differs from it by more than the store allows",
                fix="set the clock that is wrong; date -u shows the one of this machine",
            )
        unsigned = None if self._access is None else self._access.unsigned
        return RefusedByRepositoryError(
            what=f"{self.place} refuses the request: {said}",
            why=unsigned or "the credentials are missing, wrong, or may not do this",
            fix=f"{HINTS[self._place.kind].given}, or other credentials: docs/sharing.md, "
            '"Credentials"',
        )

    def _missing(self, error: Exception) -> MissingBucketError:
        what = "container" if self._place.kind == "az" else "bucket"
        why = f"no {what} of that name was found there"
        if _code(error) == _HIDDEN_BUCKET:
            why = f"{why}, or it is not for everyone to read"
        return MissingBucketError(
            what=f"the {what} {self.store} does not exist",
            why=why,
            fix=f"make the {what}, or correct its name",
        )

    def _unreachable(self, said: str) -> UnreachableRepositoryError:
        return UnreachableRepositoryError(
            what=f"{self.place} cannot be used: {said}",
            why="the store did not answer, or its answer is not understood",
            fix="try again, which continues where it stopped; odfbuild repo check has details",
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


def _stored(found: Any) -> StoredObject:
    touched, tag = found["last_modified"].timestamp(), found["e_tag"]
    if tag and not tag.endswith('"'):  # lists of Azure have them so
        tag = f'"{tag}"'
    return StoredObject(str(found["path"]), int(found["size"]), touched, tag)


class _Progress:
    """Bytes that were sent at least once."""

    def __init__(self, moved: CountBytes) -> None:
        self._moved = moved
        self._most = 0

    def of(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yield pieces, from the first of a file on, and count those that are new."""
        at = 0
        for piece in pieces:
            yield piece
            at += len(piece)
            if at > self._most:
                self._moved(at - self._most)
                self._most = at


def _code(error: BaseException | None) -> str | None:
    """Return the code of an answer of a store, None if it has none."""
    found = _CODE.search(str(error))
    return None if found is None else found[1]


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
