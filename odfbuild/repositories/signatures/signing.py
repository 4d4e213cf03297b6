"""Signing: the key of a workspace for a dataset, and the statements that it signs.

A statement is about a move: `previous` is where the repository stands that it is made for.  So one
that was made for another repository, or by hand before, is signed again where the key is at hand.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from odfbuild.errors import StateError
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.repositories.signatures.attestation import Attestation, verified_attestation
from odfbuild.repositories.signatures.delegation import (
    MOST_DELEGATIONS,
    Delegation,
    DelegationList,
    Withdrawals,
    verified_delegation,
    verified_list,
)
from odfbuild.repositories.signatures.envelope import BadSignatureError, Envelope, signed
from odfbuild.repositories.signatures.keys import PublicKey
from odfbuild.repositories.signatures.statement import HEAD_TYPE, HeadStatement
from odfbuild.state.chain.attestations import DELEGATIONS
from odfbuild.state.chain.dataset import Dataset, holds
from odfbuild.state.chain.heads import HEAD
from odfbuild.state.keys import KeyFolder, PrivateKey
from odfbuild.values import dataclass

DAY = 86_400 * 10**9  # nanoseconds
NONE_WITHDRAWN = Withdrawals()
LONGEST_DELEGATION = 3_660  # days
_CLOCKS = 600 * 10**9  # nanoseconds by which clocks of two machines may differ

Passphrase = Callable[[DatasetId], str | None]
"""Gives the passphrase of a sealed key, or None where nobody is to be asked."""


class NoSigningKeyError(StateError):
    """The workspace has no key that may sign for a dataset."""

    code = "no-signing-key"

    def __init__(self, dataset: DatasetId, sealed: Sequence[DatasetId]) -> None:
        because = "the workspace has neither its key nor a key that it delegates to"
        fix = (
            "odfbuild key import brings a key; with the dataset's key, odfbuild delegate lets "
            "another one sign"
        )
        if sealed:
            because = "the key that could sign is sealed, and no passphrase was given"
            fix = "give the passphrase: in ODFBUILD_KEY_PASSPHRASE, or with --passphrase-fd"
        super().__init__(what=f"no key here can sign for {dataset}", why=because, fix=fix)


class WithdrawnKeyError(StateError):
    """The keys of the workspace may no longer sign for a dataset."""

    code = "withdrawn-key"

    def __init__(self, dataset: DatasetId, keys: Sequence[PublicKey]) -> None:
        super().__init__(
            what=f"the delegation of {dataset} to {', '.join(map(str, keys))} was withdrawn",
            why="readers do not accept that key, and no other key here may sign",
            fix="ask the owner for a delegation to another key (odfbuild key new makes one), which "
            "odfbuild pull brings; or push where the dataset's key is",
        )


class UnknownDelegationError(StateError):
    """A delegation to withdraw is not in the dataset's list."""

    code = "unknown-delegation"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key that speaks for a dataset, and the delegation to it unless it is its own."""

    dataset: DatasetId
    key: PrivateKey
    delegation: Envelope | None = None

    @property
    def key_id(self) -> str:
        """Return how envelopes name it."""
        return str(self.dataset) if self.delegation is None else self.key.dataset.did_key()


def find_signing_key(
    keys: KeyFolder,
    dataset: Dataset,
    now: Timestamp,
    passphrase: Passphrase = lambda _: None,
    *,
    published: DelegationList | None = None,
    withdrawn: Withdrawals = NONE_WITHDRAWN,
) -> SigningKey:
    """Return the key of a dataset, else a working key that it delegates to at this time.

    Open keys go before sealed ones, of which `passphrase` is asked.  What the list that is
    `published` delegates and withdraws counts as what the dataset's own does; `withdrawn` are more
    delegations that are known to be.  Raises NoSigningKeyError, WithdrawnKeyError if delegations to
    keys at hand were withdrawn, BadSignatureError of the list of delegations, and what loading a
    key raises.
    """
    lists = [each for each in (published, read_delegations(dataset)) if each is not None]
    for each in lists:
        withdrawn = withdrawn.union(each.withdrawn)
    candidates: list[tuple[DatasetId, Envelope | None]] = [(dataset.id, None)]
    candidates += [
        (DatasetId(delegation.to.raw), envelope)
        for each in lists
        for delegation, envelope in _in_force(each, withdrawn, now)
    ]
    sealed = {each.dataset for each in keys.kept() if each.sealed}
    usable = [each for each in candidates if keys.has(each[0])]
    for id, delegation in sorted(usable, key=lambda each: each[0] in sealed):
        secret = passphrase(id) if id in sealed else None
        if id not in sealed or secret is not None:
            return SigningKey(dataset.id, keys.load(id, secret), delegation)
    lost = sorted(each for each in withdrawn.serials if keys.has(DatasetId(each.raw)))
    if lost and not usable:
        raise WithdrawnKeyError(dataset.id, lost)
    raise NoSigningKeyError(dataset.id, [id for id, _ in usable])


def read_delegations(dataset: Dataset) -> DelegationList | None:
    """Return a dataset's list of delegations; None if it has none.  Raises BadSignatureError."""
    data = dataset.stores.attestations.get(DELEGATIONS)
    return None if data is None else verified_list(data, dataset.id)


