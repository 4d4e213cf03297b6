"""Metadata of datasets as values: blocks, their events and what these are made of.

Made by schemas/generate.py from schemas/odf.yaml: change that, not this.  It is one module
because one schema makes it, whose types refer to each other.

Fields are in the order of the wire; None means absent, which () and 0 do not.
"""

# ruff: noqa: RUF022, RUF023

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.record import Record
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp

__all__ = [
    "DatasetKind",
    "SourceOrdering",
    "MqttQos",
    "CompressionFormat",
    "TimeUnit",
    "OperationType",
    "MetadataBlock",
    "AddData",
    "DataSlice",
    "OffsetInterval",
    "Checkpoint",
    "SourceState",
    "ExtraAttributes",
    "ExecuteTransform",
    "ExecuteTransformInput",
    "Seed",
    "SetPollingSource",
    "FetchStepUrl",
    "EventTimeSourceFromMetadata",
    "EventTimeSourceFromPath",
    "EventTimeSourceFromSystemTime",
    "SourceCachingForever",
    "RequestHeader",
    "FetchStepFilesGlob",
    "FetchStepContainer",
    "EnvVar",
    "FetchStepMqtt",
    "MqttTopicSubscription",
    "FetchStepEthereumLogs",
    "PrepStepDecompress",
    "PrepStepPipe",
    "ReadStepCsv",
    "DataSchema",
    "DataField",
    "DataTypeBinary",
    "DataTypeBool",
    "DataTypeDate",
    "DataTypeDecimal",
    "DataTypeDuration",
    "DataTypeFloat16",
    "DataTypeFloat32",
    "DataTypeFloat64",
    "DataTypeInt8",
    "DataTypeInt16",
    "DataTypeInt32",
    "DataTypeInt64",
    "DataTypeUInt8",
    "DataTypeUInt16",
    "DataTypeUInt32",
    "DataTypeUInt64",
    "DataTypeList",
    "DataTypeMap",
    "DataTypeNull",
    "DataTypeOption",
    "DataTypeStruct",
    "DataTypeTime",
    "DataTypeTimestamp",
    "DataTypeString",
    "ReadStepGeoJson",
    "ReadStepEsriShapefile",
    "ReadStepParquet",
    "ReadStepJson",
    "ReadStepNdJson",
    "ReadStepNdGeoJson",
    "TransformSql",
    "SqlQueryStep",
    "TemporalTable",
    "MergeStrategyAppend",
    "MergeStrategyLedger",
    "MergeStrategySnapshot",
    "MergeStrategyChangelogStream",
    "MergeStrategyUpsertStream",
    "SetTransform",
    "TransformInput",
    "SetVocab",
    "SetAttachments",
    "AttachmentsEmbedded",
    "AttachmentEmbedded",
    "SetInfo",
    "SetLicense",
    "SetDataSchema",
    "AddPushSource",
    "DisablePushSource",
    "DisablePollingSource",
    "Manifest",
    "DatasetSnapshot",
    "DatasetVocabulary",
    "MetadataEvent",
    "FetchStep",
    "EventTimeSource",
    "SourceCaching",
    "PrepStep",
    "ReadStep",
    "DataType",
    "Transform",
    "MergeStrategy",
    "Attachments",
]


class DatasetKind(Enum):
    """Whether a dataset takes data from outside or is made from other datasets (ODF 0.34.1)."""

    ROOT = "Root"
    DERIVATIVE = "Derivative"


class SourceOrdering(Enum):
    """In which order the files of a pattern are read (ODF 0.34.1)."""

    BY_EVENT_TIME = "ByEventTime"
    BY_NAME = "ByName"


class MqttQos(Enum):
    """How surely a message must arrive (ODF 0.35.0)."""

    AT_MOST_ONCE = "AtMostOnce"
    AT_LEAST_ONCE = "AtLeastOnce"
    EXACTLY_ONCE = "ExactlyOnce"


class CompressionFormat(Enum):
    """How a file is packed (ODF 0.34.1)."""

    GZIP = "Gzip"
    ZIP = "Zip"


class TimeUnit(Enum):
    """The resolution of times (ODF 0.37.0)."""

    SECOND = "Second"
    MILLISECOND = "Millisecond"
    MICROSECOND = "Microsecond"
    NANOSECOND = "Nanosecond"


class OperationType(Enum):
    """What a record does to earlier ones; its position is the value in the `op` column
    (ODF 0.39.0)."""

    APPEND = "Append"
    RETRACT = "Retract"
    CORRECT_FROM = "CorrectFrom"
    CORRECT_TO = "CorrectTo"


class MetadataBlock(Record):
    """One link of a metadata chain: an event, its place in the chain and the time it was
    recorded (ODF 0.34.1)."""

    __slots__ = ("system_time", "prev_block_hash", "sequence_number", "event")

    system_time: Timestamp
    prev_block_hash: Multihash | None
    sequence_number: int
    event: MetadataEvent

    def __init__(
        self,
        *,
        system_time: Timestamp,
        prev_block_hash: Multihash | None = None,
        sequence_number: int,
        event: MetadataEvent,
    ) -> None:
        put = object.__setattr__
        put(self, "system_time", system_time)
        put(self, "prev_block_hash", prev_block_hash)
        put(self, "sequence_number", sequence_number)
        put(self, "event", event)


