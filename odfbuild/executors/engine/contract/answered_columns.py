"""Columns that an engine elsewhere says a query gives: what it may say, and what is wrong."""

from typing import Final

import pyarrow as pa

from odfbuild.errors import OdfBuildError
from odfbuild.executors.data.lookup import in_millis
from odfbuild.executors.engine.arrow.requirements import repeated_name
from odfbuild.executors.engine.contract.exchange import Wrong
from odfbuild.executors.engine.protocol import system_columns
from odfbuild.odf.events import DataSchema, DatasetVocabulary
from odfbuild.odf.opaque import opaque_parts
from odfbuild.odf.schema.arrow import to_arrow

MOST_COLUMNS: Final = 10_000
"""Columns of an answer, those within others included."""
LONGEST_NAME: Final = 1_000  # characters


def answered_columns(schema: DataSchema, vocab: DatasetVocabulary, wrong: Wrong) -> pa.Schema:
    """Return operation, event time and the data columns of an answer.

    System columns may be in it or not.  Raises the error of `wrong` for an answer of too many
    columns, or with two of one name, a name that cannot be shown or a type that is not known, or
    without an event time.
    """
    if len(schema.fields) > MOST_COLUMNS:
        raise wrong(f"says that the query gives {len(schema.fields):,} columns")
    if any(opaque_parts(schema)):
        raise wrong("says that the query gives a column of an unknown type")
    try:
        found = to_arrow(schema)
    except (OdfBuildError, ValueError, TypeError, pa.ArrowException):
        raise wrong("says that the query gives a column of an unknown type") from None
    names = [name for field in found for name in _names(field)]
    if len(names) > MOST_COLUMNS:
        raise wrong(f"says that the query gives {len(names):,} columns")
    for name in names:
        if not name or len(name) > LONGEST_NAME or not name.isprintable():
            raise wrong("says that the query gives a column whose name cannot be shown")
    twice = repeated_name(found.names)
    if twice is not None:
        raise wrong(f"says that the query gives two columns named {twice!r}")
    time, op = vocab.event_time_column, vocab.operation_type_column
    kind = found.field(time).type if time in found.names else None
    if kind is None or not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise wrong(f"says that the query gives no event time {time!r} that is a date or timestamp")
    hidden = {*system_columns(vocab), time}
    data = [pa.field(each.name, in_millis(each.type)) for each in found if each.name not in hidden]
    return pa.schema([pa.field(op, pa.int32()), pa.field(time, in_millis(kind)), *data])


def _names(field: pa.Field) -> list[str]:
    """Return the names of a column and of what is in it."""
    kind = field.type
    inner = [kind.field(number) for number in range(kind.num_fields)]
    return [field.name, *(name for each in inner for name in _names(each))]
