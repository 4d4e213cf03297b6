"""Types of Arrow and values of them, drawn: flat, nested, encoded, of extensions."""

from datetime import date
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

_UNITS = ("s", "ms", "us", "ns")
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = 86_400
_EXACT = Context(prec=100)
INTEGERS = (
    pa.int8(), pa.int16(), pa.int32(), pa.int64(),
    pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
)  # fmt: skip
DECIMALS = (
    pa.decimal32(1, 0), pa.decimal32(9, 3), pa.decimal64(18, 18), pa.decimal128(38, 10),
    pa.decimal256(20, 2), pa.decimal256(38, 0), pa.decimal256(39, 0), pa.decimal256(76, 40),
)  # fmt: skip
TIMES = (
    pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
    *map(pa.timestamp, _UNITS),
    *(pa.timestamp(unit, zone) for unit in _UNITS for zone in ("UTC", "Europe/Paris")),
    *map(pa.duration, _UNITS),
)  # fmt: skip
TEXTS = (
    pa.string(), pa.large_string(), pa.string_view(),
    pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1), pa.binary(16),
)  # fmt: skip
FLAT = (
    pa.null(), pa.bool_(), pa.float16(), pa.float32(), pa.float64(),
    *INTEGERS, *DECIMALS, *TIMES, *TEXTS,
)  # fmt: skip
ENCODED = (
    pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.int64()),
    pa.dictionary(pa.int32(), pa.large_string()), pa.run_end_encoded(pa.int32(), pa.int64()),
    pa.month_day_nano_interval(), pa.struct([]),
)  # fmt: skip
EXTENSIONS = (
    pa.uuid(), pa.json_(), pa.bool8(), pa.opaque(pa.int32(), "name", "vendor"),
    pa.fixed_shape_tensor(pa.int32(), [2]),
)  # fmt: skip
UNWRITTEN = ENCODED[-3:]
"""Those that Parquet has no column for."""
ALL = (*FLAT, *ENCODED, *EXTENSIONS)
"""Types that are not nested, or nested by themselves."""

_NAMES = st.sampled_from(["m0", "m1", "m2", "M0", ""])


def nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    """Draw a type that holds values of others."""
    field = st.builds(
        lambda kind, null: pa.field("item", kind, nullable=null), inner, st.just(True)
    )
    one = [
        field.map(pa.list_), field.map(pa.large_list), field.map(pa.list_view),
        field.map(pa.large_list_view), field.map(lambda each: pa.list_(each, 2)),
        st.builds(lambda value: pa.map_(pa.string(), value), inner),
        st.lists(st.tuples(_NAMES, inner), min_size=1, max_size=3).map(pa.struct),
    ]  # fmt: skip
    return st.one_of(one)


types = st.recursive(st.sampled_from(ALL), nested, max_leaves=3)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Draw a value as `pa.array` takes it for a type, or null."""
    return st.none() | _values(kind)


def _values(kind: Any) -> st.SearchStrategy[Any]:
    is_ = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _values(kind.storage_type)
    if is_.is_null(kind):
        return st.none()
    if is_.is_dictionary(kind) or is_.is_run_end_encoded(kind):
        return _values(kind.value_type)
    if is_.is_boolean(kind):
        return st.booleans()
    if is_.is_integer(kind):
        low = -(2 ** (kind.bit_width - 1)) if is_.is_signed_integer(kind) else 0
        return st.integers(low, low + 2**kind.bit_width - 1)
    if is_.is_floating(kind):
        return st.floats(width=kind.bit_width, allow_nan=False)
    if is_.is_decimal(kind):
        most = 10**kind.precision - 1
        return st.integers(-most, most).map(lambda n: Decimal(n).scaleb(-kind.scale, _EXACT))
    if is_.is_date(kind):
        return st.dates(date(1900, 1, 1), date(2200, 1, 1))
    if is_.is_time(kind):
        return st.integers(0, _DAY * _PER_SECOND[kind.unit] - 1)
    if is_.is_timestamp(kind) or is_.is_duration(kind):
        return st.integers(-(10**9) * _PER_SECOND[kind.unit], 4 * 10**9 * _PER_SECOND[kind.unit])
    return _texts_and_more(kind)


def _texts_and_more(kind: Any) -> st.SearchStrategy[Any]:
    is_ = pa.types
    if is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind):
        return st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
    if is_.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_binary_view(kind):
        return st.binary(max_size=5)
    if is_.is_interval(kind):
        small = st.integers(0, 100)
        return st.tuples(small, small, small)
    if is_.is_map(kind):
        pairs = st.tuples(_values(kind.key_type), values(kind.item_type))
        return st.lists(pairs, max_size=2, unique_by=lambda pair: str(pair[0]))
    if is_.is_struct(kind):
        return st.tuples(*(st.tuples(st.just(each.name), values(each.type)) for each in kind))
    size = kind.list_size if is_.is_fixed_size_list(kind) else None
    low, high = (0, 3) if size is None else (size, size)
    return st.lists(values(kind.value_type), min_size=low, max_size=high)


def array(kind: Any, given: list[Any]) -> Any:
    """Return values of a type as Arrow holds them; raises pa.ArrowException where it cannot."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, array(kind.storage_type, given))
    if pa.types.is_run_end_encoded(kind):
        ends = pa.array(range(1, len(given) + 1), kind.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(ends, pa.array(given, kind.value_type))
    return pa.array(given, kind)


def plain(scalar: Any, *, cut: bool | None = None) -> Any:
    """Return what a scalar of Arrow says, whatever it is encoded as; times are nanoseconds.

    Timestamps that are `cut` are those of a dataset, in milliseconds: as a cell is by default, but
    not what is within one.
    """
    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.ExtensionScalar | pa.DictionaryScalar):
        return plain(scalar.value, cut=cut)
    kind, within = scalar.type, bool(cut)
    if pa.types.is_map(kind):
        return [(plain(e["key"], cut=within), plain(e["value"], cut=within)) for e in scalar.values]
    if pa.types.is_struct(kind):
        return [(each.name, plain(scalar[at], cut=within)) for at, each in enumerate(kind)]
    if pa.types.is_nested(kind):
        return [plain(each, cut=within) for each in scalar.values]
    if pa.types.is_date(kind):
        return scalar.as_py()
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        at = scalar.value * (10**9 // _PER_SECOND[kind.unit])
        is_cut = pa.types.is_timestamp(kind) and cut is not False
        return at // 10**6 * 10**6 if is_cut else at
    return scalar.as_py()
