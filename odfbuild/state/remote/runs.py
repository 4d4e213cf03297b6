"""Records of runs in an object store, and a mirror of them where `state.runs` reads.

    runs/<id>/{summary.json,plan.json,events.ndjson}

A record is written on the machine of its run, and sent when that begins and ends; what could not be
sent then is sent when records are looked at next.  Records of others are brought when one looks: a
file `.mirrored` beside them says as what they were brought, and `alive` that their run goes on.

Of one that is too large only that it is there is brought: it counts as damaged.
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
from odfbuild.state.files.disk import pending, read_file
from odfbuild.state.files.folder import make_workspace_folder
from odfbuild.state.remote.client import ObjectClient, StoredObject, side_by_side
from odfbuild.state.remote.errors import BrokenSourceError
from odfbuild.state.runs import ALIVE, FILES, runs_folder
from odfbuild.texts.patterns import late_pattern

PREFIX: Final = "runs/"
_MIRRORED: Final = ".mirrored"
_NAME: Final = late_pattern(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
"""How a run is called; what is called otherwise in a store is none, and gets no folder here."""
LARGEST: Final = 1 << 30
"""Bytes of a record that is brought; it goes to the disk in pieces."""


class _OversizedError(Exception):
    """A file of a record is larger than the store said."""


class BucketRuns:
    """The records of a workspace: in its store, and mirrored in a local folder.

    Those of others have `largest` bytes at most.
    """

    def __init__(self, client: ObjectClient, root: Path, largest: int = LARGEST) -> None:
        self._client = client
        self._largest = largest
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
            if name in FILES and _NAME.fullmatch(run):
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
        try:
            self._bring_files(run, files)
        except _OversizedError:
            for name in FILES:
                (folder / name).unlink(missing_ok=True)
            for name in files:
                (folder / name).touch()
        (folder / _MIRRORED).write_text(json.dumps(tags), "utf-8")

    def _bring_files(self, run: str, files: Mapping[str, StoredObject]) -> None:
        """Copy the files of a record in pieces, its summary last.  Raises _OversizedError."""
        left = self._largest
        if sum(each.size for each in files.values()) > left:
            raise _OversizedError
        for name in reversed([each for each in FILES if each in files]):
            key, draft = f"{PREFIX}{run}/{name}", pending(self._folder / run)
            try:
                left = self._copy(key, draft, left)
                draft.rename(self._folder / run / name)
            except BrokenSourceError:
                if self._client.facts(key) is not None:  # else it was taken away since
                    raise
            finally:
                draft.unlink(missing_ok=True)

    def _copy(self, key: str, draft: Path, left: int) -> int:
        """Copy a file in pieces, and return how many more bytes may come."""
        with self._client.open(key, 0) as pieces, draft.open("xb") as copy:
            for piece in pieces:
                left -= len(piece)
                if left < 0:
                    raise _OversizedError
                copy.write(piece)
        return left

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
