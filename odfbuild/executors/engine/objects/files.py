"""Files that a step reads or writes: their names in messages, sizes and hashes."""

from pathlib import Path
from typing import Final

from odfbuild.errors import ProtocolError
from odfbuild.odf.hashing import physical_hash
from odfbuild.odf.identity import Multihash
from odfbuild.values import dataclass

MOST_BYTES: Final = 16 << 20
"""Bytes that a document of a job may have: it names files, whose rows are not in it."""
SHARED: Final = "files"
"""The folder, or prefix, of files that several jobs read, each under its hash."""


class BadJobError(ProtocolError):
    """A document of a job, or a file that it names, is invalid."""

    code = "bad-job"


@dataclass(frozen=True, slots=True)
class JobFile:
    """A file of a job: the name that messages have for it, its size in bytes, its SHA3-256.

    One that is `shared` lies, under its hash, in the folder `SHARED` beside that of the job.
    """

    path: str
    size: int
    hash: Multihash
    shared: bool = False

    @property
    def stored(self) -> str:
        """Return the name under which a written file is stored: it is its hash."""
        return str(self.hash)


def job_file(path: Path, name: str) -> JobFile:
    """Return what a document says of a file that is here."""
    return JobFile(name, path.stat().st_size, physical_hash(path))
