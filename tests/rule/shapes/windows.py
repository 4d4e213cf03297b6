"""Event-time windows, whose rows appear when the watermark has passed their end."""

from tests.rule.shapes.shape import Shape, T, windowed

__all__ = ["WINDOWS"]

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
        f"select session_window.start as {T}, k, count(*) as c from a "
        f"group by session_window({T}, '1 hour'), k having session_window.end <= {{W}}",
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
        f"select session_window.start as {T}, session_window.end as e, count(*) as c from b "
        f"group by session_window({T}, '30 minutes') having session_window.end <= {{W}}",
    ),
    Shape(
        "session",
        f"select session_start({T}, interval '40' minute) as {T}, k, sum(n) as s from a "
        f"group by session({T}, interval '40' minute), k",
        f"select session_window.start as {T}, k, sum(n) as s from a "
        f"group by session_window({T}, '40 minutes'), k having session_window.end <= {{W}}",
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
)
