"""Working keys: a dataset's key lets another sign its heads for a while, and can take that back.

    {"dataset": "did:odf:fed01...", "to": "did:key:z6Mk...", "may": ["head"],
     "notBefore": TIME, "notAfter": TIME, "serial": 3}

A statement carries the delegation that it is signed under.  Who is delegated cannot delegate.  The
list of a dataset has the delegations in force, for those who sign, and those that were withdrawn:

    {"dataset": "did:odf:fed01...", "serial": 4, "signedAt": TIME, "delegations": [ENVELOPE, ...],
     "withdrawn": [{"to": "did:key:z6Mk...", "serial": 2}, ...]}

Serials count all delegations and lists of a dataset together, and grow.  An entry of `withdrawn` is
about all delegations to that key up to that serial, whatever time their statements bear: a stolen
key can write any.
"""

import json
from collections.abc import Mapping
from dataclasses import field

from odfbuild.odf.identity import DatasetId
from odfbuild.odf.timestamp import Timestamp
from odfbuild.repositories.signatures.envelope import (
    BadSignatureError,
    Envelope,
    Signer,
    bad_signature,
    envelope_of,
    parse_envelope,
    signed,
)
from odfbuild.repositories.signatures.json_object import Members
from odfbuild.repositories.signatures.keys import PublicKey
from odfbuild.repositories.signatures.statement import DELEGATION_TYPE
from odfbuild.values import dataclass

LIST_TYPE = "application/vnd.odfbuild.delegations+json"
LIST_NAME = "delegations"
MOST_DELEGATIONS = 64
_MOST_WITHDRAWN = 1_024
_MOST_BYTES = 2_048
_MOST_LIST_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """Leave for a key to sign heads of a dataset at times in [not_before, not_after]."""

    dataset: DatasetId
    to: PublicKey
    not_before: Timestamp
    not_after: Timestamp
    serial: int

    def to_bytes(self) -> bytes:
        """Return the payload: JSON on one line, without spaces, in the order of the format."""
        value = {
            "dataset": str(self.dataset),
            "to": str(self.to),
            "may": ["head"],
            "notBefore": str(self.not_before),
            "notAfter": str(self.not_after),
            "serial": self.serial,
        }
        return json.dumps(value, separators=(",", ":")).encode()

    def signed(self, key: Signer) -> Envelope:
        """Return the delegation, signed by the key of its dataset."""
        return signed(DELEGATION_TYPE, self.to_bytes(), str(self.dataset), key)

    def covers(self, time: Timestamp) -> bool:
        """Say whether it is in force at a time."""
        return self.not_before <= time <= self.not_after


