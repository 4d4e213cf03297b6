"""Requirements on results of queries of every engine: names, operations, event times."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.errors import InvalidQueryError
from odfbuild.odf.events import DatasetVocabulary

_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY: Final = 86_400
_FIRST: Final = -62_135_596_800  # the year 1 begins, in seconds since 1970
_END: Final = 253_402_300_800  # the year 9999 has ended


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
            what=f"the query has two result columns named {twice!r}",
            why="column names of a dataset must be unique",
            fix="rename one of them with AS",
        )
    reserved = {vocab.offset_column, vocab.system_time_column}
    reserved |= set() if raw else {vocab.operation_type_column}
    for name in names:
        if name in reserved:
            raise InvalidQueryError(
                what=f"the query has a result column named {name!r}",
                why="that is a system column, which odfbuild writes",
                fix="omit it, or rename it with AS",
            )


def check_event_time(batch: pa.RecordBatch, vocab: DatasetVocabulary) -> None:
    """Refuse rows of a result that have no event time, or one that no calendar here has."""
    time = vocab.event_time_column
    if batch.column(time).null_count:
        raise InvalidQueryError(
            what=f"the query returns rows without {time!r}",
            why="every record of a derivative dataset has an event time",
            fix=f"filter such rows (WHERE {time} IS NOT NULL), or fill it with coalesce",
        )
    if not _is_of_calendar(batch.column(time)):
        raise InvalidQueryError(
            what=f"the query returns rows whose {time!r} is not within the years 1 to 9999",
            why="watermarks, with which times are compared, have no other years",
            fix="check the unit of its numbers: seconds read as milliseconds, or the reverse, "
            "give such times",
        )


def _is_of_calendar(times: pa.Array) -> bool:
    """Tell whether dates or timestamps are all in years that can be named."""
    if not len(times):
        return True
    in_days = pa.types.is_date32(times.type)
    found = pc.min_max(times.view(pa.int32() if in_days else pa.int64())).as_py()
    if in_days:
        return bool(found["min"] * _DAY >= _FIRST and found["max"] * _DAY < _END)
    per = _PER_SECOND["ms" if pa.types.is_date64(times.type) else times.type.unit]
    return bool(_FIRST * per <= found["min"] and found["max"] < _END * per)


def given_operations(column: pa.Array, op: str) -> pa.Array:
    """Return the operations that a query of the event log gives, which must be known ones."""
    known = pc.is_in(column, value_set=pa.array([0, 1, 2, 3], column.type))
    if not pc.all(known, min_count=0).as_py():
        raise InvalidQueryError(
            what=f"the query returns an {op!r} that is not 0, 1, 2 or 3",
            why="these stand for append, retract, correct-from and correct-to",
            fix="pass the op of the input through unchanged",
        )
    return column.cast(pa.int32())
