"""The logical hash against published cases and against a plain reading of its definition."""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.odf.hashing import (
    WINDOW,
    LogicalHasher,
    UnhashableTypeError,
    array_digest,
    logical_hash,
    physical_hash,
)
from odfbuild.odf.identity import Multicodec
from tests.support.cases import load
from tests.support.effort import examples

VECTORS = load("logical-hashes")["vectors"]
RECORDS = [v for v in VECTORS if v["level"] == "record" and "expected" in v]
ARRAYS = [v for v in VECTORS if v["level"] == "array" and "expected" in v]
RELATIONS = [v for v in VECTORS if "relation" in v]


def _ids(vectors: list[dict[str, Any]]) -> list[str]:
    return [str(v["id"]) for v in vectors]


@pytest.mark.parametrize("vector", RECORDS, ids=_ids(RECORDS))
def test_vector_tables_hash_to_the_published_digest(vector: dict[str, Any]) -> None:
    table = _table(vector["columns"])
    assert str(logical_hash(table)) == vector["expected"]["multihash"]
    if "batches" in vector:
        assert (
            str(logical_hash(_cut(table, vector["batches"]), table.schema))
            == (vector["expected"]["multihash"])
        )


@pytest.mark.parametrize("vector", ARRAYS, ids=_ids(ARRAYS))
def test_vector_columns_hash_to_the_published_digest(vector: dict[str, Any]) -> None:
    array = _array(vector["type"], vector["values"])
    assert array_digest(array).hex() == vector["expected"]["digest_hex"]


@pytest.mark.parametrize("vector", RELATIONS, ids=_ids(RELATIONS))
def test_vector_relations_between_digests_hold(vector: dict[str, Any]) -> None:
    if vector["level"] == "record":
        left, right = (logical_hash(_table(vector[side])).digest for side in ("left", "right"))
    else:
        left, right = (
            array_digest(_array(vector[side]["type"], vector[side]["values"]))
            for side in ("left", "right")
        )
    assert (left == right) is (vector["relation"] == "equal")


# --- the definition, read plainly -----------------------------------------------------------


def _u64(number: int) -> bytes:
    return struct.pack("<Q", number)


def _oracle(table: pa.Table) -> bytes:
    """Hash by the text of the definition: rows as Python values, parents by the OR rule."""
    headers: list[bytes] = []
    digests: list[bytes] = []

    def walk(fields: Sequence[pa.Field], columns: Sequence[list[Any]], level: int) -> None:
        for field, values in zip(fields, columns, strict=True):
            headers.append(_u64(len(field.name.encode())) + field.name.encode() + _u64(level))
            if pa.types.is_struct(field.type):
                children = [field.type.field(i) for i in range(field.type.num_fields)]
                below = [[_child(v, c.name) for v in values] for c in children]
                walk(children, below, level + 1)
            else:
                digests.append(hashlib.sha3_256(_code(field.type) + _leaf(field, values)).digest())

    walk(list(table.schema), [[((), v) for v in c.to_pylist()] for c in table.columns], 0)
    return hashlib.sha3_256(b"".join(headers + digests)).digest()


def _child(row: tuple[tuple[bool, ...], Any], name: str) -> tuple[tuple[bool, ...], Any]:
    parents, value = row
    return (*parents, value is not None), None if value is None else value[name]


def _leaf(field: pa.Field, rows: list[Any]) -> bytes:
    out = bytearray()
    for start in range(0, len(rows), WINDOW):
        window = rows[start : start + WINDOW]
        valid = [True] * len(window)
        for side in zip(*[(*parents, value is not None) for parents, value in window], strict=True):
            if all(valid):
                valid = list(side)
            elif not all(side):
                valid = [a or b for a, b in zip(valid, side, strict=True)]
        for (_, value), is_valid in zip(window, valid, strict=True):
            out += _value(field.type, value) if is_valid else b"\0"
    return bytes(out)


