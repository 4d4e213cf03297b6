"""What a read step declares, checked: its schema as Arrow has it, and its date formats."""

import pyarrow as pa

from odfbuild.executors.readers.problems import supported
from odfbuild.executors.readers.values import Formats
from odfbuild.odf.arrow import to_arrow
from odfbuild.odf.events import ReadStep, ReadStepCsv, ReadStepJson, ReadStepNdJson
from odfbuild.odf.read_options import pattern_of
from odfbuild.odf.schema import parse_ddl

__all__ = ["declared_schema", "formats_of", "kept_type"]


def declared_schema(step: ReadStep) -> pa.Schema | None:
    """Return the schema of a read step, from its ODF form or its DDL; None if it has neither."""
    if step.schema is not None:
        found = to_arrow(step.schema)
    elif step.ddl_schema:
        found = to_arrow(parse_ddl(step.ddl_schema))
    else:
        return None
    return _kept(found) if len(found) else None


def _kept(schema: pa.Schema) -> pa.Schema:
    """Return the schema with times of day in microseconds: Spark's files have no other ones."""
    return pa.schema([field.with_type(kept_type(field.type)) for field in schema])


def kept_type(of: pa.DataType) -> pa.DataType:
    """Return the type in which a column is kept, nested ones too."""
    if pa.types.is_time(of):
        return pa.time64("us")
    if pa.types.is_struct(of):
        return pa.struct([each.with_type(kept_type(each.type)) for each in of])
    if pa.types.is_map(of):
        item = of.item_field.with_type(kept_type(of.item_type))
        return pa.map_(of.key_field.with_type(kept_type(of.key_type)), item)
    if pa.types.is_list(of):
        return pa.list_(of.value_field.with_type(kept_type(of.value_type)))
    return of


def formats_of(step: ReadStepCsv | ReadStepJson | ReadStepNdJson) -> Formats:
    """Return the patterns for dates and timestamps in strftime's letters, None for RFC 3339.

    Raises UnsupportedReadError.
    """
    with supported():
        return Formats(
            date=pattern_of("dateFormat", step.date_format),
            timestamp=pattern_of("timestampFormat", step.timestamp_format),
        )
