"""Dialects of composed queries: what differs between engines; what has no counterpart is not drawn.

In forms `{s}` is a string, `{n}` a number, `{b}` a condition, `{t}` a time, `{l}` a list, `{d}` a
floating-point number and `{c}` a decimal; `{n2}` is another number.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.rule.grammar.relations import ARRAY, BIGINT, BOOLEAN, DECIMAL, DOUBLE, STRING, TIME, Kind

__all__ = ["BY_ORDER", "DATAFUSION", "SPARK", "Dialect", "unmarked"]

Forms = tuple[str, ...]
Weights = tuple[tuple[int, Kind], ...]

BY_ORDER = "/*by_order*/"
"""Where the order of rows decides, which is that of their values."""
_TOTAL = re.compile(r"/\*total (.*?)\*/")
_MARK = re.compile(r"/\*(total .*?|by_order|floating|of them)\*/")
_ANY_VALUE = re.compile(r"\bany_value\b", re.IGNORECASE)
_EXTREME = re.compile(r'"?\b(min|max)\b"? ?\(/\*floating\*/(.*?)/\*of them\*/\)', re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How an engine spells a query, and which parts of the grammar it has.

    `plain` makes of a text that of its batch query; an empty tuple is a part that is not there.
    """

    engine: str
    plain: Callable[[str], str]
    has: frozenset[str]
    """`closed` windows of time, `star of struct`, `reused` aliases, `lateral` views and queries,
    `pivot`, `distinct on`, `values` in FROM, names in `quotes`, and more queries of `one table`,
    which is all that works row by row."""

    types: Mapping[Kind, str]
    """Types that CAST calls otherwise than kinds are called."""
    latest: str
    constants: Mapping[Kind, Forms]
    values: Mapping[Kind, Forms]
    items: Weights
    keys: Weights

    windows: Forms
    """Windows in any order, those that need one, and those over the column that it goes by."""
    ordered: Forms
    of_order: Forms
    rank: str
    conditions: Forms
    """Conditions on windows, with a `{key}`, an order `{by}` and a `{total}` one."""

    aggregates: tuple[tuple[Kind, str], ...]
    repeating: Forms
    """Aggregates that name an expression twice in their order, which not each engine computes."""
    of_doubles: Forms
    of_lists: Forms
    of_one: Forms
    of_two: Forms
    distinct: Forms
    thousandths: str
    of_group: Forms
    rollups: Forms
    rolled: str
    """The rank of a group among those of a ROLLUP by `{keys}`."""

    unnest: str
    unnest_map: str
    united: Forms
    first_rows: Forms
    totals: tuple[tuple[int, str], ...]
    """How an order is made total, by `{}`, and how often."""
    without: Forms
    """What begins the names that a star leaves out."""
    spellings: Forms
    words: frozenset[str]
    """Words before a parenthesis that are spelt in one way."""

    def type_of(self, kind: Kind) -> str:
        """Return a kind as CAST has it."""
        return self.types.get(kind, kind)


def unmarked(text: str) -> str:
    """Return a text without the marks for its batch form."""
    return _MARK.sub("", text)


def _plain_spark(text: str) -> str:
    """Return a text that says in what order it takes rows of equal rank, and the least value."""
    return _ANY_VALUE.sub("min", _TOTAL.sub(r"\1", text))


def _plain_datafusion(text: str) -> str:
    """Return a text whose extremes do not go by the order of rows where one is NaN."""

    def first(found: re.Match[str]) -> str:
        value = found.group(2)
        direction = "asc" if found.group(1).lower() == "min" else "desc"
        return f"first_value({value} order by {value} {direction} nulls last)"

    return _EXTREME.sub(first, text)


_WORDS = frozenset({"cast", "cube", "except", "exists", "filter", "if", "in", "rollup", "values"})
_STATISTICS = ("stddev", "stddev_pop", "variance", "var_pop", "skewness", "kurtosis")
_OF_TWO = ("corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2")
_SPARK_LATEST = "timestamp'2020-01-01 00:00:00'"
_LATEST = "timestamp '2020-01-01 00:00:00'"

