"""Pushes authorised by signature alone: of the dataset's key, or of one that it delegates to.

The signature must name the current head as the previous one, so that an old signature cannot be
used again after the dataset has changed.  If the push gives up blocks, it must state that, too.
"""

from odfbuild.repositories.signatures.attestation import verified_attestation
from odfbuild.repositories.signatures.delegation_lists import withdrawn_by
from odfbuild.repositories.signatures.trust import (
    UnsignedHeadError,
    UnsignedUndoError,
    UntrustedKeyError,
)
from odfbuild.serve.smart.push import PushedHead
from odfbuild.state.chain.attestations import DELEGATIONS
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HEAD, HeadMovedError


class SignedPushes:
    """Checks pushes without a token."""

    def check(self, pushed: PushedHead, here: Dataset | None) -> None:
        """Raise UnsignedHeadError, BadSignatureError, UntrustedKeyError, HeadMovedError, or
        UnsignedUndoError.
        """
        if pushed.attestation is None:
            raise UnsignedHeadError(
                what=f"{pushed.head} is not signed",
                why="it is pushed without a token, so its owner must have signed it",
                fix="sign it: odfbuild sign; or push with a token",
            )
        found = verified_attestation(
            pushed.attestation, pushed.dataset, pushed.head, HEAD, pushed.sequence
        )
        known = None if here is None else here.stores.attestations.get(DELEGATIONS)
        withdrawn = withdrawn_by((known, pushed.delegations), pushed.dataset)
        if found.author(withdrawn) is None:
            raise UntrustedKeyError(
                what=f"{pushed.head} is signed by {found.signers()}",
                why=found.objection(withdrawn) or "none of them may sign for the dataset",
                fix="sign it with the dataset's key, or one that it delegates to",
            )
        if found.statement.previous != pushed.before:
            raise HeadMovedError(found.statement.previous, pushed.before)
        if not pushed.leads_on and found.statement.undoes != pushed.before:
            raise UnsignedUndoError(
                what=f"{pushed.head} gives up {pushed.before}, which its signature does not state",
                why="readers of the dataset follow a head that was set back only if its owner "
                "signed that",
                fix="sign it after the head was set back: odfbuild push --force does",
            )
