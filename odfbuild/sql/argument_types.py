"""Types of arguments that Spark's functions and operators take, as its analyser says.

`python -m tests.sql.spark_types` writes the table; a test compares.  A type has a letter: b
BOOLEAN, y TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, c DECIMAL, t STRING, q a
constant text, x BINARY, D DATE, T TIMESTAMP, N TIMESTAMP_NTZ, A list, M map, S struct.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

Groups: TypeAlias = tuple[tuple[frozenset[str], ...], ...]

_TAKEN: Final = """
    A : array_compact array_distinct array_max array_min array_size collect_union flatten inline
        inline_outer map_from_entries sort_array
    A>A : array_except array_intersect array_union arrays_overlap map_from_arrays
    A>bysilfdctxDTNAMS : sort_array
    A>bysilfdctxDTNAMSq : array_sort array_append array_contains array_position array_prepend
        array_remove
    A>tq : array_join
    A>tq>tq : array_join
    A>ysilfdctq : get
    A>ysilfdctq>ysilfdctq : slice
    AM : cardinality explode explode_outer posexplode posexplode_outer size
    AM>bysilfdctxDTNAMSq : element_at try_element_at
    AMS : to_variant_object
    AMS>bysilfdctxDTNAMSq : element
    D : unix_date make_timestamp try_make_timestamp
    M : map_entries map_keys map_values
    M>bysilfdctxDTNAMSq : map_contains_key
    S : to_csv to_xml approx_top_k_combine approx_top_k_estimate
    S>ysilfdctq : approx_top_k_estimate
    TN : unix_micros unix_millis unix_seconds
    b : condition
    b>b ysilfdc>ysilfdc tq>tq x>x DTN>DTN A>A S>S : greatest least
    b>btq tq>b : and or
    b>btq ysilfdc>ysilfdctq tq>bysilfdctxDTNq x>txq DTN>tDTNq A>A M>M S>S : case coalesce ifnull
        nvl array
    b>btq ysilfdc>ysilfdctq tq>bysilfdctxDTNq x>txq DTN>tDTNq A>A S>S : = < <=> in equal_null
        nullif
    btq : not bool_and bool_or count_if
    bysil : bit_count
    bysilfdcDTNAMS>bysilfdctxDTNAMS txq>bysilfdctxDTNAMSq : kll_sketch_get_quantile_bigint
        kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint
        kll_sketch_get_rank_double kll_sketch_get_rank_float
    bysilfdctTq : cast:y cast:s cast:i cast:l cast:f cast:d cast:c bigint decimal double float
        int smallint tinyint
    bysilfdctq : cast:b boolean
    bysilfdctxDTNAMSq>i : array_repeat
    bysilfdctxDTNAMSq>ysilfdctq : approx_top_k approx_top_k_accumulate
    bysilfdctxDTNAMSq>ysilfdctq>ysilfdctq : approx_top_k
    bysilfdctxDTNASq : collect_set max min
    bysilfdctxDTNAq : reverse
    bysilfdctxDTNq : ascii bit_length btrim char_length character_length hex is_valid_utf8 lcase
        len length lower ltrim luhn_check octet_length quote rtrim sentences to_binary to_date
        try_url_decode try_validate_utf8 ucase unbase64 unhex upper url_decode url_encode
        validate_utf8 make_valid_utf8 try_to_binary try_to_date try_to_timestamp
    bysilfdctxDTNq>bysilfdctxDTNAMSq AMS>bysilfdctxDTNAMS : try_to_binary
    bysilfdctxDTNq>bysilfdctxDTNq : like rlike btrim contains encode endswith find_in_set ilike
        jaro_winkler_similarity levenshtein locate ltrim regexp regexp_count regexp_extract
        regexp_extract_all regexp_instr regexp_like regexp_substr replace rtrim sentences split
        startswith to_date to_number instr try_to_date try_to_number try_to_timestamp
    bysilfdctxDTNq>bysilfdctxDTNq A>A : ||
    bysilfdctxDTNq>bysilfdctxDTNq>bysilfdctxDTNq : replace sentences translate regexp_replace
    bysilfdctxDTNq>bysilfdctxDTNq>bysilfdctxDTNq>ysilfdctq : regexp_replace
    bysilfdctxDTNq>bysilfdctxDTNq>tDTNq : convert_timezone
    bysilfdctxDTNq>bysilfdctxDTNq>ysilfdctq : levenshtein locate regexp_extract
        regexp_extract_all regexp_instr split split_part substring_index instr
    bysilfdctxDTNq>bysilfdctxDTNq>ysilfdctq>ysilfdctq : instr
    bysilfdctxDTNq>tDTNq : convert_timezone date_trunc
    bysilfdctxDTNq>ysilfdctq : left lpad repeat right rpad substr
    bysilfdctxDTNq>ysilfdctq>bysilfdctxDTNq : lpad rpad
    bysilfdctxDTNq>ysilfdctq>ysilfdctq : conv substr
    bysilfdcxDTNAMS>bysilfdctxDTNAMS tq>bysilfdctxDTNAMSq : xpath xpath_boolean xpath_double
        xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string
    f : kll_sketch_agg_float
    f>i : kll_sketch_agg_float
    fd : kll_sketch_agg_double
    fd>i : kll_sketch_agg_double
    ilfdtxAq : theta_sketch_agg
    ilfdtxAq>i : theta_sketch_agg
    iltxq : hll_sketch_agg
    iltxq>i : hll_sketch_agg
    tDTNq : day dayname dayofmonth dayofweek dayofyear last_day month monthname quarter
        to_unix_timestamp unix_timestamp weekday weekofyear year cast:D cast:N date
    tDTNq>bysilfdctxDTNq : date_format next_day to_utc_timestamp trunc
    tDTNq>tDTNq : months_between datediff
    tDTNq>tDTNq>btq : months_between
    tDTNq>tq : to_unix_timestamp unix_timestamp
    tDTNq>ysilfdctq : add_months
    tDTNq>ysitq : date_sub date_add
    tTNq : time
    tq : collation json_array_length json_object_keys soundex str_to_map mask try_to_time
    tq>tq : get_json_object parse_url str_to_map mask try_to_time
    tq>tq>tq : mask
    tq>tq>tq>tq : mask
    tq>tq>tq>tq>tq : mask
    txq : base64 crc32 md5 sha sha1 to_base32 cast:x binary kll_sketch_get_n_bigint
        kll_sketch_get_n_double kll_sketch_get_n_float kll_sketch_to_string_bigint
        kll_sketch_to_string_double kll_sketch_to_string_float
    txq>txq : hmac aes_decrypt kll_sketch_merge_bigint kll_sketch_merge_double
        kll_sketch_merge_float try_aes_decrypt
    txq>txq>bysilfdctxDTNq : hmac aes_decrypt try_aes_decrypt
    txq>txq>bysilfdctxDTNq>bysilfdctxDTNq : aes_decrypt try_aes_decrypt
    txq>txq>bysilfdctxDTNq>bysilfdctxDTNq>txq : aes_decrypt try_aes_decrypt
    txq>ysilfdctq : sha2
    x : bitmap_and_agg bitmap_count bitmap_or_agg hll_sketch_estimate hll_union_agg
        kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float theta_intersection_agg
        theta_sketch_estimate theta_union_agg
    x>b : hll_union_agg
    x>i : kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float theta_union_agg
    x>x : hll_union theta_difference theta_intersection theta_union
    ysi>ysilfdctDq lfdc>ysilfdctq tq>ysilfdc D>ysi : + try_add
    ysil : ~ bit_and bit_or bit_xor timestamp_micros timestamp_millis kll_sketch_agg_bigint
    ysil>i : kll_sketch_agg_bigint
    ysil>ysilctq c>ysilc tq>ysil : div
    ysil>ysilfdctq : bit_get getbit
    ysil>ysiltq tq>ysil : & | ^
    ysilc : timestamp_nanos
    ysilfdc : timestamp_seconds
    ysilfdc>itq : format_number
    ysilfdc>ysilfdctq tq>ysilfdc : * / % mod pmod try_divide try_mod try_multiply
    ysilfdc>ysilfdctq tq>ysilfdcDTN D>ysitDTNq TN>tDTNq : - try_subtract
    ysilfdctDTNq : cast:T timestamp
    ysilfdctDTNq>bysilfdctxDTNq x>bysilfdctxDTNAMSq : to_char to_varchar
    ysilfdctDTNq>ysilfdctq : approx_percentile histogram_numeric
    ysilfdctDTNq>ysilfdctq>ysil : approx_percentile
    ysilfdctTNq : median
    ysilfdctTq : avg mean sum try_avg try_sum
    ysilfdctq : neg abs acos acosh asin asinh atan atanh bin bround cbrt ceiling char cos cosh
        cot csc date_from_unix_date degrees exp expm1 factorial isnan kurtosis ln log log10
        log1p log2 negative nullifzero positive radians rint round sec sign signum sin sinh
        skewness space sqrt std stddev stddev_pop stddev_samp tan tanh var_pop var_samp variance
        zeroifnull bitmap_bit_position bitmap_bucket_number bitmap_construct_agg
        make_dt_interval make_interval make_ym_interval try_make_interval
    ysilfdctq>ysilfdctq : atan2 bround corr covar_pop covar_samp hypot log nanvl pow power
        regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy
        regr_syy round shiftleft shiftright shiftrightunsigned make_dt_interval make_interval
        make_ym_interval try_make_interval
    ysilfdctq>ysilfdctq>ysilfdctq : make_date make_dt_interval make_interval make_time
        try_make_interval
    ysilfdctq>ysilfdctq>ysilfdctq>ysilfdctq : make_dt_interval make_interval try_make_interval
        width_bucket
    ysilfdctq>ysilfdctq>ysilfdctq>ysilfdctq>ysilfdctq : make_interval try_make_interval
    ysilfdctq>ysilfdctq>ysilfdctq>ysilfdctq>ysilfdctq>ysilfdctq : make_interval make_timestamp
        make_timestamp_ltz make_timestamp_ntz try_make_interval try_make_timestamp
        try_make_timestamp_ltz try_make_timestamp_ntz
    ysilfdctq>ysilfdctq>ysilfdctq>ysilfdctq>ysilfdctq>ysilfdctq>bysilfdctxDTNq : make_timestamp
        make_timestamp_ltz try_make_timestamp try_make_timestamp_ltz
    ysilfdctq>ysilfdctq>ysilfdctq>ysilfdctq>ysilfdctq>ysilfdctq>ysilfdctq : make_interval
        try_make_interval