@dataclass(frozen=True, slots=True)
class Withdrawals:
    """Up to which serial the delegations to a key are withdrawn, by key."""

    serials: Mapping[PublicKey, int] = field(default_factory=dict)

    def include(self, delegation: Delegation) -> bool:
        """Say whether a delegation is withdrawn."""
        return delegation.serial <= self.serials.get(delegation.to, -1)

    def union(self, other: "Withdrawals") -> "Withdrawals":
        """Return what either has: nothing that was withdrawn comes back."""
        keys = {*self.serials, *other.serials}
        return Withdrawals(
            {key: max(self.serials.get(key, -1), other.serials.get(key, -1)) for key in keys}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationList:
    """The delegations of a dataset that are in force, and those that are withdrawn."""

    dataset: DatasetId
    serial: int
    signed_at: Timestamp
    delegations: tuple[Envelope, ...] = ()
    withdrawn: Withdrawals = field(default_factory=Withdrawals)

    def to_bytes(self) -> bytes:
        """Return the payload: JSON on one line, without spaces, in the order of the format."""
        value = {
            "dataset": str(self.dataset),
            "serial": self.serial,
            "signedAt": str(self.signed_at),
            "delegations": [each.value() for each in self.delegations],
            "withdrawn": [
                {"to": str(key), "serial": serial}
                for key, serial in sorted(self.withdrawn.serials.items())
            ],
        }
        return json.dumps(value, separators=(",", ":")).encode()

    def signed(self, key: Signer) -> Envelope:
        """Return the list, signed by the key of its dataset."""
        return signed(LIST_TYPE, self.to_bytes(), str(self.dataset), key)

    def read(self) -> tuple[Delegation, ...]:
        """Return the delegations that it has.  Raises BadSignatureError."""
        return tuple(verified_delegation(each, self.dataset) for each in self.delegations)


def verified_delegation(envelope: Envelope, dataset: DatasetId) -> Delegation:
    """Return a delegation that the key of its dataset signed, and nobody else.

    It may be one of another dataset than that which is asked for: `dataset` is for messages.
    Raises BadSignatureError.
    """
    what = f"a delegation of {dataset}"
    try:
        found = _parse(envelope)
    except ValueError as error:
        raise bad_signature(what, f"it cannot be read: {error}") from None
    _verify_own(envelope, found.dataset, what)
    return found


def verified_list(data: bytes, dataset: DatasetId) -> DelegationList:
    """Return the list of a dataset's delegations, signed by its key.  Raises BadSignatureError."""
    what = f"the list of delegations of {dataset}"
    envelope = parse_envelope(data, LIST_TYPE, what)
    try:
        found = _parsed_list(envelope)
    except ValueError as error:
        raise bad_signature(what, f"it cannot be read: {error}") from None
    if found.dataset != dataset:
        raise bad_signature(what, f"it is that of {found.dataset}")
    _verify_own(envelope, dataset, what)
    return found


def is_newer_list(shown: bytes | None, known: bytes | None, dataset: DatasetId) -> bool:
    """Say whether a list is the dataset's and follows the other one; what is none precedes all."""
    return _serial(shown, dataset) > _serial(known, dataset)


def withdrawn_of(data: bytes | None, dataset: DatasetId) -> Withdrawals:
    """Return what a list of a dataset withdraws; none, or one that does not hold: nothing."""
    found = valid_list(data, dataset)
    return Withdrawals() if found is None else found.withdrawn


def valid_list(data: bytes | None, dataset: DatasetId) -> DelegationList | None:
    """Return the list of a dataset's delegations, None if there is none that holds."""
    try:
        return None if data is None else verified_list(data, dataset)
    except BadSignatureError:
        return None


def _serial(data: bytes | None, dataset: DatasetId) -> int:
    found = valid_list(data, dataset)
    return -1 if found is None else found.serial


def _verify_own(envelope: Envelope, dataset: DatasetId, what: str) -> None:
    if [each.key for each in envelope.signatures] != [PublicKey.of(dataset)]:
        raise bad_signature(what, "only the key of the dataset can sign it")
    check_own_key_id(envelope, dataset, what)
    envelope.verify(what)


def check_own_key_id(envelope: Envelope, dataset: DatasetId, what: str) -> None:
    """Refuse the key of a dataset under another name than its id: nothing signs the name.

    Raises BadSignatureError.
    """
    own = PublicKey.of(dataset)
    for each in envelope.signatures:
        if each.key == own and each.key_id != str(dataset):
            raise bad_signature(what, f"{each.key_id} is another name of {dataset}")


def _parse(envelope: Envelope) -> Delegation:
    members = Members.parse(envelope.payload, _MOST_BYTES)
    found = Delegation(
        dataset=members.dataset("dataset"),
        to=_working_key(members.text("to")),
        not_before=_may_sign_heads(members).time("notBefore"),
        not_after=members.time("notAfter"),
        serial=members.number("serial"),
    )
    members.end()
    return found


def _may_sign_heads(members: Members) -> Members:
    if members.list("may", 1) != ["head"]:
        raise ValueError('may is not ["head"]')
    return members


def _working_key(text: str) -> PublicKey:
    if not text.startswith("did:key:"):
        raise ValueError("it is not to a did:key")
    return PublicKey.parse(text)


def _parsed_list(envelope: Envelope) -> DelegationList:
    members = Members.parse(envelope.payload, _MOST_LIST_BYTES)
    dataset, serial = members.dataset("dataset"), members.number("serial")
    signed_at = members.time("signedAt")
    delegations = members.list("delegations", MOST_DELEGATIONS)
    withdrawn = members.list("withdrawn", _MOST_WITHDRAWN)
    members.end()
    return DelegationList(
        dataset=dataset,
        serial=serial,
        signed_at=signed_at,
        delegations=tuple(envelope_of(Members(each), DELEGATION_TYPE) for each in delegations),
        withdrawn=Withdrawals(dict(_withdrawal(Members(each)) for each in withdrawn)),
    )


def _withdrawal(members: Members) -> tuple[PublicKey, int]:
    found = _working_key(members.text("to")), members.number("serial")
    members.end()
    return found