class AddData(Record):
    """Records, a checkpoint, a watermark or a source state was added to a root dataset
    (ODF 0.34.1).

    extra: since ODF 0.37.0
    """

    __slots__ = (
        "prev_checkpoint",
        "prev_offset",
        "new_data",
        "new_checkpoint",
        "new_watermark",
        "new_source_state",
        "extra",
    )

    prev_checkpoint: Multihash | None
    prev_offset: int | None
    new_data: DataSlice | None
    new_checkpoint: Checkpoint | None
    new_watermark: Timestamp | None
    new_source_state: SourceState | None
    extra: ExtraAttributes | None

    def __init__(
        self,
        *,
        prev_checkpoint: Multihash | None = None,
        prev_offset: int | None = None,
        new_data: DataSlice | None = None,
        new_checkpoint: Checkpoint | None = None,
        new_watermark: Timestamp | None = None,
        new_source_state: SourceState | None = None,
        extra: ExtraAttributes | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "prev_checkpoint", prev_checkpoint)
        put(self, "prev_offset", prev_offset)
        put(self, "new_data", new_data)
        put(self, "new_checkpoint", new_checkpoint)
        put(self, "new_watermark", new_watermark)
        put(self, "new_source_state", new_source_state)
        put(self, "extra", extra)


class DataSlice(Record):
    """A run of records stored as one data file; `size` in bytes (ODF 0.34.1)."""

    __slots__ = ("logical_hash", "physical_hash", "offset_interval", "size")

    logical_hash: Multihash
    physical_hash: Multihash
    offset_interval: OffsetInterval
    size: int

    def __init__(
        self,
        *,
        logical_hash: Multihash,
        physical_hash: Multihash,
        offset_interval: OffsetInterval,
        size: int,
    ) -> None:
        put = object.__setattr__
        put(self, "logical_hash", logical_hash)
        put(self, "physical_hash", physical_hash)
        put(self, "offset_interval", offset_interval)
        put(self, "size", size)


class OffsetInterval(Record):
    """Offsets of records from start to end, both ends included (ODF 0.34.1)."""

    __slots__ = ("start", "end")

    start: int
    end: int

    def __init__(self, start: int, end: int) -> None:
        put = object.__setattr__
        put(self, "start", start)
        put(self, "end", end)


class Checkpoint(Record):
    """A file with the engine's state after a transform; `size` in bytes (ODF 0.34.1)."""

    __slots__ = ("physical_hash", "size")

    physical_hash: Multihash
    size: int

    def __init__(self, physical_hash: Multihash, size: int) -> None:
        put = object.__setattr__
        put(self, "physical_hash", physical_hash)
        put(self, "size", size)


class SourceState(Record):
    """How far an external source was read, so that the next fetch can go on from there
    (ODF 0.34.1)."""

    __slots__ = ("source_name", "kind", "value")

    source_name: str
    kind: str
    value: str

    def __init__(self, source_name: str, kind: str, value: str) -> None:
        put = object.__setattr__
        put(self, "source_name", source_name)
        put(self, "kind", kind)
        put(self, "value", value)


class ExtraAttributes(Record):
    """Attributes beyond the specification; `entries` is JSON text of one object, compact, keys
    sorted (ODF 0.37.0).

    entries: called attributes in 0.37 and 0.38
    """

    __slots__ = ("entries",)

    entries: str

    def __init__(self, entries: str) -> None:
        put = object.__setattr__
        put(self, "entries", entries)


class ExecuteTransform(Record):
    """A transform ran over new parts of its inputs (ODF 0.34.1)."""

    __slots__ = (
        "query_inputs",
        "prev_checkpoint",
        "prev_offset",
        "new_data",
        "new_checkpoint",
        "new_watermark",
    )

    query_inputs: tuple[ExecuteTransformInput, ...]
    prev_checkpoint: Multihash | None
    prev_offset: int | None
    new_data: DataSlice | None
    new_checkpoint: Checkpoint | None
    new_watermark: Timestamp | None

    def __init__(
        self,
        *,
        query_inputs: tuple[ExecuteTransformInput, ...],
        prev_checkpoint: Multihash | None = None,
        prev_offset: int | None = None,
        new_data: DataSlice | None = None,
        new_checkpoint: Checkpoint | None = None,
        new_watermark: Timestamp | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "query_inputs", query_inputs)
        put(self, "prev_checkpoint", prev_checkpoint)
        put(self, "prev_offset", prev_offset)
        put(self, "new_data", new_data)
        put(self, "new_checkpoint", new_checkpoint)
        put(self, "new_watermark", new_watermark)


class ExecuteTransformInput(Record):
    """The part of one input that a transform read: blocks and offsets after prev, up to new
    (ODF 0.34.1)."""

    __slots__ = ("dataset_id", "prev_block_hash", "new_block_hash", "prev_offset", "new_offset")

    dataset_id: DatasetId
    prev_block_hash: Multihash | None
    new_block_hash: Multihash | None
    prev_offset: int | None
    new_offset: int | None

    def __init__(
        self,
        *,
        dataset_id: DatasetId,
        prev_block_hash: Multihash | None = None,
        new_block_hash: Multihash | None = None,
        prev_offset: int | None = None,
        new_offset: int | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "dataset_id", dataset_id)
        put(self, "prev_block_hash", prev_block_hash)
        put(self, "new_block_hash", new_block_hash)
        put(self, "prev_offset", prev_offset)
        put(self, "new_offset", new_offset)


