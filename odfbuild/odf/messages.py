"""Messages between coordinator and engine, as values.

Made by schemas/generate.py from schemas/odf.yaml: change that, not this.  It is one module
because one schema makes it, whose types refer to each other.

Fields are in the order of the wire; None means absent, which () and 0 do not.
"""

# ruff: noqa: RUF022, RUF023

from __future__ import annotations

from typing import TypeAlias

from odfbuild.odf.events import (
    DataSchema,
    DatasetVocabulary,
    MergeStrategy,
    OffsetInterval,
    ReadStep,
    Transform,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.record import Record
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp

__all__ = [
    "RawQueryRequest",
    "RawQueryResponseRoot",
    "RawQueryResponseProgress",
    "RawQueryResponseSuccess",
    "RawQueryResponseInvalidQuery",
    "RawQueryResponseInternalError",
    "TransformRequest",
    "TransformRequestInput",
    "Watermark",
    "TransformResponseRoot",
    "TransformResponseProgress",
    "TransformResponseSuccess",
    "TransformResponseInvalidQuery",
    "TransformResponseInternalError",
    "ValidateQueryRequest",
    "ValidateQueryRequestInput",
    "ValidateQueryResponseRoot",
    "ValidateQueryResponseSuccess",
    "ValidateQueryResponseInvalidQuery",
    "ValidateQueryResponseInternalError",
    "MigrateQueryRequest",
    "MigrateQueryResponseRoot",
    "MigrateQueryResponseSuccess",
    "MigrateQueryResponseRefused",
    "MigrateQueryResponseInternalError",
    "DeriveProvenanceRequest",
    "DeriveProvenanceRequestRecord",
    "DeriveProvenanceRequestInput",
    "DeriveProvenanceResponseRoot",
    "DeriveProvenanceResponseSuccess",
    "DeriveProvenanceResponseInput",
    "DeriveProvenanceResponseInvalidQuery",
    "DeriveProvenanceResponseInternalError",
    "StepRequest",
    "StepRequestInput",
    "StepResponseRoot",
    "StepResponseSuccess",
    "StepResponseCutTime",
    "StepResponseInvalidQuery",
    "StepResponseInternalError",
    "IngestStepRequest",
    "IngestStepResponseRoot",
    "IngestStepResponseSuccess",
    "IngestStepResponseRenamed",
    "IngestStepResponseRefused",
    "IngestStepResponseInternalError",
    "RawQueryResponse",
    "TransformResponse",
    "ValidateQueryResponse",
    "MigrateQueryResponse",
    "DeriveProvenanceResponse",
    "StepResponse",
    "IngestStepResponse",
]


class RawQueryRequest(Record):
    """Ask an engine to run a query over data files that belong to no dataset (ODF 0.34.1)."""

    __slots__ = ("input_data_paths", "transform", "output_data_path")

    input_data_paths: tuple[str, ...]
    transform: Transform
    output_data_path: str

    def __init__(
        self, input_data_paths: tuple[str, ...], transform: Transform, output_data_path: str
    ) -> None:
        put = object.__setattr__
        put(self, "input_data_paths", input_data_paths)
        put(self, "transform", transform)
        put(self, "output_data_path", output_data_path)


class RawQueryResponseRoot(Record):
    """The answer to a raw query, as sent (ODF 0.34.1)."""

    __slots__ = ("value",)

    value: RawQueryResponse

    def __init__(self, value: RawQueryResponse) -> None:
        put = object.__setattr__
        put(self, "value", value)


class RawQueryResponseProgress(Record):
    """The raw query still runs (ODF 0.34.1)."""

    __slots__ = ()


class RawQueryResponseSuccess(Record):
    """The raw query is done (ODF 0.34.1)."""

    __slots__ = ("num_records",)

    num_records: int

    def __init__(self, num_records: int) -> None:
        put = object.__setattr__
        put(self, "num_records", num_records)


class RawQueryResponseInvalidQuery(Record):
    """The raw query is wrong (ODF 0.34.1)."""

    __slots__ = ("message",)

    message: str

    def __init__(self, message: str) -> None:
        put = object.__setattr__
        put(self, "message", message)


class RawQueryResponseInternalError(Record):
    """The engine failed on a raw query (ODF 0.34.1)."""

    __slots__ = ("message", "backtrace")

    message: str
    backtrace: str | None

    def __init__(self, message: str, backtrace: str | None = None) -> None:
        put = object.__setattr__
        put(self, "message", message)
        put(self, "backtrace", backtrace)


class TransformRequest(Record):
    """Ask an engine to run one step of a transform (ODF 0.34.1)."""

    __slots__ = (
        "dataset_id",
        "dataset_alias",
        "system_time",
        "vocab",
        "transform",
        "query_inputs",
        "next_offset",
        "prev_checkpoint_path",
        "new_checkpoint_path",
        "new_data_path",
    )

    dataset_id: DatasetId
    dataset_alias: DatasetAlias
    system_time: Timestamp
    vocab: DatasetVocabulary
    transform: Transform
    query_inputs: tuple[TransformRequestInput, ...]
    next_offset: int
    prev_checkpoint_path: str | None
    new_checkpoint_path: str
    new_data_path: str

    def __init__(
        self,
        *,
        dataset_id: DatasetId,
        dataset_alias: DatasetAlias,
        system_time: Timestamp,
        vocab: DatasetVocabulary,
        transform: Transform,
        query_inputs: tuple[TransformRequestInput, ...],
        next_offset: int,
        prev_checkpoint_path: str | None = None,
        new_checkpoint_path: str,
        new_data_path: str,
    ) -> None:
        put = object.__setattr__
        put(self, "dataset_id", dataset_id)
        put(self, "dataset_alias", dataset_alias)
        put(self, "system_time", system_time)
        put(self, "vocab", vocab)
        put(self, "transform", transform)
        put(self, "query_inputs", query_inputs)
        put(self, "next_offset", next_offset)
        put(self, "prev_checkpoint_path", prev_checkpoint_path)
        put(self, "new_checkpoint_path", new_checkpoint_path)
        put(self, "new_data_path", new_data_path)


class TransformRequestInput(Record):
    """One input of a transform step: what to read and where it lies (ODF 0.34.1)."""

    __slots__ = (
        "dataset_id",
        "dataset_alias",
        "query_alias",
        "vocab",
        "offset_interval",
        "data_paths",
        "schema_file",
        "explicit_watermarks",
    )

    dataset_id: DatasetId
    dataset_alias: DatasetAlias
    query_alias: str
    vocab: DatasetVocabulary
    offset_interval: OffsetInterval | None
    data_paths: tuple[str, ...]
    schema_file: str
    explicit_watermarks: tuple[Watermark, ...]

    def __init__(
        self,
        *,
        dataset_id: DatasetId,
        dataset_alias: DatasetAlias,
        query_alias: str,
        vocab: DatasetVocabulary,
        offset_interval: OffsetInterval | None = None,
        data_paths: tuple[str, ...],
        schema_file: str,
        explicit_watermarks: tuple[Watermark, ...],
    ) -> None:
        put = object.__setattr__
        put(self, "dataset_id", dataset_id)
        put(self, "dataset_alias", dataset_alias)
        put(self, "query_alias", query_alias)
        put(self, "vocab", vocab)
        put(self, "offset_interval", offset_interval)
        put(self, "data_paths", data_paths)
        put(self, "schema_file", schema_file)
        put(self, "explicit_watermarks", explicit_watermarks)


class Watermark(Record):
    """By system_time no record before event_time was expected any more (ODF 0.34.1)."""

    __slots__ = ("system_time", "event_time")

    system_time: Timestamp
    event_time: Timestamp

    def __init__(self, system_time: Timestamp, event_time: Timestamp) -> None:
        put = object.__setattr__
        put(self, "system_time", system_time)
        put(self, "event_time", event_time)


class TransformResponseRoot(Record):
    """The answer to a transform request, as sent (ODF 0.34.1)."""

    __slots__ = ("value",)

    value: TransformResponse

    def __init__(self, value: TransformResponse) -> None:
        put = object.__setattr__
        put(self, "value", value)


class TransformResponseProgress(Record):
    """The transform still runs (ODF 0.34.1)."""

    __slots__ = ()


class TransformResponseSuccess(Record):
    """The transform is done (ODF 0.34.1)."""

    __slots__ = ("new_offset_interval", "new_watermark")

    new_offset_interval: OffsetInterval | None
    new_watermark: Timestamp | None

    def __init__(
        self,
        new_offset_interval: OffsetInterval | None = None,
        new_watermark: Timestamp | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "new_offset_interval", new_offset_interval)
        put(self, "new_watermark", new_watermark)


class TransformResponseInvalidQuery(Record):
    """The query of the transform is wrong (ODF 0.34.1)."""

    __slots__ = ("message",)

    message: str

    def __init__(self, message: str) -> None:
        put = object.__setattr__
        put(self, "message", message)


class TransformResponseInternalError(Record):
    """The engine failed on a transform (ODF 0.34.1)."""

    __slots__ = ("message", "backtrace")

    message: str
    backtrace: str | None

    def __init__(self, message: str, backtrace: str | None = None) -> None:
        put = object.__setattr__
        put(self, "message", message)
        put(self, "backtrace", backtrace)


class ValidateQueryRequest(Record):
    """Ask an engine whether a query can be computed, and which columns it gives (odfbuild)."""

    __slots__ = ("vocab", "transform", "query_inputs")

    vocab: DatasetVocabulary
    transform: Transform
    query_inputs: tuple[ValidateQueryRequestInput, ...]

    def __init__(
        self,
        vocab: DatasetVocabulary,
        transform: Transform,
        query_inputs: tuple[ValidateQueryRequestInput, ...],
    ) -> None:
        put = object.__setattr__
        put(self, "vocab", vocab)
        put(self, "transform", transform)
        put(self, "query_inputs", query_inputs)


class ValidateQueryRequestInput(Record):
    """One input of a query to validate: its columns, those of the system included (odfbuild)."""

    __slots__ = ("query_alias", "vocab", "schema")

    query_alias: str
    vocab: DatasetVocabulary
    schema: DataSchema

    def __init__(self, query_alias: str, vocab: DatasetVocabulary, schema: DataSchema) -> None:
        put = object.__setattr__
        put(self, "query_alias", query_alias)
        put(self, "vocab", vocab)
        put(self, "schema", schema)


class ValidateQueryResponseRoot(Record):
    """The answer to a query to validate, as sent (odfbuild)."""

    __slots__ = ("value",)

    value: ValidateQueryResponse

    def __init__(self, value: ValidateQueryResponse) -> None:
        put = object.__setattr__
        put(self, "value", value)


class ValidateQueryResponseSuccess(Record):
    """The query can be computed; `schema` has the columns that it gives (odfbuild)."""

    __slots__ = ("schema",)

    schema: DataSchema

    def __init__(self, schema: DataSchema) -> None:
        put = object.__setattr__
        put(self, "schema", schema)


class ValidateQueryResponseInvalidQuery(Record):
    """The query to validate is wrong (odfbuild)."""

    __slots__ = ("message",)

    message: str

    def __init__(self, message: str) -> None:
        put = object.__setattr__
        put(self, "message", message)


class ValidateQueryResponseInternalError(Record):
    """The engine failed on a query to validate (odfbuild)."""

    __slots__ = ("message", "backtrace")

    message: str
    backtrace: str | None

    def __init__(self, message: str, backtrace: str | None = None) -> None:
        put = object.__setattr__
        put(self, "message", message)
        put(self, "backtrace", backtrace)


class MigrateQueryRequest(Record):
    """Ask an engine to go over from one query, or version, to another (odfbuild)."""

    __slots__ = ("prev_transform", "next_transform", "prev_checkpoint_path", "new_checkpoint_path")

    prev_transform: Transform
    next_transform: Transform
    prev_checkpoint_path: str | None
    new_checkpoint_path: str

    def __init__(
        self,
        *,
        prev_transform: Transform,
        next_transform: Transform,
        prev_checkpoint_path: str | None = None,
        new_checkpoint_path: str,
    ) -> None:
        put = object.__setattr__
        put(self, "prev_transform", prev_transform)
        put(self, "next_transform", next_transform)
        put(self, "prev_checkpoint_path", prev_checkpoint_path)
        put(self, "new_checkpoint_path", new_checkpoint_path)


class MigrateQueryResponseRoot(Record):
    """The answer to a request to migrate, as sent (odfbuild)."""

    __slots__ = ("value",)

    value: MigrateQueryResponse

    def __init__(self, value: MigrateQueryResponse) -> None:
        put = object.__setattr__
        put(self, "value", value)


class MigrateQueryResponseSuccess(Record):
    """The engine goes on; with a new checkpoint if it could take anything over from the old one
    (odfbuild)."""

    __slots__ = ("new_checkpoint",)

    new_checkpoint: bool

    def __init__(self, new_checkpoint: bool) -> None:
        put = object.__setattr__
        put(self, "new_checkpoint", new_checkpoint)


class MigrateQueryResponseRefused(Record):
    """The engine cannot go on from what the query before left (odfbuild)."""

    __slots__ = ("message",)

    message: str

    def __init__(self, message: str) -> None:
        put = object.__setattr__
        put(self, "message", message)


class MigrateQueryResponseInternalError(Record):
    """The engine failed on a request to migrate (odfbuild)."""

    __slots__ = ("message", "backtrace")

    message: str
    backtrace: str | None

    def __init__(self, message: str, backtrace: str | None = None) -> None:
        put = object.__setattr__
        put(self, "message", message)
        put(self, "backtrace", backtrace)


class DeriveProvenanceRequest(Record):
    """Ask an engine which records of its inputs the records of one step may come from; or, of
    one record, which it does come from (odfbuild)."""

    __slots__ = ("vocab", "transform", "query_inputs", "record")

    vocab: DatasetVocabulary
    transform: Transform
    query_inputs: tuple[DeriveProvenanceRequestInput, ...]
    record: DeriveProvenanceRequestRecord | None

    def __init__(
        self,
        *,
        vocab: DatasetVocabulary,
        transform: Transform,
        query_inputs: tuple[DeriveProvenanceRequestInput, ...],
        record: DeriveProvenanceRequestRecord | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "vocab", vocab)
        put(self, "transform", transform)
        put(self, "query_inputs", query_inputs)
        put(self, "record", record)


class DeriveProvenanceRequestRecord(Record):
    """One record of the step: the file with all of them, its offset, and the watermarks that the
    step ended and began with (odfbuild)."""

    __slots__ = ("data_path", "offset", "watermark", "prev_watermark")

    data_path: str
    offset: int
    watermark: Timestamp | None
    prev_watermark: Timestamp | None

    def __init__(
        self,
        *,
        data_path: str,
        offset: int,
        watermark: Timestamp | None = None,
        prev_watermark: Timestamp | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "data_path", data_path)
        put(self, "offset", offset)
        put(self, "watermark", watermark)
        put(self, "prev_watermark", prev_watermark)


class DeriveProvenanceRequestInput(Record):
    """One input of the step: the offsets that were new to it, and the last that was not; where
    they lie, if one record is asked about (odfbuild)."""

    __slots__ = (
        "query_alias",
        "vocab",
        "prev_offset",
        "offset_interval",
        "data_paths",
        "prev_data_paths",
        "schema_file",
    )

    query_alias: str
    vocab: DatasetVocabulary
    prev_offset: int | None
    offset_interval: OffsetInterval | None
    data_paths: tuple[str, ...] | None
    prev_data_paths: tuple[str, ...] | None
    schema_file: str | None

    def __init__(
        self,
        *,
        query_alias: str,
        vocab: DatasetVocabulary,
        prev_offset: int | None = None,
        offset_interval: OffsetInterval | None = None,
        data_paths: tuple[str, ...] | None = None,
        prev_data_paths: tuple[str, ...] | None = None,
        schema_file: str | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "query_alias", query_alias)
        put(self, "vocab", vocab)
        put(self, "prev_offset", prev_offset)
        put(self, "offset_interval", offset_interval)
        put(self, "data_paths", data_paths)
        put(self, "prev_data_paths", prev_data_paths)
        put(self, "schema_file", schema_file)


class DeriveProvenanceResponseRoot(Record):
    """The answer to a question for provenance, as sent (odfbuild)."""

    __slots__ = ("value",)

    value: DeriveProvenanceResponse

    def __init__(self, value: DeriveProvenanceResponse) -> None:
        put = object.__setattr__
        put(self, "value", value)


class DeriveProvenanceResponseSuccess(Record):
    """What each input may have given to the step; `reason` says why no more can be told of the
    record that was asked about (odfbuild)."""

    __slots__ = ("inputs", "reason")

    inputs: tuple[DeriveProvenanceResponseInput, ...]
    reason: str | None

    def __init__(
        self, inputs: tuple[DeriveProvenanceResponseInput, ...], reason: str | None = None
    ) -> None:
        put = object.__setattr__
        put(self, "inputs", inputs)
        put(self, "reason", reason)


class DeriveProvenanceResponseInput(Record):
    """The records of one input that the step looked at, none of an input that the query does not
    name; those that the record was made of, and those that made it come or go (odfbuild)."""

    __slots__ = ("query_alias", "offset_interval", "made_of", "caused_by")

    query_alias: str
    offset_interval: OffsetInterval | None
    made_of: tuple[OffsetInterval, ...] | None
    caused_by: tuple[OffsetInterval, ...] | None

    def __init__(
        self,
        *,
        query_alias: str,
        offset_interval: OffsetInterval | None = None,
        made_of: tuple[OffsetInterval, ...] | None = None,
        caused_by: tuple[OffsetInterval, ...] | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "query_alias", query_alias)
        put(self, "offset_interval", offset_interval)
        put(self, "made_of", made_of)
        put(self, "caused_by", caused_by)


class DeriveProvenanceResponseInvalidQuery(Record):
    """The query of the step is wrong (odfbuild)."""

    __slots__ = ("message",)

    message: str

    def __init__(self, message: str) -> None:
        put = object.__setattr__
        put(self, "message", message)


class DeriveProvenanceResponseInternalError(Record):
    """The engine failed on a question for provenance (odfbuild)."""

    __slots__ = ("message", "backtrace")

    message: str
    backtrace: str | None

    def __init__(self, message: str, backtrace: str | None = None) -> None:
        put = object.__setattr__
        put(self, "message", message)
        put(self, "backtrace", backtrace)


class StepRequest(Record):
    """Ask an engine to run one step of a dataset over the files of the dataset and its inputs,
    and of those what the step needs. `schema` is that of the dataset, the watermarks are
    those at the end of the step and before it; `inFull` asks to correct all that is there;
    `unbroken` says that all of it came of this query (odfbuild)."""

    __slots__ = (
        "vocab",
        "transform",
        "query_inputs",
        "prev_data_paths",
        "schema",
        "watermark",
        "prev_watermark",
        "in_full",
        "unbroken",
        "prev_checkpoint_path",
        "new_checkpoint_path",
        "new_data_path",
    )

    vocab: DatasetVocabulary
    transform: Transform
    query_inputs: tuple[StepRequestInput, ...]
    prev_data_paths: tuple[str, ...]
    schema: DataSchema | None
    watermark: Timestamp | None
    prev_watermark: Timestamp | None
    in_full: bool
    unbroken: bool
    prev_checkpoint_path: str | None
    new_checkpoint_path: str | None
    new_data_path: str

    def __init__(
        self,
        *,
        vocab: DatasetVocabulary,
        transform: Transform,
        query_inputs: tuple[StepRequestInput, ...],
        prev_data_paths: tuple[str, ...],
        schema: DataSchema | None = None,
        watermark: Timestamp | None = None,
        prev_watermark: Timestamp | None = None,
        in_full: bool,
        unbroken: bool,
        prev_checkpoint_path: str | None = None,
        new_checkpoint_path: str | None = None,
        new_data_path: str,
    ) -> None:
        put = object.__setattr__
        put(self, "vocab", vocab)
        put(self, "transform", transform)
        put(self, "query_inputs", query_inputs)
        put(self, "prev_data_paths", prev_data_paths)
        put(self, "schema", schema)
        put(self, "watermark", watermark)
        put(self, "prev_watermark", prev_watermark)
        put(self, "in_full", in_full)
        put(self, "unbroken", unbroken)
        put(self, "prev_checkpoint_path", prev_checkpoint_path)
        put(self, "new_checkpoint_path", new_checkpoint_path)
        put(self, "new_data_path", new_data_path)


class StepRequestInput(Record):
    """One input of the step: the files with its new records and those before, its columns, those
    of the system included (odfbuild)."""

    __slots__ = (
        "query_alias",
        "vocab",
        "schema",
        "offset_interval",
        "data_paths",
        "prev_data_paths",
    )

    query_alias: str
    vocab: DatasetVocabulary
    schema: DataSchema
    offset_interval: OffsetInterval | None
    data_paths: tuple[str, ...]
    prev_data_paths: tuple[str, ...]

    def __init__(
        self,
        *,
        query_alias: str,
        vocab: DatasetVocabulary,
        schema: DataSchema,
        offset_interval: OffsetInterval | None = None,
        data_paths: tuple[str, ...],
        prev_data_paths: tuple[str, ...],
    ) -> None:
        put = object.__setattr__
        put(self, "query_alias", query_alias)
        put(self, "vocab", vocab)
        put(self, "schema", schema)
        put(self, "offset_interval", offset_interval)
        put(self, "data_paths", data_paths)
        put(self, "prev_data_paths", prev_data_paths)


class StepResponseRoot(Record):
    """The answer to a request for a step, as sent (odfbuild)."""

    __slots__ = ("value",)

    value: StepResponse

    def __init__(self, value: StepResponse) -> None:
        put = object.__setattr__
        put(self, "value", value)


class StepResponseSuccess(Record):
    """The step is done: how many records it wrote, without offsets; how many rows and bytes of
    files it read, and of how many bytes; the first time of each column that was cut to
    milliseconds (odfbuild)."""

    __slots__ = ("num_records", "new_checkpoint", "read_rows", "read_bytes", "read_of", "cut_times")

    num_records: int
    new_checkpoint: bool
    read_rows: int | None
    read_bytes: int | None
    read_of: int | None
    cut_times: tuple[StepResponseCutTime, ...]

    def __init__(
        self,
        *,
        num_records: int,
        new_checkpoint: bool,
        read_rows: int | None = None,
        read_bytes: int | None = None,
        read_of: int | None = None,
        cut_times: tuple[StepResponseCutTime, ...],
    ) -> None:
        put = object.__setattr__
        put(self, "num_records", num_records)
        put(self, "new_checkpoint", new_checkpoint)
        put(self, "read_rows", read_rows)
        put(self, "read_bytes", read_bytes)
        put(self, "read_of", read_of)
        put(self, "cut_times", cut_times)


class StepResponseCutTime(Record):
    """A time that was cut to milliseconds: its column, how it was written, and its row, from 1,
    if that is known (odfbuild)."""

    __slots__ = ("column", "value", "row")

    column: str
    value: str
    row: int | None

    def __init__(self, column: str, value: str, row: int | None = None) -> None:
        put = object.__setattr__
        put(self, "column", column)
        put(self, "value", value)
        put(self, "row", row)


class StepResponseInvalidQuery(Record):
    """The query of the step is wrong (odfbuild)."""

    __slots__ = ("message",)

    message: str

    def __init__(self, message: str) -> None:
        put = object.__setattr__
        put(self, "message", message)


class StepResponseInternalError(Record):
    """The engine failed on the step (odfbuild)."""

    __slots__ = ("message", "backtrace")

    message: str
    backtrace: str | None

    def __init__(self, message: str, backtrace: str | None = None) -> None:
        put = object.__setattr__
        put(self, "message", message)
        put(self, "backtrace", backtrace)


class IngestStepRequest(Record):
    """Ask an engine to read one file of a source, and to merge its rows with those of the
    dataset, of which the files are given that the merge needs. `name` is that of the file in
    messages, `schema` that of the dataset; `columns`, `divertsBadRows` and the two limits are
    those of the project (odfbuild)."""

    __slots__ = (
        "name",
        "vocab",
        "read",
        "preprocess",
        "merge",
        "engine",
        "version",
        "reader",
        "schema",
        "columns",
        "diverts_bad_rows",
        "max_bad_rows",
        "max_bad_percent",
        "data_path",
        "prev_data_paths",
        "new_data_path",
        "new_bad_rows_path",
        "new_left_out_path",
    )

    name: str
    vocab: DatasetVocabulary
    read: ReadStep
    preprocess: Transform | None
    merge: MergeStrategy
    engine: str
    version: str | None
    reader: str
    schema: DataSchema | None
    columns: str | None
    diverts_bad_rows: bool
    max_bad_rows: int | None
    max_bad_percent: int | None
    data_path: str
    prev_data_paths: tuple[str, ...]
    new_data_path: str
    new_bad_rows_path: str
    new_left_out_path: str

    def __init__(
        self,
        *,
        name: str,
        vocab: DatasetVocabulary,
        read: ReadStep,
        preprocess: Transform | None = None,
        merge: MergeStrategy,
        engine: str,
        version: str | None = None,
        reader: str,
        schema: DataSchema | None = None,
        columns: str | None = None,
        diverts_bad_rows: bool,
        max_bad_rows: int | None = None,
        max_bad_percent: int | None = None,
        data_path: str,
        prev_data_paths: tuple[str, ...],
        new_data_path: str,
        new_bad_rows_path: str,
        new_left_out_path: str,
    ) -> None:
        put = object.__setattr__
        put(self, "name", name)
        put(self, "vocab", vocab)
        put(self, "read", read)
        put(self, "preprocess", preprocess)
        put(self, "merge", merge)
        put(self, "engine", engine)
        put(self, "version", version)
        put(self, "reader", reader)
        put(self, "schema", schema)
        put(self, "columns", columns)
        put(self, "diverts_bad_rows", diverts_bad_rows)
        put(self, "max_bad_rows", max_bad_rows)
        put(self, "max_bad_percent", max_bad_percent)
        put(self, "data_path", data_path)
        put(self, "prev_data_paths", prev_data_paths)
        put(self, "new_data_path", new_data_path)
        put(self, "new_bad_rows_path", new_bad_rows_path)
        put(self, "new_left_out_path", new_left_out_path)


class IngestStepResponseRoot(Record):
    """The answer to a request for the ingest of a file, as sent (odfbuild)."""

    __slots__ = ("value",)

    value: IngestStepResponse

    def __init__(self, value: IngestStepResponse) -> None:
        put = object.__setattr__
        put(self, "value", value)


class IngestStepResponseSuccess(Record):
    """The file is read and merged: how many records it has and how many the merge wrote, without
    offsets; without `readRecords` there was nothing to read. `columns` are those of the file,
    as read; the others say how they differ from those declared, which times were cut to
    milliseconds, how many rows were put aside, which key is there several times, how many
    rows were left out for their keys, and which row, from 1, is the first without an event
    time (odfbuild)."""

    __slots__ = (
        "read_records",
        "num_records",
        "columns",
        "gives_event_time",
        "added_columns",
        "grown_columns",
        "missing_columns",
        "renamed_columns",
        "read_cut_times",
        "cut_times",
        "bad_records",
        "repeated_key",
        "left_out",
        "left_out_of",
        "timeless_row",
    )

    read_records: int | None
    num_records: int
    columns: tuple[str, ...]
    gives_event_time: bool
    added_columns: DataSchema
    grown_columns: DataSchema
    missing_columns: tuple[str, ...]
    renamed_columns: tuple[IngestStepResponseRenamed, ...]
    read_cut_times: tuple[StepResponseCutTime, ...]
    cut_times: tuple[StepResponseCutTime, ...]
    bad_records: int
    repeated_key: str | None
    left_out: int | None
    left_out_of: int | None
    timeless_row: int | None

    def __init__(
        self,
        *,
        read_records: int | None = None,
        num_records: int,
        columns: tuple[str, ...],
        gives_event_time: bool,
        added_columns: DataSchema,
        grown_columns: DataSchema,
        missing_columns: tuple[str, ...],
        renamed_columns: tuple[IngestStepResponseRenamed, ...],
        read_cut_times: tuple[StepResponseCutTime, ...],
        cut_times: tuple[StepResponseCutTime, ...],
        bad_records: int,
        repeated_key: str | None = None,
        left_out: int | None = None,
        left_out_of: int | None = None,
        timeless_row: int | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "read_records", read_records)
        put(self, "num_records", num_records)
        put(self, "columns", columns)
        put(self, "gives_event_time", gives_event_time)
        put(self, "added_columns", added_columns)
        put(self, "grown_columns", grown_columns)
        put(self, "missing_columns", missing_columns)
        put(self, "renamed_columns", renamed_columns)
        put(self, "read_cut_times", read_cut_times)
        put(self, "cut_times", cut_times)
        put(self, "bad_records", bad_records)
        put(self, "repeated_key", repeated_key)
        put(self, "left_out", left_out)
        put(self, "left_out_of", left_out_of)
        put(self, "timeless_row", timeless_row)


class IngestStepResponseRenamed(Record):
    """A column that took the values of another one of the file by its position: that name, and
    the column (odfbuild)."""

    __slots__ = ("name", "column")

    name: str
    column: str

    def __init__(self, name: str, column: str) -> None:
        put = object.__setattr__
        put(self, "name", name)
        put(self, "column", column)


class IngestStepResponseRefused(Record):
    """The file, or the definition of its source, is wrong: the code of the error, what it is,
    why it is refused and what to do (odfbuild)."""

    __slots__ = ("code", "message", "why", "fix")

    code: str
    message: str
    why: str
    fix: str

    def __init__(self, *, code: str, message: str, why: str, fix: str) -> None:
        put = object.__setattr__
        put(self, "code", code)
        put(self, "message", message)
        put(self, "why", why)
        put(self, "fix", fix)


class IngestStepResponseInternalError(Record):
    """The engine failed on the ingest (odfbuild)."""

    __slots__ = ("message", "backtrace")

    message: str
    backtrace: str | None

    def __init__(self, message: str, backtrace: str | None = None) -> None:
        put = object.__setattr__
        put(self, "message", message)
        put(self, "backtrace", backtrace)


RawQueryResponse: TypeAlias = (
    RawQueryResponseProgress
    | RawQueryResponseSuccess
    | RawQueryResponseInvalidQuery
    | RawQueryResponseInternalError
)
"""The ways a raw query can go."""

TransformResponse: TypeAlias = (
    TransformResponseProgress
    | TransformResponseSuccess
    | TransformResponseInvalidQuery
    | TransformResponseInternalError
)
"""The ways a transform can go."""

ValidateQueryResponse: TypeAlias = (
    ValidateQueryResponseSuccess
    | ValidateQueryResponseInvalidQuery
    | ValidateQueryResponseInternalError
)
"""The ways the validation of a query can go."""

MigrateQueryResponse: TypeAlias = (
    MigrateQueryResponseSuccess | MigrateQueryResponseRefused | MigrateQueryResponseInternalError
)
"""The ways the change from one query to another can go."""

DeriveProvenanceResponse: TypeAlias = (
    DeriveProvenanceResponseSuccess
    | DeriveProvenanceResponseInvalidQuery
    | DeriveProvenanceResponseInternalError
)
"""The ways a question for provenance can go."""

StepResponse: TypeAlias = StepResponseSuccess | StepResponseInvalidQuery | StepResponseInternalError
"""The ways a step over the files of datasets can go."""

IngestStepResponse: TypeAlias = (
    IngestStepResponseSuccess | IngestStepResponseRefused | IngestStepResponseInternalError
)
"""The ways the ingest of a file of a source can go."""
