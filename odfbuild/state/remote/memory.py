"""Memory, on this machine, of a workspace in an object store: heads and names, with their ETags.

A file in the local folder of the workspace.  The next request for an unchanged object returns no
body, and a command that does not ask the store shows what was there.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from odfbuild.state.chain.heads import parse_head
from odfbuild.state.files.checksum import read_document, write_document
from odfbuild.state.files.folder import make_workspace_folder
from odfbuild.state.remote.client import TaggedBytes
from odfbuild.state.remote.heads import SeenTag
from odfbuild.values import dataclass

_FILE: Final = "remembered"  # and what its checksum is made with


@dataclass(frozen=True, slots=True)
class StoreMemory:
    """Heads by their keys, and what name objects hold, by name; `at` is when they were seen."""

    heads: Mapping[str, SeenTag]
    names: Mapping[str, TaggedBytes]
    at: float = 0.0


def keep_memory(root: Path, memory: StoreMemory) -> bool:
    """Write what was seen; say whether that could be done."""
    heads = {k: [str(e.head), e.tag] for k, e in memory.heads.items() if e.head is not None}
    names = {n: [e.data.decode("ascii", "replace"), e.tag] for n, e in memory.names.items()}
    with suppress(OSError):
        make_workspace_folder(root, root / "cache")
        return write_document(root / "cache" / _FILE, {"heads": heads, "names": names})
    return False


def touch_memory(root: Path) -> None:
    """Note that what is remembered was seen to be so just now."""
    with suppress(OSError):
        os.utime(root / "cache" / _FILE)


def read_memory(root: Path) -> StoreMemory | None:
    """Return what was seen last; None if nothing was, or it cannot be read."""
    path = root / "cache" / _FILE
    form = read_document(path)
    with suppress(OSError, ValueError, TypeError, LookupError, AttributeError):
        heads = {
            k: SeenTag(parse_head(h.encode(), k), tag) for k, (h, tag) in form["heads"].items()
        }
        names = {n: TaggedBytes(held.encode(), tag) for n, (held, tag) in form["names"].items()}
        return StoreMemory(heads, names, path.stat().st_mtime)
    return None
