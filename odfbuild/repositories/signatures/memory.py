"""The heads of datasets elsewhere that were accepted last, kept outside of any workspace.

    <state folder of the user>/odfbuild/remotes/fed01...     for each dataset, a checksum and a JSON
                                                             object, a line each
    <state folder of the user>/odfbuild/withdrawn/fed01...   the last list of delegations that
                                                             withdrew more, as it was shown
    <state folder of the user>/odfbuild/evidence/fed01...-<time>.json
                                                             two heads that exclude each other, and
                                                             the envelopes that vouch for them

A dataset is known by its id, whatever repository it comes from and whatever workspace it goes to:
two repositories cannot show two histories of it unnoticed.  A file that is damaged is not written
over unless that is forced: it may be there to hide what was accepted.
"""

import json
import os
from base64 import b64decode, b64encode
from contextlib import suppress
from pathlib import Path
from time import time_ns
from typing import Any

from odfbuild.errors import ProtocolError, StateError
from odfbuild.host.json_text import parse_json
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.repositories.signatures.delegation import Withdrawals, verified_list
from odfbuild.repositories.signatures.envelope import BadSignatureError
from odfbuild.repositories.signatures.keys import PublicKey
from odfbuild.repositories.signatures.trust import AcceptedHead, UnprovenHeadError
from odfbuild.state.chain.seen_heads import state_folder
from odfbuild.state.files.checksum import checked_text, with_check_sum
from odfbuild.state.files.disk import Disk, pending, read_file


class DamagedMemoryError(StateError):
    """The record of an accepted head, or of delegations, cannot be read."""

    code = "damaged-accepted-head"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            what=f"the accepted head of the dataset is not known: {path} {reason}",
            why="without it a reset of the remote dataset cannot be detected",
            fix="restore the file from a copy; or name the dataset and accept its head: --force",
        )


class AcceptedHeads:
    """Remembers one head for each dataset; where nothing can be written, `problem` says why."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = state_folder() if folder is None else folder
        self.problem: str | None = None

    def read(self, id: DatasetId) -> AcceptedHead | None:
        """Return the head that was accepted last; None if none was.  Raises DamagedMemoryError."""
        data = self._read("remotes", id)
        try:
            return None if data is None else _parse(data, id)
        except (ValueError, KeyError, TypeError, OverflowError, ProtocolError) as error:
            raise self._damage_error("remotes", id) from error

    def put(self, id: DatasetId, head: AcceptedHead) -> None:
        """Remember a head, whatever was remembered before."""
        text = with_check_sum(json.dumps(_form(head)) + "\n", id.multibase)
        self._write("remotes", id.multibase, text.encode())

    def read_withdrawn(self, id: DatasetId) -> Withdrawals:
        """Return what lists of delegations withdraw that were shown.  Raises DamagedMemoryError."""
        data = self._read("withdrawn", id)
        try:
            return Withdrawals() if data is None else verified_list(data, id).withdrawn
        except BadSignatureError as error:
            raise self._damage_error("withdrawn", id) from error

    def put_withdrawn(self, id: DatasetId, shown: bytes) -> None:
        """Remember a list of delegations that withdraws some, whatever was remembered before."""
        self._write("withdrawn", id.multibase, shown)

    def forget_withdrawn(self, id: DatasetId) -> None:
        """Remember no list of delegations of a dataset."""
        if self._folder is not None:
            with suppress(OSError):
                (self._folder / "withdrawn" / id.multibase).unlink()

    def keep_evidence(self, error: UnprovenHeadError) -> Path | None:
        """Keep both of two heads that exclude each other; return where, None if that fails."""
        found, known = error.found, error.known
        form = {
            "dataset": str(found.dataset),
            "error": error.code,
            "accepted": _form(known),
            "found": {
                "head": str(found.head),
                "sequence": found.sequence,
                "place": found.place,
                "envelope": _base64(error.attestation),
            },
        }
        name = f"{found.dataset.multibase}-{time_ns()}.json"
        return self._write("evidence", name, (json.dumps(form, indent=2) + "\n").encode())

    def _read(self, kind: str, id: DatasetId) -> bytes | None:
        if self._folder is None:
            self.problem = "there is no home folder, and XDG_STATE_HOME is not set"
            return None
        path = self._folder / kind / id.multibase
        try:
            return read_file(path)
        except OSError as error:
            if not os.path.lexists(path):  # what is wrong is the folder
                self.problem = f"{path}: {error.strerror or error}"
                return None
            raise DamagedMemoryError(path, f"cannot be read: {error.strerror or error}") from error

    def _damage_error(self, kind: str, id: DatasetId) -> DamagedMemoryError:
        assert self._folder is not None  # noqa: S101 - something was read there
        return DamagedMemoryError(self._folder / kind / id.multibase, "is damaged")

    def _write(self, kind: str, name: str, data: bytes) -> Path | None:
        if self._folder is None:
            self.problem = "there is no home folder, and XDG_STATE_HOME is not set"
            return None
        folder, disk = self._folder / kind, Disk()
        draft = pending(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            disk.write(draft, data, 0o600)
            disk.rename(draft, folder / name)
            disk.sync(folder)
        except OSError as error:
            self.problem = f"{folder}: {error.strerror or error}"
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            return None
        return folder / name


def _form(head: AcceptedHead) -> dict[str, Any]:
    return {
        "head": str(head.head),
        "sequence": head.sequence,
        "accepted": str(head.accepted),
        "place": head.place,
        "envelope": _base64(head.envelope),
        "signedAt": None if head.signed_at is None else str(head.signed_at),
        "expires": None if head.expires is None else str(head.expires),
        "undone": [str(each) for each in head.undone],
        "withdrawn": {str(key): serial for key, serial in head.withdrawn.serials.items()},
    }


def _parse(data: bytes, id: DatasetId) -> AcceptedHead:
    """Read what a file holds.  Raises ValueError, KeyError, TypeError or ProtocolError."""
    text = checked_text(data, id.multibase)
    if text is None:
        raise ValueError
    form = parse_json(text)
    withdrawn = {PublicKey.parse(key): int(serial) for key, serial in form["withdrawn"].items()}
    return AcceptedHead(
        head=Multihash.parse(form["head"]),
        sequence=int(form["sequence"]),
        accepted=Timestamp.parse(form["accepted"]),
        place=str(form["place"]),
        envelope=None if form["envelope"] is None else b64decode(form["envelope"]),
        signed_at=_time(form["signedAt"]),
        expires=_time(form["expires"]),
        undone=tuple(Multihash.parse(each) for each in form["undone"]),
        withdrawn=Withdrawals(withdrawn),
    )


def _time(text: str | None) -> Timestamp | None:
    return None if text is None else Timestamp.parse(text)


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()
