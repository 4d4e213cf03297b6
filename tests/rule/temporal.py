"""What joins with versions of tables mean, in plain Python, and queries to try it on."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odfbuild.odf.events import SqlQueryStep, TemporalTable, TransformSql

__all__ = ["TEMPORAL", "Meaning", "Temporal", "standing"]

Row = dict[str, Any]
Meaning = Callable[[Mapping[str, list[Row]], int | None], list[Row]]
"""Makes the rows of the result of the inputs' logs and the watermark, in milliseconds."""

COLUMNS = {"a": ("event_time", "k", "n", "m", "x"), "b": ("event_time", "k", "w")}


@dataclass(frozen=True, slots=True)
class Temporal:
    """A query with temporal tables, its class and its meaning."""

    name: str
    queries: tuple[tuple[str | None, str], ...]
    keys: Mapping[str, tuple[str, ...]]
    kind: str
    meaning: Meaning

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return the names of the inputs."""
        return tuple(COLUMNS)

    @property
    def transform(self) -> TransformSql:
        """Return the query as a dataset has it."""
        return TransformSql(
            engine="spark",
            queries=tuple(SqlQueryStep(alias=alias, query=text) for alias, text in self.queries),
            temporal_tables=tuple(TemporalTable(name, key) for name, key in self.keys.items()),
        )

    def __str__(self) -> str:
        return self.name


def standing(log: Iterable[Row], columns: Sequence[str]) -> list[Row]:
    """Return what is left of a log."""
    left: list[Row] = []
    for each in log:
        row = {name: each[name] for name in columns}
        if each["op"] in (0, 3):
            left.append(row)
        else:
            at = next(n for n, old in enumerate(left) if same(old, row))
            del left[at]
    return left


def versions(log: Sequence[Row], key: Sequence[str], columns: Sequence[str]) -> list[Row]:
    """Return the versions in a log, and when each ended: pairs of a key to a later time end one.

    That is `until`, None for those that no pair ended.
    """
    found: list[Row] = []
    for at, each in enumerate(log):
        row = {name: each[name] for name in columns}
        if each["op"] in (0, 3):
            found.append({**row, "until": None})
            continue
        gone = next(n for n, old in enumerate(found) if same(old, {**row, "until": None}))
        after = log[at + 1] if each["op"] == 2 else None
        paired = after is not None and all(after[name] == each[name] for name in key)
        if paired and after is not None and after["event_time"] > each["event_time"]:
            found[gone]["until"] = after["event_time"]
        else:
            del found[gone]
    return found


def in_force(rows: Iterable[Row], key: Sequence[str], time: int) -> list[Row]:
    """Return for each key the version that is in force at a time; current rows do not end."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        until = row.get("until")
        if row["event_time"] > time or (until is not None and time >= until):
            continue
        held = tuple(row[name] for name in key)
        if held not in found or rank(row) > rank(found[held]):
            found[held] = row
    return list(found.values())


def rank(row: Row) -> tuple[Any, ...]:
    """Return what sorts versions of a key: time first, then all columns, nulls least, NaN last."""
    values = (value for name, value in row.items() if name != "until")
    return (row["event_time"], *map(_sorted, values))


