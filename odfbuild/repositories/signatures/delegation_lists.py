"""Lists of delegations that are sent with a dataset.

One is kept if the dataset's key signed it, and only in the place of an older one.
"""

from odfbuild.odf.identity import DatasetId
from odfbuild.repositories.signatures.delegation import Withdrawals, verified_list
from odfbuild.state.chain.attestations import DELEGATIONS, Attestations


def keep_delegations(kept: Attestations, sent: bytes, dataset: DatasetId) -> None:
    """Keep a list, if it is newer than the one that is kept.  Raises BadSignatureError."""
    serial = verified_list(sent, dataset).serial
    known = kept.get(DELEGATIONS)
    if known is None or verified_list(known, dataset).serial < serial:
        kept.put(DELEGATIONS, sent)


def withdrawn_by(lists: tuple[bytes | None, ...], dataset: DatasetId) -> Withdrawals:
    """Return what lists of a dataset withdraw, of all that there are.  Raises BadSignatureError."""
    found = Withdrawals()
    for each in lists:
        if each is not None:
            found = found.union(verified_list(each, dataset).withdrawn)
    return found