class Seed(Record):
    """The first event of every chain; gives the dataset its identity and kind (ODF 0.34.1)."""

    __slots__ = ("dataset_id", "dataset_kind")

    dataset_id: DatasetId
    dataset_kind: DatasetKind

    def __init__(self, dataset_id: DatasetId, dataset_kind: DatasetKind) -> None:
        put = object.__setattr__
        put(self, "dataset_id", dataset_id)
        put(self, "dataset_kind", dataset_kind)


class SetPollingSource(Record):
    """How to pull data into a root dataset from an external source (ODF 0.34.1)."""

    __slots__ = ("fetch", "prepare", "read", "preprocess", "merge")

    fetch: FetchStep
    prepare: tuple[PrepStep, ...] | None
    read: ReadStep
    preprocess: Transform | None
    merge: MergeStrategy

    def __init__(
        self,
        *,
        fetch: FetchStep,
        prepare: tuple[PrepStep, ...] | None = None,
        read: ReadStep,
        preprocess: Transform | None = None,
        merge: MergeStrategy,
    ) -> None:
        put = object.__setattr__
        put(self, "fetch", fetch)
        put(self, "prepare", prepare)
        put(self, "read", read)
        put(self, "preprocess", preprocess)
        put(self, "merge", merge)


class FetchStepUrl(Record):
    """Fetch from a web address, a file server or the local file system (ODF 0.34.1)."""

    __slots__ = ("url", "event_time", "cache", "headers")

    url: str
    event_time: EventTimeSource | None
    cache: SourceCaching | None
    headers: tuple[RequestHeader, ...] | None

    def __init__(
        self,
        *,
        url: str,
        event_time: EventTimeSource | None = None,
        cache: SourceCaching | None = None,
        headers: tuple[RequestHeader, ...] | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "url", url)
        put(self, "event_time", event_time)
        put(self, "cache", cache)
        put(self, "headers", headers)


class EventTimeSourceFromMetadata(Record):
    """Event time is what the source says about the object, such as Last-Modified (ODF 0.34.1)."""

    __slots__ = ()


class EventTimeSourceFromPath(Record):
    """Event time is taken out of the path of the object by a regular expression (ODF 0.34.1)."""

    __slots__ = ("pattern", "timestamp_format")

    pattern: str
    timestamp_format: str | None

    def __init__(self, pattern: str, timestamp_format: str | None = None) -> None:
        put = object.__setattr__
        put(self, "pattern", pattern)
        put(self, "timestamp_format", timestamp_format)


class EventTimeSourceFromSystemTime(Record):
    """Event time is the time of the fetch (ODF 0.34.1)."""

    __slots__ = ()


class SourceCachingForever(Record):
    """What was fetched once never changes and is not fetched again (ODF 0.34.1)."""

    __slots__ = ()


class RequestHeader(Record):
    """A header to send with an HTTP request (ODF 0.34.1)."""

    __slots__ = ("name", "value")

    name: str
    value: str

    def __init__(self, name: str, value: str) -> None:
        put = object.__setattr__
        put(self, "name", name)
        put(self, "value", value)


class FetchStepFilesGlob(Record):
    """Fetch local files whose paths match a pattern, one after another (ODF 0.34.1)."""

    __slots__ = ("path", "event_time", "cache", "order")

    path: str
    event_time: EventTimeSource | None
    cache: SourceCaching | None
    order: SourceOrdering | None

    def __init__(
        self,
        *,
        path: str,
        event_time: EventTimeSource | None = None,
        cache: SourceCaching | None = None,
        order: SourceOrdering | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "path", path)
        put(self, "event_time", event_time)
        put(self, "cache", cache)
        put(self, "order", order)


class FetchStepContainer(Record):
    """Fetch by running a container that writes the data to its standard output (ODF 0.34.1)."""

    __slots__ = ("image", "command", "args", "env")

    image: str
    command: tuple[str, ...] | None
    args: tuple[str, ...] | None
    env: tuple[EnvVar, ...] | None

    def __init__(
        self,
        *,
        image: str,
        command: tuple[str, ...] | None = None,
        args: tuple[str, ...] | None = None,
        env: tuple[EnvVar, ...] | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "image", image)
        put(self, "command", command)
        put(self, "args", args)
        put(self, "env", env)


class EnvVar(Record):
    """An environment variable; without value it is taken from the environment of the caller
    (ODF 0.34.1)."""

    __slots__ = ("name", "value")

    name: str
    value: str | None

    def __init__(self, name: str, value: str | None = None) -> None:
        put = object.__setattr__
        put(self, "name", name)
        put(self, "value", value)


class FetchStepMqtt(Record):
    """Fetch messages from topics of an MQTT broker (ODF 0.35.0)."""

    __slots__ = ("host", "port", "username", "password", "topics")

    host: str
    port: int
    username: str | None
    password: str | None
    topics: tuple[MqttTopicSubscription, ...]

    def __init__(
        self,
        *,
        host: str,
        port: int,
        username: str | None = None,
        password: str | None = None,
        topics: tuple[MqttTopicSubscription, ...],
    ) -> None:
        put = object.__setattr__
        put(self, "host", host)
        put(self, "port", port)
        put(self, "username", username)
        put(self, "password", password)
        put(self, "topics", topics)


