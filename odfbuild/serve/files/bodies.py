"""Bodies of objects that are served: a file, or the bytes of a block of a store."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Protocol

from odfbuild.host.files import open_descriptor
from odfbuild.odf.identity import Multihash
from odfbuild.serve.access import AccessError
from odfbuild.serve.files.place import ServedPlace
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.objects import MissingObjectError
from odfbuild.state.remote.view.cache import CacheFullError


class ObjectBody(Protocol):
    """The bytes of an object; `close` ends the reading."""

    size: int

    def read(self, count: int, start: int) -> bytes:
        """Return at most so many bytes from a place on."""

    def close(self) -> None:
        """Let go of it."""


class FileBody:
    """An open file; `done` is called when it is closed."""

    def __init__(self, opened: int, done: Callable[[], None] = lambda: None) -> None:
        self.size = os.fstat(opened).st_size
        self._opened = opened
        self._done = done

    def read(self, count: int, start: int) -> bytes:
        return os.pread(self._opened, count, start)

    def close(self) -> None:
        os.close(self._opened)
        self._done()


class BytesBody:
    """Bytes in memory, as of a block."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._data = data

    def read(self, count: int, start: int) -> bytes:
        return self._data[start : start + count]

    def close(self) -> None:
        """Nothing is open."""


def object_body(place: ServedPlace, dataset: Dataset, kind: str, hash: Multihash) -> ObjectBody:
    """Return the bytes of an object of a dataset.

    Raises AccessError: 404 where there is none, 503 where the cache has no room for it; and what
    requests of a store raise.
    """
    stores = dataset.stores
    store = {"blocks": stores.blocks, "data": stores.data, "checkpoints": stores.checkpoints}[kind]
    try:
        if place.view is None:
            return FileBody(open_descriptor(store.path(hash), follow=False))
        size = store.size(hash)  # the cache has objects of all datasets
        if size is None:
            raise MissingObjectError(hash, kind)
        if kind == "blocks":
            return BytesBody(store.get(hash))
        with ExitStack() as stack:
            stack.enter_context(place.view.cached.pinned({hash: size}))
            opened = open_descriptor(store.path(hash), follow=False)
            return FileBody(opened, stack.pop_all().close)
    except CacheFullError as error:
        text = "The cache of the server has no room for this file now; try again later."
        raise AccessError(503, text, error.code) from error
    except (OSError, MissingObjectError):
        raise AccessError(404, "There is no such object.") from None
