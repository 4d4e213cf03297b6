"""Heads in an object store: small objects that are swapped by their ETag."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Protocol

from odfbuild.odf.identity import Multihash
from odfbuild.state.chain.heads import HEAD, HeadMovedError, checked_name, is_ref_name, parse_head
from odfbuild.state.remote.client import ListObjects, ObjectClient, TaggedBytes, Unchanged
from odfbuild.state.remote.errors import UnreachableRepositoryError
from odfbuild.values import dataclass

LARGEST_HEAD = 64 << 10  # bytes


def swap_head(
    client: ObjectClient, key: str, expected: Multihash | None, new: Multihash
) -> Multihash | None:
    """Set a head if it is the expected one (None: must not exist), and return what it is then.

    Raises CorruptHeadError where no hash stands, and what requests of a store raise.
    """
    place = f"{client.place}{key}"
    found = client.swap(key, lambda data: head_in(data, place) == expected, str(new).encode())
    return head_in(found, place)


def head_in(data: bytes | None, place: str) -> Multihash | None:
    """Return the head that an object holds, None if it is not there or holds nothing."""
    return None if not data else parse_head(data.strip(), place)


@dataclass(frozen=True, slots=True)
class SeenTag:
    """A head as it was read, and its ETag."""

    head: Multihash | None
    tag: str | None


class HeadTags:
    """The heads that were read, by their keys: who asks again gets no body if nothing changed."""

    def __init__(self, known: Mapping[str, SeenTag] | None = None) -> None:
        self._known = dict(known or {})
        self._lock = Lock()
        self.changed = False

    def get(self, key: str) -> SeenTag | None:
        with self._lock:
            return self._known.get(key)

    def put(self, key: str, seen: SeenTag | None) -> None:
        """Remember a head; None forgets it."""
        with self._lock:
            self.changed |= self._known.get(key) != seen
            if seen is None:
                self._known.pop(key, None)
            else:
                self._known[key] = seen

    def all(self) -> dict[str, SeenTag]:
        with self._lock:
            return dict(self._known)


def read_head(client: ObjectClient, key: str, tags: HeadTags) -> Multihash | None:
    """Return what a head is now."""
    known = tags.get(key)
    found = client.look(key, LARGEST_HEAD, None if known is None else known.tag)
    if isinstance(found, Unchanged):
        return None if known is None else known.head
    if found is None:
        tags.put(key, None)
        return None
    assert isinstance(found, TaggedBytes)  # noqa: S101 - nothing else is left
    head = head_in(found.data, f"{client.place}{key}")
    tags.put(key, SeenTag(head, found.tag))
    return head


class NewHead(Protocol):
    """What a head reaches that is about to be set, or was set just now."""

    def prepare(self, expected: Multihash | None, new: Multihash) -> None:
        """Have what a head will reach, and the one before it did not, outlast collectors."""

    def check(self) -> None:
        """Have again what a collector took meanwhile."""

    def is_behind(self, head: Multihash | None, block: Multihash) -> bool:
        """Tell whether a head reaches a block that was to be the head."""


class BucketHeads:
    """Heads of one dataset; nothing locks them, since a swap alone decides."""

    def __init__(
        self,
        client: ObjectClient,
        prefix: str,
        tags: HeadTags,
        new_head: NewHead | None = None,
        *,
        check: Callable[[], None] = lambda: None,
        listed: ListObjects | None = None,
    ) -> None:
        self._client = client
        self._list_objects = listed or client.listed
        self._prefix = f"{prefix}refs/"
        self._tags = tags
        self._new_head = new_head
        self._check = check

    def names(self) -> tuple[str, ...]:
        found = self._list_objects(self._prefix)
        names = (each.key.rpartition("/")[2] for each in found if each.size)
        return tuple(sorted(filter(is_ref_name, names)))

    def read(self, name: str = HEAD) -> Multihash | None:
        return read_head(self._client, self._key(name), self._tags)

    def swap(self, name: str, *, expected: Multihash | None, new: Multihash) -> None:
        key = self._key(name)
        self._check()
        if self._new_head is not None:
            self._new_head.prepare(expected, new)
        actual = self._swapped(key, expected, new)
        if actual != new and not self._is_behind(actual, new):
            raise HeadMovedError(expected, actual, name)
        if self._new_head is not None:
            self._new_head.check()

    def _is_behind(self, actual: Multihash | None, new: Multihash) -> bool:
        """Tell whether our swap was carried out, though its answer was lost, and somebody else's
        after it.
        """
        return self._new_head is not None and self._new_head.is_behind(actual, new)

    def _swapped(self, key: str, expected: Multihash | None, new: Multihash) -> Multihash | None:
        """Swap a head by the ETag that it was read with; look again if that is not its own now."""
        known = self._tags.get(key)
        if known is not None and known.head == expected and known.tag is not None:
            try:
                tag = self._client.put(key, str(new).encode(), {"e_tag": known.tag})
            except (FileExistsError, UnreachableRepositoryError):
                self._tags.put(key, None)
            else:
                self._tags.put(key, SeenTag(new, tag))
                return new
        try:
            return swap_head(self._client, key, expected, new)
        finally:
            self._tags.put(key, None)

    def delete(self, name: str, *, expected: Multihash) -> None:
        key = self._key(name)
        place = f"{self._client.place}{key}"
        self._check()
        self._tags.put(key, None)
        left = self._client.swap(key, lambda data: head_in(data, place) == expected, b"")
        if left is not None:
            raise HeadMovedError(expected, head_in(left, place), name)

    @contextmanager
    def lock(self, timeout: float | None = None) -> Iterator[None]:  # noqa: ARG002
        yield

    def _key(self, name: str) -> str:
        return f"{self._prefix}{checked_name(name)}"
