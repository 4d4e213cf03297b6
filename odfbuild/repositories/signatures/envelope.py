"""Signed bytes with a type: DSSE envelopes, signed by Ed25519.

    {"payloadType": TEXT, "payload": BASE64, "signatures": [{"keyid": DID, "sig": BASE64}, ...]}

What is signed is `DSSEv1 SP length SP type SP length SP payload`, lengths of bytes in decimal.  The
payload is kept and checked as the bytes that came.  An envelope has these members and no others, is
written in the one form that `to_bytes` gives, and every one of its signatures must hold: so whoever
changes a byte of it has something that is refused.
"""

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from odfbuild.errors import ProtocolError
from odfbuild.repositories.signatures.json_object import Members
from odfbuild.repositories.signatures.keys import PublicKey
from odfbuild.values import dataclass

MOST_BYTES = 1 << 18
MOST_SIGNATURES = 16
_MOST_TYPE = 200  # characters


class BadSignatureError(ProtocolError):
    """A signed file cannot be read, is about something else, or its signature is invalid."""

    code = "bad-signature"


class Signer(Protocol):
    """A private key that signs."""

    def sign(self, message: bytes) -> bytes:
        """Return the 64 bytes of an Ed25519 signature of a message."""


@dataclass(frozen=True, slots=True)
class KeySignature:
    """What one key signed: `key_id` is its DID as it is in the envelope."""

    key_id: str
    key: PublicKey
    signature: bytes


@dataclass(frozen=True, slots=True)
class Envelope:
    """A payload, its type and at least one signature."""

    payload_type: str
    payload: bytes
    signatures: tuple[KeySignature, ...]

    @property
    def signed_bytes(self) -> bytes:
        """Return what the signatures are of."""
        return pre_authentication_encoding(self.payload_type, self.payload)

    def verify(self, what: str) -> None:
        """Refuse an envelope of which any signature does not hold; `what` names it in messages.

        Raises BadSignatureError.
        """
        message = self.signed_bytes
        for each in self.signatures:
            if not each.key.verifies(message, each.signature):
                raise bad_signature(what, f"the signature of {each.key_id} is invalid")

    def also_signed(self, key_id: str, key: Signer) -> "Envelope":
        """Return the envelope with the signature of one more key, or that key's again."""
        own = signature_of(self.payload_type, self.payload, key_id, key)
        others = tuple(each for each in self.signatures if each.key != own.key)
        return replace(self, signatures=(*others, own))

    def joined(self, other: "Envelope") -> "Envelope":
        """Return the envelope with the signatures of keys that another of the same payload has.

        It never has more than may be read.
        """
        keys = {each.key for each in self.signatures}
        more = tuple(each for each in other.signatures if each.key not in keys)
        return replace(self, signatures=(*self.signatures, *more)[:MOST_SIGNATURES])

    def value(self) -> Mapping[str, Any]:
        """Return the JSON value."""
        return {
            "payloadType": self.payload_type,
            "payload": b64encode(self.payload).decode(),
            "signatures": [
                {"keyid": each.key_id, "sig": b64encode(each.signature).decode()}
                for each in self.signatures
            ],
        }

    def to_bytes(self) -> bytes:
        """Return the JSON text, on one line and without spaces."""
        return json.dumps(self.value(), separators=(",", ":")).encode()


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that are signed: `DSSEv1`, and type and payload with their lengths."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def signed(payload_type: str, payload: bytes, key_id: str, key: Signer) -> Envelope:
    """Return an envelope with the signature of a key, whose DID is `key_id`."""
    own = signature_of(payload_type, payload, key_id, key)
    return Envelope(payload_type, payload, (own,))


def signature_of(payload_type: str, payload: bytes, key_id: str, key: Signer) -> KeySignature:
    """Return the signature of a key, whose DID is `key_id`."""
    signature = key.sign(pre_authentication_encoding(payload_type, payload))
    return KeySignature(key_id, PublicKey.parse(key_id), signature)


def parse_envelope(data: bytes, payload_type: str, what: str) -> Envelope:
    """Read an envelope of one type; its signatures are not verified yet.

    Raises BadSignatureError, in which `what` names it.
    """
    try:
        found = envelope_of(Members.parse(data, MOST_BYTES), payload_type)
    except ValueError as error:
        raise bad_signature(what, f"it cannot be read: {error}") from None
    if found.to_bytes() != data:
        raise bad_signature(what, "its JSON is not in canonical form: spaces, order, or escapes")
    return found


def envelope_of(members: Members, payload_type: str) -> Envelope:
    """Read the members of an envelope of one type; ValueError says what is wrong with them."""
    kind = members.text("payloadType")
    if len(kind) > _MOST_TYPE or kind != payload_type:
        raise ValueError(f"its payload is not of the type {payload_type}")
    payload = members.bytes("payload")
    signatures = members.list("signatures", MOST_SIGNATURES)
    members.end()
    if not signatures:
        raise ValueError("nobody signed it")
    found = tuple(_signature(Members(each)) for each in signatures)
    if len({each.key for each in found}) < len(found):
        raise ValueError("a key signed it twice")
    return Envelope(kind, payload, found)


def bad_signature(what: str, why: str) -> BadSignatureError:
    """Return the refusal of something that is signed."""
    return BadSignatureError(
        what=f"the signature of {what} is invalid: {why}",
        why="a signed file is used only if it is unchanged and about the right dataset and block",
        fix="fetch it again from its origin; if it is the same there, ask its owner to sign "
        "again: odfbuild sign",
    )


def _signature(members: Members) -> KeySignature:
    key_id, signature = members.text("keyid"), members.bytes("sig")
    members.end()
    if len(signature) != 64:
        raise ValueError("a signature has 64 bytes")
    return KeySignature(key_id, PublicKey.parse(key_id), signature)
