"""Checkpoints: a row of numbers for each group of a query, in one Parquet file, sorted by the key.

The file says what it was made for.  One for anything else is left aside, and the groups are
counted again; one of too many groups holds none, and says that it is not worth it to keep them.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odfbuild.executors.data.conformance import row_numbers
from odfbuild.executors.data.rows import row_keys, with_one_zero
from odfbuild.host.json_text import parse_json
from odfbuild.values import dataclass

MOST: Final = 1 << 20
"""Groups from which on a file of all of them costs more to write than keys to look up."""

_FORMAT: Final = 1
_MARK: Final = b"odfbuild.checkpoint"


@dataclass(frozen=True, slots=True)
class KnownGroups:
    """What a checkpoint says: the groups, or None if there are too many to keep."""

    table: pa.Table | None


def write_groups(path: Path, groups: KnownGroups, keys: Sequence[str], made_for: str) -> None:
    """Write a checkpoint; equal groups give equal bytes.

    `keys` are the columns of the key, `made_for` says by which query and engine they are counted.
    """
    table = pa.table({"__odf_n": pa.array([], pa.int64())})
    if groups.table is not None:
        table = _sorted(with_one_zero(groups.table), keys)
    mark = {
        "format": _FORMAT,
        "keys": list(keys),
        "made_for": made_for,
        "groups": "all" if groups.table is not None else "too many",
    }
    text = json.dumps(mark, sort_keys=True).encode()
    pq.write_table(
        table.replace_schema_metadata({_MARK: text}),
        path,
        row_group_size=1 << 17,
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
        column_encoding=_encodings(table.schema),
    )


def read_groups(path: Path, made_for: str) -> KnownGroups | None:
    """Return what a checkpoint says; None for one that was made for something else, cannot be read
    or counts what cannot be.
    """
    mark = _mark(path)
    if mark.get("made_for") != made_for:
        return None
    if mark["groups"] != "all":
        return KnownGroups(None)
    table = _readable(path)
    return KnownGroups(table) if table is not None and _is_counted(table) else None


def checkpoint_fault(path: Path) -> str | None:
    """Return why a file is not a checkpoint that a step leaves, None if it is one.

    It ends a sentence about the file.
    """
    mark = _mark(path)
    if not mark:
        return "is not one that can be read"
    if mark["groups"] != "all":
        return None
    if pq.read_metadata(path).num_rows > MOST:
        return f"has more than {MOST:,} groups"
    table = _readable(path)
    if table is None:
        return "is not one that can be read"
    return None if _is_counted(table) else "counts what cannot be"


def same_groups(one: Path, other: Path) -> bool | None:
    """Tell whether two checkpoints say the same of the same groups; None if one is not of ours.

    They may be made for different things.
    """
    marks = _mark(one), _mark(other)
    if not all(marks):
        return None
    tables = _readable(one), _readable(other)
    if tables[0] is None or tables[1] is None:
        return False
    alike: bool = marks[0]["groups"] == marks[1]["groups"]
    return alike and bool(_bits(tables[0]).equals(_bits(tables[1])))


def _mark(path: Path) -> dict[str, Any]:
    """Return what a checkpoint says of itself; nothing for a file of another engine or format."""
    try:
        metadata = pq.read_metadata(path).metadata or {}
        mark = parse_json(metadata.get(_MARK, b"{}"))
    except (pa.ArrowException, ValueError):
        return {}
    except OSError as error:
        _raise_of_system(error)
        return {}
    is_ours = isinstance(mark, dict) and mark.get("format") == _FORMAT
    return mark if is_ours and {"made_for", "groups"} <= mark.keys() else {}


def _readable(path: Path) -> pa.Table | None:
    """Return the groups of a checkpoint, None if its bytes are not those of a Parquet file."""
    try:
        with pq.ParquetFile(path) as file:
            table = file.read().replace_schema_metadata()
        table.validate(full=True)
    except (pa.ArrowException, ValueError):
        return None
    except OSError as error:
        _raise_of_system(error)
        return None
    return table


def _raise_of_system(error: OSError) -> None:
    """Raise an error of the system again; those of the Parquet reader have no number."""
    if error.errno is not None:
        raise error


def _is_counted(groups: pa.Table) -> bool:
    """Tell whether numbers of rows are numbers, and each group has a row at least."""
    if "__odf_n" not in groups.column_names:
        return False
    for name in groups.column_names:
        if name[:7] not in {"__odf_n", "__odf_c"}:
            continue
        column = groups.column(name)
        least = 1 if name == "__odf_n" else 0
        if not pa.types.is_integer(column.type) or column.null_count:
            return False
        if not pc.all(pc.greater_equal(column, least), min_count=0).as_py():
            return False
    return True


def _bits(table: pa.Table) -> pa.Table:
    """Return groups with floating-point numbers as bits: NaN equals itself."""
    for at, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[field.type.bit_width]
            plain = table.column(at).combine_chunks().view(bits)
            table = table.set_column(at, field.name, plain)
    return table


def _encodings(schema: pa.Schema) -> dict[str, str]:
    """Return how columns are packed: it takes half the time and less room than zstd alone."""
    found = {}
    for field in schema:
        kind = field.type
        if pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            found[field.name] = "DELTA_BINARY_PACKED"
        elif pa.types.is_decimal(kind) or pa.types.is_floating(kind):
            found[field.name] = "BYTE_STREAM_SPLIT"
        elif pa.types.is_string(kind) or pa.types.is_binary(kind):
            found[field.name] = "DELTA_BYTE_ARRAY"
    return found


def matched(found: pa.Table, known: pa.Table, keys: Sequence[str]) -> pa.Array:
    """Return for each row of `known` the number of the row of `found` with its key, or null.

    Keys are equal as in GROUP BY, and unique in both.
    """
    ours, theirs = row_keys(found.select(list(keys))), row_keys(known.select(list(keys)))
    numbers = pa.nulls(known.num_rows, pa.int64()), pa.nulls(found.num_rows, pa.int64())
    for number, (mine, other) in enumerate(zip(ours.columns, theirs.columns, strict=True)):
        values = pc.unique(mine)
        pair = [pc.index_in(each, value_set=values).cast(pa.int64()) for each in (other, mine)]
        if number:
            pair = [
                pc.add(pc.multiply(before, len(values)), code)
                for before, code in zip(numbers, pair, strict=True)
            ]
        dense = pc.unique(pair[1])
        other_number, my_number = (_index_in(each, dense) for each in pair)
        numbers = other_number, my_number
    order = _index_in(row_numbers(found.num_rows), numbers[1])
    return order.take(numbers[0])


def _index_in(values: Any, among: Any) -> pa.Array:
    """Return where values are among others; null is nowhere."""
    found = pc.index_in(values, value_set=among, skip_nulls=True).cast(pa.int64())
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def replaced(known: pa.Table, found: pa.Table, at: pa.Array, gone: pa.Array) -> pa.Table:
    """Return the groups with those of `found` in the place of those that were known.

    `at` is what `matched` gives, `gone` marks the rows of `found` whose group is no more.
    """
    rows = row_numbers(known.num_rows)
    taken = pc.coalesce(pc.add(at, known.num_rows), rows)
    both = pa.concat_tables([known, found.select(known.column_names)])
    kept = pc.invert(pc.coalesce(gone.take(at), False))
    fresh = pc.is_in(row_numbers(found.num_rows), value_set=at.drop_null())
    fresh = pc.and_(pc.invert(fresh), pc.invert(gone))
    added = row_numbers(both.num_rows - known.num_rows, known.num_rows).filter(fresh)
    return both.take(pa.concat_arrays([taken.filter(kept), added]))


def _sorted(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the groups in the order of their keys, if they are not in order already."""
    flat = row_keys(table.select(list(keys)))
    if flat.num_columns == 1 and _ascends(flat.column(0).combine_chunks()):
        return table
    order = pc.sort_indices(flat, sort_keys=[(name, "ascending") for name in flat.column_names])
    return table.take(order)


def _ascends(column: Any) -> bool:
    """Tell whether values without null or NaN ascend; that costs less than to sort them."""
    return bool(pc.all(pc.less(column[:-1], column[1:]), skip_nulls=False, min_count=0).as_py())
