"""Metadata chain: its state, and whether a block may be appended to it.

`fold` reads blocks, `check_append` judges them; both are pure, and commit, pull and verification
use the same two.
"""

from odfbuild.odf.chain.errors import (
    ChainProfile,
    FirstBlockMustBeSeedError,
    HashMismatchError,
    PrevBlockNotFoundError,
    SequenceIntegrityError,
    SystemTimeIsNotMonotonicError,
)
from odfbuild.odf.chain.rules import check_event
from odfbuild.odf.chain.state import ChainState, second_seed
from odfbuild.odf.events import MetadataBlock, Seed
from odfbuild.odf.identity import Multihash


def check_append(
    state: ChainState | None,
    block: MetadataBlock,
    *,
    block_hash: Multihash | None = None,
    expected_hash: Multihash | None = None,
    profile: ChainProfile = ChainProfile.SPEC,
) -> None:
    """Refuse a block that may not follow the state (None: before the first block).

    Raises the subclass of RejectedBlockError that says why.  Give `block_hash` and
    `expected_hash` together to have the announced hash compared with the actual one.
    """
    _check_seed(state, block)
    _check_sequence(state, block)
    _check_system_time(state, block)
    check_event(state, block.event, profile)
    if expected_hash is not None and block_hash is not None and block_hash != expected_hash:
        raise HashMismatchError(expected_hash, block_hash)


def _check_seed(state: ChainState | None, block: MetadataBlock) -> None:
    is_seed = isinstance(block.event, Seed)
    if is_seed and (state is not None or block.prev_block_hash is not None):
        raise second_seed()
    if not is_seed and block.prev_block_hash is None:
        raise FirstBlockMustBeSeedError(
            what=f"{type(block.event).__name__} names no previous block",
            why='only a Seed comes first in a chain (ODF 0.34.1, "Seed")',
            fix="name the head of the chain as previous block",
        )
    head = None if state is None else state.head
    if block.prev_block_hash is not None and block.prev_block_hash != head:
        raise PrevBlockNotFoundError(block.prev_block_hash)


def _check_sequence(state: ChainState | None, block: MetadataBlock) -> None:
    expected = 0 if state is None else state.sequence + 1
    if block.sequence_number != expected:
        raise SequenceIntegrityError(expected, block.sequence_number)


def _check_system_time(state: ChainState | None, block: MetadataBlock) -> None:
    if state is not None and block.system_time < state.system_time:
        raise SystemTimeIsNotMonotonicError(
            what=f"the block is of {block.system_time}, the one before it of {state.system_time}",
            why='system time never goes back within a chain (ODF 0.34.1, "System time")',
            fix="check the clock of this machine, or wait until it has caught up",
        )
