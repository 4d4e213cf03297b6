"""What groups count, as SQL texts: of rows, and of what was known and what is new together.

The columns are those of `executors.grouping`, which works out the same of few rows.
"""

# ruff: noqa: S608 - the texts are made of names of ours only

from odfbuild.executors.grouping import GONE_AT, REDO, key_names
from odfbuild.executors.spark.frames import POSITION
from odfbuild.executors.spark.result_columns import OPERATION
from odfbuild.planner.sql.accumulators import Accumulators

__all__ = ["counted_text", "merged_text"]

_ADDS = f"{OPERATION} IN (0, 3)"


def counted_text(found: Accumulators, rows: str, *, taken: bool) -> str:
    """Return the query of what each group of a relation of rows counts.

    With `taken` some of the rows are taken back: the counts and sums are those that come less those
    that go, least and greatest are of the values of which more come, and beside them stand those,
    `__odf_m0` and `__odf_x0`, of which more go.
    """
    if not taken:
        return _counted(found, rows)
    ends = [n for n, kept in enumerate(found.kept) if kept.least or kept.greatest]
    by = [*key_names(found), *(f"__odf_a{n}" for n in ends)]
    sign = f"IF({_ADDS}, 1L, -1L)"
    numbers = [f"sum({sign}) AS __odf_n", f"max(IF({_ADDS}, NULL, {POSITION})) AS {GONE_AT}"]
    for n, kept in enumerate(found.kept):
        numbers.append(f"sum(IF(__odf_a{n} IS NULL, 0L, {sign})) AS __odf_c{n}")
        if kept.scale is not None:
            value = _exact(n, kept.scale)
            numbers.append(f"sum(IF({_ADDS}, {value}, -{value})) AS __odf_s{n}")
    listed = ", ".join(by)
    inner = f"SELECT {listed}, {', '.join(numbers)} FROM {rows} GROUP BY {listed}"
    outer = ["sum(__odf_n) AS __odf_n", f"max({GONE_AT}) AS {GONE_AT}"]
    for n, kept in enumerate(found.kept):
        outer.append(f"sum(__odf_c{n}) AS __odf_c{n}")
        if kept.scale is not None:
            outer.append(f"sum(__odf_s{n}) AS __odf_s{n}")
        come, go = f"IF(__odf_n > 0, __odf_a{n}, NULL)", f"IF(__odf_n < 0, __odf_a{n}, NULL)"
        if kept.least:
            outer += [f"min({come}) AS __odf_l{n}", f"min({go}) AS __odf_m{n}"]
        if kept.greatest:
            outer += [f"max({come}) AS __odf_h{n}", f"max({go}) AS __odf_x{n}"]
    keys = ", ".join(key_names(found))
    return f"SELECT {keys}, {', '.join(outer)} FROM ({inner}) GROUP BY {keys}"


def _counted(found: Accumulators, rows: str) -> str:
    numbers = ["count(1) AS __odf_n"]
    for n, kept in enumerate(found.kept):
        numbers.append(f"count(__odf_a{n}) AS __odf_c{n}")
        if kept.scale is not None:
            numbers.append(f"sum({_exact(n, kept.scale)}) AS __odf_s{n}")
        if kept.least:
            numbers.append(f"min(__odf_a{n}) AS __odf_l{n}")
        if kept.greatest:
            numbers.append(f"max(__odf_a{n}) AS __odf_h{n}")
    keys = ", ".join(key_names(found))
    return f"SELECT {keys}, {', '.join(numbers)} FROM {rows} GROUP BY {keys}"


def _exact(number: int, scale: int) -> str:
    return f"CAST(__odf_a{number} AS DECIMAL(38, {scale}))"


def merged_text(found: Accumulators, pairs: str, *, taken: bool) -> str:
    """Return the query of the groups as they are now.

    `pairs` has for each group what `counted_text` gives and, under names with `_was` behind, what
    was known of it, null for a group that is new.
    """
    columns = ["coalesce(__odf_n_was, 0L) + __odf_n AS __odf_n"]
    redo = []
    for n, kept in enumerate(found.kept):
        count = f"(coalesce(__odf_c{n}_was, 0L) + __odf_c{n})"
        columns.append(f"{count} AS __odf_c{n}")
        if kept.scale is not None:
            columns.append(f"IF({count} = 0, NULL, {_added(n, kept.scale)}) AS __odf_s{n}")
        if kept.least:
            columns.append(_end(n, count, "l", "least"))
            redo.append(f"({count} > 0 AND {_is_taken(n, 'l', 'm', '<=')})")
        if kept.greatest:
            columns.append(_end(n, count, "h", "greatest"))
            redo.append(f"({count} > 0 AND {_is_taken(n, 'h', 'x', '>=')})")
    again = " OR ".join(redo) if redo and taken else "false"
    gone = GONE_AT if taken else "CAST(NULL AS BIGINT)"
    columns += [f"({again}) AS {REDO}", f"{gone} AS {GONE_AT}"]
    return f"SELECT {', '.join([*key_names(found), *columns])} FROM {pairs}"


def _added(number: int, scale: int) -> str:
    """Return the sum of two sums: one digit less leaves room, or Spark would drop one behind."""
    parts = (
        f"CAST(coalesce({name}, 0) AS DECIMAL(37, {scale}))"
        for name in (f"__odf_s{number}_was", f"__odf_s{number}")
    )
    return f"CAST({' + '.join(parts)} AS DECIMAL(38, {scale}))"


def _end(number: int, count: str, letter: str, function: str) -> str:
    name = f"__odf_{letter}{number}"
    return f"IF({count} > 0, {function}({name}_was, {name}), NULL) AS {name}"


def _is_taken(number: int, letter: str, taken: str, compared: str) -> str:
    """Tell whether the end that was known is gone, and nothing that came stands in for it."""
    was, now = f"__odf_{letter}{number}_was", f"__odf_{letter}{number}"
    gone = f"coalesce(__odf_{taken}{number} {compared} {was}, false)"
    return f"{gone} AND NOT coalesce({now} {compared} {was}, false)"
