"""Hold what a row is said to be made of against SQLite, which runs the query on chosen rows.

python -m tests.rule.provenance --from SEED --count N tries many, and says which fail.
"""

import argparse
import sqlite3
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq

from odfbuild.executors.data.seal import Sealed
from odfbuild.executors.engine.protocol import TransformWork
from odfbuild.executors.engine.provenance.derive import Derivation, derivation
from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.rule.histories import history
from tests.rule.inputs import Row
from tests.rule.shapes.shape import Shape, T, by_row
from tests.rule.steps import played, sealed

__all__ = ["MADE", "Made", "check_made"]

_TOP = "rank() over (partition by k order by n desc)"
_DAY = 86_400_000
_FEW = (0, 1, 2, 4)


@dataclass(frozen=True, slots=True)
class Made:
    """A query and what SQLite takes for it; `{W}` is the watermark in milliseconds."""

    shape: Shape
    plain: str
    inputs: tuple[str, ...] = ("a",)


def _made(name: str, query: str, plain: str | None = None, *, linear: bool = False) -> Made:
    shape = by_row(name, query) if linear else Shape(name, query)
    return Made(shape, plain or query, shape.inputs)


MADE: tuple[Made, ...] = (  # the last of them takes long: it works by no key
    _made("filter and map", f"select {T}, k, n + 1 as n from a where n > 0", linear=True),
    _made(
        "explode",
        f"select {T}, k, explode(array(n, n + 10)) as m from a",
        f"select {T}, k, n as m from a union all select {T}, k, n + 10 from a",
        linear=True,
    ),
    _made(
        "union all",
        f"select {T}, k from a union all select {T}, k from b where w > 0",
        linear=True,
    ),
    _made("inner join", f"select a.{T}, a.k, n, w from a join b on a.k = b.k"),
    _made("left join", f"select a.{T}, a.k, n, w from a left join b on a.k = b.k"),
    _made(
        "semi join",
        f"select a.{T}, a.k, n from a left semi join b on a.k = b.k",
        f"select {T}, k, n from a where exists (select 1 from b where b.k = a.k)",
    ),
    _made(
        "anti join",
        f"select a.{T}, a.k, n from a left anti join b on a.k = b.k",
        f"select {T}, k, n from a where not exists (select 1 from b where b.k = a.k)",
    ),
    _made("sum", f"select max({T}) as {T}, k, sum(n) as s, count(*) as c from a group by k"),
    _made("greatest", f"select max({T}) as {T}, k, max(n) as hi from a group by k"),
    _made("distinct", f"select distinct {T}, k from a"),
    _made("top of each", f"select {T}, k, n from (select *, {_TOP} as r from a) where r = 1"),
    _made("share", f"select {T}, k, n, sum(n) over (partition by k) as s from a"),
    _made(
        "tumbling windows",
        f"select window.start as {T}, k, count(*) as c from a group by window({T}, '1 hour'), k",
        f"select {T} / 3600000 * 3600000 as {T}, k, count(*) as c from a "
        f"group by {T} / 3600000, k having {T} / 3600000 * 3600000 + 3600000 <= {{W}}",
    ),
    _made(
        "windows of all",
        f"select window.start as {T}, sum(m) as s from a group by window({T}, '2 hours')",
        f"select {T} / 7200000 * 7200000 as {T}, sum(m) as s from a "
        f"group by {T} / 7200000 having {T} / 7200000 * 7200000 + 7200000 <= {{W}}",
    ),
    _made(
        "not in",
        f"select {T}, n from a where n > (select count(*) from b)",
    ),
)


@dataclass(slots=True)
class _Oracle:
    """The query of a shape, in SQLite, over records of our choice."""

    made: Made
    at: sqlite3.Connection = field(default_factory=lambda: sqlite3.connect(":memory:"))

    def __del__(self) -> None:
        self.at.close()

    def rows(self, chosen: Mapping[str, Sequence[Row]], mark: int | None) -> Counter[Any]:
        for name in self.made.inputs:
            columns = ("event_time", "k", "n", "m") if name == "a" else ("event_time", "k", "w")
            self.at.execute(f"drop table if exists {name}")
            self.at.execute(f"create table {name} ({', '.join(columns)})")
            rows = [[each[column] for column in columns] for each in chosen[name]]
            marks = ", ".join("?" * len(columns))
            self.at.executemany(f"insert into {name} values ({marks})", rows)
        text = self.made.plain.replace("{W}", str(-_DAY if mark is None else mark))
        return Counter(self.at.execute(text).fetchall())


def check_made(engine: SparkEngine, folder: Path, made: Made, number: int, most: int) -> int:
    """Check rows of a history, at most so many, by its number; return how many."""
    draw = Random(f"{made.shape.name} {number}")
    left = [most]

    def step(engine: SparkEngine, work: TransformWork, start: int) -> Sealed:
        done = sealed(engine, work, start)
        if done.path is not None:
            table = pq.read_table(done.path)
            frame = engine.positions(work) if made.shape.by_row else None
            places = list(range(table.num_rows))
            draw.shuffle(places)
            for place in places[: left[0] if draw.random() < 0.8 else 0][:2]:
                left[0] -= 1
                row = table.slice(place, 1)
                found = derivation(engine, work, row, place, rerun=lambda: frame)  # type: ignore[arg-type, return-value]
                _check(made, work, _plain(row)[0], found)
        return done

    for _ in played(engine, folder, made.shape, history(draw, made.inputs, _FEW), step):
        if not left[0]:
            break
    return most - left[0]