_CONDITIONS = (
    "row_number() over (partition by {key} order by {total}) = 1",
    "count(*) over (partition by {key}) > 1",
    "rank() over (partition by {key} order by {by}) <= 2",
    "2 >= row_number() over (partition by {key} order by {total})",
    "coalesce(lag({n}) over (partition by {key} order by {total}), 0) < 2",
    "last_value({by}) over (partition by {key} order by {by} desc) is not null",
)
_AGGREGATES = (
    (BIGINT, "count(*)"),
    (BIGINT, "count({s})"),
    (BIGINT, "sum({n})"),
    (BIGINT, "max({n})"),
    (BIGINT, "count(distinct {n})"),
    (BIGINT, "count(distinct {s})"),
    (STRING, "min({s})"),
    (BIGINT, "count(*) filter (where {b})"),
    (STRING, "max({s})"),
    (BOOLEAN, "bool_or({b})"),
    (BIGINT, "sum(distinct {n})"),
)
"""What all dialects have; each has more of its own behind it."""

SPARK = Dialect(
    engine="spark",
    plain=_plain_spark,
    has=frozenset({"closed", "star of struct", "reused", "lateral", "pivot"}),
    types={},
    latest=_SPARK_LATEST,
    constants={
        STRING: ("'p'", "'x'", "cast(null as string)"),
        BIGINT: ("1L", "2L", "cast(null as bigint)"),
        BOOLEAN: ("true", "false"),
        TIME: (_SPARK_LATEST, "timestamp'1970-01-01 01:00:00'"),
        DOUBLE: ("-0D", "1.5D", "cast(null as double)"),
        ARRAY: ("array(1L, 2L)", "cast(array() as array<bigint>)"),
    },
    values={
        STRING: (
            *("upper({s})", "lower({s})", "coalesce({s}, 'p')", "concat({s}, 'x')"),
            *("cast({n} as string)", "case when {b} then {s} else 'q' end"),
            *("if({b}, {s}, {s2})", "nullif({s}, 'q')", "substr({s}, 1, 1)"),
            "cast({d} as string)",
        ),
        BIGINT: (
            *("{n} + 1", "coalesce({n}, 0L)", "cast(length({s}) as bigint)", "{n} % 2"),
            *("case when {b} then {n} end", "-{n}", "cast(size({l}) as bigint)"),
            *("greatest({n}, {n2})", "{n} * {n2}", "unix_seconds({t})", "if(isnan({d}), 1L, 2L)"),
        ),
        BOOLEAN: (
            *("{n} > 1", "{s} = 'p'", "{n} is null", "{s} is not null", "{n} in (1, 2)"),
            *("{s} < {s2}", "{n} <=> {n2}", "({b} and {b2})", "({b} or {b2})", "not {b}"),
            *("{n} between 0 and 2", "{s} like 'p%'", "{s} in ('p', 'P')"),
            *("{t} < timestamp'1970-01-01 04:00:00'", "{d} > 0", "{d} = {d2}", "{d} <=> {d2}"),
        ),
        DOUBLE: (
            *("-{d}", "{d} * 2", "abs({d})", "atan2({d}, -1D)", "coalesce({d}, -0D)"),
            *("cast({n} as double)", "nanvl({d}, 0D)", "case when {b} then {d} end"),
            *("greatest({d}, {d2})", "{d} + {d2}", "least({d}, 0D)"),
        ),
        TIME: (
            "date_trunc('hour', {t})",
            "{t} + interval '1' hour",
            f"coalesce({{t}}, {_SPARK_LATEST})",
        ),
        ARRAY: ("array({n}, {n2})", "array_distinct({l})", "array({n})"),
    },
    items=((4, STRING), (4, BIGINT), (2, TIME), (1, BOOLEAN), (1, ARRAY), (1, DOUBLE)),
    keys=((12, STRING), (6, BIGINT), (2, BOOLEAN), (2, TIME), (1, DOUBLE)),
    windows=("count(*) over ({over})", "sum({n}) over ({over})", "max({n}) over ({over})"),
    ordered=(
        "rank() over ({over}{order})",
        "dense_rank() over ({over}{order})",
        "count({n}) over ({over}{order})",
    ),
    of_order=(
        "last_value({by}) over ({over}{order})",
        "first_value({by}) over ({over}{order} range between current row and unbounded following)",
    ),
    rank="{}() over ({})",
    conditions=_CONDITIONS,
    aggregates=(
        *_AGGREGATES,
        (BIGINT, "count_if({b})"),
        (BIGINT, "any_value({n})"),
        (STRING, "any_value({s})"),
        (BIGINT, "any_value({n}) filter (where {b})"),
    ),
    repeating=(),
    of_doubles=("max({d})", "min({d})", "any_value({d})"),
    of_lists=("max_by({n}, {n}, 2)", "min_by({n}, {n}, 2)"),
    of_one=_STATISTICS,
    of_two=_OF_TWO,
    distinct=("", "", "distinct "),
    thousandths="cast(floor({} * 1000 + 0.37D) as bigint)",
    of_group=("first", "any_value", "last"),
    rollups=("rollup({})", "cube({})", "{} with rollup"),
    rolled="row_number() over (order by count(*)/*total , {keys}, grouping_id()*/)",
    unnest="explode({l})",
    unnest_map="explode(map(coalesce({s}, 'p'), {n})) as (e, f)",
    united=(
        *("union all", "union", "except", "intersect", "except all", "intersect all"),
        "union all by name",
    ),
    first_rows=(
        *("limit 2", "limit 3 offset 1", "offset 1", "limit length('pp')", "limit all offset 1"),
        "limit all",
    ),
    totals=((1, "/*total {}*/"),),
    without=("except",),
    spellings=(
        *("system.builtin.{}(", "builtin.{}(", "`system`.`builtin`.`{}`(", "`{}`(", "{} ("),
    ),
    words=_WORDS | {"grouping_id", "pivot", "window"},
)

