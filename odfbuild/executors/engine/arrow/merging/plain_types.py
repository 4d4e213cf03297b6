"""Plain types: those that rows are merged in, how they are written, and the way back."""

import pyarrow as pa

from odfbuild.executors.data.conformance import conform
from odfbuild.executors.data.frames import Frame


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with types that engines merge in, all columns nullable."""
    return pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which rows of a column are merged: the one in which Spark reads it."""
    plain = _PLAIN.get(kind)
    if plain is not None:
        return plain
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC")
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, plain_type(f.type)) for f in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(plain_type(kind.value_type))
    return pa.binary() if pa.types.is_fixed_size_binary(kind) else kind


_PLAIN = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
    pa.time32("s"): pa.time64("us"),
    pa.time32("ms"): pa.time64("us"),
    pa.time64("ns"): pa.time64("us"),
}


def type_text(kind: pa.DataType) -> str:
    """Return a plain type as Spark SQL writes it."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_map(kind):
        return f"map<{type_text(kind.key_type)},{type_text(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{f.name}:{type_text(f.type)}' for f in kind)}>"
    if pa.types.is_list(kind):
        return f"array<{type_text(kind.value_type)}>"
    return _TEXTS.get(kind, str(kind))


_TEXTS = {
    pa.null(): "void",
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.date32(): "date",
    pa.time64("us"): "time(6)",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


def as_declared(frame: Frame, source: pa.Schema, *, first: bool) -> Frame:
    """Give columns what the source declared and merging does not keep: types, and being required.

    A schema in force has its own say in what is required, and rows of the history may be null
    where newer ones are not; so only the `first` rows of a dataset are held to it.
    """
    fields = []
    for field in frame.schema:
        declared = source.field(field.name) if field.name in source.names else field
        if plain_type(declared.type) == plain_type(field.type):
            field = field.with_type(declared.type)  # noqa: PLW2901
        if first:
            field = field.with_nullable(field.nullable and declared.nullable)  # noqa: PLW2901
        fields.append(field)
    schema = pa.schema(fields)
    if frame.table is not None:
        batches = [_batch_as(each, schema) for each in frame.table.to_batches()]
        return Frame.of(pa.Table.from_batches(batches, schema))
    return Frame(schema=schema, parts=frame.parts)


def _batch_as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [conform(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
