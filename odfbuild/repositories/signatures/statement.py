"""Signed statement of a head: that a reference of a dataset moved there.

    {"dataset": "did:odf:fed01...", "ref": "head", "head": "f1620...", "sequenceNumber": 41,
     "previous": "f1620..." or null, "signedAt": TIME, "expires": TIME or null,
     "delegation": ENVELOPE or null, "undoes": "f1620..."}

`previous` is the head of the statement before, as a rule where the repository stood.  `undoes` is
there only where history was taken back: it names the head that is given up.
"""

import json
from collections.abc import Mapping
from typing import Any

from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.repositories.signatures.envelope import Envelope, envelope_of
from odfbuild.repositories.signatures.json_object import Members
from odfbuild.state.chain.heads import HEAD
from odfbuild.values import dataclass

HEAD_TYPE = "application/vnd.odfbuild.head+json"
DELEGATION_TYPE = "application/vnd.odfbuild.delegation+json"
_MOST_BYTES = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadStatement:
    """A dataset's reference, the block that it moved to, and the number of that block.

    `delegation` lets a working key sign it; `undoes` is a head that is given up by it.
    """

    dataset: DatasetId
    head: Multihash
    sequence_number: int
    signed_at: Timestamp
    ref: str = HEAD
    previous: Multihash | None = None
    expires: Timestamp | None = None
    delegation: Envelope | None = None
    undoes: Multihash | None = None

    def to_bytes(self) -> bytes:
        """Return the payload: JSON on one line, without spaces, in the order of the format."""
        value: dict[str, Any] = {
            "dataset": str(self.dataset),
            "ref": self.ref,
            "head": str(self.head),
            "sequenceNumber": self.sequence_number,
            "previous": _text(self.previous),
            "signedAt": str(self.signed_at),
            "expires": _text(self.expires),
            "delegation": None if self.delegation is None else self.delegation.value(),
        }
        if self.undoes is not None:
            value["undoes"] = str(self.undoes)
        return json.dumps(value, separators=(",", ":")).encode()


def parse_statement(payload: bytes) -> HeadStatement:
    """Read a payload; ValueError says what is wrong with it.

    Of the delegation no signature is verified.
    """
    members = Members.parse(payload, _MOST_BYTES)
    statement = HeadStatement(
        dataset=members.dataset("dataset"),
        ref=members.text("ref"),
        head=members.block("head"),
        sequence_number=members.number("sequenceNumber"),
        previous=members.block_or_none("previous"),
        signed_at=members.time("signedAt"),
        expires=members.time_or_none("expires"),
        delegation=_delegation(members.take("delegation")),
        undoes=members.block("undoes") if members.has("undoes") else None,
    )
    members.end()
    return statement


def _delegation(value: Mapping[str, Any] | None) -> Envelope | None:
    return None if value is None else envelope_of(Members(value), DELEGATION_TYPE)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
