"""Intervals of inputs: pending blocks as one step of a transform, or none.

Binding happens when the step's turn comes, against the chains as they then stand.  It may narrow
what was planned, or drop it; it never adds (ODF 0.34.1, "ExecuteTransform").  The batch of a
recorded block is bound again from the intervals that the block names, for verification.
"""

from collections.abc import Sequence

from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    AddData,
    DataSlice,
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataBlock,
    OffsetInterval,
)
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.diff.restate import restates
from odfbuild.planner.evolution.columns.inputs import input_schema
from odfbuild.planner.staleness import InputNow, next_watermark
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class PendingInput:
    """An input as it stands, and its blocks after the recorded one, oldest first."""

    now: InputNow
    blocks: tuple[tuple[Multihash, MetadataBlock], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundInput:
    """What one input brings to the step: its slices, and the offsets they hold (closed)."""

    alias: str
    dataset: DatasetId
    slices: tuple[DataSlice, ...]
    interval: OffsetInterval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformBatch:
    """One step of a transform: what it reads, what the block will record, its watermark."""

    inputs: tuple[BoundInput, ...]
    query_inputs: tuple[ExecuteTransformInput, ...]
    watermark: Timestamp | None

    @property
    def has_records(self) -> bool:
        """Say whether any input brought rows."""
        return any(each.slices for each in self.inputs)


def bind(output: ChainState, inputs: Sequence[PendingInput]) -> TransformBatch | None:
    """Return the next step of `output`, or None when its inputs brought nothing (cut-off).

    A query that restates runs all the same.  An input without rows counts as empty where its
    definition tells its columns; None while only rows can tell them.
    """
    if any(input_schema(each.now.state) is None for each in inputs):
        return None
    watermark = next_watermark(output, [each.now for each in inputs])
    bound = tuple(_bound(each) for each in inputs)
    batch = TransformBatch(
        inputs=bound,
        query_inputs=tuple(_interval_of(output, each) for each in inputs),
        watermark=watermark,
    )
    moved = watermark is not None and watermark != output.watermark
    first = output.schema is None
    return batch if batch.has_records or moved or first or restates(output) else None


def rebind(
    block: ExecuteTransform, aliases: Sequence[str], slices: Sequence[Sequence[DataSlice]]
) -> TransformBatch:
    """Return the batch that a recorded block was made from; `slices` are whole input histories."""
    bound = []
    for each, alias, history in zip(block.query_inputs, aliases, slices, strict=True):
        if each.new_offset is None:
            bound.append(BoundInput(alias=alias, dataset=each.dataset_id, slices=(), interval=None))
            continue
        start = 0 if each.prev_offset is None else each.prev_offset + 1
        interval = OffsetInterval(start, each.new_offset)
        chosen = tuple(piece for piece in history if _overlaps(piece.offset_interval, interval))
        bound.append(
            BoundInput(alias=alias, dataset=each.dataset_id, slices=chosen, interval=interval)
        )
    return TransformBatch(
        inputs=tuple(bound), query_inputs=block.query_inputs, watermark=block.new_watermark
    )


def _bound(pending: PendingInput) -> BoundInput:
    slices = tuple(
        block.event.new_data
        for _, block in pending.blocks
        if isinstance(block.event, AddData | ExecuteTransform) and block.event.new_data is not None
    )
    interval = None
    if slices:
        interval = OffsetInterval(slices[0].offset_interval.start, slices[-1].offset_interval.end)
    return BoundInput(
        alias=pending.now.alias,
        dataset=pending.now.state.dataset,
        slices=slices,
        interval=interval,
    )


def _interval_of(output: ChainState, pending: PendingInput) -> ExecuteTransformInput:
    """Record the interval (prev, new] of one input; blocks that only describe it are within."""
    before = output.progress.get(pending.now.state.dataset)
    prev_block = None if before is None else before.new_block_hash
    prev_offset = None if before is None else before.new_offset
    last = pending.blocks[-1][0] if pending.blocks else None
    present = pending.now.state.last_offset
    return ExecuteTransformInput(
        dataset_id=pending.now.state.dataset,
        prev_block_hash=prev_block,
        new_block_hash=last,
        prev_offset=prev_offset,
        new_offset=present if last is not None and present != prev_offset else None,
    )


def _overlaps(held: OffsetInterval, wanted: OffsetInterval) -> bool:
    return held.start <= wanted.end and wanted.start <= held.end
