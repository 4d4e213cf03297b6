"""Commitments: hashes of a question and its answer, signed by a key of the server.

Documents are hashed in their canonical form: JSON in UTF-8, keys sorted, no blanks.  A client that
has the answer can compute the hashes, and have the answer verified by any server with the same
blocks.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha3_256
from typing import Any

from odfbuild.odf.identity import Multicodec, Multihash
from odfbuild.repositories.signatures.keys import PublicKey
from odfbuild.state.keys import PrivateKey

_TYPE = "Ed25519Signature2020"
_HASHES = ("inputHash", "outputHash", "subQueriesHash")
_SIGNATURE = 64


class BadSignatureError(ValueError):
    """A proof is not a signature of its commitment."""


def canonical(document: Any) -> bytes:
    """Return the canonical JSON of a document.

    Raises ValueError if it is nested too deeply or has a number that JSON does not have.
    """
    try:
        text = json.dumps(
            document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return text.encode("utf-8", "surrogatepass")


def hash_of(document: Any) -> str:
    """Return the sha3-256 multihash of the canonical JSON of a document."""
    return str(Multihash(Multicodec.SHA3_256, sha3_256(canonical(document)).digest()))


def commitment_of(
    question: Mapping[str, Any], output: Mapping[str, Any], parts: Sequence[Any] = ()
) -> dict[str, str]:
    """Return the hashes of a question, its answer, and the questions that it was made of."""
    return commitment_to(question, hash_of(output), parts)


def commitment_to(
    question: Mapping[str, Any], output: str, parts: Sequence[Any] = ()
) -> dict[str, str]:
    """Return the same for the hash of an answer."""
    hashes = (hash_of(question), output, hash_of(list(parts)))
    return dict(zip(_HASHES, hashes, strict=True))


def proof_of(commitment: Mapping[str, str], key: PrivateKey) -> dict[str, str]:
    """Return the signature of a commitment by a key of the server."""
    signature = key.sign(canonical(commitment))
    return {
        "type": _TYPE,
        "verificationMethod": key.dataset.did_key(),
        "proofValue": "u" + urlsafe_b64encode(signature).rstrip(b"=").decode(),
    }


def check_proof(commitment: Mapping[str, Any], proof: Mapping[str, Any]) -> None:
    """Raise BadSignatureError unless the key that a proof names signed the commitment."""
    if proof.get("type") != _TYPE:
        raise BadSignatureError(f"the proof is not of the type {_TYPE}")
    try:
        key = PublicKey.parse(str(proof.get("verificationMethod")))
        signature = _bytes_of(str(proof.get("proofValue")))
    except ValueError as error:
        raise BadSignatureError(str(error)) from None
    if not key.verifies(canonical(commitment), signature):
        raise BadSignatureError("the signature is not of this commitment")


def _bytes_of(text: str) -> bytes:
    """Return the signature of a text in multibase "u", which must be in canonical form."""
    padded = text[1:] + "=" * (-len(text[1:]) % 4)
    data = urlsafe_b64decode(padded.encode("ascii", "replace"))
    if text != "u" + urlsafe_b64encode(data).rstrip(b"=").decode() or len(data) != _SIGNATURE:
        raise ValueError("proofValue is not a signature in base64url")
    return data
