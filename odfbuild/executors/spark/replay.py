"""Changelogs and the rows that they stand for, as SQL texts: both ways.

Replaying takes the rows that were taken back out of those that were added; what is left is a
multiset, equal as GROUP BY says: null is null, NaN is NaN, -0.0 is 0.0.  The other way, two
multisets become the shortest changelog that leads from one to the other.
"""

# ruff: noqa: S608 - the texts are made of quoted names only

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from odfbuild.executors.spark.sqltypes import comparable, quoted

__all__ = ["GONE", "changelog_text", "only_appends", "standing_text"]

GONE: Final = "__odf_gone:"
"""What the message begins with of the error for a retraction that meets no row, then its offset."""


def only_appends(paths: Sequence[Path], op: str) -> bool:
    """Tell from the footers of slices whether no row of them takes another back."""
    return all(_highest(path, op) == 0 for path in paths)


def standing_text(view: str, columns: Sequence[str], *, op: str, offset: str) -> str:
    """Return the query of the rows that are left of a changelog, each as often as it is there.

    It fails with `GONE` for a row that is taken back and is not there.
    """
    names = ", ".join(map(quoted, columns))
    op, offset = quoted(op), quoted(offset)
    missing = f"CAST(raise_error(concat('{GONE}', __odf_gone)) AS BIGINT)"
    return f"""
SELECT {names} FROM (
  SELECT {names}, sum(IF({op} IN (0, 3), 1L, -1L)) AS __odf_n,
    max(IF({op} IN (1, 2), {offset}, NULL)) AS __odf_gone
  FROM {view} GROUP BY {names}
) LATERAL VIEW explode(array_repeat(0, CAST(IF(__odf_n < 0, {missing}, __odf_n) AS INT))) AS __odf_e"""


def changelog_text(
    before: str, after: str, kinds: Mapping[str, Any], *, op: str, key: Sequence[str] = ()
) -> str:
    """Return the query of the changes from the rows of one view to those of another.

    `kinds` are the columns and their Spark types, in the order by which rows are sorted, nulls
    first.  Rows removed and added of one key are paired in that order, as corrections.
    """
    names = ", ".join(map(quoted, kinds))
    rows = f"""
SELECT {names}, IF(__odf_w < 0, -1, 1) AS __odf_s, struct({_sorted(kinds)}) AS __odf_o FROM (
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
    min_by(__odf_o, __odf_s) {pair} AS __odf_o
  FROM ({numbered}))"""


def _sorted(kinds: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{comparable(quoted(name), kind)} AS c{number}"
        for number, (name, kind) in enumerate(kinds.items())
    )


def _highest(path: Path, op: str) -> int | None:
    """Return the greatest operation in a slice, None if its footer does not tell."""
    footer = pq.read_metadata(path)
    names = [footer.schema.column(at).path for at in range(footer.num_columns)]
    if op not in names:
        return None
    found = [footer.row_group(at).column(names.index(op)) for at in range(footer.num_row_groups)]
    if any(each.statistics is None or not each.statistics.has_min_max for each in found):
        return None
    return max((int(each.statistics.max) for each in found), default=0)