"""  # end of what is generated
NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "b": "BOOLEAN",
        "y": "TINYINT",
        "s": "SMALLINT",
        "i": "INT",
        "l": "BIGINT",
        "f": "FLOAT",
        "d": "DOUBLE",
        "c": "DECIMAL",
        "t": "STRING",
        "q": "STRING",
        "x": "BINARY",
        "D": "DATE",
        "T": "TIMESTAMP",
        "N": "TIMESTAMP_NTZ",
        "A": "ARRAY",
        "M": "MAP",
        "S": "STRUCT",
    }
)
"""What a letter stands for."""


def _read(text: str) -> Mapping[tuple[str, int], Groups]:
    """Read lines of groups of letters, `>` between arguments, a colon, and functions.

    Lines that go on are further in.
    """
    found: dict[tuple[str, int], Groups] = {}
    for line in filter(None, map(str.strip, text.replace("\n        ", " ").splitlines())):
        form, names = line.split(" : ")
        groups = tuple(tuple(map(frozenset, group.split(">"))) for group in form.split())
        for name in names.split():
            found[name, len(groups[0])] = groups
    return found


ACCEPTED: Final = MappingProxyType(_read(_TAKEN))
"""By function or operator and number of arguments: groups of letters for each argument."""


def first_misfit(name: str, letters: Sequence[str | None]) -> int | None:
    """Return the number of the first argument, from 0, that does not fit those before it.

    `letters` are those of the types, None where a type is not known.  None if all fit, or nothing
    is known of the function, or of an argument on which it depends what others may be.
    """
    groups = ACCEPTED.get((name, len(letters)))
    if groups is None or (len(groups) > 1 and None in letters):
        return None
    for at, letter in enumerate(letters):
        groups = tuple(each for each in groups if letter is None or letter in each[at])
        if not groups:
            return at
    return None


def fitting_letters(name: str, letters: Sequence[str | None]) -> Sequence[frozenset[str]]:
    """Return which letters each argument may have beside all others; none if nothing is known."""
    fitting = [
        group
        for group in ACCEPTED.get((name, len(letters)), ())
        if all(
            letter is None or letter in each for letter, each in zip(letters, group, strict=True)
        )
    ]
    return [frozenset[str]().union(*each) for each in zip(*fitting, strict=True)]


def accepted_types(name: str, letters: Sequence[str | None], at: int) -> Sequence[str]:
    """Return the names of the types that an argument may have beside those before it."""
    before = [*letters[:at], *[None] * (len(letters) - at)]
    found = frozenset[str]().union(*fitting_letters(name, before)[at : at + 1])
    return tuple(dict.fromkeys(text for letter, text in NAMES.items() if letter in found))