class MqttTopicSubscription(Record):
    """A topic to subscribe to, and how surely its messages must arrive (ODF 0.35.0).

    qos: when absent AtMostOnce
    """

    __slots__ = ("path", "qos")

    path: str
    qos: MqttQos | None

    def __init__(self, path: str, qos: MqttQos | None = None) -> None:
        put = object.__setattr__
        put(self, "path", path)
        put(self, "qos", qos)


class FetchStepEthereumLogs(Record):
    """Fetch the log entries of an Ethereum-compatible blockchain node (ODF 0.36.0)."""

    __slots__ = ("chain_id", "node_url", "filter", "signature")

    chain_id: int | None
    node_url: str | None
    filter: str | None
    signature: str | None

    def __init__(
        self,
        *,
        chain_id: int | None = None,
        node_url: str | None = None,
        filter: str | None = None,
        signature: str | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "chain_id", chain_id)
        put(self, "node_url", node_url)
        put(self, "filter", filter)
        put(self, "signature", signature)


class PrepStepDecompress(Record):
    """Unpack a compressed file or one entry of an archive (ODF 0.34.1)."""

    __slots__ = ("format", "sub_path")

    format: CompressionFormat
    sub_path: str | None

    def __init__(self, format: CompressionFormat, sub_path: str | None = None) -> None:
        put = object.__setattr__
        put(self, "format", format)
        put(self, "sub_path", sub_path)


class PrepStepPipe(Record):
    """Pass the bytes through the standard input and output of a program (ODF 0.34.1)."""

    __slots__ = ("command",)

    command: tuple[str, ...]

    def __init__(self, command: tuple[str, ...]) -> None:
        put = object.__setattr__
        put(self, "command", command)


class ReadStepCsv(Record):
    """Read text with separated values (ODF 0.34.1).

    separator: when absent a comma
    encoding: when absent utf8
    quote: when absent a double quote
    escape: when absent a backslash
    header: when absent false
    infer_schema: when absent false
    null_value: when absent the empty text
    date_format: when absent rfc3339
    timestamp_format: when absent rfc3339
    schema: since ODF 0.38.0
    """

    __slots__ = (
        "ddl_schema",
        "separator",
        "encoding",
        "quote",
        "escape",
        "header",
        "infer_schema",
        "null_value",
        "date_format",
        "timestamp_format",
        "schema",
    )

    ddl_schema: tuple[str, ...] | None
    separator: str | None
    encoding: str | None
    quote: str | None
    escape: str | None
    header: bool | None
    infer_schema: bool | None
    null_value: str | None
    date_format: str | None
    timestamp_format: str | None
    schema: DataSchema | None

    def __init__(
        self,
        *,
        ddl_schema: tuple[str, ...] | None = None,
        separator: str | None = None,
        encoding: str | None = None,
        quote: str | None = None,
        escape: str | None = None,
        header: bool | None = None,
        infer_schema: bool | None = None,
        null_value: str | None = None,
        date_format: str | None = None,
        timestamp_format: str | None = None,
        schema: DataSchema | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "ddl_schema", ddl_schema)
        put(self, "separator", separator)
        put(self, "encoding", encoding)
        put(self, "quote", quote)
        put(self, "escape", escape)
        put(self, "header", header)
        put(self, "infer_schema", infer_schema)
        put(self, "null_value", null_value)
        put(self, "date_format", date_format)
        put(self, "timestamp_format", timestamp_format)
        put(self, "schema", schema)


class DataSchema(Record):
    """The columns of a dataset, in order (ODF 0.37.0)."""

    __slots__ = ("fields", "extra")

    fields: tuple[DataField, ...]
    extra: ExtraAttributes | None

    def __init__(self, fields: tuple[DataField, ...], extra: ExtraAttributes | None = None) -> None:
        put = object.__setattr__
        put(self, "fields", fields)
        put(self, "extra", extra)


class DataField(Record):
    """One column: its name, its type and more about it (ODF 0.37.0)."""

    __slots__ = ("name", "type", "extra")

    name: str
    type: DataType
    extra: ExtraAttributes | None

    def __init__(self, name: str, type: DataType, extra: ExtraAttributes | None = None) -> None:
        put = object.__setattr__
        put(self, "name", name)
        put(self, "type", type)
        put(self, "extra", extra)


class DataTypeBinary(Record):
    """Bytes, of one length if `fixed_length` is given (ODF 0.37.0)."""

    __slots__ = ("fixed_length",)

    fixed_length: int | None

    def __init__(self, fixed_length: int | None = None) -> None:
        put = object.__setattr__
        put(self, "fixed_length", fixed_length)


class DataTypeBool(Record):
    """True or false (ODF 0.37.0)."""

    __slots__ = ()


class DataTypeDate(Record):
    """A calendar day (ODF 0.37.0)."""

    __slots__ = ()


