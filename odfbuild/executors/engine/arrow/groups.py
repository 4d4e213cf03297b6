"""Counts of groups in Arrow: of few rows, and of earlier counts with new rows.

Every column but those of the key stands for one number of a group: `__odf_n` counts its rows, and
of the argument 0 `__odf_c0` counts the values, `__odf_s0` is their sum, `__odf_l0` the least and
`__odf_h0` the greatest one.  For many rows, and for columns that Arrow orders unlike SQL, the
engine works out the same.
"""

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.sql.analysis.aggregates.accumulators import AccumulatedValue, Accumulators
from odfbuild.values import dataclass

GONE_AT: Final = "__odf_gone"
"""The position of the last row that was taken from a group."""

REDO: Final = "__odf_redo"
"""Whether the least or greatest value was taken from a group, so that all of it must be read."""

_SIGN: Final = "__odf_sign"
_DIGITS: Final = 38


def key_names(found: Accumulators) -> list[str]:
    """Return the columns of the key."""
    return [f"__odf_k{number}" for number in range(found.keys)]


def number_names(found: Accumulators) -> list[str]:
    """Return the columns of the numbers."""
    return ["__odf_n", *(name for n, kept in enumerate(found.kept) for name in _names(n, kept))]


def _names(number: int, kept: AccumulatedValue) -> Iterator[str]:
    yield f"__odf_c{number}"
    if kept.scale is not None:
        yield f"__odf_s{number}"
    yield from (end.name(number) for end in _ends(kept))


def counted(
    found: Accumulators, rows: pa.Table, takes: pa.Array, positions: pa.Array, *, taken: bool
) -> pa.Table | None:
    """Return what each group of some rows counts; None if Arrow cannot tell it as SQL would.

    `rows` has what `found.rows` gives; `takes` tells which rows are taken back, and `positions`
    where each one stood.  With `taken` the counts and sums are those that come less those that go,
    least and greatest are of the values of which more come, and beside them stand those,
    `__odf_m0` and `__odf_x0`, of which more go.
    """
    if not _speaks(found, rows):
        return None
    table = _with_signs(found, rows, takes, positions)
    ends = [f"__odf_a{n}" for n, kept in enumerate(found.kept) if _ends(kept)]
    if taken and ends:
        table = _grouped(table, [*key_names(found), *ends], _sums(found))
    for n, kept in enumerate(found.kept):
        table = _with_ends(table, n, kept, taken=taken) if _ends(kept) else table
    together = _grouped(table, key_names(found), [*_sums(found), *_extremes(found, taken=taken)])
    return together if taken else together.drop_columns([GONE_AT])


def _speaks(found: Accumulators, rows: pa.Table) -> bool:
    """Tell whether equal, less and the sum mean the same of these columns in Arrow and in SQL."""
    kinds = {each.name: each.type for each in rows.schema}
    if not all(_is_plain(kinds[name]) for name in key_names(found)):
        return False
    for n, kept in enumerate(found.kept):
        kind = kinds[f"__odf_a{n}"]
        if _ends(kept) and (not _is_plain(kind) or pa.types.is_boolean(kind)):
            return False
        if kept.scale is not None and not _has_room(kind, kept.scale, rows.num_rows):
            return False
    return True


def _is_plain(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_boolean(kind)
    )


def _has_room(kind: pa.DataType, scale: int, rows: int) -> bool:
    """Tell whether the sum of so many numbers surely fits."""
    if pa.types.is_integer(kind):
        digits = 20 + scale
    elif pa.types.is_decimal(kind) and kind.scale == scale:
        digits = kind.precision
    else:
        return False
    return digits + len(str(rows)) < _DIGITS


def _with_signs(
    found: Accumulators, rows: pa.Table, takes: pa.Array, positions: pa.Array
) -> pa.Table:
    """Return the key and the arguments of each row, and what it counts for, with its sign."""
    sign = pc.if_else(takes, pa.scalar(-1, pa.int64()), pa.scalar(1, pa.int64()))
    nowhere = pa.scalar(None, pa.int64())
    columns = {name: rows.column(name) for name in key_names(found)}
    columns |= {"__odf_n": sign, GONE_AT: pc.if_else(takes, positions.cast(pa.int64()), nowhere)}
    for n, kept in enumerate(found.kept):
        value = rows.column(f"__odf_a{n}")
        columns[f"__odf_c{n}"] = pc.if_else(value.is_null(), pa.scalar(0, pa.int64()), sign)
        if kept.scale is not None:
            exact = value.cast(pa.decimal128(_DIGITS, kept.scale))
            columns[f"__odf_s{n}"] = pc.if_else(takes, pc.negate(exact), exact)
        if _ends(kept):
            columns[f"__odf_a{n}"] = value
    return pa.table(columns)


