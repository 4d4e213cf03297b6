"""Versions of a temporal table: the rows of each key, and when each was in force.

They are not the rows that stand: a Snapshot takes the old row back when a new one comes, and that
was in force until then.  Of the log of an input

    +A, and +C of a pair     add a version, in force from its event time on
    -C with the next row     ends its version at the event time of +C, if that has the same primary
                             key and a later event time
    -C otherwise, and -R     remove their row

Of several versions in force at one time that of the greatest event time counts, of equal times the
greatest by all columns, nulls being least; a null in a primary key is a value like others.
Portions do not show: only equal rows are counted.
"""

# ruff: noqa: S608 - the texts are made of quoted names only

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.data.changelog import only_appends
from odfbuild.executors.engine.spark.changelog import NO_ROW_TO_RETRACT, ChangelogReplay
from odfbuild.executors.engine.spark.cluster.driver import built
from odfbuild.executors.engine.spark.sql_text import comparable, quoted
from odfbuild.odf.events import DatasetVocabulary
from odfbuild.sql.text.as_of_joins import FROM, ROW, TO

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_END: Final = "__odf_end"
"""The column of a log's versions that says when a correction ended them; null if none did."""


def logged(
    replaying: ChangelogReplay,
    paths: Sequence[Path],
    schema: pa.Schema,
    columns: Sequence[str],
    vocab: DatasetVocabulary,
    key: Sequence[str],
    view: str,
    chosen: "Callable[[DataFrame], DataFrame]" = lambda rows: rows,
) -> "DataFrame":
    """Return these columns of the versions that a log holds, each once, and when each was ended.

    `key` is the primary key; `chosen` picks the rows to look at by its values only; `view` is a
    name to work with.  The rows fail with `NO_ROW_TO_RETRACT` for one that is taken back and is
    not there.
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
    """Return the query of the versions in a log: rows that stand, and those that a pair ended."""
    names = ", ".join(map(quoted, columns))
    op, offset = quoted(vocab.operation_type_column), quoted(vocab.offset_column)
    time = quoted(vocab.event_time_column)
    by = ", ".join(map(quoted, key))
    missing = f"CAST(raise_error(concat('{NO_ROW_TO_RETRACT}', __odf_gone)) AS BOOLEAN)"
    return f"""
SELECT {names}, IF(__odf_n > 0, NULL, {_END}) AS {_END} FROM (
  SELECT {names}, sum(__odf_w) AS __odf_n, max({_END}) AS {_END}, max(__odf_gone) AS __odf_gone
  FROM (
    SELECT {names}, IF({op} IN (0, 3), 1L, -1L) AS __odf_w,
      IF({op} IN (1, 2), {offset}, NULL) AS __odf_gone,
      IF({op} = 2 AND __odf_next.o = {offset} + 1 AND __odf_next.op = 3
        AND __odf_next.t > {time}, __odf_next.t, NULL) AS {_END}
    FROM (SELECT *, lead(struct({offset} AS o, {op} AS op, {time} AS t))
      OVER (PARTITION BY {by} ORDER BY {offset}) AS __odf_next FROM {view})
  ) GROUP BY {names}
) WHERE IF(__odf_n < 0, {missing}, __odf_n > 0 OR {_END} IS NOT NULL)"""


def in_force(
    replaying: ChangelogReplay, rows: "DataFrame", key: Sequence[str], time: str, view: str
) -> "DataFrame":
    """Return versions, each as one value, and from when until when it is in force; null: still.

    A version that others cover for a time may be there several times.  `view` is a name to work
    with.
    """
    replaying.views.add(view, rows)
    kinds = {each.name: each.dataType for each in rows.schema.fields if each.name != _END}
    names = ", ".join(map(quoted, kinds))
    order = ", ".join(comparable(quoted(name), kind) for name, kind in kinds.items())
    by = [comparable(quoted(name), kinds[name]) for name in key]
    text = _ended_text if _END in rows.columns else _endless_text
    return built(replaying.session, text(quoted(view), names, quoted(time), order, by))


def _endless_text(view: str, names: str, time: str, order: str, by: Sequence[str]) -> str:
    """Return the query of when versions are in force of which each lasts until the next one."""
    return f"""
SELECT * FROM (
  SELECT struct({names}) AS {ROW}, {time} AS {FROM},
    lead({time}) OVER (PARTITION BY {", ".join(by)} ORDER BY {time}, {order}) AS {TO}
  FROM {view}
) WHERE {TO} IS NULL OR {TO} > {FROM}"""


def _ended_text(view: str, names: str, time: str, order: str, by: Sequence[str]) -> str:
    """Return the query of when versions are in force, some of which ended.

    Times at which a version of a key begins, or at which the one that began last ends, cut time
    into spans.  A span that versions begin is of the greatest of them; any other, `__odf_gaps`, is
    of the greatest version that began before it and goes on.
    """
    numbered = [f"__odf_k{number}" for number in range(len(by))]
    keys = ", ".join(numbered)
    named = ", ".join(f"{each} AS {name}" for each, name in zip(by, numbered, strict=True))
    sorted_ = f"PARTITION BY {keys} ORDER BY {FROM}, __odf_begins, __odf_o"
    used = f"({TO} IS NULL OR {TO} > {FROM})"
    span = f"named_struct('{FROM}', {FROM}, '{TO}', {TO})"
    return f"""
SELECT max_by({ROW}, __odf_o) AS {ROW}, __odf_span.{FROM}, __odf_span.{TO} FROM (
  SELECT *, explode(concat(IF({used}, array({span}), array()), filter(__odf_gaps,
    g -> g.{FROM} > {FROM} AND ({_END} IS NULL OR {_END} > g.{FROM})))) AS __odf_span
  FROM (
    SELECT *, collect_list(IF({used} AND NOT __odf_begins, {span}, NULL))
      OVER (PARTITION BY {keys}) AS __odf_gaps
    FROM (
      SELECT *, lead({FROM}) OVER ({sorted_}) AS {TO}
      FROM (
        SELECT *, last_value(IF(__odf_begins, struct({_END} AS e), NULL)) IGNORE NULLS
          OVER ({sorted_} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS __odf_last
        FROM (
          SELECT *, inline(filter(array(named_struct('at', {time}, 'begins', true),
            named_struct('at', {_END}, 'begins', false)), e -> e.at IS NOT NULL))
            AS ({FROM}, __odf_begins)
          FROM (
            SELECT struct({names}) AS {ROW}, struct({time}, {order}) AS __odf_o, {named}, {time},
              {_END} FROM {view}
          )
        )
      ) WHERE __odf_begins OR __odf_last.e <= {FROM}
    )
  ) WHERE __odf_begins
) GROUP BY {keys}, __odf_span"""


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