class DataTypeDecimal(Record):
    """An exact decimal number (ODF 0.37.0)."""

    __slots__ = ("precision", "scale")

    precision: int
    scale: int

    def __init__(self, precision: int, scale: int) -> None:
        put = object.__setattr__
        put(self, "precision", precision)
        put(self, "scale", scale)


class DataTypeDuration(Record):
    """A length of time (ODF 0.37.0).

    unit: when absent Millisecond
    """

    __slots__ = ("unit",)

    unit: TimeUnit | None

    def __init__(self, unit: TimeUnit | None = None) -> None:
        put = object.__setattr__
        put(self, "unit", unit)


class DataTypeFloat16(Record):
    """A 16-bit floating point number (ODF 0.37.0)."""

    __slots__ = ()


class DataTypeFloat32(Record):
    """A 32-bit floating point number (ODF 0.37.0)."""

    __slots__ = ()


class DataTypeFloat64(Record):
    """A 64-bit floating point number (ODF 0.37.0)."""

    __slots__ = ()


class DataTypeInt8(Record):
    """An 8-bit signed integer (ODF 0.37.0)."""

    __slots__ = ()


class DataTypeInt16(Record):
    """A 16-bit signed integer (ODF 0.37.0)."""

    __slots__ = ()


class DataTypeInt32(Record):
    """A 32-bit signed integer (ODF 0.37.0)."""

    __slots__ = ()


class DataTypeInt64(Record):
    """A 64-bit signed integer (ODF 0.37.0)."""

    __slots__ = ()


class DataTypeUInt8(Record):
    """An 8-bit unsigned integer (ODF 0.37.0)."""

    __slots__ = ()


class DataTypeUInt16(Record):
    """A 16-bit unsigned integer (ODF 0.37.0)."""

    __slots__ = ()


class DataTypeUInt32(Record):
    """A 32-bit unsigned integer (ODF 0.37.0)."""

    __slots__ = ()


class DataTypeUInt64(Record):
    """A 64-bit unsigned integer (ODF 0.37.0)."""

    __slots__ = ()


class DataTypeList(Record):
    """A sequence of items of one type (ODF 0.37.0)."""

    __slots__ = ("item_type", "fixed_length")

    item_type: DataType
    fixed_length: int | None

    def __init__(self, item_type: DataType, fixed_length: int | None = None) -> None:
        put = object.__setattr__
        put(self, "item_type", item_type)
        put(self, "fixed_length", fixed_length)


class DataTypeMap(Record):
    """Pairs of keys and values (ODF 0.37.0)."""

    __slots__ = ("key_type", "value_type", "keys_sorted")

    key_type: DataType
    value_type: DataType
    keys_sorted: bool | None

    def __init__(
        self, key_type: DataType, value_type: DataType, keys_sorted: bool | None = None
    ) -> None:
        put = object.__setattr__
        put(self, "key_type", key_type)
        put(self, "value_type", value_type)
        put(self, "keys_sorted", keys_sorted)


class DataTypeNull(Record):
    """Nothing but null (ODF 0.37.0)."""

    __slots__ = ()


class DataTypeOption(Record):
    """A value of the inner type, or null (ODF 0.37.0)."""

    __slots__ = ("inner",)

    inner: DataType

    def __init__(self, inner: DataType) -> None:
        put = object.__setattr__
        put(self, "inner", inner)


class DataTypeStruct(Record):
    """Named fields (ODF 0.37.0)."""

    __slots__ = ("fields",)

    fields: tuple[DataField, ...]

    def __init__(self, fields: tuple[DataField, ...]) -> None:
        put = object.__setattr__
        put(self, "fields", fields)


class DataTypeTime(Record):
    """A time of day (ODF 0.37.0).

    unit: when absent Millisecond
    """

    __slots__ = ("unit",)

    unit: TimeUnit | None

    def __init__(self, unit: TimeUnit | None = None) -> None:
        put = object.__setattr__
        put(self, "unit", unit)


class DataTypeTimestamp(Record):
    """An instant, shown in a time zone (ODF 0.37.0).

    unit: when absent Millisecond
    timezone: when absent UTC
    """

    __slots__ = ("unit", "timezone")

    unit: TimeUnit | None
    timezone: str | None

    def __init__(self, unit: TimeUnit | None = None, timezone: str | None = None) -> None:
        put = object.__setattr__
        put(self, "unit", unit)
        put(self, "timezone", timezone)


class DataTypeString(Record):
    """Text (ODF 0.37.0)."""

    __slots__ = ()


class ReadStepGeoJson(Record):
    """Read a GeoJSON feature collection (ODF 0.34.1).

    schema: since ODF 0.38.0
    """

    __slots__ = ("ddl_schema", "schema")

    ddl_schema: tuple[str, ...] | None
    schema: DataSchema | None

    def __init__(
        self, ddl_schema: tuple[str, ...] | None = None, schema: DataSchema | None = None
    ) -> None:
        put = object.__setattr__
        put(self, "ddl_schema", ddl_schema)
        put(self, "schema", schema)


class ReadStepEsriShapefile(Record):
    """Read an ESRI shapefile, maybe inside an archive (ODF 0.34.1).

    schema: since ODF 0.38.0
    """

    __slots__ = ("ddl_schema", "sub_path", "schema")

    ddl_schema: tuple[str, ...] | None
    sub_path: str | None
    schema: DataSchema | None

    def __init__(
        self,
        ddl_schema: tuple[str, ...] | None = None,
        sub_path: str | None = None,
        schema: DataSchema | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "ddl_schema", ddl_schema)
        put(self, "sub_path", sub_path)
        put(self, "schema", schema)


