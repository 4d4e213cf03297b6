"""Statistics of floating-point numbers that do not depend on the order of rows, as SQL texts.

Spark adds up deviations in the order in which rows come, so the last bits of a variance differ from
run to run.  Here the values of a group are sorted first and then added one by one, by the same
formulas (Welford): of `n` values the mean, and the sums of powers of their differences from it.
"""

from __future__ import annotations

MOMENTS = {
    **dict.fromkeys(("std", "stddev", "stddev_samp"), "sqrt(s.b / nullif(s.n - 1D, 0D))"),
    "stddev_pop": "sqrt(s.b / s.n)",
    **dict.fromkeys(("variance", "var_samp"), "s.b / nullif(s.n - 1D, 0D)"),
    "var_pop": "s.b / s.n",
    "skewness": "sqrt(s.n) * s.c / nullif(sqrt(s.b * s.b * s.b), 0D)",
    "kurtosis": "s.n * s.d / nullif(s.b * s.b, 0D) - 3D",
}
"""Statistics of one column: of the count `n` and the sums `b`, `c`, `d` of powers 2, 3 and 4."""

_CORRELATION = "s.c / nullif(sqrt(s.p * s.q), 0D)"
PAIRED_MOMENTS = {
    "corr": f"IF(s.p = 0D OR s.q = 0D, NULL, {_CORRELATION})",
    "covar_pop": "s.c / s.n",
    "covar_samp": "s.c / nullif(s.n - 1D, 0D)",
    "regr_avgx": "s.b / s.n",
    "regr_avgy": "s.a / s.n",
    "regr_sxx": "s.q",
    "regr_syy": "s.p",
    "regr_sxy": "s.c",
    "regr_slope": "s.c / nullif(s.q, 0D)",
    "regr_intercept": "s.u - s.c / nullif(s.q, 0D) * s.w",
    "regr_r2": f"IF(s.q = 0D, NULL, IF(s.p = 0D, 1D, power({_CORRELATION}, 2)))",
}
"""Statistics of two columns: of the count `n`, the means `u` and `w`, the sums `a` and `b`, those
of squares `p` and `q`, and that of products `c`."""


def moment(name: str) -> tuple[str, str]:
    """Return the texts to put before and behind the list of a group's values."""
    step = _let(
        "e",
        "struct(v - s.a AS d, (v - s.a) / (s.n + 1D) AS m)",
        _let(
            "b",
            "s.b + e.d * (e.d - e.m)",
            _let(
                "c",
                "s.c - 3D * e.m * b + e.d * (e.d * e.d - e.m * e.m)",
                "struct(s.n + 1D AS n, s.a + e.m AS a, b AS b, c AS c, s.d - 4D * e.m * c "
                "- 6D * (e.m * e.m) * b + e.d * (e.d * (e.d * e.d) - e.m * (e.m * e.m)) AS d)",
            ),
        ),
    )
    return _fold("CAST(v AS DOUBLE)", "nabcd", step, MOMENTS[name])


def paired_moment(name: str) -> tuple[str, str]:
    """Return the texts to put before and behind the list of a group's pairs of `u` and `w`."""
    step = _let(
        "e",
        "struct(s.u + (v.u - s.u) / (s.n + 1D) AS u, s.w + (v.w - s.w) / (s.n + 1D) AS w)",
        "struct(s.n + 1D AS n, e.u AS u, e.w AS w, s.c + (v.u - s.u) * (v.w - e.w) AS c, "
        "s.p + (v.u - s.u) * (v.u - e.u) AS p, s.q + (v.w - s.w) * (v.w - e.w) AS q, "
        "s.a + v.u AS a, s.b + v.w AS b)",
    )
    value = "struct(CAST(v.u AS DOUBLE) AS u, CAST(v.w AS DOUBLE) AS w)"
    return _fold(value, "nuwcpqab", step, PAIRED_MOMENTS[name])


def _fold(value: str, names: str, step: str, result: str) -> tuple[str, str]:
    nothing = ", ".join(f"0D AS {name}" for name in names)
    end = (
        f"), v -> {value}), struct({nothing}), (s, v) -> {step}, "
        f"s -> IF(s.n = 0D, CAST(NULL AS DOUBLE), {result}))"
    )
    return "aggregate(transform(sort_array(", end


def _let(name: str, value: str, text: str) -> str:
    return f"element_at(transform(array({value}), {name} -> {text}), 1)"