DATAFUSION = Dialect(
    engine="datafusion",
    plain=_plain_datafusion,
    has=frozenset({"distinct on", "values", "quotes", "one table"}),
    types={
        STRING: "varchar",
        ARRAY: "bigint[]",
        "struct<k:string,n:bigint>": "struct<k varchar, n bigint>",
        "struct<dbl:double,k:string>": "struct<dbl double, k varchar>",
    },
    latest=_LATEST,
    constants={
        STRING: ("'p'", "'x'", "cast(null as varchar)"),
        BIGINT: ("1", "2", "cast(null as bigint)"),
        BOOLEAN: ("true", "false"),
        TIME: (_LATEST, "to_timestamp_seconds(3600)"),
        DOUBLE: ("cast('-0' as double)", "cast(1.5 as double)", "cast(null as double)"),
        DECIMAL: ("cast(1.5 as decimal(12, 3))", "cast(null as decimal(12, 3))"),
        ARRAY: ("make_array(1, 2)", "cast(null as bigint[])"),
    },
    values={
        STRING: (
            *("upper({s})", "lower({s})", "coalesce({s}, 'p')", "concat({s}, 'x')"),
            *("cast({n} as varchar)", "case when {b} then {s} else 'q' end", "{s} || 'x'"),
            *("case {s} when 'p' then {s} else {s2} end", "nullif({s}, 'q')", "substr({s}, 1, 1)"),
            *("lower(cast({d} as varchar))", "cast({c} as varchar)", "nvl({s}, {s2})"),
        ),
        BIGINT: (
            *("{n} + 1", "coalesce({n}, 0)", "cast(length({s}) as bigint)", "{n} % 2", "{n} / 2"),
            *("case when {b} then {n} end", "-{n}", "cast(array_length({l}) as bigint)"),
            *("greatest({n}, {n2})", "{n} * {n2}", "to_unixtime({t})", "{l}[1]"),
            *("case when isnan({d}) then 1 else 2 end", "cast(floor({c}) as bigint)"),
            "cast(extract(hour from {t}) as bigint)",
        ),
        BOOLEAN: (
            *("{n} > 1", "{s} = 'p'", "{n} is null", "{s} is not null", "{n} in (1, 2)"),
            *("{s} < {s2}", "{n} <=> {n2}", "({b} and {b2})", "({b} or {b2})", "not {b}"),
            *("{n} between 0 and 2", "{s} like 'p%'", "{s} in ('p', 'P')", "{s} ilike 'p%'"),
            *("{t} < timestamp '1970-01-01 04:00:00'", "{d} > 0", "{d} = {d2}", "{c} > 0.5"),
            *(
                "({d} is not distinct from {d2})",
                "({n} is distinct from {n2})",
                "({b}) is not true",
            ),
        ),
        DOUBLE: (
            *("-{d}", "{d} * 2", "abs({d})", "coalesce({d}, cast('-0' as double))"),
            *("atan2({d}, cast(-1 as double))", "nanvl({d}, cast(0 as double))"),
            *("cast({n} as double)", "cast({c} as double)", "case when {b} then {d} end"),
            *("greatest({d}, {d2})", "{d} + {d2}", "least({d}, cast(0 as double))"),
        ),
        DECIMAL: (
            *("-{c}", "abs({c})", "coalesce({c}, cast(0 as decimal(12, 3)))"),
            *("cast({c} + {c2} as decimal(12, 3))", "cast({n} as decimal(12, 3))"),
            *("case when {b} then {c} end", "greatest({c}, {c2})"),
        ),
        TIME: (
            *("date_trunc('hour', {t})", "{t} + interval '1 hour'", f"coalesce({{t}}, {_LATEST})"),
            "date_bin(interval '2 hours', {t})",
        ),
        ARRAY: (
            *("make_array({n}, {n2})", "array_sort(array_distinct({l}))", "make_array({n})"),
            "array_append({l}, {n})",
        ),
    },
    items=(
        *((4, STRING), (4, BIGINT), (2, TIME), (1, BOOLEAN), (1, ARRAY), (1, DOUBLE)),
        (1, DECIMAL),
    ),
    keys=((12, STRING), (6, BIGINT), (2, BOOLEAN), (2, TIME), (1, DOUBLE), (1, DECIMAL)),
    windows=(
        *("count(*) over ({over})", "sum({n}) over ({over})", "max({n}) over ({over})"),
        "count(*) filter (where {n} > 1) over ({over})",
    ),
    ordered=(
        "cast(rank() over ({over}{order}) as bigint)",
        "cast(dense_rank() over ({over}{order}) as bigint)",
        "count({n}) over ({over}{order})",
        f"cast(ntile(2) over ({{over}}{{order}}) as bigint){BY_ORDER}",
        f"sum({{n}}) over ({{over}}{{order}} rows between 1 preceding and current row){BY_ORDER}",
    ),
    of_order=(
        "last_value({by}) over ({over}{order})",
        "first_value({by}) over ({over}{order} range between current row and unbounded following)",
        f"lead({{by}}) over ({{over}}{{order}}){BY_ORDER}",
        "sum({by}) over ({over}{order} range between 1 preceding and 1 following)",
    ),
    rank="cast({}() over ({}) as bigint)",
    conditions=(
        *_CONDITIONS,
        f"row_number() over (partition by {{key}} order by {{by}}) = 1{BY_ORDER}",
    ),
    aggregates=(
        *_AGGREGATES,
        (BIGINT, "sum({n}) filter (where {b})"),
        (BIGINT, f"any_value({{n}}){BY_ORDER}"),
        (STRING, f"first_value({{s}}){BY_ORDER}"),
        (BIGINT, f"any_value({{n}}) filter (where {{b}}){BY_ORDER}"),
        (STRING, "string_agg({s}, ',' order by {s})"),
        (STRING, f"string_agg({{s}}, ','){BY_ORDER}"),
        (DECIMAL, "cast(sum({c}) as decimal(12, 3))"),
        (DECIMAL, "max({c})"),
        (BIGINT, "first_value({n} order by {n} desc nulls last)"),
        (BIGINT, "cast(floor(median({n})) as bigint)"),
        (BIGINT, "bit_or({n})"),
    ),
    repeating=(
        "first_value({n} order by {n}, {s}, {n} desc)",
        "last_value({n} order by {s}, cast({n} as bigint), {n}) filter (where {n} > 1)",
        "nth_value({n}, 1 order by {n}, {n})",
    ),
    of_doubles=(
        "max(/*floating*/{d}/*of them*/)",
        "min(/*floating*/{d}/*of them*/)",
        f"any_value({{d}}){BY_ORDER}",
    ),
    of_lists=("array_agg({n} order by {n})", f"array_agg({{n}}){BY_ORDER}"),
    of_one=("stddev", "stddev_pop", "var_samp", "var_pop"),
    of_two=_OF_TWO,
    distinct=("",),
    thousandths="cast(floor({} * 1000 + 0.37) as bigint)",
    of_group=("first_value", "any_value", "last_value"),
    rollups=("rollup({})", "cube({})"),
    rolled="row_number() over (order by count(*), {keys}, grouping({keys}))",
    unnest="unnest({l})",
    unnest_map="",
    united=(
        *("union all", "union", "except", "intersect", "except all", "intersect all"),
        *("union all by name", "union by name"),
    ),
    first_rows=("limit 2", "limit 3 offset 1", "limit 9 offset 1", "limit all"),
    totals=((2, "{}"), (1, BY_ORDER)),
    without=("except", "exclude"),
    spellings=('"{}"(', "{} ("),
    words=_WORDS | {"grouping", "exclude", "varchar", "decimal", *"pqsvgdzk"},
)
