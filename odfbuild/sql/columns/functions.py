"""Spark's built-in functions and the types of their results.

A signature has a letter for each argument, the last one repeated with `*`: t text, x text or
bytes, i integer, n number, d date or time, b boolean, a anything.  A result is sure not to be null
only if every argument is, and has such a type already: a conversion to another type may fail.

Only functions named here are known; the result of each depends on its arguments alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from odfbuild.odf.events import (
    DataField,
    DataType,
    DataTypeDecimal,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeStruct,
)
from odfbuild.sql.columns.structs import item_of
from odfbuild.sql.columns.types import UNKNOWN, Value, arithmetic, cast, common, negative
from odfbuild.sql.text import types
from odfbuild.sql.text.types import SqlType, unwrapped

Rule = Callable[[Sequence[Value]], Value]

_INTEGERS = {types.BYTE, types.SHORT, types.INT, types.BIGINT}
_TIMES = {types.DATE, types.TIMESTAMP, types.LOCAL_TIME}


def _is(letter: str, kind: SqlType | None) -> bool:
    """Return whether a type is accepted as it is, or converted without failure."""
    if kind is None or kind == types.NULL:
        return False
    match letter:
        case "a":
            return True
        case "t":
            return kind == types.STRING or kind in _INTEGERS | _TIMES or kind == types.BOOLEAN
        case "x":
            return kind in {types.STRING, types.BINARY}
        case "i":
            return kind in _INTEGERS
        case "n":
            return kind in _INTEGERS | {types.FLOAT, types.DOUBLE} or isinstance(
                kind, DataTypeDecimal
            )
        case "d":
            return kind in _TIMES
        case _:
            return kind == types.BOOLEAN


def _sure(signature: str, args: Sequence[Value]) -> bool:
    if signature.endswith("*"):
        signature = signature[:-1] + signature[-2] * len(args)
    return len(args) <= len(signature) and not any(
        value.nullable or not _is(letter, value.kind)
        for letter, value in zip(signature, args, strict=False)
    )


def gives(kind: SqlType, signature: str | None = None) -> Rule:
    """Return the rule of a function with one result type; without signature it may be null."""
    return lambda args: Value(kind, signature is None or not _sure(signature, args))


def never(kind: SqlType) -> Rule:
    """Return the rule of a function that never returns null."""
    return lambda _: Value(kind, False)


def first(args: Sequence[Value]) -> Value:
    """Return the type of the first argument, which may be null."""
    return args[0].or_null() if args else UNKNOWN


def same_type(args: Sequence[Value]) -> Value:
    return args[0] if args else UNKNOWN


# Conditions


def coalesce(args: Sequence[Value]) -> Value:
    kind = common(args).kind
    if kind is None or isinstance(kind, types.Interval):
        return UNKNOWN
    return Value(kind, all(cast(value, kind).nullable for value in args))


def if_(args: Sequence[Value]) -> Value:
    return common(args[1:]) if len(args) == 3 else UNKNOWN


def decode(args: Sequence[Value]) -> Value:
    if len(args) < 3:
        return Value(types.STRING, True)
    rest = args[1:]
    results = [*rest[1::2], *(rest[-1:] if len(rest) % 2 else ())]
    kind = common(results)
    return kind if len(rest) % 2 else kind.or_null()


# Text and times


def concat(args: Sequence[Value]) -> Value:
    kinds = {type(value.kind) for value in args}
    if DataTypeList in kinds:
        return common(args) if kinds == {DataTypeList} else UNKNOWN
    if all(value.kind == types.BINARY for value in args):
        return Value(types.BINARY, any(value.nullable for value in args))
    if any(value.kind is None for value in args):
        return UNKNOWN
    return Value(types.STRING, any(cast(value, types.STRING).nullable for value in args))


def concat_ws(args: Sequence[Value]) -> Value:
    return Value(types.STRING, not args or args[0].nullable or args[0].kind != types.STRING)


def cut(args: Sequence[Value]) -> Value:
    """Return the type of a part of a text, or of bytes."""
    kind = args[0].kind if args else None
    if kind is None:
        return UNKNOWN
    plain = types.BINARY if kind == types.BINARY else types.STRING
    sure = _sure("xii", args) or _sure("tii", args)
    return Value(plain, not sure)


def reverse(args: Sequence[Value]) -> Value:
    if not args or args[0].kind is None:
        return UNKNOWN
    return args[0] if isinstance(args[0].kind, DataTypeList) else gives(types.STRING, "t")(args)


def by_count(*rules: Rule) -> Rule:
    """Return a rule by the number of arguments, from one on; the last is for all more."""
    return lambda args: rules[min(max(len(args), 1), len(rules)) - 1](args)


def moved_date(args: Sequence[Value]) -> Value:
    """Return the type of a date plus days, or of a time plus a unit: `dateadd(day, 1, t)`."""
    if len(args) != 3:
        return gives(types.DATE, "di")(args)
    kind = types.LOCAL_TIME if args[2].kind == types.LOCAL_TIME else types.TIMESTAMP
    return UNKNOWN if args[2].kind is None else Value(kind, not _sure("id", args[1:]))


def date_distance(args: Sequence[Value]) -> Value:
    if len(args) == 3:
        return Value(types.BIGINT, not _sure("dd", args[1:]))
    return gives(types.INT, "dd")(args)


def window(args: Sequence[Value]) -> Value:
    kind = args[0].kind if args else None
    if kind is None:
        return UNKNOWN
    edge = DataTypeOption(types.LOCAL_TIME if kind == types.LOCAL_TIME else types.TIMESTAMP)
    return Value(DataTypeStruct((DataField("start", edge), DataField("end", edge))), False)


def window_part(args: Sequence[Value]) -> Value:
    """Return the type of TUMBLE_START and similar functions: an instant, except of local times."""
    kind = args[0].kind if args else None
    return UNKNOWN if kind in {None, types.LOCAL_TIME} else Value(types.TIMESTAMP, True)


# Numbers


def rounded_to_integer(args: Sequence[Value]) -> Value:
    """Return the type of floor and ceil."""
    kind = args[0].kind if len(args) == 1 else None
    if isinstance(kind, DataTypeDecimal):
        if kind.scale == 0:
            return Value(kind, True)
        return Value(DataTypeDecimal(min(kind.precision - kind.scale + 1, 38), 0), True)
    return Value(types.BIGINT, True) if _is("n", kind) else UNKNOWN


def operator(op: str) -> Rule:
    def rule(args: Sequence[Value]) -> Value:
        if len(args) != 2 or any(isinstance(a.kind, DataTypeDecimal) for a in args):
            return UNKNOWN
        return arithmetic(op, args[0], args[1]).or_null()

    return rule


def shift(args: Sequence[Value]) -> Value:
    kind = args[0].kind if args else None
    if kind not in {types.INT, types.BIGINT}:
        return UNKNOWN
    return Value(kind, not _sure("ii", args))


def zero_if_null(args: Sequence[Value]) -> Value:
    return coalesce([*args, Value(types.INT, False)])


# Lists, maps and structs


def array(args: Sequence[Value]) -> Value:
    item = common(args).stored
    return UNKNOWN if item is None or not args else Value(DataTypeList(item), False)


def map_(args: Sequence[Value]) -> Value:
    key, value = common(args[::2]).kind, common(args[1::2]).stored
    if not args or len(args) % 2 or key is None or value is None or isinstance(key, types.Interval):
        return UNKNOWN
    return Value(DataTypeMap(key, value), False)


def sized(args: Sequence[Value]) -> Value:
    return gives(types.INT, "a")(args)


def item(args: Sequence[Value]) -> Value:
    return item_of(args[0]) if args else UNKNOWN


def list_(args: Sequence[Value]) -> Value:
    """Return the type of the first argument, if that is a list."""
    return args[0] if args and isinstance(args[0].kind, DataTypeList) else UNKNOWN


def loose(args: Sequence[Value]) -> Value:
    """Return a list of the same items, which may be null."""
    kind = args[0].kind if args else None
    if not isinstance(kind, DataTypeList):
        return UNKNOWN
    item = unwrapped(kind.item_type)[0]
    others = [value.kind for value in args[1:]]
    if any(other not in {kind, item} and not isinstance(other, DataTypeList) for other in others):
        return UNKNOWN
    if any(isinstance(o, DataTypeList) and unwrapped(o.item_type)[0] != item for o in others):
        return UNKNOWN
    return Value(DataTypeList(DataTypeOption(item)), True)


def flatten(args: Sequence[Value]) -> Value:
    kind = args[0].kind if args else None
    if not isinstance(kind, DataTypeList):
        return UNKNOWN
    inner = unwrapped(kind.item_type)[0]
    if not isinstance(inner, DataTypeList):
        return UNKNOWN
    return Value(DataTypeList(DataTypeOption(unwrapped(inner.item_type)[0])), True)


def repeated(args: Sequence[Value]) -> Value:
    item = args[0].stored if args else None
    return UNKNOWN if item is None else Value(DataTypeList(item), not _sure("ii", args[1:]))


def range_(args: Sequence[Value]) -> Value:
    kinds = {value.kind for value in args[:2]}
    kind = kinds.pop()
    if kinds or kind is None or isinstance(kind, types.Interval):
        return UNKNOWN
    return Value(DataTypeList(kind), True)


def part_of_map(part: str) -> Rule:
    def rule(args: Sequence[Value]) -> Value:
        kind = args[0].kind if args else None
        if not isinstance(kind, DataTypeMap):
            return UNKNOWN
        inner: DataType = getattr(kind, f"{part}_type")
        return Value(DataTypeList(DataTypeOption(unwrapped(inner)[0])), args[0].nullable)

    return rule


def entries(args: Sequence[Value]) -> Value:
    kind = args[0].kind if args else None
    if not isinstance(kind, DataTypeMap):
        return UNKNOWN
    fields = (DataField("key", kind.key_type), DataField("value", kind.value_type))
    return Value(DataTypeList(DataTypeStruct(fields)), args[0].nullable)


def from_arrays(args: Sequence[Value]) -> Value:
    if len(args) != 2:
        return UNKNOWN
    keys, values = args[0].kind, args[1].kind
    if not isinstance(keys, DataTypeList) or not isinstance(values, DataTypeList):
        return UNKNOWN
    value = DataTypeOption(unwrapped(values.item_type)[0])
    return Value(DataTypeMap(unwrapped(keys.item_type)[0], value), True)


# Aggregates


def sum_(args: Sequence[Value]) -> Value:
    kind = args[0].kind if args else None
    if isinstance(kind, DataTypeDecimal):
        return Value(DataTypeDecimal(min(kind.precision + 10, 38), kind.scale), True)
    if kind in _INTEGERS:
        return Value(types.BIGINT, True)
    return Value(types.DOUBLE if kind in {types.FLOAT, types.DOUBLE, types.STRING} else None, True)


def avg(args: Sequence[Value]) -> Value:
    kind = args[0].kind if args else None
    if isinstance(kind, DataTypeDecimal):
        size, scale = min(kind.precision + 4, 38), min(kind.scale + 4, 38)
        return Value(DataTypeDecimal(size, scale), True)
    known = kind in _INTEGERS | {types.FLOAT, types.DOUBLE, types.STRING}
    return Value(types.DOUBLE if known else None, True)


def collected(args: Sequence[Value]) -> Value:
    kind = args[0].kind if args else None
    if kind is None or isinstance(kind, types.Interval):
        return UNKNOWN
    return Value(DataTypeList(kind), False)


def by(args: Sequence[Value]) -> Value:
    """Return the value of the row with the greatest rank, or a list of the values of several."""
    item = args[0].stored if len(args) == 3 else None
    return (
        first(args) if len(args) != 3 or item is None else Value(DataTypeList(_loose(item)), True)
    )


def _loose(item: DataType) -> DataType:
    return DataTypeOption(unwrapped(item)[0])


def percentile(args: Sequence[Value]) -> Value:
    if len(args) > 1 and (args[1].kind is None or isinstance(args[1].kind, DataTypeList)):
        return UNKNOWN
    return Value(types.DOUBLE, True)


def approximate(args: Sequence[Value]) -> Value:
    if len(args) < 2 or args[1].kind is None or isinstance(args[1].kind, DataTypeList):
        return UNKNOWN
    kind = args[0].kind
    return Value(kind if kind in _INTEGERS | _TIMES | {types.FLOAT, types.DOUBLE} else None, True)


# Windows


def shifted(args: Sequence[Value]) -> Value:
    """Return the value of another row, or the default where there is no such row."""
    if len(args) < 3:
        return first(args)
    sure = not args[0].nullable and not args[2].nullable and args[0].kind == args[2].kind
    return Value(args[0].kind, not sure)


def _all(rule: Rule, names: str) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


_TEXT = _all(
    gives(types.STRING, "t*"), "upper lower ucase lcase trim ltrim rtrim btrim replace translate"
) | {
    **_all(gives(types.STRING, "ti*"), "left repeat"),
    **_all(gives(types.STRING, "tit"), "lpad rpad"),
    **_all(gives(types.STRING, "tti*"), "regexp_extract"),
    **_all(gives(types.STRING, "ttti"), "regexp_replace"),
    **_all(gives(types.STRING, "ttii"), "overlay"),
    **_all(gives(types.STRING, "t"), "initcap soundex"),
    **_all(gives(types.STRING, "i"), "chr char space bin"),
    **_all(gives(types.STRING, "x"), "md5 sha sha1 base64"),
    **_all(gives(types.STRING, "d"), "dayname monthname"),
    **_all(gives(types.STRING, "ta*"), "format_string printf"),
    "date_format": gives(types.STRING, "dt"),
    "hex": gives(types.STRING, "a"),
    "typeof": never(types.STRING),
    "concat": concat,
    "concat_ws": concat_ws,
    "reverse": reverse,
    **_all(cut, "substring substr"),
    **_all(
        gives(types.STRING),
        "right split_part sha2 format_number regexp_substr elt conv from_unixtime to_json "
        "get_json_object array_join to_char url_encode url_decode mask",
    ),
    "split": gives(DataTypeList(types.STRING), "tti"),
    "regexp_extract_all": gives(DataTypeList(DataTypeOption(types.STRING))),
    "str_to_map": gives(DataTypeMap(types.STRING, DataTypeOption(types.STRING))),
    "unbase64": gives(types.BINARY),
    **_all(gives(types.BINARY), "unhex encode"),
    "decode": decode,
    **_all(
        gives(types.INT, "t"),
        "length len char_length character_length octet_length bit_length ascii",
    ),
    **_all(gives(types.INT, "tti"), "instr locate position levenshtein find_in_set regexp_count"),
    **_all(gives(types.BOOLEAN, "tt"), "startswith endswith contains regexp_like regexp"),
    "json_array_length": gives(types.INT),
    "hash": never(types.INT),
    "xxhash64": never(types.BIGINT),
    "crc32": gives(types.BIGINT, "x"),
}
WINDOW_PARTS = frozenset(
    f"{w}_{part}" for w in ("tumble", "hop", "session") for part in ("start", "end", "rowtime")
)
"""Functions of event time, which return parts of windows."""

_CONDITIONS: dict[str, Rule] = {
    **_all(coalesce, "coalesce nvl ifnull"),
    **_all(coalesce, "greatest least"),
    "if": if_,
    "nvl2": if_,
    "nullif": first,
    "nullifzero": first,
    "zeroifnull": zero_if_null,
    **_all(never(types.BOOLEAN), "isnull isnotnull isnan equal_null"),
}
_TIMED: dict[str, Rule] = {
    "to_date": by_count(gives(types.DATE, "d"), gives(types.DATE)),
    "to_timestamp": by_count(gives(types.TIMESTAMP, "d"), gives(types.TIMESTAMP)),
    "to_timestamp_ltz": gives(types.TIMESTAMP),
    "to_timestamp_ntz": gives(types.LOCAL_TIME),
    "try_to_timestamp": gives(types.TIMESTAMP),
    "try_to_date": gives(types.DATE),
    "date_trunc": gives(types.TIMESTAMP),
    "trunc": gives(types.DATE),
    **_all(moved_date, "date_add dateadd timestampadd"),
    "date_sub": gives(types.DATE, "di"),
    **_all(date_distance, "datediff date_diff timestampdiff"),
    "add_months": gives(types.DATE, "di"),
    "months_between": gives(types.DOUBLE, "ddb"),
    "last_day": gives(types.DATE, "d"),
    "next_day": gives(types.DATE),
    **_all(
        gives(types.INT, "d"),
        "year quarter month day dayofmonth dayofweek dayofyear weekday weekofyear hour minute "
        "second unix_date",
    ),
    "unix_timestamp": by_count(gives(types.BIGINT, "d"), gives(types.BIGINT)),
    "to_unix_timestamp": by_count(gives(types.BIGINT, "d"), gives(types.BIGINT)),
    **_all(gives(types.BIGINT, "d"), "unix_seconds unix_millis unix_micros"),
    **_all(gives(types.TIMESTAMP, "i"), "timestamp_seconds timestamp_millis timestamp_micros"),
    "date_from_unix_date": gives(types.DATE, "i"),
    "make_date": gives(types.DATE, "iii"),
    "make_dt_interval": gives(types.DAY_TIME),
    "make_ym_interval": gives(types.YEAR_MONTH),
    "make_timestamp": gives(types.TIMESTAMP),
    **_all(gives(types.TIMESTAMP, "dt"), "from_utc_timestamp to_utc_timestamp"),
    **_all(window, "window session_window"),
    "window_time": gives(types.TIMESTAMP),
    **dict.fromkeys(WINDOW_PARTS, window_part),
}
_NUMBERS: dict[str, Rule] = {
    **_all(
        gives(types.DOUBLE),
        "sqrt cbrt exp ln log log10 log2 log1p expm1 sin cos tan cot sec csc asin acos atan sinh "
        "cosh tanh asinh acosh atanh degrees radians rint sign signum",
    ),
    **_all(gives(types.DOUBLE, "nn"), "pow power atan2 hypot"),
    **_all(never(types.DOUBLE), "pi e"),
    **_all(lambda args: negative(args[0]) if args else UNKNOWN, "abs negative positive"),
    **_all(rounded_to_integer, "floor ceil ceiling"),
    **_all(operator("%"), "mod pmod"),
    "try_add": operator("+"),
    "try_subtract": operator("-"),
    "try_multiply": operator("*"),
    "try_divide": operator("/"),
    **_all(shift, "shiftleft shiftright"),
    "bit_count": gives(types.INT, "i"),
    **_all(gives(types.BIGINT), "factorial width_bucket"),
}
_NESTED: dict[str, Rule] = {
    "array": array,
    "map": map_,
    **_all(sized, "size cardinality array_size"),
    **_all(item, "element_at try_element_at get array_max array_min"),
    **_all(list_, "array_sort sort_array array_distinct slice filter"),
    **_all(loose, "array_union array_intersect array_except array_remove"),
    **_all(loose, "array_append array_prepend array_compact"),
    **_all(gives(types.BOOLEAN), "array_contains arrays_overlap map_contains_key exists forall"),
    "array_position": gives(types.BIGINT),
    "array_repeat": repeated,
    "flatten": flatten,
    **dict.fromkeys(("assert_true", "raise_error"), gives(types.NULL)),
    "sequence": range_,
    "map_keys": part_of_map("key"),
    "map_values": part_of_map("value"),
    "map_entries": entries,
    "map_filter": same_type,
    "map_from_arrays": from_arrays,
}
_OTHERS = """
    aes_decrypt aggregate array_insert arrays_zip bit_get bitmap_bit_position
    bitmap_bucket_number bitmap_count bround collate collation convert_timezone
    from_base32 from_csv from_json from_xml getbit hll_sketch_estimate hll_union hmac ilike
    is_valid_utf8 is_valid_variant is_variant_null jaro_winkler_similarity json_object_keys
    like luhn_check make_interval make_time make_timestamp_ltz
    make_timestamp_ntz make_valid_utf8 map_concat map_from_entries
    map_zip_with nanvl parse_json parse_url quote reduce regexp_instr rlike
    schema_of_csv schema_of_json schema_of_variant schema_of_xml sentences
    shiftrightunsigned st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid
    substring_index theta_difference theta_intersection theta_sketch_estimate theta_union time
    time_bucket time_diff time_from_micros time_from_millis time_from_seconds time_to_micros
    time_to_millis time_to_seconds time_trunc timestamp_nanos to_base32 to_binary
    to_csv to_number to_time to_varchar to_variant_object to_xml transform transform_keys
    transform_values try_aes_decrypt try_make_interval try_make_timestamp
    try_make_timestamp_ltz try_make_timestamp_ntz try_mod try_parse_json try_parse_url
    try_to_binary try_to_number try_to_time try_url_decode try_validate_utf8 try_variant_get
    unix_nanos validate_utf8 variant_get vector_cosine_similarity vector_inner_product
    vector_l2_distance vector_norm vector_normalize xpath xpath_boolean xpath_double
    xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string zip_with
