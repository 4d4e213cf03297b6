"""Attestations: an envelope found for a head, read, verified, and its signer.

The dataset's own key signs by right, a working key under a delegation.  Every other key is a
witness: it says that it saw the head, which counts for as much as the reader gives on it.
"""

from collections.abc import Collection
from enum import Enum

from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.repositories.signatures.delegation import (
    Delegation,
    Withdrawals,
    check_own_key_id,
    verified_delegation,
)
from odfbuild.repositories.signatures.envelope import (
    BadSignatureError,
    Envelope,
    bad_signature,
    parse_envelope,
)
from odfbuild.repositories.signatures.keys import PublicKey
from odfbuild.repositories.signatures.statement import HEAD_TYPE, HeadStatement, parse_statement
from odfbuild.state.chain.heads import HEAD
from odfbuild.values import dataclass


class SignerRole(Enum):
    """What a key is to the dataset whose head it signed."""

    OWNER = "owner"
    DELEGATE = "delegate"
    WITNESS = "witness"


@dataclass(frozen=True, slots=True)
class Voucher:
    """A key that signed a head, and what it is to the dataset."""

    standing: SignerRole
    key: PublicKey

    @property
    def may_lead(self) -> bool:
        """Say whether it speaks for the dataset, and does not only watch it."""
        return self.standing is not SignerRole.WITNESS


@dataclass(frozen=True, slots=True)
class Attestation:
    """A statement on a head, in an envelope whose signatures hold, and its delegation if any."""

    envelope: Envelope
    statement: HeadStatement
    delegation: Delegation | None

    def author(self, withdrawn: Withdrawals) -> Voucher | None:
        """Return who signed it for the dataset: its key, else a working key; None if nobody did."""
        keys = {each.key for each in self.envelope.signatures}
        if (own := PublicKey.of(self.statement.dataset)) in keys:
            return Voucher(SignerRole.OWNER, own)
        delegation = self.delegation
        if delegation is None or self.objection(withdrawn) is not None:
            return None
        return Voucher(SignerRole.DELEGATE, delegation.to)

    def witness(self, trusted: Collection[PublicKey]) -> Voucher | None:
        """Return the first of some keys that signed it, as a witness."""
        found = (each.key for each in self.envelope.signatures if each.key in trusted)
        key = next(found, None)
        return None if key is None else Voucher(SignerRole.WITNESS, key)

    def objection(self, withdrawn: Withdrawals) -> str | None:
        """Say why the delegation does not let any of its signers speak for the dataset."""
        found, statement = self.delegation, self.statement
        if found is None:
            return "it has no delegation to a key that signed it"
        if found.dataset != statement.dataset:
            return f"its delegation is for another dataset, {found.dataset}"
        if found.to not in {each.key for each in self.envelope.signatures}:
            return f"its delegation is to another key, {found.to}"
        if not found.covers(statement.signed_at):
            return (
                f"its delegation is in force from {found.not_before} to {found.not_after}, and it "
                f"was signed at {statement.signed_at}"
            )
        if withdrawn.include(found):
            return f"its delegation, of serial {found.serial}, was withdrawn"
        return None

    def signers(self) -> str:
        """Return the keys that signed it, for messages."""
        return ", ".join(each.key_id for each in self.envelope.signatures)


def verified_attestation(
    data: bytes, dataset: DatasetId, head: Multihash, ref: str, sequence: int | None = None
) -> Attestation:
    """Read what was found for a head; its signatures hold, and it is about that head.

    With `sequence`, the number of the head's block, it has to say that.  Whose signatures they are
    is for `author` to say.  Raises BadSignatureError.
    """
    what = f"the attestation of {dataset} for {head}"
    envelope = parse_envelope(data, HEAD_TYPE, what)
    try:
        statement = parse_statement(envelope.payload)
    except ValueError as error:
        raise bad_signature(what, f"it cannot be read: {error}") from None
    for name, said, found in (
        ("dataset", statement.dataset, dataset),
        ("reference", statement.ref, ref),
        ("block", statement.head, head),
        ("number", statement.sequence_number, sequence),
    ):
        if found is not None and said != found:
            raise bad_signature(what, f"it is about the {name} {said}, not {found}")
    check_own_key_id(envelope, statement.dataset, what)
    envelope.verify(what)
    delegated = statement.delegation
    delegation = None if delegated is None else verified_delegation(delegated, dataset)
    return Attestation(envelope, statement, delegation)


def better_attestation(
    shown: bytes | None,
    known: bytes | None,
    dataset: DatasetId,
    head: Multihash,
    withdrawn: Withdrawals,
) -> bytes | None:
    """Return what is to be kept of two that sign one head, as the bytes of one if it says it all.

    Of two statements that is the one that was signed for the dataset, or the later one; of one
    statement, the signatures of both.  What does not hold is none.
    """
    one, other = _holding(shown, dataset, head), _holding(known, dataset, head)
    if one is None or other is None:
        return shown if one is not None else known if other is not None else None
    if one.envelope.payload == other.envelope.payload:
        joined = one.envelope.joined(other.envelope)
        return shown if joined == one.envelope else joined.to_bytes()
    is_known_better = _rank(other, withdrawn) > _rank(one, withdrawn)
    return known if is_known_better else shown


def _holding(data: bytes | None, dataset: DatasetId, head: Multihash) -> Attestation | None:
    try:
        return None if data is None else verified_attestation(data, dataset, head, HEAD)
    except BadSignatureError:
        return None


def _rank(found: Attestation, withdrawn: Withdrawals) -> tuple[bool, int]:
    return found.author(withdrawn) is not None, found.statement.signed_at.nanos