def _sorted(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    return (1, value)


def same(one: Row, other: Row) -> bool:
    return [_sorted(each) for each in one.values()] == [_sorted(each) for each in other.values()]


def met(
    left: Iterable[Row],
    table: Iterable[Row],
    key: Sequence[str],
    on: Callable[[Row, Row], bool],
    until: int | None,
    *,
    outer: bool = False,
    time: str = "event_time",
) -> list[tuple[Row, Row]]:
    """Return rows of the left side whose time has come, each with the versions that it meets."""
    rows = list(table)
    found: list[tuple[Row, Row]] = []
    for row in left:
        if until is None or row[time] > until:
            continue
        mine = [each for each in in_force(rows, key, row[time]) if on(row, each)]
        nothing = [dict.fromkeys(COLUMNS["a"] + COLUMNS["b"])] if outer else []
        found += [(row, each) for each in mine or nothing]
    return found


def _equal(one: Any, other: Any) -> bool:
    return one is not None and one == other


def _by_k(left: Row, right: Row) -> bool:
    return _equal(left["k"], right["k"])


def _a(logs: Mapping[str, list[Row]]) -> list[Row]:
    return standing(logs["a"], COLUMNS["a"])


def _b(logs: Mapping[str, list[Row]], key: Sequence[str] = ("k",)) -> list[Row]:
    return versions(logs["b"], key, COLUMNS["b"])


def _inner(logs: Mapping[str, list[Row]], until: int | None) -> list[Row]:
    pairs = met(_a(logs), _b(logs), ["k"], _by_k, until)
    return [_chosen(a, b) for a, b in pairs]


def _left(logs: Mapping[str, list[Row]], until: int | None) -> list[Row]:
    pairs = met(_a(logs), _b(logs), ["k"], _by_k, until, outer=True)
    return [_chosen(a, b) for a, b in pairs]


def _chosen(a: Row, b: Row) -> Row:
    return {"event_time": a["event_time"], "k": a["k"], "n": a["n"], "w": b["w"]}


def _without(name: str, rows: list[Row]) -> list[Row]:
    return [{key: value for key, value in row.items() if key != name} for row in rows]


def _with_time(logs: Mapping[str, list[Row]], until: int | None) -> list[Row]:
    pairs = met(_a(logs), _b(logs), ["k"], _by_k, until)
    return [{**b, "n": a["n"], "at": a["event_time"]} for a, b in pairs]


def _twice(logs: Mapping[str, list[Row]], until: int | None) -> list[Row]:
    own = versions(logs["a"], ["k"], COLUMNS["a"])
    first = met(_a(logs), _b(logs), ["k"], _by_k, until, outer=True)
    found = []
    for a, b in first:
        for _, c in met([a], own, ["k"], _by_k, until):
            found.append({**_chosen(a, b), "m": c["m"], "x": c["x"]})
    return found


def _other_key(logs: Mapping[str, list[Row]], until: int | None) -> list[Row]:
    own = versions(logs["a"], ["m"], COLUMNS["a"])
    first = met(_a(logs), _b(logs), ["k"], _by_k, until, outer=True)
    found = []
    for a, b in first:
        pairs = met([a], own, ["m"], lambda x, y: _equal(y["m"], x["n"]), until, outer=True)
        found += [{**_chosen(a, b), "x": c["x"]} for _, c in pairs]
    return found


def _two_columns(logs: Mapping[str, list[Row]], until: int | None) -> list[Row]:
    pairs = met(_a(logs), _b(logs, ("k", "w")), ["k", "w"], _by_k, until)
    return [_chosen(a, b) for a, b in pairs]


def _condition(logs: Mapping[str, list[Row]], until: int | None) -> list[Row]:
    def on(a: Row, b: Row) -> bool:
        more = a["n"] is not None and b["w"] is not None and b["w"] > a["n"]
        return _by_k(a, b) and more

    return [_chosen(a, b) for a, b in met(_a(logs), _b(logs), ["k"], on, until, outer=True)]


def _no_key(logs: Mapping[str, list[Row]], until: int | None) -> list[Row]:
    pairs = met(_a(logs), _b(logs), ["k"], lambda a, b: _equal(b["w"], a["n"]), until)
    return [_chosen(a, b) for a, b in pairs]


def _null_safe(logs: Mapping[str, list[Row]], until: int | None) -> list[Row]:
    pairs = met(_a(logs), _b(logs), ["k"], lambda a, b: bool(a["k"] == b["k"]), until)
    return [_chosen(a, b) for a, b in pairs]


def _of_a_step(logs: Mapping[str, list[Row]], until: int | None) -> list[Row]:
    table = [row for row in standing(logs["b"], COLUMNS["b"]) if row["w"] is not None and row["w"]]
    return [_chosen(a, b) for a, b in met(_a(logs), table, ["k"], _by_k, until, outer=True)]


def _of_groups(logs: Mapping[str, list[Row]], until: int | None) -> list[Row]:
    groups: dict[Any, list[Row]] = {}
    for row in standing(logs["b"], COLUMNS["b"]):
        groups.setdefault(row["k"], []).append(row)
    table = [
        {"event_time": max(each["event_time"] for each in rows), "k": k, "w": _sum(rows, "w")}
        for k, rows in groups.items()
    ]
    return [_chosen(a, b) for a, b in met(_a(logs), table, ["k"], _by_k, until)]


def _from_a_step(logs: Mapping[str, list[Row]], until: int | None) -> list[Row]:
    return [row for row in _inner(logs, until) if row["n"] is not None and row["n"] > 0]


def _sums(logs: Mapping[str, list[Row]], until: int | None) -> list[Row]:
    groups: dict[Any, list[Row]] = {}
    for row in _inner(logs, until):
        groups.setdefault(row["k"], []).append(row)
    return [
        {"event_time": max(r["event_time"] for r in rows), "k": k, "s": _sum(rows, "w")}
        for k, rows in groups.items()
    ]


def _hours(logs: Mapping[str, list[Row]], until: int | None) -> list[Row]:
    hour = 3_600_000
    groups = Counter((r["event_time"] // hour * hour, r["k"]) for r in _inner(logs, until))
    return [
        {"event_time": start, "k": k, "c": count}
        for (start, k), count in groups.items()
        if until is not None and start + hour <= until
    ]


def _beside(logs: Mapping[str, list[Row]], until: int | None) -> list[Row]:
    plain = standing(logs["b"], COLUMNS["b"])
    return [
        {**row, "u": other["w"]}
        for row in _left(logs, until)
        for other in plain
        if _equal(other["k"], row["k"])
    ]


def _sum(rows: Iterable[Row], name: str) -> int | None:
    values = [row[name] for row in rows if row[name] is not None]
    return sum(values) if values else None


_AS_OF = "for system_time as of a.event_time"
_PICKED = "select a.event_time, a.k, a.n, r.w from a"
_JOINED = f"{_PICKED} join b {_AS_OF} as r on r.k = a.k"
_K = {"b": ("k",)}


def _one(name: str, query: str, kind: str, meaning: Meaning, **keys: tuple[str, ...]) -> Temporal:
    return Temporal(name, ((None, query),), keys or _K, kind, meaning)


TEMPORAL: tuple[Temporal, ...] = (
    _one("join", _JOINED, "keyed", _inner),
    _one(
        "left join without a name",
        f"select a.event_time, a.k, n, w from a left join b {_AS_OF} on a.k = b.k",
        "keyed",
        _left,
    ),
    _one(
        "left join without its key",
        f"select a.event_time, a.n, r.w from a left outer join b {_AS_OF} r on r.k = a.k",
        "keyed",
        lambda logs, until: _without("k", _left(logs, until)),
    ),
    _one(
        "all columns of a version",
        f"select r.*, n, a.event_time as at from a join b {_AS_OF} as r on r.k = a.k",
        "keyed",
        _with_time,
    ),
    _one(
        "versions of two tables",
        f"select a.event_time, a.k, a.n, r.w, v.m, v.x from a left join b {_AS_OF} as r "
        f"on r.k = a.k join a {_AS_OF} as v on v.k = a.k",
        "keyed",
        _twice,
        a=("k",),
        b=("k",),
    ),
    _one(
        "versions by two keys",
        f"select a.event_time, a.k, a.n, r.w, v.x from a left join b {_AS_OF} as r "
        f"on r.k = a.k left join a {_AS_OF} as v on v.m = a.n",
        "whole",
        _other_key,
        a=("m",),
        b=("k",),
    ),
    _one("part of a key", _JOINED, "keyed", _two_columns, b=("k", "w")),
    _one(
        "a condition besides",
        f"{_PICKED} left join b {_AS_OF} as r on r.k = a.k and r.w > a.n",
        "keyed",
        _condition,
    ),
    _one("by another column", f"{_PICKED} join b {_AS_OF} r on r.w = a.n", "whole", _no_key),
    _one("null is a key", f"{_PICKED} join b {_AS_OF} r on r.k <=> a.k", "whole", _null_safe),
    Temporal(
        "versions of a step",
        (
            ("s", "select event_time, k, w from b where w > 0"),
            (None, f"{_PICKED} left join s {_AS_OF} as r on r.k = a.k"),
        ),
        {"s": ("k",)},
        "keyed",
        _of_a_step,
    ),
    Temporal(
        "versions of groups",
        (
            ("s", "select max(event_time) as event_time, k, sum(w) as w from b group by k"),
            (None, f"{_PICKED} join s {_AS_OF} as r on r.k = a.k"),
        ),
        {"s": ("k",)},
        "keyed",
        _of_groups,
    ),
    Temporal(
        "rows of a step",
        (
            ("l", "select event_time as at, k as kk, n from a where n > 0"),
            (
                None,
                "select l.at as event_time, l.kk as k, n, w from l "
                "join b for system_time as of l.at as r on l.kk = r.k",
            ),
        ),
        _K,
        "keyed",
        _from_a_step,
    ),
    _one(
        "sums over versions",
        f"select max(event_time) as event_time, k, sum(w) as s from ({_JOINED}) group by k",
        "keyed",
        _sums,
    ),
    _one(
        "windows over versions",
        "select window.start as event_time, k, count(*) as c from "
        f"({_JOINED}) group by window(event_time, '1 hour'), k",
        "keyed",
        _hours,
    ),
    _one(
        "the rows and the versions of one table",
        f"select a.event_time, a.k, a.n, r.w, p.w as u from a left join b {_AS_OF} as r "
        "on r.k = a.k join b p on p.k = a.k",
        "keyed",
        _beside,
    ),
)  # fmt: skip