def read_attestation(dataset: Dataset, head: Multihash) -> Attestation | None:
    """Return what is signed of a head; None if nothing is, or it does not hold."""
    data = dataset.stores.attestations.get(head)
    if data is None:
        return None
    try:
        number = dataset.block(head).sequence_number
        return verified_attestation(data, dataset.id, head, HEAD, number)
    except BadSignatureError:
        return None


def sign_move(
    dataset: Dataset,
    key: SigningKey,
    now: Timestamp,
    previous: Multihash | None,
    *,
    expires: Timestamp | None = None,
) -> bytes:
    """Sign that the head of a dataset moved from `previous` to where it is; keep and return that.

    If `previous` is no block of the chain, it is given up by this statement.
    """
    head = _head(dataset)
    is_left = previous is not None and not holds(dataset, previous, head)
    statement = HeadStatement(
        dataset=dataset.id,
        head=head,
        sequence_number=dataset.block(head).sequence_number,
        previous=previous,
        signed_at=now,
        expires=expires,
        delegation=key.delegation,
        undoes=previous if is_left else None,
    )
    return _keep(dataset, signed(HEAD_TYPE, statement.to_bytes(), key.key_id, key.key))


def attest_push(
    dataset: Dataset,
    keys: KeyFolder,
    there: Multihash | None,
    now: Timestamp,
    passphrase: Passphrase = lambda _: None,
    *,
    published: DelegationList | None = None,
    withdrawn: Withdrawals = NONE_WITHDRAWN,
) -> bytes | None:
    """Return what signs the head of a dataset for a place whose head is `there`.

    What is signed already is taken if it was made for that move, else the head is signed again;
    None if no key is at hand and nothing is signed.  `published` is the list of delegations of that
    place, `withdrawn` are more that are known to be.  Raises what `find_signing_key` raises but for
    NoSigningKeyError, and WithdrawnKeyError if only a key signed the head that may not any more.
    """
    head = _head(dataset)
    known = read_attestation(dataset, head)
    void = withdrawn
    for each in (published, read_delegations(dataset)):
        void = void if each is None else void.union(each.withdrawn)
    is_signed = known is not None and known.author(void) is not None
    if known is not None and is_signed and there in (head, known.statement.previous):
        return known.envelope.to_bytes()
    try:
        key = find_signing_key(keys, dataset, now, passphrase, published=published, withdrawn=void)
    except (NoSigningKeyError, WithdrawnKeyError) as error:
        delegation = None if known is None or is_signed else known.delegation
        if there != head and delegation is not None and void.include(delegation):
            raise WithdrawnKeyError(dataset.id, [delegation.to]) from None
        if there != head and known is None and isinstance(error, WithdrawnKeyError):
            raise
        return None if known is None else known.envelope.to_bytes()
    expires = None if known is None else known.statement.expires
    previous = _previous(dataset, known) if there == head else there
    return sign_move(dataset, key, now, previous, expires=expires)


def sign_here(
    dataset: Dataset,
    key: SigningKey,
    now: Timestamp,
    accepted: Multihash | None,
    expires: Timestamp | None = None,
) -> bytes:
    """Sign the head of a dataset by hand, `accepted` being the head known to be published last."""
    head = _head(dataset)
    known = read_attestation(dataset, head)
    previous = accepted if accepted not in (None, head) else _previous(dataset, known)
    return sign_move(dataset, key, now, previous, expires=expires)


def witness(dataset: Dataset, key: PrivateKey, now: Timestamp) -> bytes:
    """Sign as a witness what is signed of the head, or, if nothing is, that it is the head."""
    head = _head(dataset)
    known = read_attestation(dataset, head)
    key_id = key.dataset.did_key()
    if known is not None:
        return _keep(dataset, known.envelope.also_signed(key_id, key))
    statement = HeadStatement(
        dataset=dataset.id,
        head=head,
        sequence_number=dataset.block(head).sequence_number,
        signed_at=now,
    )
    return _keep(dataset, signed(HEAD_TYPE, statement.to_bytes(), key_id, key))


