"""The memory of the differences of columns that were reported: `cache/drift/<dataset id>`.

A line with a checksum, and a JSON list of texts.  All of it may be deleted: it is reported again.
"""

import json
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from odfbuild.host.json_text import parse_json
from odfbuild.state.files.checksum import checked_text, with_check_sum
from odfbuild.state.files.disk import pending, read_file


def known_drift(memory: Path) -> frozenset[str]:
    """Return what was reported before; a file that is damaged, or not ours, says nothing."""
    try:
        found = parse_json(checked_text(read_file(memory) or b"", memory.name) or "[]")
        return frozenset(each for each in found if isinstance(each, str))
    except (OSError, ValueError, TypeError):
        return frozenset()


def keep_drift(memory: Path, reported: Collection[str]) -> None:
    """Remember all that was reported; where nothing can be written it is reported again."""
    near = pending(memory.parent)
    with suppress(OSError):
        memory.parent.mkdir(parents=True, exist_ok=True)
        near.write_text(with_check_sum(json.dumps(sorted(reported)), memory.name), "utf-8")
        near.replace(memory)
