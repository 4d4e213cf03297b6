"""Errors with which a metadata chain refuses a block, and the rules it is held to.

`rejection` is the class name that the worked cases of the reference implementation use.
"""

from enum import Enum, auto
from typing import ClassVar

from odfbuild.errors import ProtocolError
from odfbuild.odf.events import MetadataEvent
from odfbuild.odf.identity import Multihash


class ChainProfile(Enum):
    """Whose rules to apply: those of what we write, or of the reference implementation.

    SPEC is the specification and, where it is silent, today's reference.
    """

    SPEC = auto()
    REFERENCE_2024 = auto()
    REFERENCE_HEAD = auto()


class RejectedBlockError(ProtocolError):
    """A block is not valid at the end of its chain."""

    code = "rejected-block"
    rejection: ClassVar[str] = "InvalidBlock"


class FirstBlockMustBeSeedError(RejectedBlockError):
    """A chain starts with something else than a Seed."""

    rejection = "FirstBlockMustBeSeed"


class AppendingSeedBlockToNonEmptyChainError(RejectedBlockError):
    """A Seed follows another block."""

    rejection = "AppendingSeedBlockToNonEmptyChain"


class PrevBlockNotFoundError(RejectedBlockError):
    """The block follows one that is not the head of this chain."""

    rejection = "PrevBlockNotFound"

    def __init__(self, missing: Multihash) -> None:
        super().__init__(
            what=f"the block follows {missing}, which is not the head of this chain",
            why="blocks are appended to the head, each naming the block before it",
            fix="read the head again and build the block on it",
        )
        self.missing = missing


class SequenceIntegrityError(RejectedBlockError):
    """A sequence number is not the previous one plus one."""

    rejection = "SequenceIntegrity"

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(
            what=f"the block has sequence number {actual} where {expected} is next",
            why="sequence numbers count from 0 at the seed without gaps"
            ' (ODF 0.34.1, "MetadataBlock")',
            fix=f"number the block {expected}",
        )
        self.expected = expected
        self.actual = actual


class SystemTimeIsNotMonotonicError(RejectedBlockError):
    """A block is older than the one before it."""

    rejection = "SystemTimeIsNotMonotonic"


class WatermarkIsNotMonotonicError(RejectedBlockError):
    """A watermark goes back, or is dropped."""

    rejection = "WatermarkIsNotMonotonic"


class OffsetsAreNotSequentialError(RejectedBlockError):
    """A slice does not start where the previous one ended."""

    rejection = "OffsetsAreNotSequential"

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(
            what=f"the slice starts at offset {actual} where {expected} is next",
            why='offsets number all records of a dataset without gaps (ODF 0.34.1, "Offset")',
            fix=f"number the records of the slice from {expected}",
        )
        self.expected = expected
        self.actual = actual


class InvalidEventError(RejectedBlockError):
    """An event contradicts itself or what is in force."""

    rejection = "InvalidEvent"


class NoOpEventError(RejectedBlockError):
    """An event changes nothing."""

    rejection = "NoOpEvent"


class HashMismatchError(RejectedBlockError):
    """The bytes of a block do not hash to what was announced."""

    rejection = "HashMismatch"

    def __init__(self, expected: Multihash, actual: Multihash) -> None:
        super().__init__(
            what=f"the block hashes to {actual}, not to {expected}",
            why="a block is named by the hash of its bytes, so these bytes are another block",
            fix="fetch the block again; if it persists, its source is corrupted",
        )
        self.expected = expected
        self.actual = actual


def invalid(event: MetadataEvent, what: str, why: str, fix: str) -> InvalidEventError:
    """Return the refusal of an event."""
    return InvalidEventError(what=f"{type(event).__name__}: {what}", why=why, fix=fix)


def no_op(event: MetadataEvent, what: str) -> NoOpEventError:
    """Return the refusal of an event that does nothing."""
    return NoOpEventError(
        what=f"{type(event).__name__}: {what}",
        why="an event that changes nothing is not written",
        fix="leave the event out",
    )
