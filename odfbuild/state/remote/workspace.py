"""A workspace in an object store: the store has its datasets, a local folder what can be lost.

    s3://bucket/prefix                      datasets/ names/ runs/ leases/ disabled/ format
    <state folder>/workspaces/<digest>/     index.sqlite keys/ staging/ cache/ lineage.sqlite

The store is the truth: heads are swapped, everything else is created only.  Private keys stay on
the machine that made them.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from odfbuild.errors import StateError
from odfbuild.odf.events import SetPollingSource
from odfbuild.odf.identity import DatasetId
from odfbuild.state.chain.heads import DEFAULT_LOCK_TIMEOUT
from odfbuild.state.chain.index import Index
from odfbuild.state.chain.seen_heads import state_folder
from odfbuild.state.disabled import mark_text
from odfbuild.state.lease import locked_here
from odfbuild.state.remote.cache import ObjectCache, user_cache
from odfbuild.state.remote.client import ObjectClient, side_by_side
from odfbuild.state.remote.home import BucketHome
from odfbuild.state.remote.leases import BucketLeases, now_of
from odfbuild.state.remote.limits import OfflineClient, OfflineError, ReadOnlyClient
from odfbuild.state.remote.memory import read_memory
from odfbuild.state.remote.runs import LARGEST, BucketRuns
from odfbuild.state.remote.store.bucket import Bucket
from odfbuild.state.remote.store.layout import KnownLayoutClient
from odfbuild.state.workspace import COLLECTING, Workspace

_DISABLED: Final = "disabled/"
_LARGEST_MARK: Final = 256  # bytes
_PAUSE: Final = 2.0
_PATIENCE: Final = 1_800.0  # seconds that a commit waits for a collector


class CollectingError(StateError):
    """Another process is collecting the garbage of the workspace."""

    code = "collecting"


class BucketWorkspace(Workspace):
    """The datasets below a prefix of an object store; `is_named`: the user's policy names it.

    Records of runs that others wrote have `largest_run` bytes at most.
    """

    largest_run = LARGEST

    def __init__(
        self,
        url: str,
        *,
        lock_timeout: float = DEFAULT_LOCK_TIMEOUT,
        client: ObjectClient | None = None,
        cache: ObjectCache | None = None,
        root: Path | None = None,
        pause: Callable[[float], None] = time.sleep,
        is_named: bool = False,
    ) -> None:
        self.url = url.rstrip("/") + "/"
        self._pause = pause
        if client is None:
            client = KnownLayoutClient(Bucket(self.url, is_named=is_named))
        self.client: ObjectClient = client
        self.leases = BucketLeases(self.client)
        self.far_leases = self.leases
        local = local_half(self.url) if root is None else root
        self.objects = user_cache() if cache is None else cache
        self._bucket = BucketHome(
            self.client,
            local,
            self.objects,
            wait_for_collector=self._wait_for_collection,
            remembers=self.seen_at is None,
        )
        self._runs = BucketRuns(self.client, local, self.largest_run)
        super().__init__(local, lock_timeout=lock_timeout, home=self._bucket)

    def check(self) -> None:
        """Have a store that keeps conditions.  Raises UnsafeStoreError, WorkspaceFormatError."""
        self._bucket.check()

    def now(self) -> float:
        """Return the time by the clock of the store, in seconds since 1970."""
        return now_of(self.client)

    def read_only(self) -> BucketWorkspace:
        return ReadOnlyBucketWorkspace(self)

    def disable(self, dataset: DatasetId, source: SetPollingSource | None) -> None:
        self.client.put(f"{_DISABLED}{dataset.multibase}", mark_text(source).encode())

    def enable(self, dataset: DatasetId) -> bool:
        key = f"{_DISABLED}{dataset.multibase}"
        was_disabled = self.client.facts(key) is not None
        self.client.delete(key)
        return was_disabled

    def disabled(self, only: DatasetId | None = None) -> Mapping[str, str]:
        if only is not None:
            mark = self.client.get(f"{_DISABLED}{only.multibase}", _LARGEST_MARK)
            return {} if mark is None else {only.multibase: _mark_text(mark)}
        keys = [each.key for each in self.client.listed(_DISABLED)]
        marks = side_by_side(keys, lambda key: self.client.get(key, _LARGEST_MARK) or b"")
        return {
            key.removeprefix(_DISABLED): _mark_text(mark)
            for key, mark in zip(keys, marks, strict=True)
        }

    def send_run(self, run: str) -> None:
        self._runs.try_to_send(run)

    def bring_runs(self) -> None:
        alive = (note.holder.get("run") for note in self.leases.notes() if not note.is_stale)
        self._runs.bring({str(run) for run in alive if run is not None})

    def forget_runs(self, runs: Collection[str]) -> None:
        self._runs.forget(runs)

    def held_leases(self) -> Mapping[str, float]:
        return self.leases.held()

    def read_anew(self) -> None:
        """Take from now on nothing for what the store has that was not brought from it again."""
        self._bucket.trusts_cache = False

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Say that objects are being deleted, and let nobody else do it meanwhile."""
        with locked_here(self.root, COLLECTING) as lock:
            if not self.leases.take(COLLECTING, {"pid": os.getpid(), **lock}):
                raise CollectingError(
                    what=f"another process is collecting the garbage of {self.url}",
                    why="only one can do this at a time, as commits wait for it",
                    fix="wait until it is done; if its process no longer exists: "
                    "odfbuild unlock .gc",
                )
            try:
                yield
            finally:
                self.leases.release(COLLECTING)

    def _wait_for_collection(self) -> None:
        waited = 0.0
        while waited < _PATIENCE:
            note = self.leases.note(COLLECTING)
            if note is None or note.is_stale:
                return
            with locked_here(self.root, COLLECTING) as lock:
                if note.has_ended(lock):
                    return
            if note.is_of_later:
                self.leases.write_again(COLLECTING)
            self._pause(_PAUSE)
            waited += _PAUSE


