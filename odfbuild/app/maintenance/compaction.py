"""Compaction of a chain: slices merged file by file, committed in one instant.

Rows, their offsets and system times stay as they are.  What is merged is read batch by batch, so
memory does not grow with the slices, and every file is checked against its hash before it is read:
damage is found here and never written into a new slice.  Files of before stay where they are.
"""

from collections.abc import Iterator
from dataclasses import field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.errors import StateError
from odfbuild.executors.data.checks.verified_files import data_file
from odfbuild.executors.data.parquet import SliceWriter, scan_slices
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState, vocabulary
from odfbuild.odf.events import (
    DataSchema,
    DataSlice,
    MetadataEvent,
    OffsetInterval,
    SetDataSchema,
    SetVocab,
)
from odfbuild.odf.hashing import LogicalHasher
from odfbuild.odf.identity import Multihash
from odfbuild.odf.opaque import refuse_opaque
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.maintenance.compaction import ChainRewrite, Keep, Merge
from odfbuild.state.chain.commit_request import CommitRequest, StagedFile
from odfbuild.state.chain.dataset import Dataset, NoteState
from odfbuild.state.chain.stores import InconsistentSliceError
from odfbuild.values import dataclass


@dataclass(slots=True)
class _Rewriting:
    """What was made so far: `state` has the schema and the names in force at that place."""

    dataset: Dataset
    staging: Path
    state: ChainState
    events: list[MetadataEvent] = field(default_factory=list)
    files: list[StagedFile] = field(default_factory=list)

    def keep(self, event: MetadataEvent) -> None:
        refuse_opaque(event)
        if isinstance(event, SetDataSchema):
            self.state = replace(self.state, schema=event)
        elif isinstance(event, SetVocab):
            self.state = replace(self.state, vocab=vocabulary(event))
        self.events.append(event)

    def merge(self, merge: Merge) -> None:
        made, file = _merge_slices(self.dataset, merge, self.state, self.staging)
        self.files.append(file)
        self.events += merge.merged(made)


def rewrite_chain(
    dataset: Dataset,
    rewrite: ChainRewrite,
    staging: Path,
    *,
    on: ChainState,
    now: Timestamp,
    noting: NoteState | None = None,
) -> ChainState:
    """Carry out a rewrite that was worked out for a state, and return the new one.

    `staging` is a folder in the workspace; `noting` is called as by `Dataset.rewrite`.  Raises,
    with the chain untouched: HeadMovedError; DamagedDataError, LostDataError or
    InconsistentSliceError when a slice is not what its block says; UnsupportedVariantError when an
    event is of a newer version of the format, which only who knows it can write again.
    """
    base = _base(dataset, rewrite.kept, on.head)
    state = dataset.state(base)
    assert state is not None  # noqa: S101 - it is a block
    work = _Rewriting(dataset, staging, state)
    for part in rewrite.parts:
        match part:
            case Keep(event=event):
                work.keep(event)
            case Merge():
                work.merge(part)
    if not work.events:
        dataset.set_head(base, on.head)
        return state
    prepared = CommitRequest(tuple(work.events), max(now, on.system_time), tuple(work.files))
    return dataset.rewrite(prepared, base, on, noting=noting)


def _base(dataset: Dataset, kept: int, expected: Multihash) -> Multihash:
    """Return the last block that stays."""
    for number, (hash, _) in enumerate(dataset.blocks(upto=expected), 1):
        if number == kept:
            return hash
    raise StateError(
        what=f"the chain of {dataset.id} has fewer than {kept} blocks",
        why="it is not the chain for which the compaction was planned",
        fix="run the command again",
    )


def _merge_slices(
    dataset: Dataset, merge: Merge, state: ChainState, staging: Path
) -> tuple[DataSlice, StagedFile]:
    """Write the slices as one file."""
    schema = schema_in_force(state)
    if schema is None:
        raise InconsistentSliceError(
            what=f"{dataset.id} has slices before its first SetDataSchema",
            why="the schema says how their rows are read and hashed",
            fix="check it: odfbuild verify",
        )
    interval = OffsetInterval(
        merge.slices[0].offset_interval.start, merge.slices[-1].offset_interval.end
    )
    path = staging / f"{interval.start}.parquet"
    arrow = to_arrow(schema)
    hasher = LogicalHasher(arrow)
    offsets = state.vocab.offset_column
    with SliceWriter(path, arrow, plain=offsets, hashed=True) as writer:
        for batch in _rows(dataset, merge, schema, offsets):
            hasher.update(batch)
            writer.write(batch)
    physical_hash, mark = writer.hash()
    made = DataSlice(
        logical_hash=hasher.finish(),
        physical_hash=physical_hash,
        offset_interval=interval,
        size=path.stat().st_size,
    )
    return made, StagedFile(path, physical_hash, "data", mark)


def _rows(
    dataset: Dataset, merge: Merge, schema: DataSchema, offsets: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all slices, each slice checked before it is read and while it is."""
    for piece in merge.slices:
        path = data_file(dataset, piece, f"the dataset {dataset.id}")
        at = piece.offset_interval.start
        for batch in scan_slices((path,), schema=schema):
            _check_offsets(path, batch.column(offsets), at)
            at += batch.num_rows
            yield batch
        if at != piece.offset_interval.end + 1:
            raise _inconsistent(path, f"ends at offset {at - 1}")


def _check_offsets(path: Path, found: pa.Array, start: int) -> None:
    """Refuse rows that are not in the order of their offsets, or leave some out."""
    if len(found) == 0:
        return
    expected = pc.cumulative_sum(pa.repeat(pa.scalar(1, found.type), len(found)), start=start - 1)
    if not found.equals(expected):
        raise _inconsistent(path, f"does not continue from offset {start}")


def _inconsistent(path: Path, what: str) -> InconsistentSliceError:
    return InconsistentSliceError(
        what=f"{path.name} {what}",
        why="a slice has every offset of its interval once, in order",
        fix="check the dataset with odfbuild verify, and restore it from a copy",
    )
