"""Trust in the head that a repository shows, decided while its chain is received."""

from contextlib import suppress
from dataclasses import replace

from odfbuild.errors import ProtocolError
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.project.config.repositories import RepositorySettings
from odfbuild.repositories.intake import Arrival
from odfbuild.repositories.protocol import ChainSource
from odfbuild.repositories.signatures.acceptance import AcceptedArrival, HeadAcceptance
from odfbuild.repositories.signatures.keys import PublicKey
from odfbuild.repositories.signatures.trust import FoundHead, TrustLevel, TrustPolicy
from odfbuild.repositories.walk import walk
from odfbuild.state.chain.attestations import DELEGATIONS, LocalAttestations
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.remote.errors import TransferError


class RepositoryJudge:
    """Judges heads by the trust that a repository is given, and by what is remembered of them.

    `notes` are what is to be said of the heads that it accepted.  Without `brings` heads are
    looked at, and nothing of them is kept.  One that `is_pinned` may be older than what was
    accepted last, if that goes on from it.
    """

    def __init__(
        self,
        settings: RepositorySettings,
        *,
        forced: bool = False,
        brings: bool = True,
        is_pinned: bool = False,
    ) -> None:
        policy = TrustPolicy(
            TrustLevel(settings.trust), frozenset(map(_public, settings.witnesses))
        )
        self._acceptance = HeadAcceptance(policy, forced=forced, brings=brings)
        self._is_pinned = is_pinned
        self.notes: list[str] = []

    def accept(self, arrival: Arrival, source: ChainSource, here: Dataset | None) -> object:
        found = FoundHead(
            dataset=arrival.dataset,
            head=arrival.state.head,
            sequence=arrival.state.sequence,
            ancestry=arrival.ancestry(here),
            place=source.place,
        )
        if self._is_pinned:
            found = replace(found, later=self._later(found, source))
        accepted = self._acceptance.accept(found, source)
        kept = LocalAttestations(arrival.folder / "attestations")
        if accepted.attestation is not None:
            kept.put(arrival.state.head, accepted.attestation)
        if accepted.delegations is not None:
            kept.put(DELEGATIONS, accepted.delegations)
        self.notes += accepted.judged.notes
        return accepted

    def _later(self, found: FoundHead, source: ChainSource) -> frozenset[Multihash]:
        """Return the blocks after a head up to the one that was accepted last, if it leads there.

        What a source gives of them is hashed; one that does not have them has none.
        """
        known = self._acceptance.memory.read(found.dataset)
        if known is None or known.sequence <= found.sequence:
            return frozenset()
        later: set[Multihash] = set()
        with suppress(TransferError, ProtocolError):
            blocks = source.blocks(known.head, found.head)
            for each in walk(blocks, known.head, found.head, source.place):
                later.add(each.hash)
                if each.block.prev_block_hash == found.head:
                    return frozenset(later)
                if each.block.sequence_number <= found.sequence:
                    break
        return frozenset()

    def follows(self, accepted: object, before: Multihash | None) -> bool:
        assert isinstance(accepted, AcceptedArrival)  # noqa: S101 - of `accept`
        return before is not None and accepted.judged.given_up == before

    def taken(self, accepted: object) -> None:
        assert isinstance(accepted, AcceptedArrival)  # noqa: S101 - of `accept`
        self._acceptance.remember(accepted)
        if (problem := self._acceptance.memory.problem) is not None:
            self.notes.append(f"accepted heads are not recorded: {problem}")


def _public(key: DatasetId) -> PublicKey:
    return PublicKey.of(key)
