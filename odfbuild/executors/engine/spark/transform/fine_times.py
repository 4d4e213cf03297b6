"""Times in the result of a query over many rows that are finer than datasets keep.

Such results are compared with earlier rows, so they are cut to milliseconds before they come out
of the engine, and whoever stores them cannot see it.  The inputs have milliseconds, so only a query
with a function or a cast that makes times can give finer ones: of such a query the result is asked
once more, for the least of the times that are cut of each column.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from odfbuild.executors.data.fine_times import Cut, written
from odfbuild.executors.engine.spark.cluster.driver import analysed_text
from odfbuild.executors.engine.spark.sql_text import in_utc, quoted, stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_MAKES_TIMES: Final = re.compile(
    r"\bas timestamp|::\s*timestamp|\btimestamp\s*(?!'[\dTZ :+-]*'(?!\s*['\"]))[('\"]|"
    r"micro|nano|to_timestamp|timestamp_seconds|"
    r"gettimestamp|timestampadd|dateadd|make_\w*(?:timestamp|interval)|from_(?:json|csv|xml|avro)|"
    r"variant|\.\d{4,}|interval(?!\s+'?\d+'?\s+(?:second|minute|hour|day|week|month|year)s?\b)",
    re.IGNORECASE,
)
_SHARE: Final = re.compile(r"- \S+\)? ?[/*]|avg\(|percentile|median|mean\(", re.IGNORECASE)

_FOUND: ContextVar[dict[str, Cut] | None] = ContextVar("fine_results", default=None)


@contextmanager
def collecting(*, wanted: bool = True) -> Iterator[dict[str, Cut]]:
    """Give where the first cut time of each column is put meanwhile; nothing if not `wanted`."""
    found: dict[str, Cut] = {}
    before = _FOUND.set(found if wanted else None)
    try:
        yield found
    finally:
        _FOUND.reset(before)


def note_fine(result: "DataFrame", texts: Sequence[str]) -> None:
    """Note the times of a result, not yet cut, that will be; `texts` are the steps of the query.

    Runs the query, but only if somebody collects them and it may give such times.
    """
    found = _FOUND.get()
    if found is None or not _may_be_fine(result, texts):
        return
    columns = []
    for field in result.schema.fields:
        name = quoted(field.name)
        kept, whole = stored(name, field.dataType), in_utc(name, field.dataType)
        if kept != whole and "map" not in field.dataType.simpleString():
            columns.append(f"min(IF({kept} <=> {whole}, NULL, {whole})) AS {name}")
    if not columns:
        return
    least = result.selectExpr(*columns).toArrow()
    for name, column in zip(least.column_names, least.columns, strict=True):
        if column[0].is_valid:
            found.setdefault(name, Cut(name, written(column[0])))


def _may_be_fine(result: "DataFrame", texts: Sequence[str]) -> bool:
    plan = analysed_text(result)
    return any(_MAKES_TIMES.search(each) or _SHARE.search(each) for each in (plan, *texts))
