"""Clients of a store that may do less: read only, or ask nothing at all."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NoReturn

from odfbuild.errors import StateError
from odfbuild.state.chain.objects import as_hash
from odfbuild.state.remote.cache import ObjectCache
from odfbuild.state.remote.client import (
    UNCHANGED,
    CountBytes,
    ObjectClient,
    StoredObject,
    TaggedBytes,
    Unchanged,
)
from odfbuild.state.remote.memory import StoreMemory
from odfbuild.state.remote.names import PREFIX
from odfbuild.state.workspace import ReadOnlyError


class ReadOnlyClient(ObjectClient):
    """A client that refuses every change."""

    def __init__(self, of: ObjectClient) -> None:
        self._of = of
        self.place = of.place
        self.store = of.store

    def get(self, key: str, most: int) -> bytes | None:
        return self._of.get(key, most)

    def look(self, key: str, most: int, known: str | None) -> TaggedBytes | Unchanged | None:
        return self._of.look(key, most, known)

    def open(self, key: str, start: int) -> AbstractContextManager[Iterator[bytes]]:
        return self._of.open(key, start)

    def facts(self, key: str) -> StoredObject | None:
        return self._of.facts(key)

    def listed(self, prefix: str) -> Iterator[StoredObject]:
        return self._of.listed(prefix)

    def below(self, prefix: str) -> list[str]:
        return self._of.below(prefix)

    def put(self, key: str, data: bytes, mode: Any = "overwrite") -> NoReturn:  # noqa: ARG002
        raise self._refusal(key)

    def put_file(
        self,
        key: str,
        path: Path,  # noqa: ARG002
        moved: CountBytes = lambda _: None,  # noqa: ARG002
        *,
        overwrite: bool = False,  # noqa: ARG002
    ) -> NoReturn:
        raise self._refusal(key)

    def copy(self, url: str, key: str) -> NoReturn:  # noqa: ARG002
        raise self._refusal(key)

    def swap(self, key: str, may: Callable[[bytes | None], bool], new: bytes) -> NoReturn:  # noqa: ARG002
        raise self._refusal(key)

    def delete(self, key: str) -> NoReturn:
        raise self._refusal(key)

    def _refusal(self, key: str) -> StateError:
        return ReadOnlyError(
            what=f"{self.place}{key} would be changed by a read-only command",
            why="a check for differences must not make any",
            fix="report this as a defect of odfbuild",
        )


class OfflineError(StateError):
    """Data of a store is not on this machine, and --offline was given."""

    code = "offline"


class OfflineClient(ReadOnlyClient):
    """A client that answers from what this machine has of a store, and never asks it.

    Heads and names are those that were seen last; objects are those of the cache.
    """

    def __init__(self, place: str, seen: StoreMemory, cache: ObjectCache) -> None:
        self.place = place
        self.store = place
        self._cache = cache
        heads = {k: TaggedBytes(str(e.head).encode(), e.tag) for k, e in seen.heads.items()}
        self._seen = heads | {f"{PREFIX}{name}": held for name, held in seen.names.items()}

    def get(self, key: str, most: int) -> bytes | None:  # noqa: ARG002
        raise self._unseen(key)

    def look(self, key: str, most: int, known: str | None) -> TaggedBytes | Unchanged | None:  # noqa: ARG002
        found = self._seen.get(key)
        return UNCHANGED if found is not None and found.tag == known else found

    def open(self, key: str, start: int) -> AbstractContextManager[Iterator[bytes]]:  # noqa: ARG002
        raise self._unseen(key)

    def facts(self, key: str) -> StoredObject | None:
        hash = as_hash(key.rpartition("/")[2])
        path = None if hash is None else self._cache.find(hash)
        if path is None:
            raise self._unseen(key)
        status = path.stat()
        return StoredObject(key, status.st_size, status.st_mtime, None)

    def listed(self, prefix: str) -> Iterator[StoredObject]:
        """Yield heads or names; of the objects of a dataset nobody knows which there are."""
        if prefix.startswith("datasets/") and not prefix.endswith("/refs/"):
            raise self._unseen(prefix)
        for key, held in self._seen.items():
            if key.startswith(prefix):
                yield StoredObject(key, len(held.data), 0.0, held.tag)

    def below(self, prefix: str) -> list[str]:
        under = {
            k.removeprefix(prefix).partition("/")[0] for k in self._seen if k.startswith(prefix)
        }
        return sorted(under)

    def _unseen(self, key: str) -> StateError:
        return OfflineError(
            what=f"{self.place}{key} is not on this machine",
            why="--offline does not contact the store, and it was never read here, or is damaged",
            fix="run the command without --offline once the store can be reached",
        )

    def _refusal(self, key: str) -> StateError:
        return OfflineError(
            what=f"{self.place}{key} cannot be written with --offline",
            why="the workspace is in the store, which is not contacted",
            fix="run the command without --offline",
        )
