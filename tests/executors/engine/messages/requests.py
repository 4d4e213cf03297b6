"""What a coordinator would have sent for the steps of a chain, and how they compare to it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from odfbuild.executors.engine.messages import EngineOperations, answered_json
from odfbuild.executors.verify.history import RecordedHistories
from odfbuild.executors.verify.replay import RecordedStep, recorded_steps
from odfbuild.odf import messages as msg
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import last_block_of
from odfbuild.odf.events import (
    AddData,
    ExecuteTransform,
    ExecuteTransformInput,
    OffsetInterval,
    TransformInput,
)
from odfbuild.odf.hashing import logical_hash
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace

__all__ = ["compare", "requests"]


def requests(
    workspace: Workspace, dataset: Dataset, folder: Path
) -> Iterator[tuple[RecordedStep, Path, msg.TransformRequest]]:
    """Yield each step, a file with the request for it, and that request."""
    past = RecordedHistories(workspace)
    history = past.history(dataset.id)
    assert history is not None
    checkpoint: Path | None = None
    for number, step in enumerate(recorded_steps(history)):
        transform = step.before.transform
        assert transform is not None
        following = folder / f"checkpoint-{number}"
        request = msg.TransformRequest(
            dataset_id=dataset.id,
            dataset_alias=DatasetAlias.parse("made"),
            system_time=step.system_time,
            vocab=step.before.vocab,
            transform=transform.transform,
            query_inputs=tuple(
                _input(past, given, read, folder / f"schema-{number}-{at}.parquet")
                for at, (given, read) in enumerate(
                    zip(transform.inputs, step.event.query_inputs, strict=True)
                )
            ),
            next_offset=step.before.next_offset,
            prev_checkpoint_path=None if checkpoint is None else str(checkpoint),
            new_checkpoint_path=str(following),
            new_data_path=str(folder / f"data-{number}.parquet"),
        )
        file = folder / f"request-{number}.json"
        file.write_text(json.dumps(to_mapping(request)), "utf-8")
        yield step, file, request
        checkpoint = following


def compare(operations: EngineOperations, workspace: Workspace, dataset: Dataset) -> list[int]:
    """Send the requests for a chain, and see that answers and rows are as recorded.

    Returns how many rows each step has.
    """
    rows = []
    with workspace.staging() as folder:
        for step, file, request in requests(workspace, dataset, folder):
            answer = answered_json(
                operations, "ExecuteTransform", json.loads(file.read_text("utf-8"))
            )
            recorded = step.event.new_data
            interval = None if recorded is None else recorded.offset_interval
            assert answer == to_mapping(
                msg.TransformResponseRoot(
                    msg.TransformResponseSuccess(interval, step.event.new_watermark)
                )
            )
            made = pq.read_table(request.new_data_path)
            rows.append(made.num_rows)
            if recorded is not None:
                assert logical_hash(made) == recorded.logical_hash
    return rows


def _input(
    past: RecordedHistories, given: TransformInput, read: ExecuteTransformInput, shown: Path
) -> msg.TransformRequestInput:
    assert isinstance(given.dataset_ref, DatasetId)
    last = last_block_of(read)
    history = past.history(given.dataset_ref, last)
    assert history is not None
    assert last is not None
    state = history.state(last)
    schema = schema_in_force(state)
    assert schema is not None
    pq.write_table(to_arrow(schema).empty_table(), shown)
    names = [hash for hash, _ in history.blocks]
    first = 0 if read.prev_block_hash is None else names.index(read.prev_block_hash) + 1
    data = [
        (block.system_time, block.event)
        for _, block in history.blocks[first : names.index(last) + 1]
        if isinstance(block.event, AddData | ExecuteTransform)
    ]
    slices = [event.new_data for _, event in data if event.new_data is not None]
    interval = None
    if slices:
        interval = OffsetInterval(slices[0].offset_interval.start, slices[-1].offset_interval.end)
    return msg.TransformRequestInput(
        dataset_id=given.dataset_ref,
        dataset_alias=DatasetAlias.parse("given"),
        query_alias=given.alias or str(given.dataset_ref),
        vocab=state.vocab,
        offset_interval=interval,
        data_paths=tuple(str(history.dataset.data_path(each.physical_hash)) for each in slices),
        schema_file=str(shown),
        explicit_watermarks=tuple(
            msg.Watermark(time, event.new_watermark)
            for time, event in data
            if event.new_watermark is not None
        ),
    )
