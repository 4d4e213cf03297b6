"""Rules for queries in DataFusion's dialect: what works row by row, and what is refused.  Pure.

Functions are known by name, as DataFusion 55 has them: what is not known is refused, and what looks
at more than one row, or may, makes a query `whole`: it then runs over rows that are sorted by all
their columns, so that what it gives depends on their values alone.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from odfbuild.sql.findings import QueryFinding, Reason
from odfbuild.sql.text.shape import TextPlace
from odfbuild.sql.text.statement import DataFusionStatement, SqlTextError, Statement
from odfbuild.sql.text.steps import DATAFUSION, QueryStep


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


AGGREGATES: Final = _names(
    """
    any_value approx_distinct approx_median approx_percentile_cont
    approx_percentile_cont_with_weight array_agg avg bit_and bit_or bit_xor bool_and bool_or
    corr count covar covar_pop covar_samp first_value grouping last_value max mean median
    min nth_value percentile_cont quantile_cont regr_avgx regr_avgy regr_count
    regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy stddev stddev_pop
    stddev_samp string_agg sum var var_pop var_population var_samp var_sample
    """
)
WINDOWS: Final = _names(
    """
    cume_dist dense_rank lag lead ntile percent_rank rank row_number
    """
)
JSON: Final = _names(
    """
    json_as_text json_contains json_get json_get_bool json_get_float json_get_int json_get_json
    json_get_str json_length
    """
)
ETHEREUM: Final = _names("eth_decode_event eth_event_selector eth_try_decode_event")
SCALARS: Final = (
    JSON
    | ETHEREUM
    | _names(
        """
    abs acos acosh array_add array_any_value array_append array_avg array_cat array_compact
    array_concat array_contains array_dims array_distance array_distinct array_element
    array_empty array_except array_extract array_has array_has_all array_has_any
    array_indexof array_intersect array_join array_length array_max array_min array_ndims
    array_normalize array_pop_back array_pop_front array_position array_positions
    array_prepend array_product array_push_back array_push_front array_remove
    array_remove_all array_remove_n array_repeat array_replace array_replace_all
    array_replace_n array_resize array_reverse array_scale array_slice array_sort
    array_subtract array_sum array_to_string array_union arrays_overlap arrays_zip
    arrow_cast arrow_field arrow_metadata arrow_try_cast arrow_typeof ascii asin asinh atan
    atan2 atanh bit_length btrim cardinality cast_to_type cbrt ceil char_length
    character_length chr coalesce concat concat_ws contains cos cosh cosine_distance cot
    date_bin date_format date_part date_trunc datepart datetrunc decode degrees digest
    dot_product element_at empty encode ends_with exp factorial find_in_set flatten floor
    from_unixtime gcd get_field greatest ifnull initcap inner_product instr isnan iszero lcm
    least left length levenshtein list_add list_any_value list_append list_avg list_cat
    list_compact list_concat list_contains list_dims list_distance list_distinct
    list_element list_empty list_except list_extract list_has list_has_all list_has_any
    list_indexof list_intersect list_join list_length list_max list_ndims list_normalize
    list_pop_back list_pop_front list_position list_positions list_prepend list_product
    list_push_back list_push_front list_remove list_remove_all list_remove_n list_repeat
    list_replace list_replace_all list_replace_n list_resize list_reverse list_scale
    list_slice list_sort list_subtract list_sum list_to_string list_union list_zip ln log
    log10 log2 lower lpad ltrim make_array make_date make_list make_time map map_entries
    map_extract map_keys map_values md5 named_struct nanvl nullif nvl nvl2 octet_length
    overlay pi position pow power radians regexp_count regexp_instr regexp_like regexp_match
    regexp_replace repeat replace reverse right round row rpad rtrim sha224 sha256 sha384
    sha512 signum sin sinh split_part sqrt starts_with string_to_array string_to_list strpos
    struct substr substr_index substring substring_index tan tanh to_char to_date to_hex
    to_local_time to_time to_timestamp to_timestamp_micros to_timestamp_millis
    to_timestamp_nanos to_timestamp_seconds to_unixtime translate trim trunc
    try_cast_to_type union_extract union_tag upper with_metadata
    """
    )
)
"""Functions of one row: what they give depends on their arguments alone."""

VOLATILE: Final = _names(
    """
    current_date current_time current_timestamp now rand random today uuid
    """
)
ENVIRONMENT: Final = _names(
    """
    file_row_index input_file_name version
    """
)
TABLES: Final = _names(
    """
    generate_series range unnest
    """
)
_GRAMMAR: Final = _names(
    """
    all and any array as between bigint binary by case cast char character cube datetime
    decimal distinct double else except exclude exists extract filter float from group
    having in int integer interval intersect is isnull join lateral like ilike not notnull
    nullable numeric offset on or order over partition placing real rollup select sets similar
    smallint some string table then time timestamp tinyint try_cast union using values
    varbinary varchar when where with within
    """
)
_ANY_ORDER: Final = _names(
    "approx_distinct bit_and bit_or bit_xor bool_and bool_or count max min sum"
)
_BY_ORDER: Final = (AGGREGATES | WINDOWS) - _ANY_ORDER
"""What may give something else when its rows come in another order.  A sum of floating-point
numbers does, too: of which numbers it is the text does not tell, so the engine looks."""
_BY_ORDER_BARS: Final = frozenset({"LIMIT", "OFFSET", "DISTINCT ON", "a window function (OVER)"})
_NOWHERE: Final = TextPlace(0, 1, 1, 1)
_LATER: Final = {
    "tumble": "date_bin(interval '1 day', event_time) makes groups of times, which appear at once "
    "and are corrected; `engine: spark` has windows that wait for the watermark",
    "hop": "`engine: spark` has windows that overlap",
    "session": "`engine: spark` has windows of sessions",
}


def is_datafusion(steps: Sequence[QueryStep]) -> bool:
    """Tell whether steps are in DataFusion's dialect."""
    return any(step.engine == DATAFUSION for step in steps)


