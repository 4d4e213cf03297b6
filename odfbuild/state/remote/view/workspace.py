"""A workspace in a store as a server has it, and as its processes for questions have it."""

import time
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Final

from odfbuild.odf.identity import DatasetId
from odfbuild.state.files.lock import Holder
from odfbuild.state.remote.cache import cache_base, cache_limit
from odfbuild.state.remote.limits import OfflineClient
from odfbuild.state.remote.memory import StoreMemory
from odfbuild.state.remote.store.bucket import Bucket
from odfbuild.state.remote.store.layout import FORMAT_KEY, LARGEST_FORMAT, check_format
from odfbuild.state.remote.view.cache import PinnedCache, ReadyObjects
from odfbuild.state.remote.view.client import SeenObjects, StoreView
from odfbuild.state.remote.view.leases import LeaseWatch
from odfbuild.state.remote.view.outage import Outage
from odfbuild.state.remote.view.visibility import StoredVisibility
from odfbuild.state.remote.workspace import BucketWorkspace

_SILENCE: Final = 10.0  # seconds that the store may say nothing, before a reader gives it up
_RUNS: Final = 5.0  # seconds that records of runs may be old
LARGEST_RUN: Final = 64 << 20
"""Bytes of a record of a run that a server reads; it has all of its events in memory."""


class WorkspaceView(BucketWorkspace):
    """A workspace in a store for many readers: what they see is at most `age` seconds old.

    `writing` is the same workspace for who changes it, who sees it as it is.
    """

    largest_run = LARGEST_RUN

    def __init__(self, url: str, *, age: float, is_named: bool = False) -> None:
        place = url.rstrip("/") + "/"
        outage, seen = Outage(), SeenObjects()
        self.cached = PinnedCache.taken(cache_base(), place, cache_limit())
        asked = Bucket(place, is_named=is_named, silence=_SILENCE)
        view = StoreView(asked, outage, seen, age=age)
        super().__init__(place, client=view, cache=self.cached)
        now = StoreView(Bucket(place, is_named=is_named), outage, seen, age=0)
        self.writing = BucketWorkspace(place, client=now, cache=self.cached, root=self.root)
        self.visibility = StoredVisibility(view, now)
        self._watch = LeaseWatch(view)
        self._bringing = Lock()
        self._brought_at = -_RUNS

    def check_layout(self) -> None:
        """Have a store that answers, with a layout of this version.

        Raises WorkspaceFormatError, and what requests of a store raise.
        """
        check_format(self.client.get(FORMAT_KEY, LARGEST_FORMAT), self.client.place)

    def locks(self) -> Mapping[DatasetId, Holder]:
        """Return who works on which dataset, on any machine, as far as they said."""
        holders = self._watch.holders()
        named = ((id, holders.get(alias.file_name)) for alias, id in self.names().items())
        return {
            id: Holder(
                pid=_number(note.get("pid")),
                host=str(note.get("host")),
                since=str(note.get("since")),
            )
            for id, note in named
            if note is not None
        }

    def bring_runs(self) -> None:
        with self._bringing:
            if time.monotonic() - self._brought_at < _RUNS:
                return
            runs = (note.get("run") for note in self._watch.holders().values())
            self._runs.bring({str(run) for run in runs if run is not None})
            self._brought_at = time.monotonic()


class ReadyWorkspace(BucketWorkspace):
    """A workspace in a store of which all that is asked for is in the cache of another process.

    The store is not asked, and nothing is remembered.  Raises OfflineError where something is not
    there.
    """

    is_read_only = True

    def __init__(self, place: str, root: Path, cache: Path) -> None:
        objects = ReadyObjects(cache)
        self.seen_at = 0.0
        client = OfflineClient(place, StoreMemory({}, {}), objects)
        super().__init__(place, client=client, cache=objects, root=root)


def _number(given: object) -> int:
    return given if isinstance(given, int) else 0
