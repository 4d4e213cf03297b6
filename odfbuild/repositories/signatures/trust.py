"""Trust in a head that was found elsewhere: by signatures, and by the heads seen before.

    1. its attestation, if there is one, is well formed, about this head, and its signatures hold;
    2. who signed it is the dataset's key, a delegated one, or a witness that the policy names;
    3. it goes on from the head that was accepted last, or the owner signed that this is given up;
    4. the statement has not expired.

The third holds under every policy, for unsigned datasets, too; only who names the dataset can force
it.  A statement that gives up a head is believed only if the statements from there back, each by
its `previous`, lead to the head that was accepted last: else an old one could be shown again.
"""

from collections.abc import Callable, Container, Iterator
from dataclasses import field, replace
from enum import Enum
from typing import ClassVar

from odfbuild.errors import StateError
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.repositories.signatures.attestation import (
    Attestation,
    Voucher,
    verified_attestation,
)
from odfbuild.repositories.signatures.delegation import Withdrawals
from odfbuild.repositories.signatures.envelope import BadSignatureError
from odfbuild.repositories.signatures.keys import PublicKey
from odfbuild.state.chain.heads import HEAD
from odfbuild.values import dataclass

MOST_UNDONE = 256  # heads that were given up and are remembered
_MOST_STATEMENTS = 256  # that are followed back


