"""Comparison of a chain here and one elsewhere: equal, one ahead, or diverged.

Seen from here: `Ahead` says that the other one lacks blocks, `Behind` that this one does.
"""

from typing import TypeAlias

from odfbuild.odf.identity import Multihash
from odfbuild.repositories.protocol import ChainSource, records_of
from odfbuild.repositories.walk import KnownBlocks, walk
from odfbuild.state.chain.dataset import Dataset, holds
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class Extent:
    """Some blocks of a chain, and the records in them."""

    blocks: int = 0
    records: int = 0


@dataclass(frozen=True, slots=True)
class Equal:
    """Both have the same head, or no chain."""

    head: Multihash | None


@dataclass(frozen=True, slots=True)
class Ahead:
    """This chain goes on from the other's head (None: there is no chain there)."""

    there: Multihash | None
    more: Extent


@dataclass(frozen=True, slots=True)
class Behind:
    """The other chain goes on from this one's head (None: there is no chain here)."""

    there: Multihash
    missing: Extent


@dataclass(frozen=True, slots=True, kw_only=True)
class Diverged:
    """Both go on from `base`, each otherwise (None: they have no block in common)."""

    there: Multihash
    base: Multihash | None
    here_only: Extent
    there_only: Extent


Comparison: TypeAlias = Equal | Ahead | Behind | Diverged


def compare(here: Dataset, there: ChainSource, head: Multihash | None) -> Comparison:
    """Compare a dataset with one elsewhere that has a certain head.

    Reads of the other chain only what is not here.  Raises what reading the two raises, and
    BrokenSourceError.
    """
    own = here.head()
    if own == head:
        return Equal(head)
    if head is None:
        return Ahead(None, extent(here, None))
    if own is None:
        return Behind(head, _walk(there, head, None, KnownBlocks(None, None))[1])
    if holds(here, head, own):
        return Ahead(head, extent(here, head))
    base, missing = _walk(there, head, own, KnownBlocks(here, own))
    if base == own:
        return Behind(head, missing)
    return Diverged(there=head, base=base, here_only=extent(here, base), there_only=missing)


def extent(dataset: Dataset, after: Multihash | None) -> Extent:
    """Count what a dataset has after one of its blocks."""
    blocks = records = 0
    for _, block in dataset.blocks(after):
        blocks += 1
        records += records_of(block.event)
    return Extent(blocks, records)


def _walk(
    there: ChainSource, head: Multihash, after: Multihash | None, known: KnownBlocks
) -> tuple[Multihash | None, Extent]:
    """Return the first block back from a head that is known, and count those before it is met."""
    blocks = records = 0
    for each in walk(there.blocks(head, after), head, after, there.place):
        if each.hash in known:
            return each.hash, Extent(blocks, records)
        blocks += 1
        records += records_of(each.block.event)
        if each.block.prev_block_hash in known:
            return each.block.prev_block_hash, Extent(blocks, records)
    return None, Extent(blocks, records)
