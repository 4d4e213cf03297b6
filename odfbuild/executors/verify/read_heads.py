"""Heads as a verification read them, compared with those of now.

Others may go on while datasets are verified.  Once a head has moved, `gc` may take away what it
reached, and what a step has read may be on no chain: what was found then says nothing of now.
"""

import time
from collections.abc import Callable, Collection
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


def await_others(
    workspace: Workspace, ids: Collection[DatasetId], pause: Callable[[float], None] = time.sleep
) -> bool:
    """Tell whether other machines work on some datasets of a store, having let a collector end.

    That may take away what a head reaches again since a moment, until who set the head has written
    it once more.
    """
    waited, before = 0.0, workspace.held_leases()
    held, unchanged = before, 0.0
    while COLLECTING in held and waited < _PATIENCE and unchanged < _STALE:
        pause(_PAUSE)
        waited += _PAUSE
        now = workspace.held_leases()
        renewed = now.get(COLLECTING) != held.get(COLLECTING)
        held, unchanged = now, 0.0 if renewed else unchanged + _PAUSE
    names = {alias.file_name for alias, id in workspace.names().items() if id in ids}
    return COLLECTING in before or not names.isdisjoint({*before, *held})
