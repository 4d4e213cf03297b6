"""A dataset elsewhere as files by path (ODF 0.34.1, "Simple Transfer Protocol", "Dataset Layout").

    refs/head   blocks/<hash>   data/<hash>   checkpoints/<hash>   attestations/<hash>

A `FileReader` gives files of one dataset, a `FileWriter` also takes them; what is the same for all
that have files stands here: how a chain is walked, and in which order a push is made.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from odfbuild.odf.identity import Multihash
from odfbuild.odf.wire.blocks import decode_link
from odfbuild.repositories.download import each_of
from odfbuild.repositories.protocol import (
    LARGEST_ATTESTATION,
    LARGEST_HEAD,
    ChainUpdate,
    ObjectFile,
)
from odfbuild.repositories.signatures.delegation import is_newer_list
from odfbuild.state.chain.attestations import DELEGATIONS, AttestationName
from odfbuild.state.chain.heads import HEAD, HeadMovedError, parse_head
from odfbuild.state.chain.objects import LARGEST_BLOCK, CorruptObjectError, check_bytes, hash_file
from odfbuild.state.remote.client import CountBytes
from odfbuild.state.remote.errors import BrokenSourceError, missing_file


class FileReader(Protocol):
    """The files of one dataset, by paths such as `blocks/f1620...`."""

    @property
    def place(self) -> str:
        """Return where they are, for messages; no credentials are in it."""

    def get(self, path: str, most: int) -> bytes | None:
        """Return a file of at most so many bytes, None if there is none."""

    def open(self, path: str, start: int) -> AbstractContextManager[Iterator[bytes]]:
        """Open a file from a byte on, in pieces; see `ChainSource.read`."""


class FileWriter(FileReader, Protocol):
    """The files of one dataset, to be read and written."""

    def size(self, path: str) -> int | None:
        """Return how many bytes a file has, None if there is none."""

    def create(self, path: str, source: bytes | Path, moved: CountBytes) -> None:
        """Have a file there, to stay, that is named by its hash: one that is there is left
        alone."""

    def replace(self, path: str, data: bytes) -> None:
        """Have a small file there, to stay, in the place of one that was."""

    def swap_head(self, expected: Multihash | None, new: Multihash) -> None:
        """Set `refs/head` if it is the expected one (None: not there).  Raises HeadMovedError."""


class SimpleSource:
    """A dataset whose files can be read."""

    def __init__(self, files: FileReader) -> None:
        self._files = files

    @property
    def place(self) -> str:
        return self._files.place

    def head(self, ref: str = HEAD) -> Multihash | None:
        data = self._files.get(f"refs/{ref}", LARGEST_HEAD)
        return None if data is None else parse_head(data.strip(), f"{self.place}refs/{ref}")

    def blocks(self, head: Multihash, after: Multihash | None) -> Iterator[tuple[Multihash, bytes]]:
        at: Multihash | None = head
        while at is not None and at != after:
            data = self._files.get(f"blocks/{at}", LARGEST_BLOCK)
            if data is None:
                raise self.lacks(f"blocks/{at}")
            yield at, data
            at = decode_link(data)

    def expect(self, files: Sequence[ObjectFile]) -> None:
        pass

    def read(self, file: ObjectFile, start: int) -> AbstractContextManager[Iterator[bytes]]:
        return self._files.open(f"{file.kind}/{file.hash}", start)

    def attestation(self, name: AttestationName) -> bytes | None:
        return self._files.get(f"attestations/{name}", LARGEST_ATTESTATION)

    def close(self) -> None:
        """End connections, if there are any; it can be used again."""
        close = getattr(self._files, "close", None)
        if close is not None:
            close()

    def lacks(self, path: str) -> BrokenSourceError:
        """Return the error that a file is missing of which the chain speaks."""
        return missing_file(self.place, path)


class SimpleTarget(SimpleSource):
    """A dataset whose files can be read and written."""

    def __init__(self, files: FileWriter, *, parallel: int) -> None:
        super().__init__(files)
        self._writer = files
        self._parallel = parallel

    def push(self, update: ChainUpdate, moved: CountBytes) -> None:
        writer = self._writer
        if (actual := self.head()) != update.expected:
            raise HeadMovedError(update.expected, actual)

        def store(file: ObjectFile) -> None:
            self._store(file, update.path(file), moved)

        def add(hash: Multihash) -> None:
            data = update.block(hash)
            check_bytes(hash, data, "the workspace")
            writer.create(f"blocks/{hash}", data, _unheard)

        each_of(update.files, store, parallel=self._parallel)
        each_of(update.blocks, add, parallel=self._parallel)
        if update.attestation is not None:
            writer.replace(f"attestations/{update.head}", update.attestation)
        listed = None if update.delegations is None else self.attestation(DELEGATIONS)
        if update.delegations and is_newer_list(update.delegations, listed, update.dataset):
            writer.replace(f"attestations/{DELEGATIONS}", update.delegations)
        writer.swap_head(update.expected, update.head)

    def _store(self, file: ObjectFile, source: Path, moved: CountBytes) -> None:
        path = f"{file.kind}/{file.hash}"
        known = self._writer.size(path)
        if known == file.size:
            moved(file.size)
            return
        if known is not None:
            raise BrokenSourceError(
                what=f"{self.place}{path} has {known:,} bytes there, not {file.size:,}",
                why="a file is named by the hash of its bytes, so the one there is damaged",
                fix="delete the file there, and push again",
            )
        if (actual := hash_file(source, file.hash.code)) != file.hash:
            raise CorruptObjectError(file.hash, actual, str(source.parent))
        self._writer.create(path, source, moved)


def _unheard(size: int) -> None:
    """Blocks are no part of the bytes that are counted."""
