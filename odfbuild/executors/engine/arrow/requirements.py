"""Requirements on results of queries of every engine: names, operations, event times."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.errors import InvalidQueryError
from odfbuild.odf.events import DatasetVocabulary


def repeated_name(names: Sequence[str]) -> str | None:
    """Return the first name that stands for two columns, if any."""
    return next((name for name in names if names.count(name) > 1), None)


def check_names(names: Sequence[str], vocab: DatasetVocabulary, *, raw: bool) -> None:
    """Refuse two columns of one name, and names of system columns.

    A query of the event log (`raw`) may give operations.  Raises InvalidQueryError.
    """
    twice = repeated_name(names)
    if twice is not None:
        raise InvalidQueryError(
            what=f"the query gives two columns named {twice!r}",
            why="the columns of a dataset have different names",
            fix="rename one of them with AS",
        )
    reserved = {vocab.offset_column, vocab.system_time_column}
    reserved |= set() if raw else {vocab.operation_type_column}
    for name in names:
        if name in reserved:
            raise InvalidQueryError(
                what=f"the query gives a column named {name!r}",
                why="that is a system column: it is written when the step is committed",
                fix="leave it out, or rename it with AS",
            )


def check_event_time(batch: pa.RecordBatch, vocab: DatasetVocabulary) -> None:
    """Refuse rows of a result that have no event time."""
    time = vocab.event_time_column
    if batch.column(time).null_count:
        raise InvalidQueryError(
            what=f"the query gives rows without {time!r}",
            why="every record of a derivative dataset has an event time",
            fix=f"filter such rows (WHERE {time} IS NOT NULL), or fill it with coalesce",
        )


def given_operations(column: pa.Array, op: str) -> pa.Array:
    """Return the operations that a query of the event log gives, which must be known ones."""
    known = pc.is_in(column, value_set=pa.array([0, 1, 2, 3], column.type))
    if not pc.all(known, min_count=0).as_py():
        raise InvalidQueryError(
            what=f"the query gives an {op!r} that is none of 0, 1, 2 and 3",
            why="these stand for append, retract, correct-from and correct-to",
            fix="pass the op of the input through as it is",
        )
    return column.cast(pa.int32())
