"""Verification of a head: that it is the requested one, and continues the last seen one."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from odfbuild.errors import OdfBuildError
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.project.opened import Opened
from odfbuild.state.chain.dataset import Dataset, NotInChainError
from odfbuild.state.chain.seen_heads import DamagedSeenHeadError

if TYPE_CHECKING:
    from odfbuild.executors.verify.chain import Fault
    from odfbuild.state.chain.seen_heads import SeenHead


def head_findings(
    project: Opened, head: ChainState, pinned: Multihash | None, *, accept: bool
) -> "Iterator[Fault]":
    """Yield what is wrong with the head of a dataset; `accept` takes it whatever was seen last."""
    from odfbuild.executors.verify.chain import Fault

    if pinned is not None and pinned != head.head:
        what = f"the head is {head.head} (block {head.sequence}), not {pinned} as asked for"
        yield Fault(head.head, what)
    dataset = project.workspace.dataset(head.dataset)
    try:
        known = None if accept else _left_behind(project, dataset, head.head)
    except DamagedSeenHeadError as error:
        project.workspace.seen.damage = None
        yield Fault(head.head, f"{error.what} (damaged-seen-head); {error.fix}")
        return
    if known is not None:
        yield Fault(head.head, _finding(dataset, head, known, _name(project, head.dataset)))


def _left_behind(project: Opened, dataset: Dataset, head: Multihash) -> "SeenHead | None":
    """Return the head that was seen last, if the chain does not go on from it; None if it does.

    Others may commit while a chain is verified: they move its head first, and what was seen then.
    Then it is the head of now that goes on from it.  Raises DamagedSeenHeadError.
    """
    known = project.workspace.seen.read(dataset.id)
    while known is not None and not _descends(dataset, head, known):
        now = dataset.head()
        if now not in (None, head) and _descends(dataset, now, known):
            return None
        before, known = known, project.workspace.seen.read(dataset.id)
        if known == before:
            return known
    return None


def _descends(dataset: Dataset, head: Multihash, known: "SeenHead") -> bool:
    return head in (known.head, known.next) or any(
        _is_before(dataset, each, head) for each in (known.head, known.next) if each is not None
    )


def _is_before(dataset: Dataset, block: Multihash, head: Multihash) -> bool:
    try:
        dataset.blocks(after=block, upto=head)
    except NotInChainError:
        return False
    return True


def _finding(dataset: Dataset, head: ChainState, known: "SeenHead", name: str) -> str:
    return (
        f"the head does not descend from the one that was seen last: block {known.sequence}, "
        f"{known.head}, seen {known.seen} in {known.workspace}; this chain ends with block "
        f"{head.sequence} of {head.system_time}{_parting(dataset, head.head, known.head)}. It was "
        "set back, is an older copy, or another was put in its place; if you know by whom and why: "
        f"odfbuild verify --accept-head {name}"
    )


def _parting(dataset: Dataset, head: Multihash, seen: Multihash) -> str:
    """Return where two chains part, if the blocks of both are here."""
    try:
        known = {hash for hash, _ in dataset.blocks(upto=seen)}
        common = [block for hash, block in dataset.blocks(upto=head) if hash in known]
    except OdfBuildError:
        return ""
    if not common:
        return ", and the two have no block in common"
    return f", and the two part after block {common[-1].sequence_number}"


def _name(project: Opened, id: DatasetId) -> str:
    names = (str(name) for name, each in project.workspace.names().items() if each == id)
    return next(names, str(id))
