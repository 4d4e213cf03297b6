"""Clients of a store that may do less: read only, or ask nothing at all."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NoReturn

from odfbuild.errors import StateError
from odfbuild.state.remote.client import (
    Moved,
    ObjectClient,
    StoredObject,
    TaggedBytes,
    Unchanged,
)
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
        moved: Moved = lambda _: None,  # noqa: ARG002
        *,
        anew: bool = False,  # noqa: ARG002
    ) -> NoReturn:
        raise self._refusal(key)

    def swap(self, key: str, may: Callable[[bytes | None], bool], new: bytes) -> NoReturn:  # noqa: ARG002
        raise self._refusal(key)

    def delete(self, key: str) -> NoReturn:
        raise self._refusal(key)

    def _refusal(self, key: str) -> StateError:
        return ReadOnlyError(
            what=f"{self.place}{key} would be changed by a command that only reads",
            why="what looks for differences must not make any",
            fix="report this: it is a fault of odfbuild",
        )
