"""Origins of files in the user's cache: the objects of a workspace's store that they are copies of.

Who shares rows with machines that reach the store names the object, in place of sending the file.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final

from odfbuild.host.files import open_regular
from odfbuild.odf.identity import Multihash
from odfbuild.state.chain.objects import StoredFile
from odfbuild.values import dataclass

_PIECE: Final = 1 << 20  # bytes that are read at a time


@dataclass(frozen=True, slots=True)
class FileOrigin:
    """An object that was seen in a store, or sent there; `place` is a prefix, ending with a slash.

    Its name is the hash of its bytes.
    """

    place: str
    key: str
    hash: Multihash

    @property
    def url(self) -> str:
        """Return where the object is."""
        return f"{self.place}{self.key}"


class _Origins:
    """The origins of files that this process has used."""

    def __init__(self) -> None:
        self._known: dict[Path, FileOrigin] = {}
        self._lock = Lock()

    def note(self, path: Path, origin: FileOrigin) -> None:
        with self._lock:
            self._known[path] = origin

    def of(self, path: Path) -> FileOrigin | None:
        with self._lock:
            return self._known.get(path)


_ORIGINS = _Origins()
note_origin = _ORIGINS.note
"""Note which object a file in the cache is a copy of, checked by its hash."""
origin_of = _ORIGINS.of
"""Return which object a file is a copy of, None if that is not known."""


def stored_copy(path: Path) -> StoredFile | None:
    """Return the object that a file is a copy of, None if that is not known.

    Whoever cannot have its bytes from the store gets those of the file.
    """
    origin = origin_of(path)
    if origin is None:
        return None
    return StoredFile(
        hash=origin.hash,
        size=path.stat().st_size,
        path=path,
        url=origin.url,
        origin=str(path.parent),
        pieces=partial(_pieces, path),
    )


@contextmanager
def _pieces(path: Path) -> Iterator[Iterator[bytes]]:
    with open_regular(path) as file:
        yield iter(partial(file.read, _PIECE), b"")
