"""The memory of the differences of columns that were reported: `cache/drift/<dataset id>`.

A line with a checksum, and a JSON list of texts.  All of it may be deleted: it is reported again.
"""

from collections.abc import Collection
from pathlib import Path

from odfbuild.state.files.checksum import read_document, write_document


def known_drift(memory: Path) -> frozenset[str]:
    """Return what was reported before; a file that is damaged, or not ours, says nothing."""
    found = read_document(memory)
    known = found if isinstance(found, list) else []
    return frozenset(each for each in known if isinstance(each, str))


def keep_drift(memory: Path, reported: Collection[str]) -> None:
    """Remember all that was reported; where nothing can be written it is reported again."""
    write_document(memory, sorted(reported))
