"""Build projects of many datasets without an engine: chains are committed as an apply leaves them.

An apply takes a tenth of a second a dataset, most of it to wait for disks; this takes a sixth.
"""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pyarrow as pa

from bench.chain import LooseDisk
from bench.projects import many_datasets
from odfbuild.app import make, open_project
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.seal import schema_events, seal, staged_files
from odfbuild.executors.ingest.fetch.local import ETAG, SOURCE_NAME
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    AddData,
    DatasetKind,
    DataSlice,
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataEvent,
    SetTransform,
    SourceState,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.plan import Append
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.workspace import Workspace

__all__ = ["built_datasets"]

_NOW = Timestamp.from_millis(1_930_000_000_000)
_STAMP, _OP = pa.timestamp("ms", "UTC"), pa.field("op", pa.int32(), nullable=False)
_COMMON = (_OP, ("time", _STAMP), ("id", pa.int64()), ("city", pa.string()))
_ROW = {"op": 0, "time": _NOW.nanos // 1_000_000, "id": 1, "city": "Esk"}
_ROWS = {
    DatasetKind.ROOT: pa.Table.from_pylist(
        [_ROW | {"amount": 20.0, "note": "x"}],
        pa.schema([*_COMMON, ("amount", pa.float64()), ("note", pa.string())]),
    ),
    DatasetKind.DERIVATIVE: pa.Table.from_pylist(
        [_ROW | {"doubled": 40.0}], pa.schema([*_COMMON, ("doubled", pa.float64())])
    ),
}


def built_datasets(folder: Path, count: int) -> None:
    """Write the project of `many_datasets`, and a workspace where everything is up to date."""
    many_datasets(folder, count)
    workspace = Workspace(folder / ".odfbuild", disk=LooseDisk())
    made: dict[DatasetAlias | DatasetId, ChainState] = {}
    for step in make(open_project(folder)).steps:
        if isinstance(step.work, Append) and step.work.creates is not None:
            state = _built(workspace, step.target, step.work, made)
            made |= {step.target: state, state.dataset: state}


def _built(
    workspace: Workspace,
    alias: DatasetAlias,
    work: Append,
    made: Mapping[DatasetAlias | DatasetId, ChainState],
) -> ChainState:
    """Make a dataset of one row and return its state."""
    assert work.creates is not None  # noqa: S101 - it is new
    events = tuple(_by_id(event, made) for event in work.events)
    id = DatasetId(sha256(str(alias).encode()).digest())
    state = workspace.make(alias, work.creates, CommitRequest(events, _NOW), id=id)
    rows = _ROWS[work.creates]
    with workspace.staging() as staging:
        sealed = seal(
            Frame.of(rows), vocab=state.vocab, system_time=_NOW, event_time=_NOW,
            start=0, in_force=None, into=staging / "slice.parquet",
        )  # fmt: skip
        added = _added(state, sealed.slice, made)
        request = CommitRequest((*schema_events(state, sealed), added), _NOW, staged_files(sealed))
        return workspace.dataset(id).commit(request, on=state)


def _added(
    state: ChainState, data: DataSlice | None, made: Mapping[DatasetAlias | DatasetId, ChainState]
) -> MetadataEvent:
    """Return the event that says of a row where it is from."""
    if state.transform is None:
        read = SourceState(SOURCE_NAME, ETAG, "1.csv")
        return AddData(new_data=data, new_watermark=_NOW, new_source_state=read)
    (source,) = (made[each.dataset_ref] for each in state.transform.inputs)
    part = ExecuteTransformInput(
        dataset_id=source.dataset, new_block_hash=source.head, new_offset=source.last_offset
    )
    return ExecuteTransform(query_inputs=(part,), new_data=data, new_watermark=_NOW)


def _by_id(
    event: MetadataEvent, made: Mapping[DatasetAlias | DatasetId, ChainState]
) -> MetadataEvent:
    """Put ids in the place of the names of inputs."""
    if not isinstance(event, SetTransform):
        return event
    inputs = (replace(each, dataset_ref=made[each.dataset_ref].dataset) for each in event.inputs)
    return replace(event, inputs=tuple(inputs))
