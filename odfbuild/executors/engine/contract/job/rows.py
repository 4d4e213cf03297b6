"""Rows of a job's answer: what is required of them before anything is made of them.

Our engines give no other rows.  The file of a job was written elsewhere, so it is checked here.
"""

from collections.abc import Callable

import pyarrow as pa

from odfbuild.errors import InvalidQueryError, OdfBuildError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.arrow.requirements import (
    check_event_time,
    given_operations,
    repeated_name,
)
from odfbuild.odf.events import DatasetVocabulary

Wrong = Callable[[str], OdfBuildError]
"""What makes an error of what is wrong with an answer."""


def check_rows(frame: Frame, vocab: DatasetVocabulary, wrong: Wrong) -> None:
    """Refuse rows with columns, operations or event times that no query gives."""
    schema = frame.schema
    twice = repeated_name(schema.names)
    if twice is not None:
        raise wrong(f"wrote two columns named {twice!r}")
    for name in (vocab.offset_column, vocab.system_time_column):
        if name in schema.names:
            raise wrong(f"wrote a column {name!r}, which only a slice has")
    time, op = vocab.event_time_column, vocab.operation_type_column
    if time not in schema.names:
        raise wrong(f"wrote rows without the column {time!r}")
    kind = schema.field(time).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise wrong(f"wrote an event time {time!r} of {kind}, which is not a date or timestamp")
    has_operations = op in schema.names
    if has_operations and not pa.types.is_integer(schema.field(op).type):
        raise wrong(f"wrote operations {op!r} of {schema.field(op).type}, which are not integers")
    try:
        for batch in frame.select([time, op] if has_operations else [time]).batches():
            check_event_time(batch, vocab)
            if has_operations:
                given_operations(batch.column(op), op)
    except InvalidQueryError as error:
        raise wrong(f"wrote rows that no query gives: {error.what}") from None
    except (pa.ArrowException, OSError) as error:
        raise wrong(f"wrote rows that cannot be read: {error}") from None