class ReadOnlyBucketWorkspace(BucketWorkspace):
    """A workspace in a store, to be looked at: nothing is written to the store, nor to the index
    of this machine.
    """

    is_read_only = True

    def __init__(self, of: BucketWorkspace) -> None:
        super().__init__(
            of.client.place, client=ReadOnlyClient(of.client), cache=of.objects, root=of.root
        )
        self.index = Index()


class OfflineBucketWorkspace(BucketWorkspace):
    """A workspace in a store as this machine saw it last; the store is not asked.

    What other machines do, and which sources are disabled, is not known.  Raises OfflineError where
    nothing was seen.
    """

    is_read_only = True

    def __init__(self, url: str, *, root: Path | None = None) -> None:
        place = url.rstrip("/") + "/"
        local = local_half(place) if root is None else root
        memory = read_memory(local)
        if memory is None:
            raise OfflineError(
                what=f"{place} was never read on this machine",
                why="--offline shows what was read here earlier",
                fix="once the store can be reached: odfbuild status",
            )
        self.seen_at = memory.at
        cache = user_cache()
        client = OfflineClient(place, memory, cache)
        super().__init__(place, client=client, cache=cache, root=local)

    def read_only(self) -> OfflineBucketWorkspace:
        return self

    def bring_runs(self) -> None:
        """Leave the records as they are here."""


def _mark_text(mark: bytes) -> str:
    return mark.decode("ascii", "replace").strip()


def local_half(url: str) -> Path:
    """Return the folder of this user for what belongs to a workspace and is not in its store."""
    base = state_folder()
    if base is None:
        base = Path(tempfile.gettempdir()) / f"odfbuild-state-{os.getuid()}"
    return base / "workspaces" / hashlib.sha256(url.encode()).hexdigest()[:32]