class ReadStepParquet(Record):
    """Read a Parquet file (ODF 0.34.1).

    schema: since ODF 0.38.0
    """

    __slots__ = ("ddl_schema", "schema")

    ddl_schema: tuple[str, ...] | None
    schema: DataSchema | None

    def __init__(
        self, ddl_schema: tuple[str, ...] | None = None, schema: DataSchema | None = None
    ) -> None:
        put = object.__setattr__
        put(self, "ddl_schema", ddl_schema)
        put(self, "schema", schema)


class ReadStepJson(Record):
    """Read one JSON document that holds an array of objects, maybe nested (ODF 0.34.1).

    date_format: when absent rfc3339
    encoding: when absent utf8
    timestamp_format: when absent rfc3339
    schema: since ODF 0.38.0
    """

    __slots__ = ("sub_path", "ddl_schema", "date_format", "encoding", "timestamp_format", "schema")

    sub_path: str | None
    ddl_schema: tuple[str, ...] | None
    date_format: str | None
    encoding: str | None
    timestamp_format: str | None
    schema: DataSchema | None

    def __init__(
        self,
        *,
        sub_path: str | None = None,
        ddl_schema: tuple[str, ...] | None = None,
        date_format: str | None = None,
        encoding: str | None = None,
        timestamp_format: str | None = None,
        schema: DataSchema | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "sub_path", sub_path)
        put(self, "ddl_schema", ddl_schema)
        put(self, "date_format", date_format)
        put(self, "encoding", encoding)
        put(self, "timestamp_format", timestamp_format)
        put(self, "schema", schema)


class ReadStepNdJson(Record):
    """Read JSON objects, one a line (ODF 0.34.1).

    date_format: when absent rfc3339
    encoding: when absent utf8
    timestamp_format: when absent rfc3339
    schema: since ODF 0.38.0
    """

    __slots__ = ("ddl_schema", "date_format", "encoding", "timestamp_format", "schema")

    ddl_schema: tuple[str, ...] | None
    date_format: str | None
    encoding: str | None
    timestamp_format: str | None
    schema: DataSchema | None

    def __init__(
        self,
        *,
        ddl_schema: tuple[str, ...] | None = None,
        date_format: str | None = None,
        encoding: str | None = None,
        timestamp_format: str | None = None,
        schema: DataSchema | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "ddl_schema", ddl_schema)
        put(self, "date_format", date_format)
        put(self, "encoding", encoding)
        put(self, "timestamp_format", timestamp_format)
        put(self, "schema", schema)


class ReadStepNdGeoJson(Record):
    """Read GeoJSON features, one a line (ODF 0.34.1).

    schema: since ODF 0.38.0
    """

    __slots__ = ("ddl_schema", "schema")

    ddl_schema: tuple[str, ...] | None
    schema: DataSchema | None

    def __init__(
        self, ddl_schema: tuple[str, ...] | None = None, schema: DataSchema | None = None
    ) -> None:
        put = object.__setattr__
        put(self, "ddl_schema", ddl_schema)
        put(self, "schema", schema)


class TransformSql(Record):
    """A transform written in the SQL dialect of an engine (ODF 0.34.1)."""

    __slots__ = ("engine", "version", "query", "queries", "temporal_tables")

    engine: str
    version: str | None
    query: str | None
    queries: tuple[SqlQueryStep, ...] | None
    temporal_tables: tuple[TemporalTable, ...] | None

    def __init__(
        self,
        *,
        engine: str,
        version: str | None = None,
        query: str | None = None,
        queries: tuple[SqlQueryStep, ...] | None = None,
        temporal_tables: tuple[TemporalTable, ...] | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "engine", engine)
        put(self, "version", version)
        put(self, "query", query)
        put(self, "queries", queries)
        put(self, "temporal_tables", temporal_tables)


class SqlQueryStep(Record):
    """One query; its result is visible to later steps under the alias (ODF 0.34.1)."""

    __slots__ = ("alias", "query")

    alias: str | None
    query: str

    def __init__(self, *, alias: str | None = None, query: str) -> None:
        put = object.__setattr__
        put(self, "alias", alias)
        put(self, "query", query)


class TemporalTable(Record):
    """An input that the engine keeps as a table of latest values by primary key (ODF 0.34.1)."""

    __slots__ = ("name", "primary_key")

    name: str
    primary_key: tuple[str, ...]

    def __init__(self, name: str, primary_key: tuple[str, ...]) -> None:
        put = object.__setattr__
        put(self, "name", name)
        put(self, "primary_key", primary_key)


class MergeStrategyAppend(Record):
    """Every record read is new (ODF 0.34.1)."""

    __slots__ = ()


class MergeStrategyLedger(Record):
    """Records never change; those with a known primary key are skipped (ODF 0.34.1)."""

    __slots__ = ("primary_key",)

    primary_key: tuple[str, ...]

    def __init__(self, primary_key: tuple[str, ...]) -> None:
        put = object.__setattr__
        put(self, "primary_key", primary_key)


