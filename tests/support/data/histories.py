"""Root datasets with real slices, made from short scripts: what the tests of housekeeping share."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from hypothesis import strategies as st

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.parquet import read_slices
from odfbuild.executors.data.seal import schema_events, seal, staged_files
from odfbuild.odf.chain.partial_inputs import PARTIAL, PUSH_ID
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    MergeStrategyAppend,
    MetadataEvent,
    ReadStepNdJson,
    SetDataSchema,
    SetLicense,
    SetVocab,
    SourceState,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.files.disk import Disk
from odfbuild.state.workspace import Workspace

__all__ = ["Added", "History", "QuickDisk", "licensed", "scripts"]

START = Timestamp.parse("2024-01-01T00:00:00Z")
PUSH = AddPushSource(
    source_name="devices",
    read=ReadStepNdJson(ddl_schema=("event_time TIMESTAMP", "a BIGINT")),
    merge=MergeStrategyAppend(),
)
COLUMNS = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Added:
    """So many rows with so many columns, a state of a source, a watermark so many hours later."""

    rows: int
    columns: int = 1
    state: SourceState | None = None
    hours: int = 0


def licensed(number: int) -> SetLicense:
    return SetLicense(short_name=f"l{number}", name="licence", website_url="https://e.org/")


class QuickDisk(Disk):
    """A disk of which nothing has to outlast the test."""

    def write(self, path: Path, data: bytes, mode: int = 0o666) -> None:
        with path.open("xb") as file:
            file.write(data)

    def sync(self, path: Path) -> None:
        pass


class History:
    """A root dataset in a workspace of the test; its blocks are a minute apart."""

    def __init__(
        self,
        folder: Path,
        *script: Added | MetadataEvent,
        disk: Disk | None = None,
        workspace: Workspace | None = None,
    ) -> None:
        on_disk = partial(Workspace, folder / "workspace", disk=disk or QuickDisk())
        self.workspace = on_disk() if workspace is None else workspace
        alias = DatasetAlias.parse("src")
        found = self.workspace.open(alias)
        events = (PUSH, SetVocab())
        self.dataset: Dataset = found or self.workspace.create(
            alias, DatasetKind.ROOT, CommitRequest(events, START)
        )
        for each in script:
            self.add(each)

    @property
    def state(self) -> ChainState:
        state = self.dataset.state()
        assert state is not None
        return state

    @property
    def now(self) -> Timestamp:
        return Timestamp(START.nanos + (self.state.sequence + 1) * 60 * 10**9)

    def add(self, each: Added | MetadataEvent) -> None:
        """Append an event, or what rows bring, after the declaration of their source."""
        if isinstance(each, Added):
            if each.state is not None and each.state.source_name not in self.state.push:
                self.add(replace(PUSH, source_name=each.state.source_name))
            self._add_rows(each)
        else:
            self.dataset.commit(CommitRequest((each,), self.now), on=self.state)

    def events(self) -> list[MetadataEvent]:
        return [block.event for _, block in self.dataset.blocks()]

    def added(self) -> list[AddData]:
        return [event for event in self.events() if isinstance(event, AddData)]

    def kinds(self) -> list[str]:
        """Return the events as the vectors write them."""
        return [_kind(event) for event in self.events()]

    def rows(self) -> pa.Table:
        """Return all rows with the schema in force, system columns included."""
        schema = schema_in_force(self.state)
        assert schema is not None
        return read_slices([path for _, path in self.dataset.slices()], schema=schema)

    def _add_rows(self, each: Added) -> None:
        state = self.state
        width = max(each.columns, len(self._columns()))
        numbers = range(state.next_offset, state.next_offset + each.rows)
        table = pa.table(
            {name: pa.array([n * 10 for n in numbers], pa.int64()) for name in COLUMNS[:width]}
        )
        watermark = state.watermark
        if each.hours or (watermark is not None and each.rows):
            base = watermark or START
            watermark = Timestamp(base.nanos + each.hours * 3600 * 10**9)
        with self.workspace.staging() as staging:
            sealed = seal(
                Frame.of(table),
                vocab=state.vocab,
                system_time=self.now,
                event_time=START,
                start=state.next_offset,
                in_force=schema_in_force(state),
                into=staging / "slice",
            )
            added = AddData(
                prev_checkpoint=state.checkpoint,
                prev_offset=state.last_offset,
                new_data=sealed.slice,
                new_watermark=watermark,
                new_source_state=each.state,
            )
            moves = added.new_data or watermark != state.watermark
            last = state.last_add_data
            moves = moves or each.state != (None if last is None else last.new_source_state)
            events = [*schema_events(state, sealed)]
            events += [added] if moves and (each.rows or each.hours or each.state) else []
            if events:
                prepared = CommitRequest(tuple(events), self.now, staged_files(sealed))
                self.dataset.commit(prepared, on=state)

    def _columns(self) -> Sequence[str]:
        schema = schema_in_force(self.state)
        return [] if schema is None else [f.name for f in schema.fields if f.name in COLUMNS]


def _kind(event: MetadataEvent) -> str:
    match event:
        case AddData(new_data=data) if data is not None:
            return f"add_data({data.offset_interval.end - data.offset_interval.start + 1})"
        case SetDataSchema():
            return "set_data_schema"
        case _:
            name = type(event).__name__
            return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


_states = st.builds(
    SourceState,
    source_name=st.sampled_from(["default", "devices"]),
    kind=st.sampled_from(["odf/etag", PUSH_ID, PARTIAL]),
    value=st.sampled_from(["1", "2", "3", "4"]),
)
_added = st.builds(
    Added,
    rows=st.integers(0, 4),
    columns=st.integers(1, 4),
    state=st.none() | _states,
    hours=st.integers(0, 2),
)


def scripts() -> st.SearchStrategy[list[Added | MetadataEvent]]:
    """Rows, states, watermarks, wider schemas and licences, in any order."""
    return st.lists(_added | _added | _added | st.integers(0, 9).map(licensed), max_size=12)
