"""Rows in the order of their event times are those of a sort by plain Python."""

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from odfbuild.executors.data.frames import Frame, HeldRows
from odfbuild.executors.engine.arrow.merging import time_order as module
from odfbuild.executors.engine.arrow.merging.time_order import is_sortable, time_order
from odfbuild.executors.engine.arrow.merging.values import comparable, comparable_as_stored, is_fine
from tests.support.effort import examples

_START = datetime(1969, 12, 31, 23, 59, 59, 998_000, tzinfo=UTC)
_KINDS = (
    *(pa.timestamp(unit, "UTC") for unit in ("s", "ms", "us", "ns")),
    pa.timestamp("us"),
    pa.date32(),
)
_COLUMNS = {
    "n": pa.int64(),
    "text": pa.string(),
    "large": pa.large_string(),
    "list": pa.list_(pa.string()),
    "struct": pa.struct([("a", pa.int32()), ("b", pa.string())]),
    "map": pa.map_(pa.string(), pa.int32()),
    "nothing": pa.null(),
}


def value(chance: random.Random, kind: Any) -> Any:
    """Draw a value of a column."""
    if chance.random() < 0.2 or pa.types.is_null(kind):
        return None
    if pa.types.is_integer(kind):
        return chance.randrange(100)
    if pa.types.is_list(kind):
        return [value(chance, pa.string()) for _ in range(chance.randrange(3))]
    if pa.types.is_struct(kind):
        return {"a": value(chance, pa.int32()), "b": value(chance, pa.string())}
    if pa.types.is_map(kind):
        return [(str(at), value(chance, pa.int32())) for at in range(chance.randrange(3))]
    return "x" * chance.randrange(4) + str(chance.randrange(10))


def times(chance: random.Random, kind: Any, count: int) -> list[Any]:
    """Draw event times: equal ones, missing ones, and some that are in order."""
    nulls = chance.choice([0.0, 0.0, 0.3, 1.0])
    steps = [chance.randrange(chance.choice([1, 5, 4_000])) for _ in range(count)]
    if chance.random() < 0.4:
        steps.sort()
    made: list[Any] = []
    for step in steps:
        if chance.random() < nulls:
            made.append(None)
        elif pa.types.is_date(kind):
            made.append(date(1969, 12, 30) + timedelta(days=step))
        else:
            zone = None if kind.tz is None else UTC
            at = (_START + timedelta(microseconds=step)).replace(tzinfo=zone)
            made.append(at.replace(microsecond=0) if kind.unit == "s" else at)
    return made


def as_stored(at: Any) -> Any:
    """Return what counts of a time that is cut to milliseconds."""
    return at.replace(microsecond=at.microsecond // 1000 * 1000) if isinstance(at, datetime) else at


@pytest.mark.parametrize("kind", _KINDS, ids=str)
def test_rows_are_in_the_order_of_a_plain_sort(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_sortable(kind)
    unsorted = 0
    for seed in range(examples(40, 2_000)):
        chance = random.Random(seed)
        monkeypatch.setattr(module, "_MANY", chance.choice([1, 1 << 17]))
        monkeypatch.setattr(module, "_PIECE", chance.choice([1, 5, 1 << 15]))
        monkeypatch.setattr(module, "_BITS", chance.choice([1, 4, 12]))
        count = chance.choice([0, 1, 2, 7, 60])
        rows = [
            {"at": at, **{name: value(chance, each) for name, each in _COLUMNS.items()}}
            for at in times(chance, kind, count)
        ]
        schema = pa.schema([("at", kind), *_COLUMNS.items()])
        table = pa.Table.from_pylist(rows, schema)
        batches = table.to_batches(max_chunksize=chance.choice([1, 4, 100]))
        names = chance.sample(schema.names, chance.randint(1, len(schema)))
        timed = chance.random() < 0.9
        counted = comparable_as_stored if is_fine(kind) else comparable
        order = time_order([each.column("at") for each in batches], counted) if timed else None
        kept = pa.schema([schema.field(name) for name in names])
        held = HeldRows.of(HeldRows.joined(batches, kept).table, order)
        frame = Frame(schema=kept, parts=(held,))
        found = pa.Table.from_batches(frame.batches(chance.choice([1, 3, 1 << 17])), schema=kept)
        expected = rows
        if timed:
            known = [row for row in rows if row["at"] is not None]
            known.sort(key=lambda row: as_stored(row["at"]))
            expected = [row for row in rows if row["at"] is None] + known
        unsorted += expected != rows
        wanted = pa.Table.from_pylist(expected, schema).select(names)
        assert found.equals(wanted), (seed, found.to_pylist(), wanted.to_pylist())
    assert unsorted > 5


_FAR: dict[str, Callable[[random.Random], int]] = {
    "outliers": lambda chance: chance.choice([-(2**63), 2**63 - 1, *[chance.randrange(9)] * 99]),
    "all": lambda chance: chance.randrange(-(2**63), 2**63),
    "equal": lambda _: 7,
    "two": lambda chance: chance.choice([-1, 2**40]),
    "skewed": lambda chance: int(1.5 ** chance.randrange(100)),
}


@pytest.mark.parametrize("nulls", [0, 0.1])
@pytest.mark.parametrize("kind", _FAR)
def test_times_far_apart_are_in_the_order_of_a_plain_sort(kind: str, nulls: float) -> None:
    for seed in range(examples(3, 50)):
        chance = random.Random(seed)
        count = module._MANY + chance.randrange(module._PIECE)
        numbers = [None if chance.random() < nulls else _FAR[kind](chance) for _ in range(count)]
        numbers[-2:] = [5, 4]
        keys = [(each is not None, each or 0) for each in numbers]
        places = sorted(range(count), key=keys.__getitem__)
        found = time_order([pa.array(numbers, pa.timestamp("us"))], lambda each: each)
        assert found is not None
        assert found.to_pylist() == places, seed


def test_few_times_of_many_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def noted(times: pa.Array) -> pa.Array:
        sizes.append(len(times))
        return compared(times)

    compared = module._compared
    monkeypatch.setattr(module, "_compared", noted)
    chance = random.Random(1)
    numbers = [chance.randrange(10**12) for _ in range(2 * module._MANY)]
    time_order([pa.array(numbers, pa.timestamp("us"))], lambda each: each)
    assert sum(sizes) == len(numbers)
    assert max(sizes) <= module._PIECE
