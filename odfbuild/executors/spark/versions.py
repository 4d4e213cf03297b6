"""The versions of a temporal table: which rows a key has had, and when each was in force.

They are not the rows that stand: a Snapshot takes the old row back when a new one comes, and that
was in force until then.  Of the log of an input

    +A, and +C of a pair     add a version, in force from its event time on
    -C with the next row     removes its row, but leaves it if +C has the same primary key and
                             another event time: then the key got a version more
    -R                       removes its row

Of several versions of one time the greatest by all columns is in force, nulls being least; a null
in a primary key is a value like others.  Portions do not show: only equal rows are counted.
"""

# ruff: noqa: S608 - the texts are made of quoted names only

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.changelog import only_appends
from odfbuild.executors.spark.admission import built
from odfbuild.executors.spark.replay import GONE, Replaying
from odfbuild.executors.spark.sqltypes import comparable, quoted
from odfbuild.odf.events import DatasetVocabulary
from odfbuild.planner.sql.temporal import FROM, ROW, TO

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["in_force", "logged", "time_of"]


def logged(
    replaying: Replaying,
    paths: Sequence[Path],
    schema: pa.Schema,
    columns: Sequence[str],
    vocab: DatasetVocabulary,
    key: Sequence[str],
    view: str,
    chosen: "Callable[[DataFrame], DataFrame]" = lambda rows: rows,
) -> "DataFrame":
    """Return these columns of the versions that a log holds, each once; `key` is the primary key.

    `chosen` picks the rows to look at by values of the primary key only; `view` is a name to work
    with.  The rows fail with `GONE` for one that is taken back and is not there.
    """
    op, offset = vocab.operation_type_column, vocab.offset_column
    appended = only_appends(paths, op)
    needed = [*columns] if appended else [op, offset, *columns]
    rows = chosen(replaying.rows(paths, pa.schema([schema.field(name) for name in needed])))
    if appended:
        return rows
    replaying.views.add(view, rows)
    text = _logged_text(quoted(view), columns, key, vocab)
    return built(replaying.session, text)


def _logged_text(
    view: str, columns: Sequence[str], key: Sequence[str], vocab: DatasetVocabulary
) -> str:
    """Return the query of the versions in a log: they are counted as rows are, but those kept."""
    names = ", ".join(map(quoted, columns))
    op, offset = quoted(vocab.operation_type_column), quoted(vocab.offset_column)
    time = quoted(vocab.event_time_column)
    same = " AND ".join(f"n.{quoted(name)} <=> l.{quoted(name)}" for name in key)
    return f"""
SELECT {names} FROM (
  SELECT {names}, sum(__odf_w) AS __odf_n, sum(IF(__odf_kept, -1L, __odf_w)) AS __odf_r,
    max(__odf_gone) AS __odf_gone
  FROM (
    SELECT {", ".join(f"l.{quoted(name)}" for name in columns)},
      n.{offset} IS NOT NULL AS __odf_kept,
      CASE WHEN l.{op} IN (0, 3) THEN 1L WHEN n.{offset} IS NULL THEN -1L ELSE 0L END AS __odf_w,
      IF(l.{op} IN (1, 2), l.{offset}, NULL) AS __odf_gone
    FROM {view} AS l LEFT JOIN (SELECT * FROM {view} WHERE {op} = 3) AS n
      ON l.{op} = 2 AND n.{offset} = l.{offset} + 1 AND n.{time} <> l.{time} AND {same}
  ) GROUP BY {names}
) WHERE IF(__odf_r < 0, CAST(raise_error(concat('{GONE}', __odf_gone)) AS BIGINT), __odf_n) > 0"""


def in_force(
    replaying: Replaying, rows: "DataFrame", key: Sequence[str], time: str, view: str
) -> "DataFrame":
    """Return versions, each as one value, and from when until when it is in force; null: still.

    `view` is a name to work with.
    """
    replaying.views.add(view, rows)
    kinds = {each.name: each.dataType for each in rows.schema.fields}
    names = ", ".join(map(quoted, kinds))
    order = ", ".join(comparable(quoted(name), kind) for name, kind in kinds.items())
    by = ", ".join(comparable(quoted(name), kinds[name]) for name in key)
    at = quoted(time)
    return built(
        replaying.session,
        f"""
SELECT * FROM (
  SELECT struct({names}) AS {ROW}, {at} AS {FROM},
    lead({at}) OVER (PARTITION BY {by} ORDER BY {at}, {order}) AS {TO}
  FROM {quoted(view)}
) WHERE {TO} IS NULL OR {TO} > {FROM}""",
    )


def time_of(table: str, columns: Sequence[str], times: Sequence[str]) -> str:
    """Return which column of a step is its event time: the first of these names that it has."""
    found = next((name for name in times if name in columns), None)
    if found is not None:
        return found
    raise InvalidQueryError(
        what=f"the step {table!r} gives no event time",
        why="a version of a temporal table is in force from its event time on",
        fix=f"select {' or '.join(map(repr, dict.fromkeys(times)))} in it as well",
    )
