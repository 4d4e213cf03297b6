"""One step of a transform from a message, as the coordinator's own would be from the chains."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.data.parquet import FileWriter, scan_slices
from odfbuild.executors.data.seal import Sealed, seal
from odfbuild.executors.engine.messages.provenance import MessageEngine
from odfbuild.executors.engine.messages.state import InputState, StepState
from odfbuild.executors.engine.protocol import (
    TransformInputFrame,
    TransformWork,
    query_input,
)
from odfbuild.odf.chain.state import RESTATE
from odfbuild.odf.events import DataSchema, OffsetInterval, TransformSql
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.messages import TransformRequest, TransformRequestInput
from odfbuild.odf.schema.arrow import from_arrow, to_arrow
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.diff.query_change import is_same_query
from odfbuild.sql.query import Query, QueryInput
from odfbuild.values import dataclass

_ROWS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class StepResult:
    """The records of a step, and what the next one needs to know."""

    sealed: Sealed
    after: StepState


def run_step(
    engine: MessageEngine, request: TransformRequest, before: StepState | None, staging: Path
) -> StepResult:
    """Run the step that a request asks for; its records go where it says.

    `before` is where the step before left off.  Raises InvalidQueryError, and what engine and
    sealing raise.
    """
    transform = request.transform
    is_new = before is None or not is_same_query(before.transform, transform) or _asks(transform)
    in_full = before is not None and is_new and _asks(transform) and bool(before.inputs)
    named = (QueryInput(each.query_alias, None, each.vocab) for each in request.query_inputs)
    query = Query.of(transform, named, request.vocab)
    looks_back = in_full or not query.facts.is_linear
    if looks_back and before is not None and not before.has_rows and before.inputs:
        raise _rows_needed()
    inputs = {
        each.dataset_id: _input(each, before, number, staging, is_new=is_new, cut=looks_back)
        for number, each in enumerate(request.query_inputs)
    }
    watermark = _watermark(before, [state for _, state in inputs.values()])
    frames = tuple(frame for frame, _ in inputs.values())
    work = TransformWork(
        inputs=frames,
        query=query.over(query_input(each.alias, each.schema, each.vocab) for each in frames),
        vocab=request.vocab,
        staging=staging,
    )
    if looks_back:
        work = replace(
            work,
            output=() if before is None else before.output,
            in_force=None if before is None else before.schema,
            watermark=watermark,
            watermark_before=None if before is None else before.watermark,
            in_full=in_full,
        )
    sealed = _seal_records(engine, request, work, before, is_new=is_new)
    after = _after(request, before, sealed, watermark, inputs, keep=looks_back)
    return StepResult(sealed, after)


def _asks(transform: TransformSql) -> bool:
    return (transform.version or "").endswith(RESTATE)


def _rows_needed() -> InvalidQueryError:
    return InvalidQueryError(
        what="the query reads records of earlier steps, but the checkpoint does not have them",
        why="it was written after a step of a query over single rows",
        fix="compute the dataset again, from its first record and without a checkpoint",
    )


def _input(
    given: TransformRequestInput,
    before: StepState | None,
    number: int,
    staging: Path,
    *,
    is_new: bool,
    cut: bool,
) -> tuple[TransformInputFrame, InputState]:
    """Return an input as the engine takes it, and what the next step has to know of it.

    `cut` asks for a file of the new records and no others.
    """
    known = None if before is None else before.inputs.get(given.dataset_id)
    schema = _seen(from_arrow(pq.read_schema(given.schema_file)), known, is_new=is_new)
    paths = tuple(map(Path, given.data_paths))
    interval = given.offset_interval if paths else None
    if cut and interval is not None:
        only = staging / f"new-{number}.parquet"
        _write(paths, schema, given.vocab.offset_column, interval, only)
        paths = (only,)
    past = () if known is None else known.files
    frame = TransformInputFrame(
        alias=given.query_alias,
        paths=() if interval is None else paths,
        interval=interval,
        schema=schema,
        vocab=given.vocab,
        past=past if cut else (),
    )
    marks = [mark.event_time for mark in given.explicit_watermarks]
    marks += [] if known is None or known.watermark is None else [known.watermark]
    first = schema if is_new or known is None else known.schema
    held = (*past, *frame.paths) if cut else ()
    return frame, InputState(max(marks, default=None), first, held)


def _seen(schema: DataSchema, known: InputState | None, *, is_new: bool) -> DataSchema:
    """Return the columns that the query may see: those that were there when it first ran."""
    if known is None or is_new:
        return schema
    names = {field.name for field in known.schema.fields}
    return DataSchema(tuple(field for field in schema.fields if field.name in names))


def _write(
    paths: Sequence[Path], schema: DataSchema, offset: str, interval: OffsetInterval, into: Path
) -> None:
    """Write the records of some slices whose offsets lie in an interval."""
    with FileWriter(into, to_arrow(schema)) as writer:
        for batch in scan_slices(paths, schema=schema):
            offsets = batch.column(offset)
            within = pc.and_(
                pc.greater_equal(offsets, pa.scalar(interval.start, offsets.type)),
                pc.less_equal(offsets, pa.scalar(interval.end, offsets.type)),
            )
            writer.write_batch(batch.filter(within), _ROWS)


def _watermark(before: StepState | None, inputs: Sequence[InputState]) -> Timestamp | None:
    """Return the least watermark of all inputs, or the one before where that is greater."""
    last = None if before is None else before.watermark
    known = [each.watermark for each in inputs if each.watermark is not None]
    if len(known) < len(inputs) or not known:
        return last
    return min(known) if last is None else max(min(known), last)


def _seal_records(
    engine: MessageEngine,
    request: TransformRequest,
    work: TransformWork,
    before: StepState | None,
    *,
    is_new: bool,
) -> Sealed:
    """Return the records, written where the request says; a file without any shows the columns."""
    frame = engine.transform(work)
    if before is not None and not is_new:
        known = {field.name for field in before.schema.fields}
        frame = frame.select([name for name in frame.schema.names if name in known])
    sealed = seal(
        frame,
        vocab=request.vocab,
        system_time=request.system_time,
        event_time=request.system_time,
        start=request.next_offset,
        in_force=None if before is None else before.schema,
        into=Path(request.new_data_path),
        retires=True,
    )
    if sealed.slice is None:
        pq.write_table(to_arrow(sealed.schema).empty_table(), request.new_data_path)
    return sealed


def _after(
    request: TransformRequest,
    before: StepState | None,
    sealed: Sealed,
    watermark: Timestamp | None,
    inputs: Mapping[DatasetId, tuple[TransformInputFrame, InputState]],
    *,
    keep: bool,
) -> StepState:
    output = () if before is None else before.output
    if sealed.path is not None:
        output = (*output, sealed.path)
    return StepState(
        transform=request.transform,
        schema=sealed.schema,
        watermark=watermark,
        inputs={dataset: state for dataset, (_, state) in inputs.items()},
        output=output if keep else (),
        has_rows=keep,
    )
