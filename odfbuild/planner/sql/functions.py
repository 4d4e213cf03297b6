"""Spark's built-in functions and the types that they give.

Only functions named here are known; the result of each depends on its arguments alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from odfbuild.odf.events import DataTypeList, DataTypeMap, DataTypeOption
from odfbuild.planner.sql import function_rules as rules
from odfbuild.planner.sql import spark_types as of
from odfbuild.planner.sql.function_rules import Rule
from odfbuild.planner.sql.types import UNKNOWN, negative

__all__ = ["AGGREGATES", "ORDERED", "RANKINGS", "SCALARS", "UNTYPED", "WINDOWED", "WINDOW_PARTS"]


def _all(rule: Rule, names: str) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


_TEXT = _all(
    rules.gives(of.STRING, "t*"), "upper lower ucase lcase trim ltrim rtrim btrim replace translate"
) | {
    **_all(rules.gives(of.STRING, "ti*"), "left repeat"),
    **_all(rules.gives(of.STRING, "tit"), "lpad rpad"),
    **_all(rules.gives(of.STRING, "tti*"), "regexp_extract"),
    **_all(rules.gives(of.STRING, "ttti"), "regexp_replace"),
    **_all(rules.gives(of.STRING, "ttii"), "overlay"),
    **_all(rules.gives(of.STRING, "t"), "initcap soundex"),
    **_all(rules.gives(of.STRING, "i"), "chr char space bin"),
    **_all(rules.gives(of.STRING, "x"), "md5 sha sha1 base64"),
    **_all(rules.gives(of.STRING, "d"), "dayname monthname"),
    **_all(rules.gives(of.STRING, "ta*"), "format_string printf"),
    "date_format": rules.gives(of.STRING, "dt"),
    "hex": rules.gives(of.STRING, "a"),
    "typeof": rules.never(of.STRING),
    "concat": rules.concat,
    "concat_ws": rules.concat_ws,
    "reverse": rules.reverse,
    **_all(rules.cut, "substring substr"),
    **_all(
        rules.gives(of.STRING),
        "right split_part sha2 format_number regexp_substr elt conv from_unixtime to_json "
        "get_json_object array_join to_char url_encode url_decode mask",
    ),
    "split": rules.gives(DataTypeList(of.STRING), "tti"),
    "regexp_extract_all": rules.gives(DataTypeList(DataTypeOption(of.STRING))),
    "str_to_map": rules.gives(DataTypeMap(of.STRING, DataTypeOption(of.STRING))),
    "unbase64": rules.gives(of.BINARY),
    **_all(rules.gives(of.BINARY), "unhex encode"),
    "decode": rules.decode,
    **_all(
        rules.gives(of.INT, "t"),
        "length len char_length character_length octet_length bit_length ascii",
    ),
    **_all(
        rules.gives(of.INT, "tti"), "instr locate position levenshtein find_in_set regexp_count"
    ),
    **_all(rules.gives(of.BOOLEAN, "tt"), "startswith endswith contains regexp_like regexp"),
    "json_array_length": rules.gives(of.INT),
    "hash": rules.never(of.INT),
    "xxhash64": rules.never(of.BIGINT),
    "crc32": rules.gives(of.BIGINT, "x"),
}
WINDOW_PARTS = frozenset(
    f"{w}_{part}" for w in ("tumble", "hop", "session") for part in ("start", "end", "rowtime")
)
"""Functions of event time, which take windows apart."""

_CONDITIONS: dict[str, Rule] = {
    **_all(rules.coalesce, "coalesce nvl ifnull"),
    **_all(rules.coalesce, "greatest least"),
    "if": rules.if_,
    "nvl2": rules.if_,
    "nullif": rules.first,
    "nullifzero": rules.first,
    "zeroifnull": rules.zero_if_null,
    **_all(rules.never(of.BOOLEAN), "isnull isnotnull isnan equal_null"),
}
_TIMED: dict[str, Rule] = {
    "to_date": rules.by_count(rules.gives(of.DATE, "d"), rules.gives(of.DATE)),
    "to_timestamp": rules.by_count(rules.gives(of.TIMESTAMP, "d"), rules.gives(of.TIMESTAMP)),
    "to_timestamp_ltz": rules.gives(of.TIMESTAMP),
    "to_timestamp_ntz": rules.gives(of.LOCAL_TIME),
    "try_to_timestamp": rules.gives(of.TIMESTAMP),
    "try_to_date": rules.gives(of.DATE),
    "date_trunc": rules.gives(of.TIMESTAMP),
    "trunc": rules.gives(of.DATE),
    **_all(rules.moved, "date_add dateadd timestampadd"),
    "date_sub": rules.gives(of.DATE, "di"),
    **_all(rules.apart, "datediff date_diff timestampdiff"),
    "add_months": rules.gives(of.DATE, "di"),
    "months_between": rules.gives(of.DOUBLE, "ddb"),
    "last_day": rules.gives(of.DATE, "d"),
    "next_day": rules.gives(of.DATE),
    **_all(
        rules.gives(of.INT, "d"),
        "year quarter month day dayofmonth dayofweek dayofyear weekday weekofyear hour minute "
        "second unix_date",
    ),
    "unix_timestamp": rules.by_count(rules.gives(of.BIGINT, "d"), rules.gives(of.BIGINT)),
    "to_unix_timestamp": rules.by_count(rules.gives(of.BIGINT, "d"), rules.gives(of.BIGINT)),
    **_all(rules.gives(of.BIGINT, "d"), "unix_seconds unix_millis unix_micros"),
    **_all(rules.gives(of.TIMESTAMP, "i"), "timestamp_seconds timestamp_millis timestamp_micros"),
    "date_from_unix_date": rules.gives(of.DATE, "i"),
    "make_date": rules.gives(of.DATE, "iii"),
    "make_timestamp": rules.gives(of.TIMESTAMP),
    **_all(rules.gives(of.TIMESTAMP, "dt"), "from_utc_timestamp to_utc_timestamp"),
    **_all(rules.window, "window session_window"),
    "window_time": rules.gives(of.TIMESTAMP),
    **dict.fromkeys(WINDOW_PARTS, rules.window_part),
}
_NUMBERS: dict[str, Rule] = {
    **_all(
        rules.gives(of.DOUBLE),
        "sqrt cbrt exp ln log log10 log2 log1p expm1 sin cos tan cot sec csc asin acos atan sinh "
        "cosh tanh asinh acosh atanh degrees radians rint sign signum",
    ),
    **_all(rules.gives(of.DOUBLE, "nn"), "pow power atan2 hypot"),
    **_all(rules.never(of.DOUBLE), "pi e"),
    **_all(lambda args: negative(args[0]) if args else UNKNOWN, "abs negative positive"),
    **_all(rules.whole, "floor ceil ceiling"),
    **_all(rules.operator("%"), "mod pmod"),
    "try_add": rules.operator("+"),
    "try_subtract": rules.operator("-"),
    "try_multiply": rules.operator("*"),
    "try_divide": rules.operator("/"),
    **_all(rules.shift, "shiftleft shiftright"),
    "bit_count": rules.gives(of.INT, "i"),
    **_all(rules.gives(of.BIGINT), "factorial width_bucket"),
}
_NESTED: dict[str, Rule] = {
    "array": rules.array,
    "map": rules.map_,
    **_all(rules.sized, "size cardinality array_size"),
    **_all(rules.item, "element_at try_element_at get array_max array_min"),
    **_all(rules.list_, "array_sort sort_array array_distinct slice filter"),
    **_all(rules.loose, "array_union array_intersect array_except array_remove"),
    **_all(rules.loose, "array_append array_prepend array_compact"),
    **_all(rules.gives(of.BOOLEAN), "array_contains arrays_overlap map_contains_key exists forall"),
    "array_position": rules.gives(of.BIGINT),
    "array_repeat": rules.repeated,
    "flatten": rules.flatten,
    "sequence": rules.range_,
    "map_keys": rules.part_of_map("key"),
    "map_values": rules.part_of_map("value"),
    "map_entries": rules.entries,
    "map_filter": rules.same,
    "map_from_arrays": rules.from_arrays,
}
_OTHERS = """
    aes_decrypt aggregate array_insert arrays_zip assert_true bit_get bitmap_bit_position
    bitmap_bucket_number bitmap_count bround collate collation convert_timezone
    from_base32 from_csv from_json from_xml getbit hll_sketch_estimate hll_union hmac ilike
    is_valid_utf8 is_valid_variant is_variant_null jaro_winkler_similarity json_object_keys
    like luhn_check make_dt_interval make_interval make_time make_timestamp_ltz
    make_timestamp_ntz make_valid_utf8 make_ym_interval map_concat map_from_entries
    map_zip_with nanvl parse_json parse_url quote raise_error reduce regexp_instr rlike
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
"""Functions of one row of which only that is known: the result depends on the arguments alone."""

