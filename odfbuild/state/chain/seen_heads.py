"""Heads that were seen last, kept outside of any workspace.

Whoever can write to a dataset's folder cannot set it back, or put another chain in its place,
unnoticed.

    <state folder of the user>/odfbuild/heads/fed01...    for each dataset, a checksum and a JSON
                                                          object, a line each

The state folder is `XDG_STATE_HOME`, else `~/.local/state`.  A dataset is known by its id, whatever
workspace it is in.  A commit moves the head that it built on, and so does a rewrite (reset, undo,
compaction, rebuild): its new head is written before the head of the dataset is swapped, so that a
crash between the two raises no alarm.  A folder that cannot be written is `problem`: nothing is
remembered then, and nothing else changes.  A file that is damaged is not written over unless a head
is accepted: it may be there to hide that a chain was set back.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from time import time_ns

from odfbuild.errors import ProtocolError, StateError
from odfbuild.host.json_text import parse_json
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.files.checksum import checked_text, with_check_sum
from odfbuild.state.files.disk import read_file
from odfbuild.values import dataclass


class DamagedSeenHeadError(StateError):
    """The record of the last seen head cannot be read."""

    code = "damaged-seen-head"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            what=f"the last seen head is not known: {path} {reason}",
            why="without it a later reset of the chain cannot be detected",
            fix="check the head with odfbuild log; if it is right: odfbuild verify --accept-head",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenHead:
    """A head as it was seen: when and where, and how many blocks came before it.

    `next` is what a rewrite was about to put in its place.
    """

    head: Multihash
    sequence: int
    seen: Timestamp
    workspace: str
    next: Multihash | None = None


def state_folder() -> Path | None:
    """Return the folder for what the user's programs remember; None if there is no home."""
    if base := os.environ.get("XDG_STATE_HOME"):
        return Path(base) / "odfbuild"
    with suppress(RuntimeError):
        return Path.home() / ".local" / "state" / "odfbuild"
    return None


class SeenHeads:
    """Remembers one head for each dataset; `workspace` says where heads are seen."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self.problem: str | None = None
        self.damage: DamagedSeenHeadError | None = None  # that was found and reported nowhere yet

    def read(self, id: DatasetId) -> SeenHead | None:
        """Return the head of a dataset that was seen last; None if none was.

        Raises DamagedSeenHeadError.
        """
        path = self._path(id)
        if path is None:
            return None
        try:
            data = read_file(path)
            return None if data is None else _parsed(data, id)
        except OSError as error:
            if not os.path.lexists(path):  # what is wrong is the folder
                self.problem = f"{path}: {error.strerror or error}"
                return None
            reason = f"cannot be read: {error.strerror or error}"
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError, ProtocolError):
            reason = "is damaged"
        self.damage = DamagedSeenHeadError(path, reason)
        raise self.damage

    def put(self, id: DatasetId, head: Multihash, sequence: int) -> None:
        """Remember a head, whatever was remembered before."""
        self._write(id, head, sequence, None)

    def advance(
        self, id: DatasetId, expected: Multihash | None, head: Multihash, sequence: int
    ) -> None:
        """Remember a head that was built on another, if that is the one that was seen last."""
        with suppress(DamagedSeenHeadError):
            known = self.read(id)
            if known is None or expected in (known.head, known.next):
                self._write(id, head, sequence, None)

    def announce(self, id: DatasetId, head: Multihash) -> None:
        """Remember what is about to take the place of the head that was seen last."""
        known = self.read(id)
        if known is not None:
            self._write(id, known.head, known.sequence, head, known)

    def _write(
        self,
        id: DatasetId,
        head: Multihash,
        sequence: int,
        after: Multihash | None,
        known: SeenHead | None = None,
    ) -> None:
        path = self._path(id)
        if path is None:
            return
        now = Timestamp.from_millis(time_ns() // 1_000_000)
        seen = SeenHead(
            head=head,
            sequence=sequence,
            seen=now if known is None else known.seen,
            workspace=str(self._workspace.absolute()) if known is None else known.workspace,
            next=after,
        )
        form = {
            "head": str(seen.head),
            "sequence": seen.sequence,
            "seen": str(seen.seen),
            "workspace": seen.workspace,
            "next": None if after is None else str(after),
        }
        draft = path.with_name(f".{path.name}-{os.getpid()}-{time_ns()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with draft.open("w", encoding="utf-8") as file:
                file.write(with_check_sum(json.dumps(form) + "\n", id.multibase))
                file.flush()
                os.fsync(file.fileno())  # a power cut must not leave an empty file, which is damage
            draft.replace(path)
        except OSError as error:
            self.problem = f"{path.parent}: {error.strerror or error}"
            with suppress(OSError):
                draft.unlink(missing_ok=True)

    def _path(self, id: DatasetId) -> Path | None:
        folder = state_folder()
        if folder is None:
            self.problem = "there is no home folder, and XDG_STATE_HOME is not set"
            return None
        return folder / "heads" / id.multibase


def _parsed(data: bytes, id: DatasetId) -> SeenHead:
    """Read what a file holds.  Raises ValueError, KeyError, TypeError or ProtocolError."""
    text = checked_text(data, id.multibase)
    if text is None:
        raise ValueError
    form = parse_json(text)
    after = form["next"]
    return SeenHead(
        head=Multihash.parse(form["head"]),
        sequence=int(form["sequence"]),
        seen=Timestamp.parse(form["seen"]),
        workspace=str(form["workspace"]),
        next=None if after is None else Multihash.parse(after),
    )
