"""Heads as a verification read them, compared with those of now.

Others may go on while datasets are verified.  Once a head has moved, `gc` may take away what it
reached, and what a step has read may be on no chain: what was found then says nothing of now.
"""

from collections.abc import Callable, Collection, Mapping
from threading import Lock
from typing import Final

from odfbuild.errors import OdfBuildError
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HEAD
from odfbuild.state.remote.errors import UnreachableRepositoryError
from odfbuild.state.workspace import COLLECTING, Workspace

LOOKS: Final = 6  # at what others change meanwhile
UNCERTAIN: Final = (
    f"others changed it during each of {LOOKS} looks at it, so that what was found may not be so "
    "any more; verify it again when they are done"
)
_NOT_READ: Final = "not read"
_PAUSE: Final = 2.0  # seconds, as who waits for a collector to set a head
_STALE: Final = 130.0  # seconds; a lease that is not renewed in this time is nobody's
_PATIENCE: Final = 1_800.0


class ReadHeads:
    """The heads of datasets as they were read, once or several times."""

    def __init__(self) -> None:
        self._found: dict[DatasetId, set[Multihash | str | None]] = {}
        self._lock = Lock()

    def note(self, id: DatasetId, head: Multihash | None) -> None:
        """Note a head as it was just read."""
        with self._lock:
            self._found.setdefault(id, set()).add(head)

    def note_unread(self, id: DatasetId) -> None:
        """Note that a head could not be read."""
        with self._lock:
            self._found.setdefault(id, set()).add(_NOT_READ)

    def have_moved(self, workspace: Workspace, ids: Collection[DatasetId]) -> bool:
        """Tell whether any of the datasets was read with another head than it has now."""
        with self._lock:
            found = {id: set(self._found[id]) for id in ids if id in self._found}
        return any(heads != {head_or_problem(workspace.dataset(id))} for id, heads in found.items())


def head_or_problem(dataset: Dataset) -> Multihash | str | None:
    """Return the head of a dataset, None if it has none, a text if it cannot be read.

    Raises UnreachableRepositoryError.
    """
    try:
        return dataset.head()
    except UnreachableRepositoryError:
        raise
    except OdfBuildError:
        return _NOT_READ


References = dict[str, Multihash | Exception | None]


def references(dataset: Dataset) -> References:
    """Return the blocks of all references of a dataset, its head first, or why one cannot be read.

    Raises UnreachableRepositoryError.
    """
    heads = dataset.stores.heads
    names = sorted({HEAD, *heads.names()}, key=lambda name: (name != HEAD, name))
    found: References = {}
    for name in names:
        try:
            found[name] = heads.read(name)
        except UnreachableRepositoryError:
            raise
        except Exception as error:  # which is a finding
            found[name] = error
    return found


def have_changed(dataset: Dataset, before: References) -> bool:
    """Tell whether the references of a dataset are others than before."""
    return _plain(references(dataset)) != _plain(before)


def _plain(found: References) -> dict[str, object]:
    return {
        name: _NOT_READ if isinstance(each, Exception) else each for name, each in found.items()
    }


class Others:
    """The other machines of a workspace in a store: who works there, and a collector's end.

    `pause` waits for seconds, `say` gets a sentence the first time that a collector is waited for.
    """

    def __init__(
        self, workspace: Workspace, pause: Callable[[float], None], say: Callable[[str], None]
    ) -> None:
        self._workspace = workspace
        self._pause = pause
        self._say = say
        self._gone: float | None = None

    def work_on(self, ids: Collection[DatasetId]) -> bool:
        """Tell whether others work on some datasets, having let a collector end.

        That may take away what a head reaches again since a moment, until who set the head has
        written it once more.  One that does not renew its lease is waited for once: it has gone.
        """
        held = before = self._workspace.held_leases()
        waited = unchanged = 0.0
        collects = self._is_there(before)
        if collects and self._gone is None:
            self._say(
                "waiting for `odfbuild gc` of another machine; if its process no longer exists: "
                "odfbuild unlock .gc"
            )
        while self._is_there(held) and waited < _PATIENCE:
            self._pause(_PAUSE)
            waited += _PAUSE
            now = self._workspace.held_leases()
            renewed = now.get(COLLECTING) != held.get(COLLECTING)
            held, unchanged = now, 0.0 if renewed else unchanged + _PAUSE
            if unchanged >= _STALE:
                self._gone = held.get(COLLECTING)
        names = {alias.file_name for alias, id in self._workspace.names().items() if id in ids}
        return collects or not names.isdisjoint({*before, *held})

    def _is_there(self, held: Mapping[str, float]) -> bool:
        return COLLECTING in held and held[COLLECTING] != self._gone
