"""Object stores that were found to keep the conditions that pushes rest on.

    ~/.config/odfbuild/stores.json    {"version": 1, "safe": ["https://host/bucket", ...]}

The file is beside the user's credentials, as another one may be served otherwise.  Only that a
store is safe is kept: one that was not is tried again by each push.  What cannot be read or written
is as if nothing were known.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from odfbuild.errors import ProtocolError
from odfbuild.host.files import read_regular
from odfbuild.host.json_text import parse_json
from odfbuild.host.user_folders import config_folder
from odfbuild.state.files.disk import Disk, pending

FILE: Final = "stores.json"
_MOST: Final = 1 << 20


def is_known_safe(store: str, env: Mapping[str, str] = os.environ) -> bool:
    """Say whether a store was found to be safe to push to."""
    path = _path(env)
    return path is not None and store in _read(path)


def keep_verdict(store: str, env: Mapping[str, str] = os.environ, *, safe: bool) -> None:
    """Keep what a look at a store has found."""
    path = _path(env)
    if path is None:
        return
    known = _read(path)
    wanted = known | {store} if safe else known - {store}
    if wanted == known:
        return
    with suppress(OSError):
        disk = Disk()
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        draft = pending(path.parent)
        disk.write(draft, json.dumps({"version": 1, "safe": sorted(wanted)}).encode(), 0o600)
        disk.rename(draft, path)


def _path(env: Mapping[str, str]) -> Path | None:
    folder = config_folder(env)
    return None if folder is None else folder / FILE


def _read(path: Path) -> frozenset[str]:
    with suppress(OSError, ValueError, TypeError, LookupError, ProtocolError):
        form = parse_json(read_regular(path, _MOST))
        if form["version"] == 1:
            return frozenset(map(str, form["safe"]))
    return frozenset()