SCALARS: Mapping[str, Rule] = {
    **_TEXT,
    **_CONDITIONS,
    **_TIMED,
    **_NUMBERS,
    **_NESTED,
}
"""Functions of one row that have a rule; casts and those with special arguments are elsewhere."""

AGGREGATES: Mapping[str, Rule] = {
    **_all(rules.never(of.BIGINT), "count count_if approx_count_distinct regr_count grouping_id"),
    "grouping": rules.never(of.BYTE),
    **_all(rules.sum_, "sum try_sum"),
    **_all(rules.avg, "avg mean try_avg"),
    **_all(rules.first, "min max first last first_value last_value any_value mode"),
    **_all(rules.by, "max_by min_by"),
    **_all(rules.first, "bit_and bit_or bit_xor"),
    **_all(rules.collected, "collect_list collect_set array_agg"),
    **_all(rules.gives(of.BOOLEAN), "bool_and bool_or every some any"),
    **_all(
        rules.gives(of.DOUBLE),
        "std stddev stddev_pop stddev_samp variance var_pop var_samp corr covar_pop covar_samp "
        "skewness kurtosis regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy",
    ),
    "regr_avgy": lambda args: rules.avg(args[:1]),
    "regr_avgx": lambda args: rules.avg(args[1:2]),
    **_all(rules.percentile, "percentile percentile_cont"),
    "median": rules.gives(of.DOUBLE),
    **_all(rules.approximate, "percentile_approx approx_percentile"),
    **_all(rules.gives(of.STRING), "listagg string_agg"),
}
"""Functions of many rows, known by the type that they give."""

ORDERED = frozenset({"percentile_approx", "approx_percentile"})
"""Those of them whose result depends on the order of the rows, however that is made."""

RANKINGS: Mapping[str, Rule] = {
    **_all(rules.never(of.INT), "row_number rank dense_rank ntile"),
    **_all(rules.never(of.DOUBLE), "percent_rank cume_dist"),
    **_all(rules.shifted, "lag lead"),
    "nth_value": rules.first,
}
"""Functions that need a window."""

WINDOWED = frozenset({"window", "session_window", "window_time", "tumble", "hop", "session"})
"""Functions of event time, which group rows."""
