"""Event-time windows, whose rows appear when the watermark has passed their end."""

from tests.rule.shapes.shape import Shape, T, windowed

__all__ = ["WINDOWS"]

_YEAR = 2200  # four hours of a history, stretched, are a year
_MADE = "make_timestamp(year({0}), {1}, 1, 0, 0, 0)"
_END = "to_timestamp(add_months(to_date({}), {})) <= {{W}}"
_MONTH = _MADE.format(T, f"month({T})")
_QUARTER = _MADE.format(T, f"3 * quarter({T}) - 2")
_HALF = _MADE.format(T, f"case when month({T}) < 7 then 1 else 7 end")
_WHOLE_YEAR = _MADE.format(T, "1")


def _sessions(
    items: str, table: str, minutes: int, keys: tuple[str, ...] = (), having: str = "true"
) -> str:
    """Return the rows of closed sessions, with no session of Spark: rows after a gap begin one."""
    by = f"partition by {', '.join(keys)} " if keys else ""
    gap = f"interval '{minutes}' minute"
    return (
        f"select {items.format(start=f'min({T})', end=f'max({T}) + {gap}')} from ("
        f"select *, sum(case when {T} <= was + {gap} then 0 else 1 end) over ({by}order by {T}) "
        f"as nth from (select *, lag({T}) over ({by}order by {T}) as was from {table})) "
        f"group by {', '.join(('nth', *keys))} having max({T}) + {gap} <= {{W}} "
        f"and {having.format(start=f'min({T})', end=f'max({T}) + {gap}')}"
    )


