"""Test workspace: a temporary workspace in which a fixture runs, and its datasets."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from odfbuild.errors import SourceSpan
from odfbuild.executors.data.checks.verified_files import all_files
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.parquet import read_slices
from odfbuild.executors.data.seal import Sealed, seal, staged_files
from odfbuild.executors.data.views import DatasetView
from odfbuild.executors.engine.context import Site
from odfbuild.executors.engine.protocol import Engine, engine_version
from odfbuild.executors.testing.compare import Row
from odfbuild.executors.transform.step import transform
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState, input_name
from odfbuild.odf.events import (
    AddData,
    DataSchema,
    DatasetKind,
    DatasetVocabulary,
    SetDataSchema,
    SetTransform,
    SetVocab,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.schema.arrow_bytes import arrow_bytes
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.files.disk import Disk
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass

_START: Final = Timestamp.parse("2020-01-01T00:00:00Z")
_HOUR: Final = 3_600 * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedInput:
    """An input of a dataset under test: its name in the query, and all its columns."""

    name: str
    alias: DatasetAlias
    schema: DataSchema
    vocab: DatasetVocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedDataset:
    """A dataset under test: its declared transform, its vocabulary, its inputs."""

    alias: DatasetAlias
    transform: SetTransform
    vocab: DatasetVocabulary
    inputs: tuple[TestedInput, ...]


@dataclass(frozen=True, slots=True)
class Portion:
    """The rows, with all columns, and the watermark that one input gets at a time."""

    rows: tuple[Row, ...]
    watermark: Timestamp | None
    span: SourceSpan


class _TemporaryDisk(Disk):
    """A disk that is not synchronised, as its files are temporary."""

    def write(self, path: Path, data: bytes, mode: int = 0o666) -> None:
        """Create a file; raises FileExistsError if there is one."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, mode), "wb") as file:
            file.write(data)

    def sync(self, path: Path) -> None:
        """Do nothing: the system decides when the content is written."""


@dataclass(slots=True)
class Stage:
    """The workspace of one run, and the datasets in it."""

    subject: TestedDataset
    site: Site
    output: Dataset
    inputs: Mapping[DatasetAlias, Dataset]
    time: list[Timestamp]

    @classmethod
    def make(cls, folder: Path, subject: TestedDataset, engine: Engine, root: Path) -> "Stage":
        """Make the datasets, without rows."""
        workspace = Workspace(folder, disk=_TemporaryDisk())
        time = [_START]
        site = Site(
            workspace=workspace, engine=engine, clock=lambda: time[0], project_dir=root, env={}
        )
        inputs = {}
        for number, each in enumerate({one.alias: one for one in subject.inputs}.values()):
            schema = SetDataSchema(raw_arrow_schema=arrow_bytes(each.schema))
            inputs[each.alias] = workspace.create(
                each.alias,
                DatasetKind.ROOT,
                CommitRequest((_vocab(each.vocab), schema), _START),
                id=_id(number + 1),
            )
        events = (_vocab(subject.vocab), _with_ids(subject.transform, subject, inputs))
        output = workspace.create(
            subject.alias, DatasetKind.DERIVATIVE, CommitRequest(events, _START), id=_id(0)
        )
        return cls(subject, site, output, inputs, time)

    def step(self, gains: Mapping[DatasetAlias, Portion]) -> list[Row]:
        """Add rows to inputs, run the transform, and return the records that it added."""
        self.time[0] = Timestamp(self.time[0].nanos + _HOUR)
        for alias, portion in gains.items():
            self._gain(self.inputs[alias], portion)
        before = len(self.output.data_slices())
        transform(self.site, self.output, lambda _: None)
        schema = self.schema()
        paths = all_files(self.output)[before:]
        if schema is None or not paths:
            return []
        return list(read_slices(paths, schema=schema).to_pylist())

    def schema(self) -> DataSchema | None:
        """Return the schema in force, None before the first step."""
        state = self.output.state()
        return None if state is None else schema_in_force(state)

    def columns(self) -> list[str]:
        """Return the event time and the data columns."""
        schema, vocab = self.schema(), self.subject.vocab
        hidden = {vocab.offset_column, vocab.operation_type_column, vocab.system_time_column}
        return [] if schema is None else [f.name for f in schema.fields if f.name not in hidden]

    def current_rows(self) -> list[Row]:
        """Return the current rows."""
        schema = self.schema()
        if schema is None:
            return []
        paths = all_files(self.output)
        view = DatasetView(paths=paths, schema=schema, vocab=self.subject.vocab)
        return [row for batch in view.batches() for row in batch.to_pylist()]

    def _gain(self, dataset: Dataset, portion: Portion) -> None:
        state = dataset.state()
        assert state is not None  # noqa: S101 - it was made with its schema
        schema = schema_in_force(state)
        assert schema is not None  # noqa: S101 - so it was
        with self.site.workspace.staging() as staging:
            sealed = _seal_rows(portion.rows, schema, state, self.time[0], staging)
            watermark = _watermark(portion, sealed, state)
            if not sealed.slices and watermark == state.watermark:
                return
            event = AddData(
                prev_offset=state.last_offset, new_data=sealed.slice, new_watermark=watermark
            )
            prepared = CommitRequest((event,), self.time[0], staged_files(sealed))
            dataset.commit(prepared, on=state)


def _watermark(portion: Portion, sealed: Sealed, state: ChainState) -> Timestamp | None:
    """Return the watermark after a portion: its own, else the latest event time so far."""
    if portion.watermark is not None:
        return portion.watermark
    known = [each for each in (state.watermark, sealed.watermark) if each is not None]
    return max(known, default=None)


def _seal_rows(
    rows: Sequence[Row], schema: DataSchema, state: ChainState, now: Timestamp, staging: Path
) -> Sealed:
    hidden = (state.vocab.offset_column, state.vocab.system_time_column)
    arrow = pa.schema([field for field in to_arrow(schema) if field.name not in hidden])
    table = pa.Table.from_pylist([dict(each) for each in rows], arrow)
    return seal(
        Frame.of(table),
        vocab=state.vocab,
        system_time=now,
        event_time=now,
        start=state.next_offset,
        in_force=schema,
        into=staging / "slice.parquet",
    )


def _vocab(of: DatasetVocabulary) -> SetVocab:
    return SetVocab(
        offset_column=of.offset_column,
        operation_type_column=of.operation_type_column,
        system_time_column=of.system_time_column,
        event_time_column=of.event_time_column,
    )


def _with_ids(
    event: SetTransform, subject: TestedDataset, inputs: Mapping[DatasetAlias, Dataset]
) -> SetTransform:
    """Return the transform with the ids of the inputs, for the engine that is installed."""
    aliases = {each.name: each.alias for each in subject.inputs}
    named = tuple(
        replace(each, dataset_ref=inputs[aliases[input_name(each)]].id) for each in event.inputs
    )
    version = engine_version(event.transform.engine) or event.transform.version
    return replace(event, inputs=named, transform=replace(event.transform, version=version))


def _id(number: int) -> DatasetId:
    return DatasetId(number.to_bytes(32, "big"))
