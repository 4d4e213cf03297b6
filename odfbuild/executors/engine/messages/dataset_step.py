"""Steps over the files of datasets: the work of a step as a message, and back.

A step that another process computes gets the files that it would read here, so each class of
queries is computed as it is here: from the new rows where that is enough, from a checkpoint, or
from the rows of the keys that new rows have.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path

from odfbuild.errors import EngineFailedError
from odfbuild.executors.data.fine_times import Cut
from odfbuild.executors.data.frames import Frame, ReadAmount
from odfbuild.executors.data.parquet import FileWriter
from odfbuild.executors.engine.messages.provenance import MessageEngine
from odfbuild.executors.engine.protocol import (
    TransformInputFrame,
    TransformWork,
    engine_version,
    query_over,
)
from odfbuild.odf import messages as msg
from odfbuild.odf.events import TransformSql

NameOf = Callable[[Path], str]
"""What gives the name that a message has for a file."""


def files_of(work: TransformWork) -> Collection[Path]:
    """Return the slices and the checkpoint that a step may read, each once."""
    inputs = (path for each in work.inputs for path in (*each.paths, *each.past))
    before = () if work.checkpoint is None else (work.checkpoint,)
    return dict.fromkeys((*inputs, *work.output, *before))


def step_request(work: TransformWork, name: NameOf, rows: str, checkpoint: str) -> msg.StepRequest:
    """Return the request for a step; `rows` and `checkpoint` are names for what it writes.

    The version of the query is that of the engine installed here, which has to be the same there.
    """
    transform = work.query.transform
    return msg.StepRequest(
        vocab=work.vocab,
        transform=replace(transform, version=engine_version(transform.engine)),
        query_inputs=tuple(
            msg.StepRequestInput(
                query_alias=each.alias,
                vocab=each.vocab,
                schema=each.schema,
                offset_interval=each.interval,
                data_paths=_names(each.paths, name),
                prev_data_paths=_names(each.past, name),
            )
            for each in work.inputs
        ),
        prev_data_paths=_names(work.output, name),
        schema=work.in_force,
        watermark=work.watermark,
        prev_watermark=work.watermark_before,
        in_full=work.in_full,
        unbroken=work.unbroken,
        prev_checkpoint_path=None if work.checkpoint is None else name(work.checkpoint),
        new_checkpoint_path=None if work.new_checkpoint is None else checkpoint,
        new_data_path=rows,
    )


def work_of(request: msg.StepRequest, transform: TransformSql, staging: Path) -> TransformWork:
    """Return the work that a request asks for; `transform` is that of the request, as SQL."""
    inputs = tuple(
        TransformInputFrame(
            alias=each.query_alias,
            paths=_paths(each.data_paths),
            interval=each.offset_interval,
            schema=each.schema,
            vocab=each.vocab,
            past=_paths(each.prev_data_paths),
        )
        for each in request.query_inputs
    )
    before, after = request.prev_checkpoint_path, request.new_checkpoint_path
    return TransformWork(
        inputs=inputs,
        query=query_over(transform, inputs, request.vocab),
        vocab=request.vocab,
        staging=staging,
        output=_paths(request.prev_data_paths),
        in_force=request.schema,
        watermark=request.watermark,
        watermark_before=request.prev_watermark,
        in_full=request.in_full,
        unbroken=request.unbroken,
        checkpoint=None if before is None else Path(before),
        new_checkpoint=None if after is None else Path(after),
    )


def run_dataset_step(
    engine: MessageEngine, request: msg.StepRequest, transform: TransformSql, staging: Path
) -> msg.StepResponseSuccess:
    """Run a step, and write its rows and its checkpoint.

    Raises EngineFailedError where the engine is of another version, and the engine's errors.
    """
    installed = engine_version(transform.engine)
    if transform.version != installed:
        raise EngineFailedError(
            what=f"the step is for {transform.engine} {transform.version}, and {installed} is here",
            why="another version may give other rows",
            fix="install the version of odfbuild there that is installed here",
        )
    work = work_of(request, transform, staging)
    found = engine.transform(work)
    with FileWriter(request.new_data_path, found.schema) as writer:
        for batch in found.batches():
            writer.write_batch(batch)
    read = found.read
    return msg.StepResponseSuccess(
        num_records=found.rows,
        new_checkpoint=work.new_checkpoint is not None and work.new_checkpoint.is_file(),
        read_rows=None if read is None else read.rows,
        read_bytes=None if read is None else read.bytes,
        read_of=None if read is None else read.of,
        cut_times=tuple(
            msg.StepResponseCutTime(column=each.column, value=each.value, row=each.row)
            for each in found.cut
        ),
    )


def rows_of_step(answer: msg.StepResponseSuccess, path: Path) -> Frame:
    """Return the rows that a step wrote into a file, with what its answer says of them."""
    counted = (answer.read_rows, answer.read_bytes, answer.read_of)
    rows, size, of = (each or 0 for each in counted)
    return replace(
        Frame.at(path),
        read=None if answer.read_rows is None else ReadAmount(rows=rows, bytes=size, of=of),
        cut=tuple(Cut(each.column, each.value, each.row) for each in answer.cut_times),
    )


def _names(paths: Iterable[Path], name: NameOf) -> tuple[str, ...]:
    return tuple(map(name, paths))


def _paths(names: Iterable[str]) -> tuple[Path, ...]:
    return tuple(map(Path, names))