class MergeStrategySnapshot(Record):
    """What is read is the whole current state; differences to the last state are recorded
    (ODF 0.34.1)."""

    __slots__ = ("primary_key", "compare_columns")

    primary_key: tuple[str, ...]
    compare_columns: tuple[str, ...] | None

    def __init__(
        self, primary_key: tuple[str, ...], compare_columns: tuple[str, ...] | None = None
    ) -> None:
        put = object.__setattr__
        put(self, "primary_key", primary_key)
        put(self, "compare_columns", compare_columns)


class MergeStrategyChangelogStream(Record):
    """What is read is a list of changes and is recorded as it stands (ODF 0.37.0)."""

    __slots__ = ("primary_key",)

    primary_key: tuple[str, ...]

    def __init__(self, primary_key: tuple[str, ...]) -> None:
        put = object.__setattr__
        put(self, "primary_key", primary_key)


class MergeStrategyUpsertStream(Record):
    """What is read is a list of newest values and removals by primary key (ODF 0.37.0)."""

    __slots__ = ("primary_key",)

    primary_key: tuple[str, ...]

    def __init__(self, primary_key: tuple[str, ...]) -> None:
        put = object.__setattr__
        put(self, "primary_key", primary_key)


class SetTransform(Record):
    """How a derivative dataset is made from its inputs (ODF 0.34.1)."""

    __slots__ = ("inputs", "transform")

    inputs: tuple[TransformInput, ...]
    transform: Transform

    def __init__(self, inputs: tuple[TransformInput, ...], transform: Transform) -> None:
        put = object.__setattr__
        put(self, "inputs", inputs)
        put(self, "transform", transform)


class TransformInput(Record):
    """A dataset that a transform reads, and the name its query uses for it (ODF 0.34.1)."""

    __slots__ = ("dataset_ref", "alias")

    dataset_ref: DatasetId | DatasetAlias
    alias: str | None

    def __init__(self, dataset_ref: DatasetId | DatasetAlias, alias: str | None = None) -> None:
        put = object.__setattr__
        put(self, "dataset_ref", dataset_ref)
        put(self, "alias", alias)


class SetVocab(Record):
    """Other names of the system columns; what is absent keeps its default name (ODF 0.34.1)."""

    __slots__ = (
        "offset_column",
        "operation_type_column",
        "system_time_column",
        "event_time_column",
    )

    offset_column: str | None
    operation_type_column: str | None
    system_time_column: str | None
    event_time_column: str | None

    def __init__(
        self,
        *,
        offset_column: str | None = None,
        operation_type_column: str | None = None,
        system_time_column: str | None = None,
        event_time_column: str | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "offset_column", offset_column)
        put(self, "operation_type_column", operation_type_column)
        put(self, "system_time_column", system_time_column)
        put(self, "event_time_column", event_time_column)


class SetAttachments(Record):
    """Files that travel with the dataset (ODF 0.34.1)."""

    __slots__ = ("attachments",)

    attachments: Attachments

    def __init__(self, attachments: Attachments) -> None:
        put = object.__setattr__
        put(self, "attachments", attachments)


class AttachmentsEmbedded(Record):
    """Files kept in the metadata itself (ODF 0.34.1)."""

    __slots__ = ("items",)

    items: tuple[AttachmentEmbedded, ...]

    def __init__(self, items: tuple[AttachmentEmbedded, ...]) -> None:
        put = object.__setattr__
        put(self, "items", items)


class AttachmentEmbedded(Record):
    """One text file and its relative path (ODF 0.34.1)."""

    __slots__ = ("path", "content")

    path: str
    content: str

    def __init__(self, path: str, content: str) -> None:
        put = object.__setattr__
        put(self, "path", path)
        put(self, "content", content)


class SetInfo(Record):
    """A short description and keywords (ODF 0.34.1)."""

    __slots__ = ("description", "keywords")

    description: str | None
    keywords: tuple[str, ...] | None

    def __init__(
        self, description: str | None = None, keywords: tuple[str, ...] | None = None
    ) -> None:
        put = object.__setattr__
        put(self, "description", description)
        put(self, "keywords", keywords)


class SetLicense(Record):
    """The licence of the data (ODF 0.34.1)."""

    __slots__ = ("short_name", "name", "spdx_id", "website_url")

    short_name: str
    name: str
    spdx_id: str | None
    website_url: str

    def __init__(
        self, *, short_name: str, name: str, spdx_id: str | None = None, website_url: str
    ) -> None:
        put = object.__setattr__
        put(self, "short_name", short_name)
        put(self, "name", name)
        put(self, "spdx_id", spdx_id)
        put(self, "website_url", website_url)


class SetDataSchema(Record):
    """The columns of all data that follows, as an Arrow schema in flatbuffers form or as an ODF
    schema (ODF 0.34.1).

    raw_arrow_schema: required until 0.37, deprecated since
    schema: since ODF 0.37.0
    """

    __slots__ = ("raw_arrow_schema", "schema")

    raw_arrow_schema: bytes | None
    schema: DataSchema | None

    def __init__(
        self, raw_arrow_schema: bytes | None = None, schema: DataSchema | None = None
    ) -> None:
        put = object.__setattr__
        put(self, "raw_arrow_schema", raw_arrow_schema)
        put(self, "schema", schema)


