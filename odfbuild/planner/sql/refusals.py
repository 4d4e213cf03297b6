"""Functions that tell what a query is, and those that no query may call, by their names."""

from __future__ import annotations

from odfbuild.planner.sql.findings import Reason
from odfbuild.planner.sql.statement import CLOCK_WORDS, MOMENTS, SESSION_WORDS

__all__ = ["FORBIDDEN", "FORBIDDEN_WORDS", "MANY_ROWS", "SEVERAL_ROWS", "WINDOWS"]


def _all(reason: Reason, names: str) -> dict[str, Reason]:
    return dict.fromkeys(names.split(), reason)


FORBIDDEN = {
    **_all(
        Reason.NOT_DETERMINISTIC,
        "rand randn random randstr uniform uuid shuffle now curdate current_date current_time "
        "current_timestamp localtime localtimestamp monotonically_increasing_id aes_encrypt",
    ),
    **_all(
        Reason.ENVIRONMENT,
        "user current_user session_user current_catalog current_database current_schema "
        "current_path current_timezone version spark_partition_id input_file_name "
        "input_file_block_length input_file_block_start identifier collations sql_keywords "
        "python_worker_logs from_protobuf to_protobuf",
    ),
    **_all(Reason.FOREIGN_CODE, "reflect java_method try_reflect"),
}
FORBIDDEN_WORDS = {
    **dict.fromkeys(CLOCK_WORDS, Reason.NOT_DETERMINISTIC),
    **{f"'{moment}'": Reason.NOT_DETERMINISTIC for moment in MOMENTS},
    **dict.fromkeys(SESSION_WORDS, Reason.ENVIRONMENT),
}
WINDOWS = frozenset(["window", "session_window", "window_time", "tumble", "hop", "session"])
SEVERAL_ROWS = frozenset(
    [
        "explode",
        "explode_outer",
        "inline",
        "inline_outer",
        "posexplode",
        "posexplode_outer",
        "stack",
        "json_tuple",
        "variant_explode",
        "variant_explode_outer",
    ]
)
MANY_ROWS = frozenset(
    [
        "any",
        "any_value",
        "approx_count_distinct",
        "approx_percentile",
        "approx_top_k",
        "approx_top_k_accumulate",
        "approx_top_k_combine",
        "array_agg",
        "avg",
        "bit_and",
        "bit_or",
        "bit_xor",
        "bitmap_and_agg",
        "bitmap_construct_agg",
        "bitmap_or_agg",
        "bool_and",
        "bool_or",
        "collect_list",
        "collect_set",
        "collect_union",
        "corr",
        "count",
        "count_if",
        "count_min_sketch",
        "covar_pop",
        "covar_samp",
        "every",
        "first",
        "first_value",
        "grouping",
        "grouping_id",
        "histogram_numeric",
        "hll_sketch_agg",
        "hll_union_agg",
        "kll_merge_agg_bigint",
        "kll_merge_agg_double",
        "kll_merge_agg_float",
        "kll_sketch_agg_bigint",
        "kll_sketch_agg_double",
        "kll_sketch_agg_float",
        "kurtosis",
        "last",
        "last_value",
        "listagg",
        "max",
        "max_by",
        "mean",
        "measure",
        "median",
        "min",
        "min_by",
        "mode",
        "percentile",
        "percentile_approx",
        "percentile_cont",
        "percentile_disc",
        "regr_avgx",
        "regr_avgy",
        "regr_count",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
        "schema_of_variant_agg",
        "skewness",
        "some",
        "std",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "string_agg",
        "sum",
        "theta_intersection_agg",
        "theta_sketch_agg",
        "theta_union_agg",
        "try_avg",
        "try_sum",
        "tuple_intersection_agg_double",
        "tuple_intersection_agg_integer",
        "tuple_sketch_agg_double",
        "tuple_sketch_agg_integer",
        "tuple_union_agg_double",
        "tuple_union_agg_integer",
        "var_pop",
        "var_samp",
        "variance",
        "vector_avg",
        "vector_sum",
    ]
)
