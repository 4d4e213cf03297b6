"""Protocol of a transport, and the values it moves (ODF 0.34.1, "Simple Transfer Protocol").

Blocks travel as the bytes that they are stored as.  Names of files are made of hashes, never taken
from the other side.  A transport checks no hash and no rule: `intake` and `download` do, for all.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from odfbuild.odf.events import AddData, ExecuteTransform, MetadataEvent
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.state.chain.attestations import AttestationName
from odfbuild.state.chain.heads import HEAD
from odfbuild.state.remote.client import CountBytes
from odfbuild.state.remote.errors import TransferError
from odfbuild.values import dataclass

ObjectKind: TypeAlias = Literal["data", "checkpoints"]

LARGEST_HEAD = 256
LARGEST_ATTESTATION = 1 << 18


class ReadOnlyRepositoryError(TransferError):
    """A repository is read-only."""

    code = "read-only-repository"


class SeedOverwriteError(TransferError):
    """A chain would replace that of another dataset."""

    code = "seed-overwrite"

    def __init__(self, place: str, there: DatasetId | None, new: DatasetId) -> None:
        known = "another dataset" if there is None else str(there)
        super().__init__(
            what=f"{place} holds {known}, not {new}",
            why="a chain belongs to the dataset that its Seed names, and is never replaced by "
            "another, not even with --force",
            fix="give the dataset another name, or delete the other one first",
        )


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """A file that a chain speaks of, by the folder that it is in; `size` in bytes, as recorded."""

    kind: ObjectKind
    hash: Multihash
    size: int


class ChainSource(Protocol):
    """One dataset, elsewhere, to be read."""

    @property
    def place(self) -> str:
        """Return where it is, for messages; no credentials are in it."""

    def head(self, ref: str = HEAD) -> Multihash | None:
        """Return what a reference says, None if there is no such dataset or reference."""

    def blocks(self, head: Multihash, after: Multihash | None) -> Iterator[tuple[Multihash, bytes]]:
        """Yield the blocks in (after, head], newest first, each the one before the last.

        Where `after` does not come before the head, they end with the Seed.  Nothing is checked but
        that a block has at most 64 MiB; who stops early closes the iterator.
        """

    def expect(self, files: Sequence[ObjectFile]) -> None:
        """Hear which files will be read next, so that they can be asked for in one message."""

    def read(self, file: ObjectFile, start: int) -> AbstractContextManager[Iterator[bytes]]:
        """Open a file from a byte on, in pieces of bounded size; it may be longer than recorded.

        Is called from several threads.  A source that cannot start there gives all of it only if
        `start` is 0, and raises RangeRefusedError otherwise.
        """

    def attestation(self, name: AttestationName) -> bytes | None:
        """Return the envelope that signs a head, or the list of delegations, if there is one."""


class RangeRefusedError(TransferError):
    """A server cannot send a part of a file."""

    code = "range-refused"

    def __init__(self, place: str) -> None:
        super().__init__(
            what=f"{place} cannot be read in parts",
            why="the server does not support range requests",
            fix="the file is read from its beginning",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainUpdate:
    """What leads a target from one head to another.

    `expected` is the target's head, None if it has no chain; `blocks` are those that it lacks,
    oldest first, and `files` what these speak of, each once.  With `force` the target's chain is
    replaced where it is not the beginning of this one.  `attestation` signs the head, `delegations`
    is the list of the dataset's delegations; both are there before the head moves.
    """

    dataset: DatasetId
    expected: Multihash | None
    head: Multihash
    blocks: tuple[Multihash, ...]
    block: Callable[[Multihash], bytes]
    files: tuple[ObjectFile, ...]
    path: Callable[[ObjectFile], Path]
    records: int
    attestation: bytes | None
    delegations: bytes | None = None
    force: bool = False


class ChainTarget(ChainSource, Protocol):
    """One dataset, elsewhere, to be read and led on; it need not be there yet."""

    def push(self, update: ChainUpdate, moved: CountBytes) -> None:
        """Bring files, blocks and attestation, and then the head, by compare-and-swap.

        What exists already is not sent again, and `moved` hears of its bytes all the same.
        Whatever breaks off leaves the old head or the new one.  Raises HeadMovedError when the head
        is not the expected one, SeedOverwriteError, ReadOnlyRepositoryError and other
        TransferErrors.
        """


def files_of(event: MetadataEvent) -> Iterator[ObjectFile]:
    """Yield the files that an event brings."""
    if isinstance(event, AddData | ExecuteTransform):
        if (data := event.new_data) is not None:
            yield ObjectFile("data", data.physical_hash, data.size)
        if (checkpoint := event.new_checkpoint) is not None:
            yield ObjectFile("checkpoints", checkpoint.physical_hash, checkpoint.size)


def records_of(event: MetadataEvent) -> int:
    """Count the records that an event brings."""
    if isinstance(event, AddData | ExecuteTransform) and event.new_data is not None:
        interval = event.new_data.offset_interval
        return interval.end - interval.start + 1
    return 0