def _value(t: pa.DataType, value: Any) -> bytes:
    if pa.types.is_boolean(t):
        return b"\2" if value else b"\1"
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t):
        items = value if value is not None else []
        encoded = [b"\0" if i is None else _value(t.value_type, i) for i in items]
        return _u64(len(items)) + b"".join(encoded)
    if pa.types.is_string(t):
        text = (value or "").encode()
        return _u64(len(text)) + text
    if pa.types.is_binary(t):
        return _u64(len(value or b"")) + (value or b"")
    number = 0 if value is None else _number(t, value) % (1 << t.bit_width)
    return number.to_bytes(t.bit_width // 8, "little")


def _number(t: pa.DataType, value: Any) -> int:
    if pa.types.is_floating(t):
        return int.from_bytes(struct.pack("<d" if t.bit_width == 64 else "<f", value), "little")
    if pa.types.is_decimal(t):
        return int(value.scaleb(t.scale))
    if pa.types.is_date(t):
        return int((value - date(1970, 1, 1)).days)
    if pa.types.is_timestamp(t):
        since = value.replace(tzinfo=None) - datetime(1970, 1, 1)
        return int(since // timedelta(milliseconds=1))
    if pa.types.is_time(t):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return int(seconds * 10**6 + value.microsecond)
    return int(value)


def _code(t: pa.DataType) -> bytes:
    if pa.types.is_boolean(t):
        return b"\5\0"
    if pa.types.is_integer(t):
        return b"\1\0" + bytes([pa.types.is_signed_integer(t)]) + _u64(t.bit_width)
    if pa.types.is_floating(t):
        return b"\2\0" + _u64(t.bit_width)
    if pa.types.is_binary(t):
        return b"\3\0"
    if pa.types.is_string(t):
        return b"\4\0"
    if pa.types.is_decimal(t):
        return b"\6\0" + _u64(t.bit_width) + _u64(t.precision) + _u64(t.scale)
    if pa.types.is_date(t):
        return b"\7\0" + _u64(32) + b"\0\0"
    if pa.types.is_time(t):
        return b"\x08\0" + _u64(64) + b"\2\0"
    if pa.types.is_timestamp(t):
        return b"\x09\0\1\0" + _u64(3) + b"UTC"
    return b"\x0b\0" + _code(t.value_type)


# --- random tables --------------------------------------------------------------------------

LEAVES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(max_size=4),
    pa.binary(): st.binary(max_size=4),
    pa.decimal128(6, 2): st.integers(-99, 99).map(lambda n: Decimal(n).scaleb(-2)),
    pa.date32(): st.dates(date(1900, 1, 1)),
    pa.time64("us"): st.times(),
    pa.timestamp("ms", "UTC"): st.datetimes(datetime(1900, 1, 1)).map(
        lambda d: d.replace(microsecond=d.microsecond // 1000 * 1000)
    ),
}
NAMES = ["a", "b", "é"]


@st.composite
def _typed(draw: st.DrawFn, depth: int, *, in_list: bool = False) -> tuple[Any, Any]:
    """Draw a type together with a strategy for its values."""
    kind = draw(st.sampled_from(["leaf", "leaf", "list", "fixed", "struct"]))
    if depth == 0 or kind == "leaf" or (kind == "struct" and in_list):
        leaf = draw(st.sampled_from(list(LEAVES)))
        return leaf, LEAVES[leaf]
    if kind == "struct":
        members = [draw(_typed(depth - 1)) for _ in range(draw(st.integers(1, 3)))]
        fields = [pa.field(n, t) for n, (t, _) in zip(NAMES, members, strict=False)]
        values = {n: st.none() | v for n, (_, v) in zip(NAMES, members, strict=False)}
        return pa.struct(fields), st.fixed_dictionaries(values)
    item, items = draw(_typed(depth - 1, in_list=True))
    if kind == "fixed":
        return pa.list_(item, 2), st.lists(st.none() | items, min_size=2, max_size=2)
    return pa.list_(item), st.lists(st.none() | items, max_size=3)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    columns = [draw(_typed(2)) for _ in range(draw(st.integers(1, 3)))]
    rows = draw(st.integers(0, 12))
    arrays = []
    for data_type, values in columns:
        cell = values if draw(st.booleans()) else st.none() | values
        arrays.append(pa.array(draw(st.lists(cell, min_size=rows, max_size=rows)), data_type))
    return pa.table(arrays, names=NAMES[: len(arrays)])


@given(tables())
@settings(max_examples=examples(60, 1_000))
def test_a_hash_equals_the_definition_read_plainly(table: pa.Table) -> None:
    assert logical_hash(table).digest == _oracle(table)


@given(tables(), st.lists(st.integers(0, 12), max_size=4))
def test_a_hash_does_not_depend_on_the_batches(table: pa.Table, cuts: list[int]) -> None:
    bounds = sorted({0, len(table), *(cut for cut in cuts if cut < len(table))})
    lengths = [end - start for start, end in pairwise(bounds)]
    assert logical_hash(_cut(table, lengths), table.schema) == logical_hash(table)


@given(tables())
def test_a_hash_does_not_depend_on_nullability(table: pa.Table) -> None:
    required = pa.schema([f.with_nullable(False) for f in table.schema])
    assert logical_hash(table.to_batches(), required) == logical_hash(table)


def test_an_encoding_changes_nothing() -> None:
    plain = pa.table({"a": ["x", None, "x"], "b": [[1], None, [2, None]]})
    coded = pa.table(
        {
            "a": plain["a"].dictionary_encode().cast(pa.dictionary(pa.int8(), pa.large_string())),
            "b": plain["b"].cast(pa.large_list(pa.int64())),
        }
    )
    views = pa.table({"a": plain["a"].cast(pa.string_view()), "b": plain["b"]})
    assert logical_hash(plain) == logical_hash(coded) == logical_hash(views)


def test_values_below_nulls_do_not_count() -> None:
    clean = pa.array([[1, 2], None, [4]], pa.list_(pa.int64()))
    hidden = pa.ListArray.from_arrays(
        [0, 2, 3, 4], [1, 2, 3, 4], mask=pa.array([False, True, False])
    )
    assert array_digest(hidden) == array_digest(clean)


@pytest.mark.parametrize("rows", [WINDOW - 1, WINDOW, 2 * WINDOW + 1])
def test_struct_nulls_are_judged_by_windows_whatever_the_batches(rows: int) -> None:
    members = [None if i == 7 else {"a": None if i % 3 else i} for i in range(rows)]
    table = pa.table({"s": pa.array(members, pa.struct([("a", pa.int64())]))})
    halves = _cut(table, [rows // 2, rows - rows // 2])
    assert logical_hash(table).digest == _oracle(table)
    assert logical_hash(halves, table.schema) == logical_hash(table)


def test_big_input_hashed_by_threads_equals_the_definition() -> None:
    rows = 90_000
    table = pa.table(
        {
            "n": pa.array(range(rows), pa.int64()),
            "s": pa.array([None if i % 5 == 0 else "x" * (i % 200) for i in range(rows)]),
            "l": pa.array([[i, None] * (i % 3) for i in range(rows)], pa.list_(pa.int32())),
            "t": pa.array([{"a": i, "b": [str(i)]} if i % 4 else None for i in range(rows)]),
        }
    )
    assert table.nbytes > 10_000_000
    assert logical_hash(table).digest == _oracle(table)
    assert logical_hash(table.to_batches(max_chunksize=777), table.schema) == logical_hash(table)


@pytest.mark.parametrize(
    "data_type",
    [
        pa.duration("s"),
        pa.map_(pa.string(), pa.string()),
        pa.list_(pa.struct([("a", pa.int8())])),
        pa.month_day_nano_interval(),
    ],
    ids=str,
)
def test_a_type_without_bytes_is_refused_with_a_way_out(data_type: pa.DataType) -> None:
    with pytest.raises(UnhashableTypeError, match="no logical hash") as caught:
        LogicalHasher(pa.schema([("a", data_type)]))
    assert "cast the column" in caught.value.fix


def test_a_column_of_nothing_but_nulls_needs_a_type() -> None:
    with pytest.raises(UnhashableTypeError, match="type null"):
        logical_hash(pa.table({"a": pa.nulls(1)}))


def test_batches_of_another_width_are_refused() -> None:
    hasher = LogicalHasher(pa.schema([("a", pa.int8())]))
    with pytest.raises(ValueError, match="2 columns instead of 1"):
        hasher.update(pa.record_batch({"a": [1], "b": [2]}))


def test_batches_need_their_schema() -> None:
    with pytest.raises(ValueError, match="pass it"):
        logical_hash(iter([]))


def test_an_extension_type_hashes_as_what_it_stores() -> None:
    stored = pa.array([b"0123456789abcdef", None], pa.binary(16))
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), stored)
    assert array_digest(uuids) == array_digest(stored)


@pytest.mark.parametrize("rows", [0, 3])
def test_empty_lists_of_lists_hash_as_counts(rows: int) -> None:
    array = pa.array([[]] * rows, pa.list_(pa.list_(pa.string())))
    code = struct.pack("<HHH", 11, 11, 4)
    assert array_digest(array) == hashlib.sha3_256(code + bytes(8 * rows)).digest()


def test_a_physical_hash_is_the_sha3_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "slice").write_bytes(b"bytes" * 100_000)
    found = physical_hash(tmp_path / "slice")
    assert (found.code, found.digest) == (
        Multicodec.SHA3_256,
        hashlib.sha3_256(b"bytes" * 100_000).digest(),
    )


# --- cases to Arrow -------------------------------------------------------------------------


def _cut(table: pa.Table, lengths: list[int]) -> Iterator[pa.RecordBatch]:
    start = 0
    for length in lengths:
        rows = table.slice(start, length).combine_chunks()
        yield from rows.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
        start += length


def _table(columns: list[dict[str, Any]]) -> pa.Table:
    return pa.table(
        [_array(c["type"], c["values"]) for c in columns], names=[c["name"] for c in columns]
    )


def _array(text: str, values: list[Any]) -> pa.Array:
    data_type = _type(text)
    return pa.array([_python(data_type, value) for value in values], data_type)


def _python(t: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_decimal(t):
        return Decimal(value)
    if pa.types.is_binary(t) or pa.types.is_fixed_size_binary(t):
        return bytes.fromhex(value)
    return value


def _type(text: str) -> pa.DataType:
    """Read the short Arrow notation of the case files."""
    head, _, rest = text.partition("<")
    if rest and head == "struct":
        return pa.struct([(n, _type(t)) for n, t in map(_member, _split(rest[:-1]))])
    if rest:
        item, *size = _split(rest[:-1])
        return pa.list_(_type(item), int(size[0]) if size else -1)
    name, _, arguments = text.rstrip(")").partition("(")
    parts = [part.strip() for part in arguments.split(",") if part]
    typed: list[Any] = [int(part) if part.isdigit() else part for part in parts]
    factory = {"utf8": pa.string, "large_utf8": pa.large_string, "utf8_view": pa.string_view}
    named = {"bool": pa.bool_, "fixed_size_binary": pa.binary}
    make = factory.get(name) or named.get(name) or getattr(pa, name)
    return make(*typed)


def _member(text: str) -> tuple[str, str]:
    name, _, kind = text.partition(":")
    return name, kind


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == "<") - (char == ">")
        if char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]
