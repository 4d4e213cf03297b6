"""Commit requests of executors: events, and the files that they refer to."""

from pathlib import Path
from typing import Literal

from odfbuild.odf.events import MetadataEvent
from odfbuild.odf.identity import Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.checked_files import HashedMark
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A finished file in a staging folder and the hash of its bytes; committing moves it away.

    `mark` is that of the file when it was hashed, None if it has to be hashed again.
    """

    path: Path
    hash: Multihash
    kind: Literal["data", "checkpoint"]
    mark: HashedMark | None = None


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """Events to append together, oldest first, as of one system time, with their files."""

    events: tuple[MetadataEvent, ...]
    system_time: Timestamp
    files: tuple[StagedFile, ...] = ()
