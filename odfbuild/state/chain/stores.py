"""Stores of the parts of a dataset, and its events compared with the stored files."""

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TypeAlias

from odfbuild.errors import StateError
from odfbuild.odf.events import AddData, Checkpoint, DataSlice, ExecuteTransform, MetadataEvent
from odfbuild.odf.identity import Multihash
from odfbuild.state.chain.attestations import Attestations, MemoryAttestations
from odfbuild.state.chain.checked_files import CheckedFiles
from odfbuild.state.chain.commit_request import CommitRequest, StagedFile
from odfbuild.state.chain.heads import HeadStore
from odfbuild.state.chain.objects import (
    CorruptObjectError,
    MissingObjectError,
    ObjectStore,
    hash_files,
)
from odfbuild.values import dataclass


class InconsistentSliceError(StateError):
    """A staged file differs from its event."""

    code = "inconsistent-slice"


@dataclass(frozen=True, slots=True)
class Stores:
    """Where the parts of one dataset are, and which of its files were checked.

    `attestations` are those of its heads, kept beside them.
    """

    heads: HeadStore
    blocks: ObjectStore
    data: ObjectStore
    checkpoints: ObjectStore
    checked: CheckedFiles = field(default_factory=CheckedFiles)
    attestations: Attestations = field(default_factory=MemoryAttestations)


Sizes: TypeAlias = Mapping[Multihash, int]
"""How many bytes objects have."""


def sizes_of(stores: Stores) -> Sizes | None:
    """Return how many bytes all files have of a dataset that is elsewhere; None of one here."""
    if stores.data.is_at_hand:
        return None
    return {e.hash: e.size for s in (stores.data, stores.checkpoints) for e in s.entries()}


def check_files(prepared: CommitRequest, stores: Stores) -> None:
    """Refuse events of which the staged files are not what they say.

    Files are hashed, but for those that are as they were when this process hashed them.
    """
    staged: dict[tuple[str, Multihash], StagedFile] = {
        (each.kind, each.hash): each for each in prepared.files
    }
    unknown = [e for e in prepared.files if e.mark is None or not e.mark.still_holds(e.path)]
    places = [(each.hash, _place(each, stores)) for each in unknown]
    for (hash, path), actual in zip(places, hash_files(places), strict=True):
        if actual != hash:
            raise CorruptObjectError(hash, actual, str(path))
    for event in prepared.events:
        check_present(event, stores, staged)


def _place(staged: StagedFile, stores: Stores) -> Path:
    """Return where a staged file is: an earlier attempt may have put it into its place already."""
    if staged.path.is_file():
        return staged.path
    store = stores.data if staged.kind == "data" else stores.checkpoints
    if not store.has(staged.hash):
        raise MissingObjectError(staged.hash, str(staged.path))
    return store.path(staged.hash)


def check_present(
    event: MetadataEvent,
    stores: Stores,
    staged: Mapping[tuple[str, Multihash], StagedFile],
    sizes: Sizes | None = None,
) -> None:
    """Refuse an event that speaks of files which are neither staged nor kept, or are otherwise.

    `sizes` are those of all that is kept, if they are known.
    """
    if not isinstance(event, AddData | ExecuteTransform):
        return
    if event.new_data is not None:
        found = staged.get(("data", event.new_data.physical_hash))
        _check_file(event.new_data, found, stores.data, sizes)
    if event.new_checkpoint is not None:
        found = staged.get(("checkpoint", event.new_checkpoint.physical_hash))
        _check_file(event.new_checkpoint, found, stores.checkpoints, sizes)


def _check_file(
    promised: DataSlice | Checkpoint,
    staged: StagedFile | None,
    store: ObjectStore,
    sizes: Sizes | None,
) -> None:
    """Compare a file with what an event says of it; the rows only of one that is at hand."""
    hash = promised.physical_hash
    path: Path | None = None
    if staged is not None and staged.path.is_file():
        path = staged.path
        size: int | None = path.stat().st_size
    else:
        size = store.size(hash) if sizes is None else sizes.get(hash)
        path = store.path(hash) if store.is_at_hand else None
    if size is None:
        raise MissingObjectError(hash, "the staged files and the dataset")
    if promised.size != size:
        raise InconsistentSliceError(
            what=f"{hash if path is None else path.name} has {size} bytes, the event says "
            f"{promised.size}",
            why="the size of a file is part of its description",
            fix="write the file again",
        )
    if path is not None and isinstance(promised, DataSlice):
        _check_rows(promised, path)


def _check_rows(slice: DataSlice, path: Path) -> None:
    interval = slice.offset_interval
    promised, actual = interval.end - interval.start + 1, _rows(path)
    if promised != actual:
        raise InconsistentSliceError(
            what=f"{path.name} has {actual} records, its offsets count {promised}",
            why="every record has one offset of the slice's interval",
            fix="write the slice again",
        )


def _rows(path: Path) -> int:
    """Count the rows of a file: those of its first column, and not what its footer says."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            first = [file.schema.column(0).path] if len(file.schema) else None
            return sum(batch.num_rows for batch in file.iter_batches(columns=first))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InconsistentSliceError(
            what=f"{path.name} is not a Parquet file",
            why='data slices are Parquet files (ODF 0.34.1, "Data Slice")',
            fix="write the slice again",
        ) from error