class TrustLevel(Enum):
    """What a head needs to be accepted from a repository.

    SIGNED: a signature.  REMEMBERED: that it goes on from what was accepted, signed if that was.
    ANY: that it goes on; signatures are not asked for.
    """

    SIGNED = "signed"
    REMEMBERED = "remembered"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class TrustPolicy:
    """What is asked of the heads of a repository; `witnesses` are believed as owners are."""

    level: TrustLevel = TrustLevel.REMEMBERED
    witnesses: frozenset[PublicKey] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundHead:
    """A head that a place shows, the number of its block, and the hashes of its chain.

    `ancestry` has the head itself and all blocks before it; `later` are blocks after it that the
    place has, too, where an older head than that of the place is asked for.
    """

    dataset: DatasetId
    head: Multihash
    sequence: int
    ancestry: Container[Multihash]
    place: str
    ref: str = HEAD
    later: Container[Multihash] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedHead:
    """The head of a dataset elsewhere that was accepted last: when, and where it was.

    `envelope` is what signed it for the dataset, None if nobody did, with its times; `undone` are
    heads that were given up before, and `withdrawn` the delegations that are known to be.
    """

    head: Multihash
    sequence: int
    accepted: Timestamp
    place: str
    envelope: bytes | None = None
    signed_at: Timestamp | None = None
    expires: Timestamp | None = None
    undone: tuple[Multihash, ...] = ()
    withdrawn: Withdrawals = field(default_factory=Withdrawals)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A head that is believed, who vouches for it, what is remembered, and what to tell the user.

    `voucher` is None where nobody signed who counts.  `given_up` is the head that was accepted
    before, where its owner signed that this one takes its place.  `attestation` is to be kept with
    the head: what was shown, if it holds, or what was accepted before and was signed later.
    """

    voucher: Voucher | None
    remembered: AcceptedHead
    attestation: bytes | None = None
    given_up: Multihash | None = None
    notes: tuple[str, ...] = ()


class TrustError(StateError):
    """A head that was found elsewhere is not believed."""


class UnsignedHeadError(TrustError):
    """A head has no signature, but one is required."""

    code = "unsigned-head"


class UnsignedUndoError(TrustError):
    """A head drops blocks of the one before, and its owner did not sign that."""

    code = "unsigned-undo"


class UntrustedKeyError(TrustError):
    """A head is signed by keys that are not permitted to sign it."""

    code = "untrusted-key"


class StatementExpiredError(TrustError):
    """The signature of a head has expired: a newer one may be withheld."""

    code = "statement-expired"


class UnprovenHeadError(TrustError):
    """A head does not go on from the one that was accepted last.

    `known` is that one; `found` the other, with `attestation` as it was shown.
    """

    how: ClassVar[str] = ""
    because: ClassVar[str] = ""

    def __init__(
        self, found: FoundHead, known: AcceptedHead, attestation: bytes | None, detail: str = ""
    ) -> None:
        super().__init__(
            what=f"{found.place}: the head of {found.dataset} is block {found.sequence:,}, "
            f"{found.head}, {self.how} block {known.sequence:,}, {known.head}, which was accepted "
            f"from {known.place} at {known.accepted}",
            why=self.because + detail,
            fix="ask its owner: an owner who drops history signs that (odfbuild push --force), "
            "and then this pull works; to accept the head: name the dataset, with --force",
        )
        self.found = found
        self.known = known
        self.attestation = attestation


class HeadRolledBackError(UnprovenHeadError):
    """A remote dataset ends before the last accepted head."""

    code = "head-rolled-back"
    how = "before"
    because = "an older state is shown, which hides later blocks"


class HeadEquivocatedError(UnprovenHeadError):
    """A remote dataset has another block in the position of the last accepted head."""

    code = "head-equivocated"
    how = "and has the number of another,"
    because = "there are two histories of one dataset, possibly for different readers"


class HistoryRewrittenError(UnprovenHeadError):
    """A remote dataset is longer, but does not continue from the last accepted head."""

    code = "history-rewritten"
    how = "and does not continue from"
    because = "accepted blocks are no longer in its history"


EarlierStatements = Callable[[Multihash], bytes | None]
"""The attestations that a place keeps of other heads."""


def judge(
    found: FoundHead,
    attestation: bytes | None,
    known: AcceptedHead | None,
    policy: TrustPolicy,
    now: Timestamp,
    *,
    withdrawn: Withdrawals | None = None,
    earlier: EarlierStatements = lambda _: None,
    forced: bool = False,
) -> Accepted:
    """Return the head as accepted, or refuse it; nothing is read or written.

    `attestation` is what the place shows for the head, `known` what was accepted before, from
    whatever place; `forced` takes a head that does not go on from that, or was signed before and is
    not any more.  Raises BadSignatureError, UnsignedHeadError, UntrustedKeyError,
    HeadRolledBackError, HeadEquivocatedError, HistoryRewrittenError or StatementExpiredError.
    """
    void = (withdrawn or Withdrawals()).union(known.withdrawn if known else Withdrawals())
    notes: list[str] = []
    read = _read(found, attestation, policy, notes)
    author = None if read is None else read.author(void)
    voucher = author or (None if read is None else read.witness(policy.witnesses))
    if policy.level is TrustLevel.SIGNED and voucher is None:
        raise _unsigned_error(
            found, read, void, f"only signed heads are accepted from {found.place}"
        )
    lead = read if author is not None else None
    given_up = None
    if known is not None and not _goes_on(found, known):
        if _is_given_up(found, lead, known, void, earlier):
            given_up = known.head
        elif not forced:
            raise _unproven(found, known, attestation)
    if not forced and voucher is None and _was_signed(found, known, policy):
        raise _unsigned_error(found, read, void, "the head before it was signed for the dataset")
    remembered = _head_to_remember(found, attestation, lead, known, now, void)
    if voucher is not None:
        own = read.statement.expires if read is not None else None
        expires = remembered.expires if lead is not None else own
        notes += _expiry(found, expires, policy, now)
    return Accepted(
        voucher=voucher,
        remembered=remembered,
        attestation=_to_keep(found, attestation, read, remembered),
        given_up=given_up,
        notes=tuple(notes),
    )


def _read(
    found: FoundHead, data: bytes | None, policy: TrustPolicy, notes: list[str]
) -> Attestation | None:
    """Verify an attestation; where signatures are not asked for, a wrong one is a note."""
    if data is None:
        return None
    try:
        return verified_attestation(data, found.dataset, found.head, found.ref, found.sequence)
    except BadSignatureError as error:
        if policy.level is not TrustLevel.ANY:
            raise
        notes.append(error.what)
        return None


def _unsigned_error(
    found: FoundHead, read: Attestation | None, withdrawn: Withdrawals, why: str
) -> TrustError:
    """Return the refusal of a head that nobody signed who counts."""
    shown = f"the head of {found.dataset} at {found.place}, block {found.sequence:,}, {found.head}"
    if read is None:
        return UnsignedHeadError(
            what=f"{shown}, is not signed",
            why=f"{why}, and without a signature it may come from anyone who can write there",
            fix="ask its owner to sign it: odfbuild sign, or push with the key; to accept it "
            "unsigned, set another trust: of the repository in odfbuild.yaml",
        )
    return UntrustedKeyError(
        what=f"{shown}, is signed by {read.signers()}, who may not: {read.objection(withdrawn)}",
        why=f"{why}: by its key, by one that this delegates to, or by a witness of the repository",
        fix="ask its owner to sign it, or for a valid delegation: odfbuild delegate; or add a "
        "witness that you trust to witnesses: of the repository in odfbuild.yaml",
    )


def _goes_on(found: FoundHead, known: AcceptedHead) -> bool:
    """Say whether a chain has the head that was accepted last, and none that was given up."""
    is_there = known.head in found.ancestry or known.head in found.later
    return is_there and not any(each in found.ancestry for each in known.undone)


def _was_signed(found: FoundHead, known: AcceptedHead | None, policy: TrustPolicy) -> bool:
    """Say whether an unsigned head takes the place of a signed one."""
    if known is None or known.envelope is None or known.head == found.head:
        return False
    if known.head in found.later:  # which was signed, and so is what comes before it
        return False
    return policy.level is not TrustLevel.ANY


def _is_given_up(
    found: FoundHead,
    lead: Attestation | None,
    known: AcceptedHead,
    withdrawn: Withdrawals,
    earlier: EarlierStatements,
) -> bool:
    """Say whether who speaks for a dataset signed that the head accepted last is given up.

    The statements are followed back to one that was made on that head.
    """
    if lead is None or (known.signed_at and lead.statement.signed_at < known.signed_at):
        return False
    gives_up = False
    for each in _back(found, lead, withdrawn, earlier):
        statement = each.statement
        gives_up = gives_up or statement.undoes is not None
        if known.head in (statement.previous, statement.undoes):
            return gives_up
    return False


def _back(
    found: FoundHead, lead: Attestation, withdrawn: Withdrawals, earlier: EarlierStatements
) -> Iterator[Attestation]:
    """Yield a statement and those before it, as far as they were signed for the dataset."""
    at, seen = lead, {found.head}
    yield at
    while len(seen) < _MOST_STATEMENTS:
        before = at.statement.previous
        data = None if before is None or before in seen else earlier(before)
        if before is None or data is None:
            return
        seen.add(before)
        try:
            at = verified_attestation(data, found.dataset, before, found.ref)
        except BadSignatureError:
            return
        if at.author(withdrawn) is None:
            return
        yield at


def _unproven(
    found: FoundHead, known: AcceptedHead, attestation: bytes | None
) -> UnprovenHeadError:
    if known.head in found.ancestry:
        detail = "; its owner dropped a head in its history"
        return HeadRolledBackError(found, known, attestation, detail)
    if found.sequence < known.sequence:
        return HeadRolledBackError(found, known, attestation)
    if found.sequence == known.sequence:
        return HeadEquivocatedError(found, known, attestation)
    return HistoryRewrittenError(found, known, attestation)


def _head_to_remember(
    found: FoundHead,
    attestation: bytes | None,
    lead: Attestation | None,
    known: AcceptedHead | None,
    now: Timestamp,
    withdrawn: Withdrawals,
) -> AcceptedHead:
    """Return what to remember; of two statements on one head, the later one.

    A head before the one that was accepted last does not take its place.
    """
    if known is not None and known.head in found.later:
        return replace(known, withdrawn=withdrawn)
    before = () if known is None else (*known.undone, known.head)
    statement = None if lead is None else lead.statement
    fresh = AcceptedHead(
        head=found.head,
        sequence=found.sequence,
        accepted=now,
        place=found.place,
        envelope=None if lead is None else attestation,
        signed_at=None if statement is None else statement.signed_at,
        expires=None if statement is None else statement.expires,
        undone=tuple(each for each in before if each not in found.ancestry)[-MOST_UNDONE:],
        withdrawn=withdrawn,
    )
    if known is None or known.head != found.head or known.signed_at is None:
        return fresh
    if fresh.signed_at is not None and fresh.signed_at >= known.signed_at:
        return fresh
    return replace(fresh, envelope=known.envelope, signed_at=known.signed_at, expires=known.expires)


def _to_keep(
    found: FoundHead, shown: bytes | None, read: Attestation | None, remembered: AcceptedHead
) -> bytes | None:
    if remembered.head == found.head and remembered.envelope is not None:
        return remembered.envelope
    return None if read is None else shown


def _expiry(
    found: FoundHead, expires: Timestamp | None, policy: TrustPolicy, now: Timestamp
) -> Iterator[str]:
    """Yield a note on a statement that has expired; refuse it where heads have to be signed."""
    if expires is None or now <= expires or policy.level is TrustLevel.ANY:
        return
    what = f"the signature of the head of {found.dataset} at {found.place} expired at {expires}"
    if policy.level is TrustLevel.SIGNED:
        raise StatementExpiredError(
            what=what,
            why="its owner signs again before that; so a newer head may be withheld here",
            fix="check whether the owner published elsewhere; as its owner: odfbuild sign NAME "
            "--days N, and push",
        )
    yield f"{what}: a newer head may be withheld"
