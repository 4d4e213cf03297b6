"""Names of datasets in an object store: created only, so that one name has one dataset."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final

from odfbuild.state.remote.client import ObjectClient, TaggedBytes, Unchanged, side_by_side
from odfbuild.state.remote.errors import BrokenSourceError

PREFIX: Final = "names/"
_LARGEST: Final = 4_096  # bytes
_DAMAGED: Final = b"?"


class BucketNames:
    """Names as objects below `names/`; one of no byte is as none.

    What an object held is known by its ETag, so that of all names those are read that changed;
    `keep` is called when all are known.
    """

    def __init__(self, client: ObjectClient, keep: Callable[[], None] = lambda: None) -> None:
        self._client = client
        self._keep = keep
        self._known: dict[str, TaggedBytes] = {}
        self._lock = Lock()
        self.changed = False

    def known(self) -> dict[str, TaggedBytes]:
        """Return what is known of names, to be remembered."""
        with self._lock:
            return dict(self._known)

    def remember(self, known: Mapping[str, TaggedBytes]) -> None:
        """Take what was known of names before."""
        with self._lock:
            self._known.update(known)

    def items(self) -> Iterator[tuple[str, Callable[[], bytes | None]]]:
        found = self._tags()
        missing = [name for name, tag in found.items() if not self._is_known(name, tag)]
        read = side_by_side(missing, self.read)
        with self._lock:
            gone = self._known.keys() - found.keys()
            for name in gone:
                del self._known[name]
            self.changed |= bool(gone)
            data = dict(zip(missing, read, strict=True))
            data |= {name: known.data for name, known in self._known.items()}
        self._keep()
        return ((name, partial(data.get, name)) for name in sorted(found))

    def _tags(self) -> dict[str, str | None]:
        found = self._client.listed(PREFIX)
        return {each.key.rpartition("/")[2]: each.tag for each in found if each.size}

    def _is_known(self, name: str, tag: str | None) -> bool:
        with self._lock:
            known = self._known.get(name)
        return known is not None and tag is not None and known.tag == tag

    def read(self, name: str) -> bytes | None:
        with self._lock:
            known = self._known.get(name)
        try:
            found = self._client.look(PREFIX + name, _LARGEST, None if known is None else known.tag)
        except BrokenSourceError:  # too long for a name: who reads it finds it damaged
            with self._lock:
                self.changed |= self._known.pop(name, None) is not None
            return _DAMAGED
        if isinstance(found, Unchanged):
            return None if known is None else known.data
        with self._lock:
            if found is None or not found.data:
                self.changed |= self._known.pop(name, None) is not None
                return None
            self._known[name] = found
            self.changed = True
        return found.data

    def create(self, name: str, data: bytes) -> None:
        if self._client.swap(PREFIX + name, lambda found: found is None, data) != data:
            raise FileExistsError(name)

    def replace(self, name: str, data: bytes) -> None:
        self._client.swap(PREFIX + name, lambda _: True, data)

    def remove(self, name: str) -> None:
        """Take a name away that is what it was when it was read last."""
        known = self.read(name)
        if known is not None:
            self._client.swap(PREFIX + name, lambda found: found == known, b"")

    def mark(self) -> str:
        return "\0".join(sorted(f"{name} {tag}" for name, tag in self._tags().items()))

    @contextmanager
    def changing(self) -> Iterator[None]:
        yield

    def place(self, name: str) -> Path:
        return Path(PREFIX) / name