"""
UNTYPED = frozenset(_OTHERS.split())
"""Functions of one row without a rule; their results depend on the arguments alone."""

SCALARS: Mapping[str, Rule] = {
    **_TEXT,
    **_CONDITIONS,
    **_TIMED,
    **_NUMBERS,
    **_NESTED,
}
"""Functions of one row that have a rule; casts and those with special arguments are elsewhere."""

AGGREGATES: Mapping[str, Rule] = {
    **_all(never(types.BIGINT), "count count_if approx_count_distinct regr_count grouping_id"),
    "grouping": never(types.BYTE),
    **_all(sum_, "sum try_sum"),
    **_all(avg, "avg mean try_avg"),
    **_all(first, "min max first last first_value last_value any_value mode"),
    **_all(by, "max_by min_by"),
    **_all(first, "bit_and bit_or bit_xor"),
    **_all(collected, "collect_list collect_set array_agg"),
    **_all(gives(types.BOOLEAN), "bool_and bool_or every some any"),
    **_all(
        gives(types.DOUBLE),
        "std stddev stddev_pop stddev_samp variance var_pop var_samp corr covar_pop covar_samp "
        "skewness kurtosis regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy",
    ),
    "regr_avgy": lambda args: avg(args[:1]),
    "regr_avgx": lambda args: avg(args[1:2]),
    **_all(percentile, "percentile percentile_cont"),
    "median": gives(types.DOUBLE),
    **_all(approximate, "percentile_approx approx_percentile"),
    **_all(gives(types.STRING), "listagg string_agg"),
}
"""Functions of many rows, with the rules of their types."""

ORDERED = frozenset({"percentile_approx", "approx_percentile"})
"""Aggregates whose result depends on the order of the rows, even if the query sorts them."""

RANKINGS: Mapping[str, Rule] = {
    **_all(never(types.INT), "row_number rank dense_rank ntile"),
    **_all(never(types.DOUBLE), "percent_rank cume_dist"),
    **_all(shifted, "lag lead"),
    "nth_value": first,
}
"""Functions that need a window."""

WINDOWED = frozenset({"window", "session_window", "window_time", "tumble", "hop", "session"})
"""Functions of event time, which group rows."""
