"""The slots of every value class, in wire order.

Made by schemas/generate.py from schemas/odf.yaml: change that, not this.  It is one module
because one schema makes it, whose types refer to each other.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from odfbuild.odf import events, messages
from odfbuild.odf.record import Record
from odfbuild.odf.wire.slots import Slot, Table, Union

__all__ = ["ENUMS", "TABLES", "UNIONS"]

ENUMS: Final[Mapping[type[Enum], str]] = {
    events.DatasetKind: "i32",
    events.SourceOrdering: "i32",
    events.MqttQos: "i32",
    events.CompressionFormat: "i32",
    events.TimeUnit: "i16",
    events.OperationType: "u8",
}

UNIONS: Final[Mapping[str, Union]] = {
    "MetadataEvent": Union(
        (
            "AddData",
            "ExecuteTransform",
            "Seed",
            "SetPollingSource",
            "SetTransform",
            "SetVocab",
            "SetAttachments",
            "SetInfo",
            "SetLicense",
            "SetDataSchema",
            "AddPushSource",
            "DisablePushSource",
            "DisablePollingSource",
        ),
        (
            events.AddData,
            events.ExecuteTransform,
            events.Seed,
            events.SetPollingSource,
            events.SetTransform,
            events.SetVocab,
            events.SetAttachments,
            events.SetInfo,
            events.SetLicense,
            events.SetDataSchema,
            events.AddPushSource,
            events.DisablePushSource,
            events.DisablePollingSource,
        ),
    ),
    "FetchStep": Union(
        ("Url", "FilesGlob", "Container", "Mqtt", "EthereumLogs"),
        (
            events.FetchStepUrl,
            events.FetchStepFilesGlob,
            events.FetchStepContainer,
            events.FetchStepMqtt,
            events.FetchStepEthereumLogs,
        ),
    ),
    "EventTimeSource": Union(
        ("FromMetadata", "FromPath", "FromSystemTime"),
        (
            events.EventTimeSourceFromMetadata,
            events.EventTimeSourceFromPath,
            events.EventTimeSourceFromSystemTime,
        ),
    ),
    "SourceCaching": Union(("Forever",), (events.SourceCachingForever,)),
    "PrepStep": Union(("Decompress", "Pipe"), (events.PrepStepDecompress, events.PrepStepPipe)),
    "ReadStep": Union(
        ("Csv", "GeoJson", "EsriShapefile", "Parquet", "Json", "NdJson", "NdGeoJson"),
        (
            events.ReadStepCsv,
            events.ReadStepGeoJson,
            events.ReadStepEsriShapefile,
            events.ReadStepParquet,
            events.ReadStepJson,
            events.ReadStepNdJson,
            events.ReadStepNdGeoJson,
        ),
    ),
    "DataType": Union(
        (
            "Binary",
            "Bool",
            "Date",
            "Decimal",
            "Duration",
            "Float16",
            "Float32",
            "Float64",
            "Int8",
            "Int16",
            "Int32",
            "Int64",
            "UInt8",
            "UInt16",
            "UInt32",
            "UInt64",
            "List",
            "Map",
            "Null",
            "Option",
            "Struct",
            "Time",
            "Timestamp",
            "String",
        ),
        (
            events.DataTypeBinary,
            events.DataTypeBool,
            events.DataTypeDate,
            events.DataTypeDecimal,
            events.DataTypeDuration,
            events.DataTypeFloat16,
            events.DataTypeFloat32,
            events.DataTypeFloat64,
            events.DataTypeInt8,
            events.DataTypeInt16,
            events.DataTypeInt32,
            events.DataTypeInt64,
            events.DataTypeUInt8,
            events.DataTypeUInt16,
            events.DataTypeUInt32,
            events.DataTypeUInt64,
            events.DataTypeList,
            events.DataTypeMap,
            events.DataTypeNull,
            events.DataTypeOption,
            events.DataTypeStruct,
            events.DataTypeTime,
            events.DataTypeTimestamp,
            events.DataTypeString,
        ),
    ),
    "Transform": Union(("Sql",), (events.TransformSql,)),
    "MergeStrategy": Union(
        ("Append", "Ledger", "Snapshot", "ChangelogStream", "UpsertStream"),
        (
            events.MergeStrategyAppend,
            events.MergeStrategyLedger,
            events.MergeStrategySnapshot,
            events.MergeStrategyChangelogStream,
            events.MergeStrategyUpsertStream,
        ),
    ),
    "Attachments": Union(("Embedded",), (events.AttachmentsEmbedded,)),
    "RawQueryResponse": Union(
        ("Progress", "Success", "InvalidQuery", "InternalError"),
        (
            messages.RawQueryResponseProgress,
            messages.RawQueryResponseSuccess,
            messages.RawQueryResponseInvalidQuery,
            messages.RawQueryResponseInternalError,
        ),
    ),
    "TransformResponse": Union(
        ("Progress", "Success", "InvalidQuery", "InternalError"),
        (
            messages.TransformResponseProgress,
            messages.TransformResponseSuccess,
            messages.TransformResponseInvalidQuery,
            messages.TransformResponseInternalError,
        ),
    ),
    "ValidateQueryResponse": Union(
        ("Success", "InvalidQuery", "InternalError"),
        (
            messages.ValidateQueryResponseSuccess,
            messages.ValidateQueryResponseInvalidQuery,
            messages.ValidateQueryResponseInternalError,
        ),
    ),
    "MigrateQueryResponse": Union(
        ("Success", "Refused", "InternalError"),
        (
            messages.MigrateQueryResponseSuccess,
            messages.MigrateQueryResponseRefused,
            messages.MigrateQueryResponseInternalError,
        ),
    ),
    "DeriveProvenanceResponse": Union(
        ("Success", "InvalidQuery", "InternalError"),
        (
            messages.DeriveProvenanceResponseSuccess,
            messages.DeriveProvenanceResponseInvalidQuery,
            messages.DeriveProvenanceResponseInternalError,
        ),
    ),
    "StepResponse": Union(
        ("Success", "InvalidQuery", "InternalError"),
        (
            messages.StepResponseSuccess,
            messages.StepResponseInvalidQuery,
            messages.StepResponseInternalError,
        ),
    ),
    "IngestStepResponse": Union(
        ("Success", "Refused", "InternalError"),
        (
            messages.IngestStepResponseSuccess,
            messages.IngestStepResponseRefused,
            messages.IngestStepResponseInternalError,
        ),
    ),
}

TABLES: Final[Mapping[type[Record], Table]] = {
    events.MetadataBlock: Table(
        (
            Slot("system_time", "systemTime", 0, "timestamp"),
            Slot("prev_block_hash", "prevBlockHash", 1, "multihash", optional=True),
            Slot("sequence_number", "sequenceNumber", 2, "u64"),
            Slot("event", "event", 3, "union", "MetadataEvent"),
        )
    ),
    events.AddData: Table(
        (
            Slot("prev_checkpoint", "prevCheckpoint", 0, "multihash", optional=True),
            Slot("prev_offset", "prevOffset", 1, "u64", optional=True),
            Slot("new_data", "newData", 2, "table", events.DataSlice, optional=True),
            Slot("new_checkpoint", "newCheckpoint", 3, "table", events.Checkpoint, optional=True),
            Slot("new_watermark", "newWatermark", 4, "timestamp", optional=True),
            Slot(
                "new_source_state", "newSourceState", 5, "table", events.SourceState, optional=True
            ),
            Slot("extra", "extra", 6, "table", events.ExtraAttributes, optional=True),
        )
    ),
    events.DataSlice: Table(
        (
            Slot("logical_hash", "logicalHash", 0, "multihash"),
            Slot("physical_hash", "physicalHash", 1, "multihash"),
            Slot("offset_interval", "offsetInterval", 2, "table", events.OffsetInterval),
            Slot("size", "size", 3, "u64"),
        )
    ),
    events.OffsetInterval: Table((Slot("start", "start", 0, "u64"), Slot("end", "end", 1, "u64"))),
    events.Checkpoint: Table(
        (Slot("physical_hash", "physicalHash", 0, "multihash"), Slot("size", "size", 1, "u64"))
    ),
    events.SourceState: Table(
        (
            Slot("source_name", "sourceName", 0, "text"),
            Slot("kind", "kind", 1, "text"),
            Slot("value", "value", 2, "text"),
        )
    ),
    events.ExtraAttributes: Table((Slot("entries", "entries", 0, "json"),), transparent=True),
    events.ExecuteTransform: Table(
        (
            Slot("query_inputs", "queryInputs", 0, "tables", events.ExecuteTransformInput),
            Slot("prev_checkpoint", "prevCheckpoint", 1, "multihash", optional=True),
            Slot("prev_offset", "prevOffset", 2, "u64", optional=True),
            Slot("new_data", "newData", 3, "table", events.DataSlice, optional=True),
            Slot("new_checkpoint", "newCheckpoint", 4, "table", events.Checkpoint, optional=True),
            Slot("new_watermark", "newWatermark", 5, "timestamp", optional=True),
        )
    ),
    events.ExecuteTransformInput: Table(
        (
            Slot("dataset_id", "datasetId", 0, "did"),
            Slot("prev_block_hash", "prevBlockHash", 1, "multihash", optional=True),
            Slot("new_block_hash", "newBlockHash", 2, "multihash", optional=True),
            Slot("prev_offset", "prevOffset", 3, "u64", optional=True),
            Slot("new_offset", "newOffset", 4, "u64", optional=True),
        )
    ),
    events.Seed: Table(
        (
            Slot("dataset_id", "datasetId", 0, "did"),
            Slot("dataset_kind", "datasetKind", 1, "enum", events.DatasetKind),
        )
    ),
    events.SetPollingSource: Table(
        (
            Slot("fetch", "fetch", 0, "union", "FetchStep"),
            Slot("prepare", "prepare", 2, "unions", "PrepStep", optional=True),
            Slot("read", "read", 3, "union", "ReadStep"),
            Slot("preprocess", "preprocess", 5, "union", "Transform", optional=True),
            Slot("merge", "merge", 7, "union", "MergeStrategy"),
        )
    ),
    events.FetchStepUrl: Table(
        (
            Slot("url", "url", 0, "text"),
            Slot("event_time", "eventTime", 1, "union", "EventTimeSource", optional=True),
            Slot("cache", "cache", 3, "union", "SourceCaching", optional=True),
            Slot("headers", "headers", 5, "tables", events.RequestHeader, optional=True),
        )
    ),
    events.EventTimeSourceFromMetadata: Table(()),
    events.EventTimeSourceFromPath: Table(
        (
            Slot("pattern", "pattern", 0, "text"),
            Slot("timestamp_format", "timestampFormat", 1, "text", optional=True),
        )
    ),
    events.EventTimeSourceFromSystemTime: Table(()),
    events.SourceCachingForever: Table(()),
    events.RequestHeader: Table(
        (Slot("name", "name", 0, "text"), Slot("value", "value", 1, "text"))
    ),
    events.FetchStepFilesGlob: Table(
        (
            Slot("path", "path", 0, "text"),
            Slot("event_time", "eventTime", 1, "union", "EventTimeSource", optional=True),
            Slot("cache", "cache", 3, "union", "SourceCaching", optional=True),
            Slot("order", "order", 5, "enum", events.SourceOrdering, optional=True),
        )
    ),
    events.FetchStepContainer: Table(
        (
            Slot("image", "image", 0, "text"),
            Slot("command", "command", 1, "texts", optional=True),
            Slot("args", "args", 2, "texts", optional=True),
            Slot("env", "env", 3, "tables", events.EnvVar, optional=True),
        )
    ),
    events.EnvVar: Table(
        (Slot("name", "name", 0, "text"), Slot("value", "value", 1, "text", optional=True))
    ),
    events.FetchStepMqtt: Table(
        (
            Slot("host", "host", 0, "text"),
            Slot("port", "port", 1, "i32"),
            Slot("username", "username", 2, "text", optional=True),
            Slot("password", "password", 3, "text", optional=True),
            Slot("topics", "topics", 4, "tables", events.MqttTopicSubscription),
        )
    ),
    events.MqttTopicSubscription: Table(
        (
            Slot("path", "path", 0, "text"),
            Slot(
                "qos",
                "qos",
                1,
                "enum",
                events.MqttQos,
                optional=True,
                default=events.MqttQos.AT_MOST_ONCE,
            ),
        )
    ),
    events.FetchStepEthereumLogs: Table(
        (
            Slot("chain_id", "chainId", 0, "u64", optional=True),
            Slot("node_url", "nodeUrl", 1, "text", optional=True),
            Slot("filter", "filter", 2, "text", optional=True),
            Slot("signature", "signature", 3, "text", optional=True),
        )
    ),
    events.PrepStepDecompress: Table(
        (
            Slot("format", "format", 0, "enum", events.CompressionFormat),
            Slot("sub_path", "subPath", 1, "text", optional=True),
        )
    ),
    events.PrepStepPipe: Table((Slot("command", "command", 0, "texts"),)),
    events.ReadStepCsv: Table(
        (
            Slot("ddl_schema", "schema", 0, "texts", optional=True, own="ddlSchema"),
            Slot("separator", "separator", 1, "text", optional=True, default=","),
            Slot("encoding", "encoding", 2, "text", optional=True, default="utf8"),
            Slot("quote", "quote", 3, "text", optional=True, default='"'),
            Slot("escape", "escape", 4, "text", optional=True, default="\\"),
            Slot("header", "header", 5, "bool", optional=True, default=False),
            Slot("infer_schema", "inferSchema", 6, "bool", optional=True, default=False),
            Slot("null_value", "nullValue", 7, "text", optional=True, default=""),
            Slot("date_format", "dateFormat", 8, "text", optional=True, default="rfc3339"),
            Slot(
                "timestamp_format", "timestampFormat", 9, "text", optional=True, default="rfc3339"
            ),
            Slot("schema", "schema", 10, "table", events.DataSchema, optional=True),
        )
    ),
    events.DataSchema: Table(
        (
            Slot("fields", "fields", 0, "tables", events.DataField),
            Slot("extra", "extra", 1, "table", events.ExtraAttributes, optional=True),
        )
    ),
    events.DataField: Table(
        (
            Slot("name", "name", 0, "text"),
            Slot("type", "type", 1, "union", "DataType"),
            Slot("extra", "extra", 3, "table", events.ExtraAttributes, optional=True),
        )
    ),
    events.DataTypeBinary: Table((Slot("fixed_length", "fixedLength", 0, "u64", optional=True),)),
    events.DataTypeBool: Table(()),
    events.DataTypeDate: Table(()),
    events.DataTypeDecimal: Table(
        (Slot("precision", "precision", 0, "u32"), Slot("scale", "scale", 1, "i32"))
    ),
    events.DataTypeDuration: Table(
        (
            Slot(
                "unit",
                "unit",
                0,
                "enum",
                events.TimeUnit,
                optional=True,
                default=events.TimeUnit.MILLISECOND,
            ),
        )
    ),
    events.DataTypeFloat16: Table(()),
    events.DataTypeFloat32: Table(()),
    events.DataTypeFloat64: Table(()),
    events.DataTypeInt8: Table(()),
    events.DataTypeInt16: Table(()),
    events.DataTypeInt32: Table(()),
    events.DataTypeInt64: Table(()),
    events.DataTypeUInt8: Table(()),
    events.DataTypeUInt16: Table(()),
    events.DataTypeUInt32: Table(()),
    events.DataTypeUInt64: Table(()),
    events.DataTypeList: Table(
        (
            Slot("item_type", "itemType", 0, "union", "DataType"),
            Slot("fixed_length", "fixedLength", 2, "u64", optional=True),
        )
    ),
    events.DataTypeMap: Table(
        (
            Slot("key_type", "keyType", 0, "union", "DataType"),
            Slot("value_type", "valueType", 2, "union", "DataType"),
            Slot("keys_sorted", "keysSorted", 4, "bool", optional=True),
        )
    ),
    events.DataTypeNull: Table(()),
    events.DataTypeOption: Table((Slot("inner", "inner", 0, "union", "DataType"),)),
    events.DataTypeStruct: Table((Slot("fields", "fields", 0, "tables", events.DataField),)),
    events.DataTypeTime: Table(
        (
            Slot(
                "unit",
                "unit",
                0,
                "enum",
                events.TimeUnit,
                optional=True,
                default=events.TimeUnit.MILLISECOND,
            ),
        )
    ),
    events.DataTypeTimestamp: Table(
        (
            Slot(
                "unit",
                "unit",
                0,
                "enum",
                events.TimeUnit,
                optional=True,
                default=events.TimeUnit.MILLISECOND,
            ),
            Slot("timezone", "timezone", 1, "text", optional=True, default="UTC"),
        )
    ),
    events.DataTypeString: Table(()),
    events.ReadStepGeoJson: Table(
        (
            Slot("ddl_schema", "schema", 0, "texts", optional=True, own="ddlSchema"),
            Slot("schema", "schema", 1, "table", events.DataSchema, optional=True),
        )
    ),
    events.ReadStepEsriShapefile: Table(
        (
            Slot("ddl_schema", "schema", 0, "texts", optional=True, own="ddlSchema"),
            Slot("sub_path", "subPath", 1, "text", optional=True),
            Slot("schema", "schema", 2, "table", events.DataSchema, optional=True),
        )
    ),
    events.ReadStepParquet: Table(
        (
            Slot("ddl_schema", "schema", 0, "texts", optional=True, own="ddlSchema"),
            Slot("schema", "schema", 1, "table", events.DataSchema, optional=True),
        )
    ),
    events.ReadStepJson: Table(
        (
            Slot("sub_path", "subPath", 0, "text", optional=True),
            Slot("ddl_schema", "schema", 1, "texts", optional=True, own="ddlSchema"),
            Slot("date_format", "dateFormat", 2, "text", optional=True, default="rfc3339"),
            Slot("encoding", "encoding", 3, "text", optional=True, default="utf8"),
            Slot(
                "timestamp_format", "timestampFormat", 4, "text", optional=True, default="rfc3339"
            ),
            Slot("schema", "schema", 5, "table", events.DataSchema, optional=True),
        )
    ),
    events.ReadStepNdJson: Table(
        (
            Slot("ddl_schema", "schema", 0, "texts", optional=True, own="ddlSchema"),
            Slot("date_format", "dateFormat", 1, "text", optional=True, default="rfc3339"),
            Slot("encoding", "encoding", 2, "text", optional=True, default="utf8"),
            Slot(
                "timestamp_format", "timestampFormat", 3, "text", optional=True, default="rfc3339"
            ),
            Slot("schema", "schema", 4, "table", events.DataSchema, optional=True),
        )
    ),
    events.ReadStepNdGeoJson: Table(
        (
            Slot("ddl_schema", "schema", 0, "texts", optional=True, own="ddlSchema"),
            Slot("schema", "schema", 1, "table", events.DataSchema, optional=True),
        )
    ),
    events.TransformSql: Table(
        (
            Slot("engine", "engine", 0, "text"),
            Slot("version", "version", 1, "text", optional=True),
            Slot("query", "query", 2, "text", optional=True),
            Slot("queries", "queries", 3, "tables", events.SqlQueryStep, optional=True),
            Slot(
                "temporal_tables",
                "temporalTables",
                4,
                "tables",
                events.TemporalTable,
                optional=True,
            ),
        )
    ),
    events.SqlQueryStep: Table(
        (Slot("alias", "alias", 0, "text", optional=True), Slot("query", "query", 1, "text"))
    ),
    events.TemporalTable: Table(
        (Slot("name", "name", 0, "text"), Slot("primary_key", "primaryKey", 1, "texts"))
    ),
    events.MergeStrategyAppend: Table(()),
    events.MergeStrategyLedger: Table((Slot("primary_key", "primaryKey", 0, "texts"),)),
    events.MergeStrategySnapshot: Table(
        (
            Slot("primary_key", "primaryKey", 0, "texts"),
            Slot("compare_columns", "compareColumns", 1, "texts", optional=True),
        )
    ),
    events.MergeStrategyChangelogStream: Table((Slot("primary_key", "primaryKey", 0, "texts"),)),
    events.MergeStrategyUpsertStream: Table((Slot("primary_key", "primaryKey", 0, "texts"),)),
    events.SetTransform: Table(
        (
            Slot("inputs", "inputs", 0, "tables", events.TransformInput),
            Slot("transform", "transform", 1, "union", "Transform"),
        )
    ),
    events.TransformInput: Table(
        (
            Slot("dataset_ref", "datasetRef", 0, "ref"),
            Slot("alias", "alias", 1, "text", optional=True),
        )
    ),
    events.SetVocab: Table(
        (
            Slot("offset_column", "offsetColumn", 0, "text", optional=True),
            Slot("operation_type_column", "operationTypeColumn", 1, "text", optional=True),
            Slot("system_time_column", "systemTimeColumn", 2, "text", optional=True),
            Slot("event_time_column", "eventTimeColumn", 3, "text", optional=True),
        )
    ),
    events.SetAttachments: Table((Slot("attachments", "attachments", 0, "union", "Attachments"),)),
    events.AttachmentsEmbedded: Table(
        (Slot("items", "items", 0, "tables", events.AttachmentEmbedded),)
    ),
    events.AttachmentEmbedded: Table(
        (Slot("path", "path", 0, "text"), Slot("content", "content", 1, "text"))
    ),
    events.SetInfo: Table(
        (
            Slot("description", "description", 0, "text", optional=True),
            Slot("keywords", "keywords", 1, "texts", optional=True),
        )
    ),
    events.SetLicense: Table(
        (
            Slot("short_name", "shortName", 0, "text"),
            Slot("name", "name", 1, "text"),
            Slot("spdx_id", "spdxId", 2, "text", optional=True),
            Slot("website_url", "websiteUrl", 3, "text"),
        )
    ),
    events.SetDataSchema: Table(
        (
            Slot("raw_arrow_schema", "schema", 0, "bytes", optional=True, own="rawArrowSchema"),
            Slot("schema", "schema", 1, "table", events.DataSchema, optional=True),
        ),
        either=("raw_arrow_schema", "schema"),
    ),
    events.AddPushSource: Table(
        (
            Slot("source_name", "sourceName", 0, "text"),
            Slot("read", "read", 1, "union", "ReadStep"),
            Slot("preprocess", "preprocess", 3, "union", "Transform", optional=True),
            Slot("merge", "merge", 5, "union", "MergeStrategy"),
        )
    ),
    events.DisablePushSource: Table((Slot("source_name", "sourceName", 0, "text"),)),
    events.DisablePollingSource: Table(()),
    events.Manifest: Table(
        (
            Slot("kind", "kind", 0, "i64"),
            Slot("version", "version", 1, "i32"),
            Slot("content", "content", 2, "bytes"),
        )
    ),
    events.DatasetSnapshot: Table(
        (
            Slot("name", "name", 0, "alias"),
            Slot("kind", "kind", 1, "enum", events.DatasetKind),
            Slot("metadata", "metadata", 2, "unions", "MetadataEvent"),
        )
    ),
    events.DatasetVocabulary: Table(
        (
            Slot("offset_column", "offsetColumn", 0, "text", default="offset"),
            Slot("operation_type_column", "operationTypeColumn", 1, "text", default="op"),
            Slot("system_time_column", "systemTimeColumn", 2, "text", default="system_time"),
            Slot("event_time_column", "eventTimeColumn", 3, "text", default="event_time"),
        )
    ),
    messages.RawQueryRequest: Table(
        (
            Slot("input_data_paths", "inputDataPaths", 0, "texts"),
            Slot("transform", "transform", 1, "union", "Transform"),
            Slot("output_data_path", "outputDataPath", 3, "text"),
        )
    ),
    messages.RawQueryResponseRoot: Table(
        (Slot("value", "value", 0, "union", "RawQueryResponse"),), transparent=True
    ),
    messages.RawQueryResponseProgress: Table(()),
    messages.RawQueryResponseSuccess: Table((Slot("num_records", "numRecords", 0, "u64"),)),
    messages.RawQueryResponseInvalidQuery: Table((Slot("message", "message", 0, "text"),)),
    messages.RawQueryResponseInternalError: Table(
        (
            Slot("message", "message", 0, "text"),
            Slot("backtrace", "backtrace", 1, "text", optional=True),
        )
    ),
    messages.TransformRequest: Table(
        (
            Slot("dataset_id", "datasetId", 0, "did"),
            Slot("dataset_alias", "datasetAlias", 1, "alias"),
            Slot("system_time", "systemTime", 2, "timestamp"),
            Slot("vocab", "vocab", 3, "table", events.DatasetVocabulary),
            Slot("transform", "transform", 4, "union", "Transform"),
            Slot("query_inputs", "queryInputs", 6, "tables", messages.TransformRequestInput),
            Slot("next_offset", "nextOffset", 7, "u64"),
            Slot("prev_checkpoint_path", "prevCheckpointPath", 8, "text", optional=True),
            Slot("new_checkpoint_path", "newCheckpointPath", 9, "text"),
            Slot("new_data_path", "newDataPath", 10, "text"),
        )
    ),
    messages.TransformRequestInput: Table(
        (
            Slot("dataset_id", "datasetId", 0, "did"),
            Slot("dataset_alias", "datasetAlias", 1, "alias"),
            Slot("query_alias", "queryAlias", 2, "text"),
            Slot("vocab", "vocab", 3, "table", events.DatasetVocabulary),
            Slot(
                "offset_interval",
                "offsetInterval",
                4,
                "table",
                events.OffsetInterval,
                optional=True,
            ),
            Slot("data_paths", "dataPaths", 5, "texts"),
            Slot("schema_file", "schemaFile", 6, "text"),
            Slot("explicit_watermarks", "explicitWatermarks", 7, "tables", messages.Watermark),
        )
    ),
    messages.Watermark: Table(
        (
            Slot("system_time", "systemTime", 0, "timestamp"),
            Slot("event_time", "eventTime", 1, "timestamp"),
        )
    ),
    messages.TransformResponseRoot: Table(
        (Slot("value", "value", 0, "union", "TransformResponse"),), transparent=True
    ),
    messages.TransformResponseProgress: Table(()),
    messages.TransformResponseSuccess: Table(
        (
            Slot(
                "new_offset_interval",
                "newOffsetInterval",
                0,
                "table",
                events.OffsetInterval,
                optional=True,
            ),
            Slot("new_watermark", "newWatermark", 1, "timestamp", optional=True),
        )
    ),
    messages.TransformResponseInvalidQuery: Table((Slot("message", "message", 0, "text"),)),
    messages.TransformResponseInternalError: Table(
        (
            Slot("message", "message", 0, "text"),
            Slot("backtrace", "backtrace", 1, "text", optional=True),
        )
    ),
    messages.ValidateQueryRequest: Table(
        (
            Slot("vocab", "vocab", 0, "table", events.DatasetVocabulary),
            Slot("transform", "transform", 1, "union", "Transform"),
            Slot("query_inputs", "queryInputs", 3, "tables", messages.ValidateQueryRequestInput),
        )
    ),
    messages.ValidateQueryRequestInput: Table(
        (
            Slot("query_alias", "queryAlias", 0, "text"),
            Slot("vocab", "vocab", 1, "table", events.DatasetVocabulary),
            Slot("schema", "schema", 2, "table", events.DataSchema),
        )
    ),
    messages.ValidateQueryResponseRoot: Table(
        (Slot("value", "value", 0, "union", "ValidateQueryResponse"),), transparent=True
    ),
    messages.ValidateQueryResponseSuccess: Table(
        (Slot("schema", "schema", 0, "table", events.DataSchema),)
    ),
    messages.ValidateQueryResponseInvalidQuery: Table((Slot("message", "message", 0, "text"),)),
    messages.ValidateQueryResponseInternalError: Table(
        (
            Slot("message", "message", 0, "text"),
            Slot("backtrace", "backtrace", 1, "text", optional=True),
        )
    ),
    messages.MigrateQueryRequest: Table(
        (
            Slot("prev_transform", "prevTransform", 0, "union", "Transform"),
            Slot("next_transform", "nextTransform", 2, "union", "Transform"),
            Slot("prev_checkpoint_path", "prevCheckpointPath", 4, "text", optional=True),
            Slot("new_checkpoint_path", "newCheckpointPath", 5, "text"),
        )
    ),
    messages.MigrateQueryResponseRoot: Table(
        (Slot("value", "value", 0, "union", "MigrateQueryResponse"),), transparent=True
    ),
    messages.MigrateQueryResponseSuccess: Table(
        (Slot("new_checkpoint", "newCheckpoint", 0, "bool"),)
    ),
    messages.MigrateQueryResponseRefused: Table((Slot("message", "message", 0, "text"),)),
    messages.MigrateQueryResponseInternalError: Table(
        (
            Slot("message", "message", 0, "text"),
            Slot("backtrace", "backtrace", 1, "text", optional=True),
        )
    ),
    messages.DeriveProvenanceRequest: Table(
        (
            Slot("vocab", "vocab", 0, "table", events.DatasetVocabulary),
            Slot("transform", "transform", 1, "union", "Transform"),
            Slot("query_inputs", "queryInputs", 3, "tables", messages.DeriveProvenanceRequestInput),
            Slot(
                "record",
                "record",
                4,
                "table",
                messages.DeriveProvenanceRequestRecord,
                optional=True,
            ),
        )
    ),
    messages.DeriveProvenanceRequestRecord: Table(
        (
            Slot("data_path", "dataPath", 0, "text"),
            Slot("offset", "offset", 1, "u64"),
            Slot("watermark", "watermark", 2, "timestamp", optional=True),
            Slot("prev_watermark", "prevWatermark", 3, "timestamp", optional=True),
        )
    ),
    messages.DeriveProvenanceRequestInput: Table(
        (
            Slot("query_alias", "queryAlias", 0, "text"),
            Slot("vocab", "vocab", 1, "table", events.DatasetVocabulary),
            Slot("prev_offset", "prevOffset", 2, "u64", optional=True),
            Slot(
                "offset_interval",
                "offsetInterval",
                3,
                "table",
                events.OffsetInterval,
                optional=True,
            ),
            Slot("data_paths", "dataPaths", 4, "texts", optional=True),
            Slot("prev_data_paths", "prevDataPaths", 5, "texts", optional=True),
            Slot("schema_file", "schemaFile", 6, "text", optional=True),
        )
    ),
    messages.DeriveProvenanceResponseRoot: Table(
        (Slot("value", "value", 0, "union", "DeriveProvenanceResponse"),), transparent=True
    ),
    messages.DeriveProvenanceResponseSuccess: Table(
        (
            Slot("inputs", "inputs", 0, "tables", messages.DeriveProvenanceResponseInput),
            Slot("reason", "reason", 1, "text", optional=True),
        )
    ),
    messages.DeriveProvenanceResponseInput: Table(
        (
            Slot("query_alias", "queryAlias", 0, "text"),
            Slot(
                "offset_interval",
                "offsetInterval",
                1,
                "table",
                events.OffsetInterval,
                optional=True,
            ),
            Slot("made_of", "madeOf", 2, "tables", events.OffsetInterval, optional=True),
            Slot("caused_by", "causedBy", 3, "tables", events.OffsetInterval, optional=True),
        )
    ),
    messages.DeriveProvenanceResponseInvalidQuery: Table((Slot("message", "message", 0, "text"),)),
    messages.DeriveProvenanceResponseInternalError: Table(
        (
            Slot("message", "message", 0, "text"),
            Slot("backtrace", "backtrace", 1, "text", optional=True),
        )
    ),
    messages.StepRequest: Table(
        (
            Slot("vocab", "vocab", 0, "table", events.DatasetVocabulary),
            Slot("transform", "transform", 1, "union", "Transform"),
            Slot("query_inputs", "queryInputs", 3, "tables", messages.StepRequestInput),
            Slot("prev_data_paths", "prevDataPaths", 4, "texts"),
            Slot("schema", "schema", 5, "table", events.DataSchema, optional=True),
            Slot("watermark", "watermark", 6, "timestamp", optional=True),
            Slot("prev_watermark", "prevWatermark", 7, "timestamp", optional=True),
            Slot("in_full", "inFull", 8, "bool"),
            Slot("unbroken", "unbroken", 9, "bool"),
            Slot("prev_checkpoint_path", "prevCheckpointPath", 10, "text", optional=True),
            Slot("new_checkpoint_path", "newCheckpointPath", 11, "text", optional=True),
            Slot("new_data_path", "newDataPath", 12, "text"),
        )
    ),
    messages.StepRequestInput: Table(
        (
            Slot("query_alias", "queryAlias", 0, "text"),
            Slot("vocab", "vocab", 1, "table", events.DatasetVocabulary),
            Slot("schema", "schema", 2, "table", events.DataSchema),
            Slot(
                "offset_interval",
                "offsetInterval",
                3,
                "table",
                events.OffsetInterval,
                optional=True,
            ),
            Slot("data_paths", "dataPaths", 4, "texts"),
            Slot("prev_data_paths", "prevDataPaths", 5, "texts"),
        )
    ),
    messages.StepResponseRoot: Table(
        (Slot("value", "value", 0, "union", "StepResponse"),), transparent=True
    ),
    messages.StepResponseSuccess: Table(
        (
            Slot("num_records", "numRecords", 0, "u64"),
            Slot("new_checkpoint", "newCheckpoint", 1, "bool"),
            Slot("read_rows", "readRows", 2, "u64", optional=True),
            Slot("read_bytes", "readBytes", 3, "u64", optional=True),
            Slot("read_of", "readOf", 4, "u64", optional=True),
            Slot("cut_times", "cutTimes", 5, "tables", messages.StepResponseCutTime),
        )
    ),
    messages.StepResponseCutTime: Table(
        (
            Slot("column", "column", 0, "text"),
            Slot("value", "value", 1, "text"),
            Slot("row", "row", 2, "u64", optional=True),
        )
    ),
    messages.StepResponseInvalidQuery: Table((Slot("message", "message", 0, "text"),)),
    messages.StepResponseInternalError: Table(
        (
            Slot("message", "message", 0, "text"),
            Slot("backtrace", "backtrace", 1, "text", optional=True),
        )
    ),
    messages.IngestStepRequest: Table(
        (
            Slot("name", "name", 0, "text"),
            Slot("vocab", "vocab", 1, "table", events.DatasetVocabulary),
            Slot("read", "read", 2, "union", "ReadStep"),
            Slot("preprocess", "preprocess", 4, "union", "Transform", optional=True),
            Slot("merge", "merge", 6, "union", "MergeStrategy"),
            Slot("engine", "engine", 8, "text"),
            Slot("version", "version", 9, "text", optional=True),
            Slot("reader", "reader", 10, "text"),
            Slot("schema", "schema", 11, "table", events.DataSchema, optional=True),
            Slot("columns", "columns", 12, "text", optional=True),
            Slot("diverts_bad_rows", "divertsBadRows", 13, "bool"),
            Slot("max_bad_rows", "maxBadRows", 14, "u64", optional=True),
            Slot("max_bad_percent", "maxBadPercent", 15, "u64", optional=True),
            Slot("data_path", "dataPath", 16, "text"),
            Slot("prev_data_paths", "prevDataPaths", 17, "texts"),
            Slot("new_data_path", "newDataPath", 18, "text"),
            Slot("new_bad_rows_path", "newBadRowsPath", 19, "text"),
            Slot("new_left_out_path", "newLeftOutPath", 20, "text"),
        )
    ),
    messages.IngestStepResponseRoot: Table(
        (Slot("value", "value", 0, "union", "IngestStepResponse"),), transparent=True
    ),
    messages.IngestStepResponseSuccess: Table(
        (
            Slot("read_records", "readRecords", 0, "u64", optional=True),
            Slot("num_records", "numRecords", 1, "u64"),
            Slot("columns", "columns", 2, "texts"),
            Slot("gives_event_time", "givesEventTime", 3, "bool"),
            Slot("added_columns", "addedColumns", 4, "table", events.DataSchema),
            Slot("grown_columns", "grownColumns", 5, "table", events.DataSchema),
            Slot("missing_columns", "missingColumns", 6, "texts"),
            Slot(
                "renamed_columns", "renamedColumns", 7, "tables", messages.IngestStepResponseRenamed
            ),
            Slot("read_cut_times", "readCutTimes", 8, "tables", messages.StepResponseCutTime),
            Slot("cut_times", "cutTimes", 9, "tables", messages.StepResponseCutTime),
            Slot("bad_records", "badRecords", 10, "u64"),
            Slot("repeated_key", "repeatedKey", 11, "text", optional=True),
            Slot("left_out", "leftOut", 12, "u64", optional=True),
            Slot("left_out_of", "leftOutOf", 13, "u64", optional=True),
            Slot("timeless_row", "timelessRow", 14, "u64", optional=True),
        )
    ),
    messages.IngestStepResponseRenamed: Table(
        (Slot("name", "name", 0, "text"), Slot("column", "column", 1, "text"))
    ),
    messages.IngestStepResponseRefused: Table(
        (
            Slot("code", "code", 0, "text"),
            Slot("message", "message", 1, "text"),
            Slot("why", "why", 2, "text"),
            Slot("fix", "fix", 3, "text"),
        )
    ),
    messages.IngestStepResponseInternalError: Table(
        (
            Slot("message", "message", 0, "text"),
            Slot("backtrace", "backtrace", 1, "text", optional=True),
        )
    ),
}