def _with_ends(table: pa.Table, number: int, kept: AccumulatedValue, *, taken: bool) -> pa.Table:
    """Return the rows with the values that come and those that go, each where it is looked for."""
    value, count = table.column(f"__odf_a{number}"), table.column("__odf_n")
    nothing = pa.scalar(None, value.type)
    come = pc.if_else(pc.greater(count, 0), value, nothing)
    go = pc.if_else(pc.less(count, 0), value, nothing)
    for end in _ends(kept):
        table = table.append_column(end.name(number), come)
        if taken:
            table = table.append_column(f"__odf_{end.gone}{number}", go)
    return table


def _sums(found: Accumulators) -> list[tuple[str, str]]:
    """Return the columns that add up, each with its function, and the last position."""
    names = ["__odf_n", *(f"__odf_c{n}" for n in range(len(found.kept)))]
    names += [f"__odf_s{n}" for n, kept in enumerate(found.kept) if kept.scale is not None]
    return [*((name, "sum") for name in names), (GONE_AT, "max")]


def _extremes(found: Accumulators, *, taken: bool) -> list[tuple[str, str]]:
    listed = []
    for n, kept in enumerate(found.kept):
        for end in _ends(kept):
            names = [end.name(n), f"__odf_{end.gone}{n}"] if taken else [end.name(n)]
            listed += [(name, end.function) for name in names]
    return listed


def _grouped(table: pa.Table, keys: list[str], numbers: list[tuple[str, str]]) -> pa.Table:
    made = table.group_by(keys, use_threads=False).aggregate(numbers)
    told = [f"{name}_{function}" for name, function in numbers]
    return made.select([*keys, *told]).rename_columns([*keys, *(name for name, _ in numbers)])


def merged(found: Accumulators, new: pa.Table, was: pa.Table, *, taken: bool) -> pa.Table | None:
    """Return the groups as they are now; None if Arrow cannot tell it as SQL would.

    `new` is what `counted` gives, and `was` what was known of the same groups, null for a group
    that is new.
    """
    ends = [(n, end) for n, kept in enumerate(found.kept) for end in _ends(kept)]
    if not all(_is_plain(was.schema.field(end.name(n)).type) for n, end in ends):
        return None
    columns = {name: new.column(name) for name in key_names(found)}
    for name in ("__odf_n", *(f"__odf_c{n}" for n in range(len(found.kept)))):
        columns[name] = pc.add(_known_values(was, name), new.column(name))
    try:
        for n, kept in enumerate(found.kept):
            if kept.scale is not None:
                some = pc.not_equal(columns[f"__odf_c{n}"], 0)
                total = _sum_of_two(was, new, f"__odf_s{n}", kept.scale)
                columns[f"__odf_s{n}"] = pc.if_else(some, total, pa.scalar(None, total.type))
    except pa.ArrowInvalid:  # a sum that does not fit: SQL has words for it
        return None
    redo = pa.chunked_array([pa.repeat(pa.scalar(value=False), new.num_rows)])
    for n, end in ends:
        some = pc.greater(columns[f"__odf_c{n}"], 0)
        columns[end.name(n)] = end.merged(was, new, n, some)
        if taken:
            redo = pc.or_(redo, pc.and_(some, end.is_taken(was, new, n)))
    columns[REDO] = redo
    columns[GONE_AT] = new.column(GONE_AT) if taken else pa.nulls(new.num_rows, pa.int64())
    return pa.table(columns)


@dataclass(frozen=True, slots=True)
class _End:
    """The least or the greatest value: its letter, that of values that go, and how it is found."""

    letter: str
    gone: str
    function: str
    beats: Callable[..., Any]

    def name(self, number: int) -> str:
        return f"__odf_{self.letter}{number}"

    def merged(self, was: pa.Table, new: pa.Table, number: int, some: Any) -> Any:
        """Return the value of each group, null for one of which `some` says that it has none."""
        name = self.name(number)
        known, come = was.column(name), new.column(name)
        stays = pc.coalesce(self.beats(known, come), known.is_valid())
        return pc.if_else(some, pc.if_else(stays, known, come), pa.scalar(None, come.type))

    def is_taken(self, was: pa.Table, new: pa.Table, number: int) -> Any:
        """Tell where what was known is gone, and nothing that came stands in for it."""
        known = was.column(self.name(number))
        gone = self.beats(new.column(f"__odf_{self.gone}{number}"), known)
        back = self.beats(new.column(self.name(number)), known)
        return pc.and_(pc.coalesce(gone, False), pc.invert(pc.coalesce(back, False)))


_LEAST: Final = _End("l", "m", "min", pc.less_equal)
_GREATEST: Final = _End("h", "x", "max", pc.greater_equal)


def _ends(kept: AccumulatedValue) -> list[_End]:
    return [_LEAST] * kept.least + [_GREATEST] * kept.greatest


def _known_values(was: pa.Table, name: str) -> Any:
    return pc.fill_null(was.column(name), 0)


def _sum_of_two(was: pa.Table, new: pa.Table, name: str, scale: int) -> Any:
    """Return the sum of two sums in 38 digits, of which one is left for what is carried."""
    kind = pa.decimal128(_DIGITS - 1, scale)
    parts = [pc.fill_null(each.column(name), Decimal(0)).cast(kind) for each in (was, new)]
    return pc.add(*parts)
