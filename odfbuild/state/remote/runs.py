"""Records of runs in an object store, and a mirror of them where `state.runs` reads.

    runs/<id>/{summary.json,plan.json,events.ndjson}

A record is written on the machine of its run, and sent when that begins and ends; what could not be
sent then is sent when records are looked at next.  Records of others are brought when one looks: a
file `.mirrored` beside them says as what they were brought, and `alive` that their run goes on.
"""

import json
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from odfbuild.errors import StateError
from odfbuild.host.files import read_regular
from odfbuild.host.json_text import parse_json
from odfbuild.state.files.disk import read_file
from odfbuild.state.files.folder import make_workspace_folder
from odfbuild.state.remote.client import ObjectClient, StoredObject, side_by_side
from odfbuild.state.runs import ALIVE, FILES, runs_folder

PREFIX: Final = "runs/"
_MIRRORED: Final = ".mirrored"
_LARGEST: Final = 1 << 30


class BucketRuns:
    """The records of a workspace: in its store, and mirrored in a local folder."""

    def __init__(self, client: ObjectClient, root: Path) -> None:
        self._client = client
        self._root = root
        self._folder = runs_folder(root)

    def send(self, run: str) -> None:
        """Send a record as it is by now; its summary last, without which it is none."""
        for name in reversed(FILES):
            with suppress(OSError):
                data = read_file(self._folder / run / name)
                if data is not None:
                    self._client.put(f"{PREFIX}{run}/{name}", data)

    def bring(self, alive: Collection[str]) -> None:
        """Bring what others wrote and send what was not; `alive` are the runs that go on."""
        there: dict[str, dict[str, StoredObject]] = {}
        for each in self._client.listed(PREFIX):
            run, _, name = each.key.removeprefix(PREFIX).partition("/")
            if name in FILES:
                there.setdefault(run, {})[name] = each
        own = {each.name for each in self._folders() if not (each / _MIRRORED).exists()}
        side_by_side([e for e in own if not self._is_sent(e, there.get(e, {}))], self.send)
        for folder in self._folders():
            if folder.name not in own and folder.name not in there:
                shutil.rmtree(folder, ignore_errors=True)
        others = {run: files for run, files in there.items() if run not in own}
        side_by_side(tuple(others), lambda run: self._mirror(run, others[run]))
        for run in others:
            self._note(run, alive=run in alive)

    def _is_sent(self, run: str, there: Mapping[str, StoredObject]) -> bool:
        """Tell whether the files of a record are in the store with as many bytes as here."""
        sizes = {name: each.size for name, each in there.items()}
        with suppress(OSError):
            return sizes == {name: (self._folder / run / name).stat().st_size for name in FILES}
        return bool(sizes)

    def _folders(self) -> list[Path]:
        with suppress(FileNotFoundError, NotADirectoryError):
            return [each for each in self._folder.iterdir() if not each.name.startswith(".")]
        return []

    def _mirror(self, run: str, files: Mapping[str, StoredObject]) -> None:
        folder = self._folder / run
        tags = {name: each.tag for name, each in files.items()}
        known: object = None
        with suppress(OSError, ValueError):
            known = parse_json(read_regular(folder / _MIRRORED))
        if known == tags and all((folder / name).exists() for name in tags):
            return
        make_workspace_folder(self._root, self._folder, mode=0o700)
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / _MIRRORED).touch()
        for name in reversed(FILES):
            data = self._client.get(f"{PREFIX}{run}/{name}", _LARGEST) if name in files else None
            if data is not None:
                (folder / name).write_bytes(data)
        (folder / _MIRRORED).write_text(json.dumps(tags), "utf-8")

    def _note(self, run: str, *, alive: bool) -> None:
        mark = self._folder / run / ALIVE
        with suppress(OSError):
            if alive:
                mark.touch()
            else:
                mark.unlink(missing_ok=True)

    def forget(self, runs: Collection[str]) -> None:
        """Take records away; the summary first, without which one is none."""
        side_by_side(runs, self._forget)

    def _forget(self, run: str) -> None:
        for name in FILES:
            self._client.delete(f"{PREFIX}{run}/{name}")

    def try_to_send(self, run: str) -> None:
        """Send a record; where that fails it is sent when records are looked at next."""
        with suppress(StateError):
            self.send(run)
