"""Layout of a workspace in a store: the object that names its version, and a client that checks it.

Nothing is read or written below a prefix that another version laid out.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar

from odfbuild.errors import StateError
from odfbuild.host.json_text import parse_json
from odfbuild.state.remote.client import (
    CountBytes,
    ObjectClient,
    StoredObject,
    TaggedBytes,
    Unchanged,
    side_by_side,
)

T = TypeVar("T")
_VERSION: Final = 1
FORMAT_KEY: Final = "format"
FORMAT: Final = json.dumps({"odfbuild_workspace": _VERSION}).encode()
LARGEST_FORMAT: Final = 4_096


class WorkspaceFormatError(StateError):
    """A workspace in a store has the layout of another version."""

    code = "workspace-format"


def check_format(found: bytes | None, place: str) -> None:
    """Raise WorkspaceFormatError of a workspace that this version does not know."""
    with suppress(ValueError, TypeError, KeyError):
        if found is None or parse_json(found)["odfbuild_workspace"] == _VERSION:
            return
    raise WorkspaceFormatError(
        what=f"{place} has a layout that this version of odfbuild does not know",
        why=f"its object `{FORMAT_KEY}` names another format",
        fix="use the version that wrote it, or a newer one; or another prefix of the bucket",
    )


class KnownLayoutClient(ObjectClient):
    """A client that gives no answer, and changes nothing, where the layout is of another version.

    It looks once, at the first request: with a question at the same time, before a change.  Raises
    WorkspaceFormatError.
    """

    def __init__(self, of: ObjectClient) -> None:
        self._of = of
        self.place = of.place
        self.store = of.store
        self._is_known = False
        self._looking = Lock()

    def get(self, key: str, most: int) -> bytes | None:
        return self._answer(lambda: self._of.get(key, most))

    def look(self, key: str, most: int, known: str | None) -> TaggedBytes | Unchanged | None:
        return self._answer(lambda: self._of.look(key, most, known))

    def open(self, key: str, start: int) -> AbstractContextManager[Iterator[bytes]]:
        self._check()
        return self._of.open(key, start)

    def facts(self, key: str) -> StoredObject | None:
        return self._answer(lambda: self._of.facts(key))

    def listed(self, prefix: str) -> Iterator[StoredObject]:
        found = iter(self._of.listed(prefix))
        first = self._answer(lambda: next(found, None))
        if first is not None:
            yield first
            yield from found

    def below(self, prefix: str) -> list[str]:
        return self._answer(lambda: self._of.below(prefix))

    def put(self, key: str, data: bytes, mode: Any = "overwrite") -> str | None:
        self._check()
        return self._of.put(key, data, mode)

    def put_file(
        self, key: str, path: Path, moved: CountBytes = lambda _: None, *, overwrite: bool = False
    ) -> bool:
        self._check()
        return self._of.put_file(key, path, moved, overwrite=overwrite)

    def copy(self, url: str, key: str) -> bool:
        self._check()
        return self._of.copy(url, key)

    def swap(self, key: str, may: Callable[[bytes | None], bool], new: bytes) -> bytes | None:
        self._check()
        return self._of.swap(key, may, new)

    def delete(self, key: str) -> None:
        self._check()
        self._of.delete(key)

    def _answer(self, ask: Callable[[], T]) -> T:
        if self._is_known:
            return ask()
        questions: tuple[Callable[[], Any], ...] = (self._check, ask)
        _, answer = side_by_side(questions, lambda question: question())
        found: T = answer
        return found

    def _check(self) -> None:
        with self._looking:
            if not self._is_known:
                check_format(self._of.get(FORMAT_KEY, LARGEST_FORMAT), self.place)
                self._is_known = True
