"""Files that a question reads of a workspace in a store: brought before, and kept until its end."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from threading import Lock
from typing import Any, Final

from odfbuild.odf.events import AddData, ExecuteTransform
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.serve.access import AccessError
from odfbuild.serve.files.place import ServedPlace
from odfbuild.serve.query.question import PinnedDataset
from odfbuild.serve.query.worker import SIZE_LIMIT
from odfbuild.state.remote.view.cache import CacheFullError

_CHAINS: Final = 256  # of which the files are remembered

Files = Mapping[tuple[str, Multihash], int]
"""The sizes of files, by their kind and hash."""


class QuestionFiles:
    """The files of questions to one server."""

    def __init__(self, place: ServedPlace) -> None:
        self._place = place
        self._lock = Lock()
        self._known: OrderedDict[tuple[DatasetId, Multihash], Files] = OrderedDict()

    def place_of(self) -> dict[str, Any]:
        """Return where a process finds the workspace."""
        found: dict[str, Any] = {"workspace": str(self._place.workspace.root)}
        if self._place.view is not None:
            found["store"] = {
                "place": self._place.view.url,
                "cache": str(self._place.view.cached.folder),
            }
        return found

    @asynccontextmanager
    async def ready(
        self, datasets: Sequence[PinnedDataset], *, has_rows: bool = True
    ) -> AsyncIterator[None]:
        """Have the chains of datasets here, and the files that they name if rows are read.

        Raises AccessError (400) where these exceed the cache, and what a store raises.
        """
        if self._place.view is None:
            yield
            return
        kept = _Kept()
        try:
            await self._place.reading(self._bring, datasets, has_rows, kept)
            yield
        finally:
            kept.close()

    def _bring(self, datasets: Sequence[PinnedDataset], has_rows: bool, kept: "_Kept") -> None:
        view = self._place.view
        assert view is not None  # noqa: S101 - else nothing is brought
        found = {each: self._files(each) for each in datasets}
        if not has_rows:
            return
        sizes = {hash: size for files in found.values() for (_, hash), size in files.items()}
        try:
            kept.keep(view.cached.pinned(sizes))
        except CacheFullError as error:
            raise AccessError(
                400,
                "The question reads more files than the cache of the server holds.",
                SIZE_LIMIT,
                error.fix,
            ) from None
        for each, files in found.items():
            stores = view.dataset(each.id).stores
            for kind, store in (("data", stores.data), ("checkpoint", stores.checkpoints)):
                store.bring([hash for (of, hash) in files if of == kind])

    def _files(self, read: PinnedDataset) -> Files:
        """Return the files of a chain up to a block, whose blocks are here then."""
        assert read.block is not None  # noqa: S101 - it was pinned
        key = read.id, read.block
        with self._lock:
            if (known := self._known.get(key)) is not None:
                self._known.move_to_end(key)
                return known
        found: dict[tuple[str, Multihash], int] = {}
        for _, block in self._place.workspace.dataset(read.id).blocks(upto=read.block):
            if isinstance(block.event, AddData | ExecuteTransform):
                if (data := block.event.new_data) is not None:
                    found["data", data.physical_hash] = data.size
                if (checkpoint := block.event.new_checkpoint) is not None:
                    found["checkpoint", checkpoint.physical_hash] = checkpoint.size
        with self._lock:
            self._known[key] = found
            while len(self._known) > _CHAINS:
                self._known.popitem(last=False)
        return found


class _Kept:
    """What is kept for a question, also if it ends while its files are brought."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._lock = Lock()
        self._is_over = False

    def keep(self, pins: Any) -> None:
        with self._lock:
            if not self._is_over:
                self._stack.enter_context(pins)

    def close(self) -> None:
        with self._lock:
            self._is_over = True
            self._stack.close()
