"""Attestations of one dataset in an object store."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from odfbuild.odf.identity import Multihash
from odfbuild.state.chain.attestations import AttestationName, head_of
from odfbuild.state.chain.objects import ObjectEntry
from odfbuild.state.remote.client import ObjectClient

_LARGEST: Final = 1 << 20  # bytes


class BucketAttestations:
    """Attestations as objects below `attestations/` of a dataset."""

    def __init__(self, client: ObjectClient, prefix: str) -> None:
        self._client = client
        self._prefix = f"{prefix}attestations/"

    def heads(self) -> tuple[Multihash, ...]:
        return tuple(each.hash for each in self.entries())

    def get(self, name: AttestationName) -> bytes | None:
        return self._client.get(f"{self._prefix}{name}", _LARGEST)

    def put(self, name: AttestationName, envelope: bytes) -> None:
        self._client.put(f"{self._prefix}{name}", envelope)

    def path(self, name: AttestationName) -> Path:
        return Path(f"{self._prefix}{name}")

    def entries(self) -> tuple[ObjectEntry, ...]:
        found = []
        for each in self._client.listed(self._prefix):
            head = head_of(each.key.rpartition("/")[2])
            if head is not None:
                found.append(ObjectEntry(head, each.size, each.touched))
        return tuple(sorted(found, key=lambda each: (each.touched, str(each.hash)), reverse=True))

    def remove(self, names: Sequence[Multihash]) -> None:
        for each in names:
            self._client.delete(f"{self._prefix}{each}")