def delegate(
    dataset: Dataset, owner: PrivateKey, to: PublicKey, days: int, now: Timestamp
) -> Delegation:
    """Let a key sign heads of a dataset for so many days; put that on its list of delegations.

    An earlier delegation to that key, and those that are over, leave the list.
    """
    known = read_delegations(dataset) or DelegationList(dataset=dataset.id, serial=0, signed_at=now)
    made = Delegation(
        dataset=dataset.id,
        to=to,
        not_before=Timestamp(now.nanos // 10**9 * 10**9 - _CLOCKS),
        not_after=Timestamp(now.nanos // 10**9 * 10**9 + days * DAY),
        serial=known.serial + 1,
    )
    kept = [
        each.signed(owner)
        for each in known.read()
        if each.to != to and each.not_after >= now and not known.withdrawn.include(each)
    ]
    if len(kept) >= MOST_DELEGATIONS:
        raise StateError(
            what=f"{dataset.id} delegates to {len(kept):,} keys already",
            why="everyone who pulls reads the list of delegations",
            fix="withdraw those that are not used: odfbuild delegate NAME --withdraw KEY",
        )
    _keep_list(dataset, owner, known, now, (*kept, made.signed(owner)), known.withdrawn)
    return made


def withdraw(dataset: Dataset, owner: PrivateKey, to: PublicKey, now: Timestamp) -> DelegationList:
    """Take back all delegations to a key, also those that were used already.

    If the head was signed under one of them, the owner signs it.  Raises UnknownDelegationError if
    the list has none to that key.
    """
    known = read_delegations(dataset)
    if known is None or to not in {each.to for each in known.read()}:
        raise UnknownDelegationError(
            what=f"{dataset.id} has no delegation to {to}",
            why="only what was delegated can be withdrawn",
            fix="odfbuild delegate NAME lists the delegations",
        )
    before = read_attestation(dataset, _head(dataset))
    kept = tuple(each.signed(owner) for each in known.read() if each.to != to)
    void = known.withdrawn.union(Withdrawals({to: known.serial}))
    made = _keep_list(dataset, owner, known, now, kept, void)
    if before is not None and before.author(known.withdrawn) and before.author(void) is None:
        stated = replace(before.statement, delegation=None, signed_at=now)
        _keep(dataset, signed(HEAD_TYPE, stated.to_bytes(), str(dataset.id), owner))
    return made


def _in_force(
    known: DelegationList, withdrawn: Withdrawals, now: Timestamp
) -> list[tuple[Delegation, Envelope]]:
    every = [(verified_delegation(each, known.dataset), each) for each in known.delegations]
    return [
        (delegation, envelope)
        for delegation, envelope in every
        if delegation.dataset == known.dataset
        and delegation.covers(now)
        and not withdrawn.include(delegation)
    ]


def _previous(dataset: Dataset, known: Attestation | None) -> Multihash | None:
    """Return the head of the statement before: of the same head, or the nearest that is signed."""
    if known is not None:
        return known.statement.previous
    signed_heads = set(dataset.stores.attestations.heads())
    at = dataset.block(_head(dataset)).prev_block_hash
    while signed_heads and at is not None:
        if at in signed_heads:
            return at
        at = dataset.block(at).prev_block_hash
    return None


def _head(dataset: Dataset) -> Multihash:
    head = dataset.head()
    if head is None:
        raise StateError(
            what=f"{dataset.id} has no block",
            why="only the head of a chain can be signed",
            fix="odfbuild apply writes the first one",
        )
    return head


def _keep(dataset: Dataset, envelope: Envelope) -> bytes:
    data = envelope.to_bytes()
    dataset.stores.attestations.put(_head(dataset), data)
    return data


def _keep_list(
    dataset: Dataset,
    owner: PrivateKey,
    known: DelegationList,
    now: Timestamp,
    delegations: tuple[Envelope, ...],
    withdrawn: Withdrawals,
) -> DelegationList:
    made = DelegationList(
        dataset=dataset.id,
        serial=known.serial + 1,
        signed_at=now,
        delegations=delegations,
        withdrawn=withdrawn,
    )
    dataset.stores.attestations.put(DELEGATIONS, made.signed(owner).to_bytes())
    return made
