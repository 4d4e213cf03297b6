"""Attestations of one dataset: for a head, the envelope that signs it; and its delegations.

    <dataset folder>/attestations/<head>
    <dataset folder>/attestations/delegations

One is named after its head, so it is there before the head is.  No other reader looks for them.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

from odfbuild.odf.identity import InvalidMultihashError, Multihash
from odfbuild.state.chain.objects import LocalObjects, ObjectEntry
from odfbuild.state.files.disk import Disk, pending, read_file

AttestationName: TypeAlias = Multihash | Literal["delegations"]
"""The head that an envelope signs, or the list of the dataset's delegations."""

DELEGATIONS: Final = "delegations"


class Attestations(Protocol):
    """Envelopes by name; what they say is not looked at."""

    def heads(self) -> tuple[Multihash, ...]:
        """Return the heads that have one, those that were written last first."""

    def get(self, name: AttestationName) -> bytes | None:
        """Return an envelope, None if there is none."""

    def put(self, name: AttestationName, envelope: bytes) -> None:
        """Keep an envelope, in the place of one that was there; on return it is kept."""

    def path(self, name: AttestationName) -> Path:
        """Return where an envelope is, or would be."""

    def entries(self) -> tuple[ObjectEntry, ...]:
        """Return the heads that have one, as `heads` does, with the sizes and ages of these."""

    def remove(self, names: Sequence[Multihash]) -> None:
        """Take the envelopes of some heads away."""


class LocalAttestations:
    """Attestations as files of a folder, which is made with the first of them."""

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        self._folder = folder
        self._disk = disk or Disk()

    def heads(self) -> tuple[Multihash, ...]:
        found = list(self._dated())
        return tuple(head for _, _, head in sorted(found, reverse=True))

    def _dated(self) -> Iterator[tuple[int, str, Multihash]]:
        try:
            paths = list(self._folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return
        for path in paths:
            if (head := head_of(path.name)) is not None:
                try:
                    yield path.lstat().st_mtime_ns, path.name, head
                except FileNotFoundError:
                    continue

    def get(self, name: AttestationName) -> bytes | None:
        return read_file(self.path(name))

    def put(self, name: AttestationName, envelope: bytes) -> None:
        if not self._folder.is_dir():
            self._disk.make_folder(self._folder)
        draft = pending(self._folder)
        self._disk.write(draft, envelope)
        self._disk.rename(draft, self.path(name))
        self._disk.sync(self._folder)

    def path(self, name: AttestationName) -> Path:
        return self._folder / str(name)

    def entries(self) -> tuple[ObjectEntry, ...]:
        known = {each.hash: each for each in LocalObjects(self._folder, self._disk).entries()}
        return tuple(known[head] for head in self.heads() if head in known)

    def remove(self, names: Sequence[Multihash]) -> None:
        LocalObjects(self._folder, self._disk).remove(names)


class MemoryAttestations:
    """Attestations in memory."""

    def __init__(self) -> None:
        self._envelopes: dict[AttestationName, bytes] = {}

    def heads(self) -> tuple[Multihash, ...]:
        return tuple(each for each in reversed(self._envelopes) if isinstance(each, Multihash))

    def get(self, name: AttestationName) -> bytes | None:
        return self._envelopes.get(name)

    def put(self, name: AttestationName, envelope: bytes) -> None:
        self._envelopes.pop(name, None)
        self._envelopes[name] = envelope

    def path(self, name: AttestationName) -> Path:
        return Path("attestations") / str(name)

    def entries(self) -> tuple[ObjectEntry, ...]:
        return tuple(ObjectEntry(each, len(self._envelopes[each]), 0.0) for each in self.heads())

    def remove(self, names: Sequence[Multihash]) -> None:
        for each in names:
            self._envelopes.pop(each, None)


def head_of(file_name: str) -> Multihash | None:
    """Return the head whose attestation a file is called as; None if it is none."""
    try:
        head = Multihash.parse(file_name)
    except InvalidMultihashError:
        return None
    return head if str(head) == file_name else None
