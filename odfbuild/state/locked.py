"""Which datasets are locked now, and by whom."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from odfbuild.odf.identity import DatasetId
from odfbuild.state.lock import Holder, open_locked, read_note

__all__ = ["locks_held"]

_DATASET = re.compile(r"fed01([0-9a-f]{64})")


def locks_held(root: Path) -> Iterator[tuple[DatasetId, Holder]]:
    """Yield the datasets of a workspace that somebody holds.

    Who holds one has left a note; a note that was left behind is told by the lock being free.
    """
    folder = root / "cache" / "locks"
    with suppress(FileNotFoundError):
        for note in sorted(folder.iterdir()):
            name, holder = _DATASET.fullmatch(note.name), read_note(note)
            if name is not None and holder is not None and _is_held(root / "datasets" / note.name):
                yield DatasetId(bytes.fromhex(name[1])), holder


def _is_held(dataset: Path) -> bool:
    try:
        opened = open_locked(dataset)
    except OSError:
        return False
    if opened is not None:
        os.close(opened)
    return opened is None
