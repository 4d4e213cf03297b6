"""Acceptance of a head from elsewhere: whether it may be taken, and the memory of it.

`HeadAcceptance.accept` is called once the blocks are here and before any data is, and `remember`
with what it gave, once the head has moved.
"""

from collections.abc import Callable
from dataclasses import replace
from time import time_ns
from typing import Protocol

from odfbuild.odf.identity import DatasetId
from odfbuild.odf.timestamp import Timestamp
from odfbuild.repositories.signatures.delegation import (
    Withdrawals,
    verified_list,
    withdrawn_of,
)
from odfbuild.repositories.signatures.envelope import BadSignatureError
from odfbuild.repositories.signatures.memory import AcceptedHeads, DamagedMemoryError
from odfbuild.repositories.signatures.trust import (
    Accepted,
    AcceptedHead,
    FoundHead,
    TrustLevel,
    TrustPolicy,
    UnprovenHeadError,
    judge,
)
from odfbuild.state.chain.attestations import DELEGATIONS, AttestationName
from odfbuild.values import dataclass


class AttestationSource(Protocol):
    """What shows attestations: a ChainSource, or a folder."""

    def attestation(self, name: AttestationName) -> bytes | None:
        """Return the envelope that signs a head, or the list of delegations, if there is one."""


@dataclass(frozen=True, slots=True)
class AcceptedArrival:
    """A head that may be taken, and what is to be kept with it; `is_news` if that is not known."""

    dataset: DatasetId
    judged: Accepted
    attestation: bytes | None
    delegations: bytes | None
    is_news: bool = True


def current_time() -> Timestamp:
    """Return the time of this machine, to the millisecond."""
    return Timestamp.from_millis(time_ns() // 1_000_000)


class HeadAcceptance:
    """Judges heads by a policy and by what is remembered of them outside of the workspace.

    `brings` says that what signs a head comes along with it; who only looks does not read again
    what signs a head that was accepted before.
    """

    def __init__(
        self,
        policy: TrustPolicy,
        memory: AcceptedHeads | None = None,
        *,
        forced: bool = False,
        brings: bool = True,
        now: Callable[[], Timestamp] = current_time,
    ) -> None:
        self._policy = policy
        self.memory = memory or AcceptedHeads()
        self._forced = forced
        self._brings = brings
        self._now = now

    def accept(self, found: FoundHead, source: AttestationSource) -> AcceptedArrival:
        """Return the head as accepted, or refuse it; it is not remembered yet.

        What is shown to be withdrawn is remembered whatever becomes of the head.

        Of two heads that exclude each other the envelopes are kept.  Raises a TrustError,
        BadSignatureError or DamagedMemoryError, and what reading the source raises.
        """
        now, known = self._now(), self._accepted_head(found.dataset)
        delegations = self._holding(found, source.attestation(DELEGATIONS))
        void = self.withdrawn(found.dataset, delegations)
        before = None if known is None or known.head != found.head else known.envelope
        if known is not None and self._is_settled(known, found, void, now):
            shown = before
        else:
            shown = source.attestation(found.head) or before
        try:
            judged = judge(
                found,
                shown,
                known,
                self._policy,
                now,
                withdrawn=void,
                earlier=source.attestation,
                forced=self._forced,
            )
        except UnprovenHeadError as error:
            if (kept := self.memory.keep_evidence(error)) is not None:
                error.fix += f"; the evidence is stored in {kept}"
            raise
        is_news = known is None or _is_news(known, judged.remembered)
        return AcceptedArrival(found.dataset, judged, judged.attestation, delegations, is_news)

    def withdrawn(self, dataset: DatasetId, shown: bytes | None) -> Withdrawals:
        """Return which delegations are withdrawn, by what is remembered and a list that is shown.

        What that adds is remembered.  Raises DamagedMemoryError.
        """
        known, head = self._withdrawals(dataset), self._accepted_head(dataset)
        every = known.union(withdrawn_of(shown, dataset))
        if shown is not None and every != known:
            self.memory.put_withdrawn(dataset, shown)
        return every if head is None else every.union(head.withdrawn)

    def remember(self, arrival: AcceptedArrival) -> None:
        """Remember a head that was taken; one that is remembered already stays as it is."""
        if arrival.is_news:
            self.memory.put(arrival.dataset, arrival.judged.remembered)

    def _accepted_head(self, dataset: DatasetId) -> AcceptedHead | None:
        try:
            return self.memory.read(dataset)
        except DamagedMemoryError:
            if self._forced:
                return None
            raise

    def _withdrawals(self, dataset: DatasetId) -> Withdrawals:
        try:
            return self.memory.read_withdrawn(dataset)
        except DamagedMemoryError:
            if self._forced:
                self.memory.forget_withdrawn(dataset)
                return Withdrawals()
            raise

    def _is_settled(
        self, known: AcceptedHead, found: FoundHead, withdrawn: Withdrawals, now: Timestamp
    ) -> bool:
        """Say whether a head was accepted, so that its attestation need not be read again."""
        if self._brings or known.head != found.head:
            return False
        if known.withdrawn.union(withdrawn) != known.withdrawn:
            return False
        if known.expires is not None and now > known.expires:
            return False
        return known.envelope is not None or self._policy.level is not TrustLevel.SIGNED

    def _holding(self, found: FoundHead, data: bytes | None) -> bytes | None:
        """Return the list of delegations that a source shows; one that does not hold is none."""
        try:
            if data is not None:
                verified_list(data, found.dataset)
        except BadSignatureError:
            if self._policy.level is TrustLevel.ANY:
                return None
            raise
        return data


def _is_news(known: AcceptedHead, found: AcceptedHead) -> bool:
    """Say whether two differ in more than when and where the head was seen."""
    return replace(found, accepted=known.accepted, place=known.place) != known
