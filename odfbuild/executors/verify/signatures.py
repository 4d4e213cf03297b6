"""Verification of the signatures of a dataset's head and of those before it."""

from collections.abc import Collection, Iterator

from odfbuild.executors.verify.chain import Fault
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.identity import Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.project.opened import Opened
from odfbuild.repositories.signatures.attestation import (
    Attestation,
    Voucher,
    verified_attestation,
)
from odfbuild.repositories.signatures.delegation import Withdrawals
from odfbuild.repositories.signatures.envelope import BadSignatureError
from odfbuild.repositories.signatures.keys import PublicKey
from odfbuild.repositories.signatures.signing import read_delegations
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HEAD
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedHead:
    """Who vouches for the head of a dataset, since when and until when, and of how many heads
    before it there are attestations.
    """

    voucher: Voucher
    signed_at: Timestamp
    expires: Timestamp | None
    earlier: int


@dataclass(frozen=True, slots=True)
class SignatureReport:
    """What was found of the attestations of a dataset; `signed` is None if its head is not."""

    signed: SignedHead | None
    findings: tuple[Fault, ...]


def check_signatures(project: Opened, head: ChainState, now: Timestamp) -> SignatureReport:
    """Verify the attestations of a dataset: of its head, and all others that there are.

    The head is signed by the dataset's key, a delegated one or a witness of any repository of the
    project.  Heads before it were so when they were signed; a delegation that was withdrawn since
    is no finding there.
    """
    dataset = project.workspace.dataset(head.dataset)
    witnesses = {
        PublicKey.of(each)
        for repository in project.config.repositories.values()
        for each in repository.witnesses
    }
    findings: list[Fault] = []
    try:
        known = read_delegations(dataset)
        withdrawn = Withdrawals() if known is None else known.withdrawn
        if known is not None:
            known.read()
    except BadSignatureError as error:
        findings.append(Fault(head.head, error.what))
        withdrawn = Withdrawals()
    heads = dataset.stores.attestations.heads()
    signed = _head(dataset, head, withdrawn, witnesses, now, findings)
    others = [each for each in heads if each != head.head]
    for each in others:
        findings += _earlier(dataset, each, witnesses)
    if signed is None:
        return SignatureReport(None, tuple(findings))
    voucher, attestation = signed
    shown = SignedHead(
        voucher=voucher,
        signed_at=attestation.statement.signed_at,
        expires=attestation.statement.expires,
        earlier=len(others),
    )
    return SignatureReport(shown, tuple(findings))


def _head(
    dataset: Dataset,
    head: ChainState,
    withdrawn: Withdrawals,
    witnesses: Collection[PublicKey],
    now: Timestamp,
    findings: list[Fault],
) -> tuple[Voucher, Attestation] | None:
    data = dataset.stores.attestations.get(head.head)
    if data is None:
        findings.append(Fault(head.head, "the head is not signed (unsigned-head); odfbuild sign"))
        return None
    try:
        found = verified_attestation(data, dataset.id, head.head, HEAD, head.sequence)
    except BadSignatureError as error:
        findings.append(Fault(head.head, f"{error.what} (bad-signature)"))
        return None
    voucher = found.author(withdrawn) or found.witness(witnesses)
    if voucher is None:
        what = f"the head is signed by {found.signers()}, who may not: "
        findings.append(Fault(head.head, f"{what}{found.objection(withdrawn)} (untrusted-key)"))
        return None
    expires = found.statement.expires
    if expires is not None and now > expires:
        what = f"what is signed of the head expired at {expires} (statement-expired)"
        findings.append(Fault(head.head, what))
    return voucher, found


def _earlier(
    dataset: Dataset, head: Multihash, witnesses: Collection[PublicKey]
) -> Iterator[Fault]:
    """Yield what is wrong with the attestation of a head that the dataset had before."""
    data = dataset.stores.attestations.get(head)
    if data is None:  # gc was quicker
        return
    is_here = dataset.stores.blocks.has(head)
    number = dataset.block(head).sequence_number if is_here else None
    try:
        found = verified_attestation(data, dataset.id, head, HEAD, number)
    except BadSignatureError as error:
        yield Fault(head, f"{error.what} (bad-signature)")
        return
    if found.author(Withdrawals()) is None and found.witness(witnesses) is None:
        why = found.objection(Withdrawals())
        yield Fault(head, f"it was signed by {found.signers()}, who might not: {why}")