WINDOWS: tuple[Shape, ...] = (
    windowed(
        "tumbling window",
        f"select window.start as {T}, k, sum(n) as s from a group by window({T}, '2 hours'), k",
    ),
    windowed(
        "sliding window",
        f"select window.end as {T}, count(*) as c from a group by window({T}, '2 hours', '1 hour')",
    ),
    Shape(
        "session window",
        f"select session_window.start as {T}, k, count(*) as c from a "
        f"group by session_window({T}, '1 hour'), k",
        _sessions(f"{{start}} as {T}, k, count(*) as c", "a", 60, ("k",)),
    ),
    Shape(
        "sessions that last",
        f"select session_window.start as {T}, k, count(*) as c, max(n) as n from a "
        f"group by session_window({T}, '1 hour'), k "
        "having session_window.end > session_window.start + interval '90' minute",
        _sessions(
            f"{{start}} as {T}, k, count(*) as c, max(n) as n",
            "a",
            60,
            ("k",),
            "{end} > {start} + interval '90' minute",
        ),
    ),
    windowed(
        "tumble",
        f"select tumble_start({T}, interval '2' hour) as {T}, k, max(n) as s from a "
        f"group by tumble({T}, interval '2' hour), k",
        f"select window.start as {T}, k, max(n) as s from a group by window({T}, '2 hours'), k",
    ),
    windowed(
        "hop",
        f"select hop_start({T}, interval '1' hour, interval '2' hour) as {T}, k, "
        f"count(*) as s from a group by hop({T}, interval '1' hour, interval '2' hour), k",
        f"select window.start as {T}, k, count(*) as s from a "
        f"group by window({T}, '2 hours', '1 hour'), k",
    ),
    Shape(
        "join of a window",
        f"select x.{T}, x.k, s, w from (select window.start as {T}, k, sum(n) as s "
        f"from a group by window({T}, '2 hours'), k) x join b on x.k = b.k",
        f"select x.{T}, x.k, s, w from (select window.start as {T}, k, sum(n) as s "
        f"from a group by window({T}, '2 hours'), k having window.end <= {{W}}) x "
        "join b on x.k = b.k",
    ),
    windowed(
        "window by several keys",
        f"select window.start as {T}, window.end as e, k, m, count(*) as c, max(n) as n from a "
        f"group by window({T}, '90 minutes', '30 minutes'), k, m",
    ),
    windowed(
        "window with an offset",
        f"select window.start as {T}, k, count(n) as c from a "
        f"group by k, window({T}, '2 hours', '2 hours', '30 minutes')",
    ),
    windowed(
        "long windows",
        f"select window.start as {T}, sum(m) as s from a group by window({T}, '4 hours', '1 hour')",
    ),
    Shape(
        "sessions of all",
        f"select session_window.start as {T}, session_window.end as e, count(*) as c from b "
        f"group by session_window({T}, '30 minutes')",
        _sessions(f"{{start}} as {T}, {{end}} as e, count(*) as c", "b", 30),
    ),
    Shape(
        "session",
        f"select session_start({T}, interval '40' minute) as {T}, k, sum(n) as s from a "
        f"group by session({T}, interval '40' minute), k",
        _sessions(f"{{start}} as {T}, k, sum(n) as s", "a", 40, ("k",)),
    ),
    Shape(
        "windows of two inputs",
        f"select window.start as {T}, k, count(*) as c from (select {T}, k from a union all "
        f"select {T}, k from b) group by window({T}, '1 hour'), k",
        f"select window.start as {T}, k, count(*) as c from (select {T}, k from a union all "
        f"select {T}, k from b) group by window({T}, '1 hour'), k "
        "having window.end <= {W}",
    ),
    Shape(
        "windows of windows",
        f"select max({T}) as {T}, k, max(s) as s from (select window.start as {T}, k, "
        f"sum(n) as s from a group by window({T}, '1 hour'), k) group by k",
        f"select max({T}) as {T}, k, max(s) as s from (select window.start as {T}, k, "
        f"sum(n) as s from a group by window({T}, '1 hour'), k having window.end <= {{W}}) "
        "group by k",
    ),
    windowed(
        "long windows by a key",
        f"select window.start as {T}, k, count(*) as c from a "
        f"group by window({T}, '4 hours', '1 hour'), k",
    ),
    Shape(
        "month",
        f"select tumble_rowtime({T}, interval '1' month) as {T}, k, min(n) as low, max(n) as high, "
        f"count(*) as c from a group by tumble({T}, interval '1' month), k",
        f"select to_timestamp(add_months({_MONTH}, 1)) - interval '0.001' second as {T}, k, "
        f"min(n) as low, max(n) as high, count(*) as c from a "
        f"where {_END.format(_MONTH, 1)} group by {_MONTH}, k",
        stretch=_YEAR,
    ),
    Shape(
        "quarter",
        f"select tumble_start({T}, interval '1' quarter) as {T}, sum(m) as s from a where m < 2 "
        f"group by tumble({T}, interval '1' quarter) having count(*) > 1",
        f"select {_QUARTER} as {T}, sum(m) as s from a where m < 2 and "
        f"{_END.format(_QUARTER, 3)} group by {_QUARTER} having count(*) > 1",
        stretch=_YEAR,
    ),
    Shape(
        "half a year of two inputs",
        f"select tumble_end({T}, '6 months') as {T}, k, count(*) as c from (select {T}, k from a "
        f"union all select {T}, k from b) group by k, tumble({T}, '6 months')",
        f"select to_timestamp(add_months({_HALF}, 6)) as {T}, k, count(*) as c from "
        f"(select {T}, k from a union all select {T}, k from b) "
        f"where {_END.format(_HALF, 6)} group by k, {_HALF}",
        stretch=2 * _YEAR,
    ),
    Shape(
        "year, joined",
        f"select x.{T}, x.k, s, w from (select tumble_start({T}, interval 1 year) as {T}, k, "
        f"sum(n) as s from a group by tumble({T}, interval 1 year), k) x join b on x.k = b.k",
        f"select x.{T}, x.k, s, w from (select {_WHOLE_YEAR} as {T}, k, sum(n) as s from a "
        f"where {_END.format(_WHOLE_YEAR, 12)} group by {_WHOLE_YEAR}, k) x join b on x.k = b.k",
        stretch=2 * _YEAR,
    ),
)