def _check(made: Made, work: TransformWork, row: Row, found: Derivation) -> None:
    oracle = _Oracle(made)
    past = {each.alias: _records(each.past) for each in work.inputs}
    new = {each.alias: _records(each.paths) for each in work.inputs}
    now, before = (
        None if each is None else each.millis for each in (work.watermark, work.watermark_before)
    )
    value = tuple(v for name, v in row.items() if name not in {"offset", "op", "system_time"})
    comes = row["op"] in {0, 3}
    assert found.exact and found.reason is None
    why = {
        alias: [each for each in [*past[alias], *new[alias]] if each["offset"] in offsets]
        for alias, offsets in {**dict.fromkeys(past, ()), **found.why}.items()
    }
    mark = now if comes else before
    assert oracle.rows(why, mark)[value], "the rows do not give it by themselves"
    for alias, rows in why.items():
        for at in range(len(rows)):
            less = {**why, alias: rows[:at] + rows[at + 1 :]}
            assert not oracle.rows(less, mark)[value], "a row could be left out"
    if made.shape.by_row:
        (offsets,) = found.why.values()
        assert len(offsets) == 1
        assert found.cause is not None and found.cause.offsets == found.why
        return
    stood = {alias: _standing([*past[alias], *(new[alias] if comes else [])]) for alias in past}
    for alias, rows in why.items():
        assert not Counter(map(_value, rows)) - stood[alias], "it is said of rows that were gone"
    cause = found.cause
    assert cause is not None
    count = oracle.rows(_alive(past, {}), before)[value]

    def changes(offsets: Iterable[tuple[str, int]]) -> bool:
        chosen = set(offsets)
        taken = {a: [r for r in rows if (a, r["offset"]) in chosen] for a, rows in new.items()}
        left = oracle.rows(_alive(past, taken), now)[value]
        return left > count if comes else left < count

    said = [(alias, offset) for alias, offsets in cause.offsets.items() for offset in offsets]
    assert cause.watermark == (not said)
    assert changes(said), "the cause does not change it"
    for each in said:
        pair = {each, *(_other(new, each))}
        with suppress(_GoneError):
            assert not changes(set(said) - pair), "a part of the cause could be left out"


class _GoneError(Exception):
    """A record takes back what is not there: so the selection is none."""


def _other(new: Mapping[str, Sequence[Row]], each: tuple[str, int]) -> list[tuple[str, int]]:
    """Return the other half of a correction."""
    alias, offset = each
    op = next(row["op"] for row in new[alias] if row["offset"] == offset)
    return {2: [(alias, offset + 1)], 3: [(alias, offset - 1)]}.get(op, [])


def _alive(
    past: Mapping[str, Sequence[Row]], new: Mapping[str, Sequence[Row]]
) -> dict[str, list[Row]]:
    found = {}
    for alias, rows in past.items():
        left = _standing([*rows, *new.get(alias, ())])
        found[alias] = [dict(value) for value in left.elements()]
    return found


def _standing(records: Sequence[Row]) -> Counter[Any]:
    left: Counter[Any] = Counter()
    for each in records:
        left[_value(each)] += 1 if each["op"] in {0, 3} else -1
        if left[_value(each)] < 0:
            raise _GoneError
    return left


def _value(row: Row) -> tuple[Any, ...]:
    """Return what makes records equal: as texts of numbers NaN is NaN, and there is one zero."""
    values = ((n, repr(v + 0.0) if isinstance(v, float) else v) for n, v in row.items())
    return tuple((n, v) for n, v in values if n not in {"offset", "op", "system_time"})


def _records(paths: Sequence[Path]) -> list[Row]:
    return [row for path in paths for row in _plain(pq.read_table(path))]


def _plain(table: Any) -> list[Row]:
    """Return rows whose instants are milliseconds."""
    at = table.schema.get_field_index("event_time")
    return list(table.set_column(at, "event_time", table.column(at).cast("int64")).to_pylist())


def main() -> None:
    """Check as many histories as asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()
    shapes = [each for each in MADE if each.shape.name.startswith(chosen.only)]
    failed, rows = [], 0
    with tempfile.TemporaryDirectory() as top, SparkEngine(Path(top) / "jvm", cores=2) as engine:
        for seed in range(chosen.first, chosen.first + chosen.count):
            number, at = divmod(seed, len(shapes))
            with tempfile.TemporaryDirectory(dir=top) as folder:
                try:
                    rows += check_made(engine, Path(folder), shapes[at], number, 6)
                except Exception:
                    failed.append(seed)
                    print(f"seed {seed} ({shapes[at].shape.name}, {number}):", flush=True)
                    traceback.print_exc(limit=-3)
            if seed % 20 == 19:
                print(
                    f"{seed + 1 - chosen.first} histories, {rows} rows, {len(failed)} fail",
                    flush=True,
                )
    raise SystemExit(f"these fail: {failed}" if failed else 0)


if __name__ == "__main__":
    main()