class AddPushSource(Record):
    """How to take data that others push into a root dataset (ODF 0.34.1)."""

    __slots__ = ("source_name", "read", "preprocess", "merge")

    source_name: str
    read: ReadStep
    preprocess: Transform | None
    merge: MergeStrategy

    def __init__(
        self,
        *,
        source_name: str,
        read: ReadStep,
        preprocess: Transform | None = None,
        merge: MergeStrategy,
    ) -> None:
        put = object.__setattr__
        put(self, "source_name", source_name)
        put(self, "read", read)
        put(self, "preprocess", preprocess)
        put(self, "merge", merge)


class DisablePushSource(Record):
    """A push source takes no more data (ODF 0.34.1)."""

    __slots__ = ("source_name",)

    source_name: str

    def __init__(self, source_name: str) -> None:
        put = object.__setattr__
        put(self, "source_name", source_name)


class DisablePollingSource(Record):
    """The polling source is no longer used (ODF 0.34.1)."""

    __slots__ = ()


class Manifest(Record):
    """The envelope of a stored object: what it is, in which version, and its bytes (ODF 0.34.1)."""

    __slots__ = ("kind", "version", "content")

    kind: int
    version: int
    content: bytes

    def __init__(self, kind: int, version: int, content: bytes) -> None:
        put = object.__setattr__
        put(self, "kind", kind)
        put(self, "version", version)
        put(self, "content", content)


class DatasetSnapshot(Record):
    """A dataset as declared by its author: name, kind and events to begin with (ODF 0.37.0)."""

    __slots__ = ("name", "kind", "metadata")

    name: DatasetAlias
    kind: DatasetKind
    metadata: tuple[MetadataEvent, ...]

    def __init__(
        self, name: DatasetAlias, kind: DatasetKind, metadata: tuple[MetadataEvent, ...]
    ) -> None:
        put = object.__setattr__
        put(self, "name", name)
        put(self, "kind", kind)
        put(self, "metadata", metadata)


class DatasetVocabulary(Record):
    """Names of the system columns in force (ODF 0.34.1)."""

    __slots__ = (
        "offset_column",
        "operation_type_column",
        "system_time_column",
        "event_time_column",
    )

    offset_column: str
    operation_type_column: str
    system_time_column: str
    event_time_column: str

    def __init__(
        self,
        *,
        offset_column: str = "offset",
        operation_type_column: str = "op",
        system_time_column: str = "system_time",
        event_time_column: str = "event_time",
    ) -> None:
        put = object.__setattr__
        put(self, "offset_column", offset_column)
        put(self, "operation_type_column", operation_type_column)
        put(self, "system_time_column", system_time_column)
        put(self, "event_time_column", event_time_column)


MetadataEvent: TypeAlias = (
    AddData
    | ExecuteTransform
    | Seed
    | SetPollingSource
    | SetTransform
    | SetVocab
    | SetAttachments
    | SetInfo
    | SetLicense
    | SetDataSchema
    | AddPushSource
    | DisablePushSource
    | DisablePollingSource
)
"""What a metadata block can record."""

FetchStep: TypeAlias = (
    FetchStepUrl | FetchStepFilesGlob | FetchStepContainer | FetchStepMqtt | FetchStepEthereumLogs
)
"""Where the data of a polling source comes from."""

EventTimeSource: TypeAlias = (
    EventTimeSourceFromMetadata | EventTimeSourceFromPath | EventTimeSourceFromSystemTime
)
"""How records get an event time when they have none of their own."""

SourceCaching: TypeAlias = SourceCachingForever
"""How long a fetched object stays good."""

PrepStep: TypeAlias = PrepStepDecompress | PrepStepPipe
"""What to do with the bytes before they are read."""

ReadStep: TypeAlias = (
    ReadStepCsv
    | ReadStepGeoJson
    | ReadStepEsriShapefile
    | ReadStepParquet
    | ReadStepJson
    | ReadStepNdJson
    | ReadStepNdGeoJson
)
"""How bytes become records."""

DataType: TypeAlias = (
    DataTypeBinary
    | DataTypeBool
    | DataTypeDate
    | DataTypeDecimal
    | DataTypeDuration
    | DataTypeFloat16
    | DataTypeFloat32
    | DataTypeFloat64
    | DataTypeInt8
    | DataTypeInt16
    | DataTypeInt32
    | DataTypeInt64
    | DataTypeUInt8
    | DataTypeUInt16
    | DataTypeUInt32
    | DataTypeUInt64
    | DataTypeList
    | DataTypeMap
    | DataTypeNull
    | DataTypeOption
    | DataTypeStruct
    | DataTypeTime
    | DataTypeTimestamp
    | DataTypeString
)
"""The type of a column or of what is nested in it."""

Transform: TypeAlias = TransformSql
"""How records become other records."""

MergeStrategy: TypeAlias = (
    MergeStrategyAppend
    | MergeStrategyLedger
    | MergeStrategySnapshot
    | MergeStrategyChangelogStream
    | MergeStrategyUpsertStream
)
"""How records just read relate to those already stored."""

Attachments: TypeAlias = AttachmentsEmbedded
"""Files that travel with a dataset."""
