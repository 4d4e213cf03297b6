"""Changelogs and their current rows as SQL texts: both ways.

Replaying takes the rows that were taken back out of those that were added; what is left is a
multiset, equal as GROUP BY says: null is null, NaN is NaN, -0.0 is 0.0.  The other way, two
multisets become the shortest changelog that leads from one to the other.
"""

# ruff: noqa: S608 - the texts are made of quoted names only

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from odfbuild.executors.data.changelog import only_appends, taken_back_in_vain
from odfbuild.executors.engine.spark.cluster.driver import built
from odfbuild.executors.engine.spark.errors import SparkQueryError
from odfbuild.executors.engine.spark.frames import (
    from_files,
    from_table,
    slice_table,
    with_one_zero,
)
from odfbuild.executors.engine.spark.ingest.merge import normal
from odfbuild.executors.engine.spark.session import Views
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.executors.engine.spark.sql_text import comparable, quoted
from odfbuild.odf.events import DatasetVocabulary
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


NO_ROW_TO_RETRACT: Final = "odf-gone:"
"""What the message begins with of the error for a retraction that meets no row, then its offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogReplay:
    """Reads slices into a session, and replays the changelogs that they are."""

    session: "SparkSession"
    views: Views
    size: StepSize

    def rows(self, paths: Sequence[Path], schema: pa.Schema) -> "DataFrame":
        """Return columns of slices as they are stored; what a slice lacks is null."""
        if self.size is StepSize.BIG and paths:
            return normal(with_one_zero(from_files(self.session, paths, schema)))
        nullable = pa.schema([field.with_nullable(True) for field in schema])
        tables = [slice_table(path, schema) for path in paths] or [nullable.empty_table()]
        return normal(with_one_zero(from_table(self.session, pa.concat_tables(tables))))

    def current_rows(
        self,
        paths: Sequence[Path],
        schema: pa.Schema,
        columns: Sequence[str],
        vocab: DatasetVocabulary,
        view: str,
        chosen: "Callable[[DataFrame], DataFrame]" = lambda rows: rows,
    ) -> "DataFrame":
        """Return these columns of the rows that nothing took back.

        `chosen` picks the rows to replay, by their values only; `view` is a name to work with.
        """
        op, offset = vocab.operation_type_column, vocab.offset_column
        appended = only_appends(paths, op)
        needed = [*columns] if appended else [op, offset, *columns]
        rows = chosen(self.rows(paths, pa.schema([schema.field(name) for name in needed])))
        if appended:
            return rows
        self.views.add(view, rows)
        return built(self.session, current_rows_text(quoted(view), columns, op=op, offset=offset))


@contextmanager
def in_vain() -> Iterator[None]:
    """Turn the error of a row that is taken back and not there into InvalidChangelogError."""
    try:
        yield
    except SparkQueryError as error:
        _, found, offset = (error.message or error.what).partition(NO_ROW_TO_RETRACT)
        if not found:
            raise
        raise taken_back_in_vain("".join(filter(str.isdigit, offset))) from None


def current_rows_text(view: str, columns: Sequence[str], *, op: str, offset: str) -> str:
    """Return the query of the rows that are left of a changelog, each as often as it is there.

    It fails with `NO_ROW_TO_RETRACT` for a row that is taken back and is not there.
    """
    names = ", ".join(map(quoted, columns))
    op, offset = quoted(op), quoted(offset)
    missing = f"CAST(raise_error(concat('{NO_ROW_TO_RETRACT}', __odf_gone)) AS BIGINT)"
    return f"""
SELECT {names} FROM (
  SELECT {names}, sum(IF({op} IN (0, 3), 1L, -1L)) AS __odf_n,
    max(IF({op} IN (1, 2), {offset}, NULL)) AS __odf_gone
  FROM {view} GROUP BY {names}
) LATERAL VIEW
  explode(array_repeat(0, CAST(IF(__odf_n < 0, {missing}, __odf_n) AS INT))) AS __odf_e"""


def changelog_text(
    before: str, after: str, kinds: Mapping[str, Any], *, op: str, key: Sequence[str] = ()
) -> str:
    """Return the query of the changes from the rows of one view to those of another.

    `kinds` are the columns and their Spark types, in the order by which rows are sorted, nulls
    first.  Rows removed and added of one key are paired in that order, as corrections.
    """
    names = ", ".join(map(quoted, kinds))
    rows = f"""
SELECT {names}, IF(__odf_w < 0, -1, 1) AS __odf_s, struct({_sort_columns(kinds)}) AS __odf_o FROM (
  SELECT {names}, sum(__odf_w) AS __odf_w FROM (
    SELECT {names}, -1L AS __odf_w FROM {before} UNION ALL SELECT {names}, 1L FROM {after})
  GROUP BY {names} HAVING sum(__odf_w) <> 0
) LATERAL VIEW explode(array_repeat(0, CAST(abs(__odf_w) AS INT))) AS __odf_e"""
    if not key:
        return f"SELECT IF(__odf_s < 0, 1, 0) AS {quoted(op)}, {names}, __odf_o FROM ({rows})"
    by = ", ".join(comparable(quoted(name), kinds[name]) for name in key)
    numbered = (
        f"SELECT *, row_number() OVER (PARTITION BY {by}, __odf_s ORDER BY __odf_o) AS __odf_i "
        f"FROM ({rows})"
    )
    pair = f"OVER (PARTITION BY {by}, __odf_i)"
    return f"""
SELECT IF(__odf_pair, IF(__odf_s < 0, 2, 3), IF(__odf_s < 0, 1, 0)) AS {quoted(op)}, {names},
  __odf_o FROM (
  SELECT {names}, __odf_s, min(__odf_s) {pair} <> max(__odf_s) {pair} AS __odf_pair,
    struct(min_by(__odf_o, __odf_s) {pair} AS o, __odf_i AS i) AS __odf_o
  FROM ({numbered}))"""


def _sort_columns(kinds: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{comparable(quoted(name), kind)} AS c{number}"
        for number, (name, kind) in enumerate(kinds.items())
    )