def step_findings(
    steps: Sequence[QueryStep], number: int, statement: Statement, known: Sequence[str]
) -> Iterator[QueryFinding]:
    """Yield what one step says that matters; `known` are the names that it can read."""
    for table in statement.tables:
        if table.text not in known or table.qualifier is not None:
            closest = difflib.get_close_matches(table.text, known, n=1)
            hint = closest[0] if closest and closest[0] != table.text else ""
            whole = ".".join(filter(None, (table.qualifier, table.text)))
            yield QueryFinding(Reason.UNKNOWN_INPUT, whole, number, table.place, hint)
    for bar in statement.bars:
        yield QueryFinding(Reason.NOT_LINEAR, bar.text, number, bar.place)
    parts = statement.relations
    for call in statement.calls:
        name = f"{call.text}()" if call.text else '""()'
        if call.text in AGGREGATES:
            yield QueryFinding(Reason.NOT_LINEAR, f"the aggregate {name}", number, call.place)
        elif call.text in WINDOWS or call.text in TABLES:
            yield QueryFinding(Reason.NOT_LINEAR, name, number, call.place)
        elif call.text in VOLATILE:
            yield QueryFinding(Reason.NOT_DETERMINISTIC, name, number, call.place)
        elif call.text in ENVIRONMENT:
            yield QueryFinding(Reason.ENVIRONMENT, name, number, call.place)
        elif call.text not in SCALARS and call.text not in _GRAMMAR and call.text not in parts:
            hint = _instead(call.text)
            yield QueryFinding(Reason.ARGUMENTS, f"there is no {name}", number, call.place, hint)
    for word in statement.words:
        yield QueryFinding(Reason.NOT_DETERMINISTIC, word.text, number, word.place)
    yield from _skipping(steps, number, statement)
    if _any_unites(steps[: number + 1]):
        yield from _order_findings(number, statement)
    if number == 0 and steps[0].temporal:
        place = TextPlace(0, 1, 1, 1)
        text = "versions of tables (temporalTables) are not read by the engine datafusion"
        hint = "write the transform for `engine: spark`, or join by the greatest event time"
        yield QueryFinding(Reason.TEMPORAL, text, len(steps), place, hint)


def _skipping(
    steps: Sequence[QueryStep], number: int, statement: Statement
) -> Iterator[QueryFinding]:
    """Yield an OFFSET of a step that others read, whose order DataFusion leaves out."""
    if number == len(steps) - 1:
        return
    if isinstance(statement, DataFusionStatement) and statement.skips:
        place = next((each.place for each in statement.bars if each.text == "OFFSET"), _NOWHERE)
        hint = "write LIMIT with a number of rows as well"
        text = "OFFSET without a number of rows as LIMIT, in a step that others read,"
        yield QueryFinding(Reason.ORDER, text, number, place, hint)


def _order_findings(number: int, statement: Statement) -> Iterator[QueryFinding]:
    """Yield what goes by an order that UNION ALL does not keep."""
    hint = "use UNION ALL in a separate dataset, and this in one that reads it"
    for call in statement.calls:
        if call.text in _BY_ORDER:
            found = f"{call.text}() beside a UNION"
            yield QueryFinding(Reason.ORDER, found, number, call.place, hint)
    for bar in statement.bars:
        if bar.text in _BY_ORDER_BARS:
            found = f"{bar.text} beside a UNION"
            yield QueryFinding(Reason.ORDER, found, number, bar.place, hint)


def _any_unites(steps: Sequence[QueryStep]) -> bool:
    for step in steps:
        try:
            if step.statement.unites:
                return True
        except SqlTextError:
            continue
    return False


def _instead(name: str) -> str:
    if name in _LATER:
        return _LATER[name]
    if name.startswith("eth_"):
        return f"functions for logs of Ethereum are {', '.join(sorted(ETHEREUM))}"
    closest = difflib.get_close_matches(name, sorted(SCALARS | AGGREGATES), n=1)
    if name.startswith("json_"):
        return f"functions for JSON are {', '.join(sorted(JSON))}"
    return f"did you mean {closest[0]}()?" if closest else "use a function of DataFusion 55"


def names_op(statement: Statement, op_columns: Collection[str]) -> bool:
    """Tell whether a statement may name the operation column."""
    named = (*statement.columns, *statement.aliases)
    return any(each.text in op_columns for each in named)
