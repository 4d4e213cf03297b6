"""Rows of random histories from Python, for every question: those of a plain reading of the files.

A condition may make fewer row groups be read, and must not make rows differ: it is evaluated here
over rows in memory, which have no statistics.
"""

from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import odfbuild
from odfbuild.executors.data import parquet
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.schema.arrow import to_arrow
from tests.app.inspection.histories import (
    NOON,
    TYPES,
    RandomHistory,
    comparable,
    in_force,
    standing,
)  # fmt: skip

_QUESTIONS = 10  # of each history


@given(seed=st.integers(0, 2**32))
def test_rows_are_those_of_the_files(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    draw = Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "GROUP_ROWS", 4)
        history = RandomHistory(tmp_path_factory.mktemp("history") / "project", draw)
    dataset = odfbuild.open_project(history.folder).dataset("src")
    for _ in range(_QUESTIONS):
        _ask(history, dataset, draw)
    assert "<table>" in dataset._repr_html_()


def _ask(history: RandomHistory, dataset: odfbuild.BuiltDataset, draw: Random) -> None:
    hash, block = draw.choice(list(history.dataset.blocks()))
    state = history.dataset.state(hash)
    schema = None if state is None else schema_in_force(state)
    if schema is None:
        return
    ways = (str(block.sequence_number), str(hash), str(hash)[:20], _zoned(block.system_time))
    asked: dict[str, Any] = {"as_at": draw.choice(ways)}
    if asked["as_at"] is ways[-1]:  # several blocks have one time: the last of them counts
        same = [h for h, b in history.dataset.blocks() if b.system_time <= block.system_time]
        hash = max(same, key=lambda each: history.dataset.block(each).sequence_number)
        state = history.dataset.state(hash)
        assert state is not None
        schema = schema_in_force(state)
        assert schema is not None
    assert state is not None
    whole = to_arrow(schema)
    log = [{n: row.get(n) for n in whole.names} for row in history.logged(state.sequence)]
    wanted, op = pa.schema([f for f in whole if f.name not in history.system]), history.system[1]
    kind = draw.choice(("log", "current", "in force"))
    if kind == "log":
        wanted, rows, asked["current"] = whole, log, False
    elif kind == "current":
        rows = standing(log, op, wanted.names)
    else:
        at = NOON + timedelta(hours=12 * draw.randint(-2, 10))
        asked["as_of"] = draw.choice((at, at.isoformat().replace("+00:00", "Z")))
        key = history.key
        if draw.random() < 0.4:
            asked["key"] = key = tuple(draw.sample(wanted.names, min(2, len(wanted))))
        time = history.vocab.event_time_column
        rows = in_force(log, op, time, wanted.names, key, at)
    expected = pa.Table.from_pylist(rows, wanted)
    where = _condition(draw, history, wanted) if draw.random() < 0.7 else None
    if where is not None:
        expected = expected.filter(where)
    columns = None
    if draw.random() < 0.5:
        columns = draw.sample(wanted.names, draw.randint(0, len(wanted)))
        expected = expected.select(columns)
    found = dataset.read(columns, where, **asked)
    assert found.schema.equals(expected.schema), asked
    assert found.num_rows == expected.num_rows, (asked, str(where))
    ours, theirs = ([*map(comparable, each.to_pylist())] for each in (found, expected))
    if kind == "in force":
        ours, theirs = sorted(ours, key=repr), sorted(theirs, key=repr)
    assert ours == theirs, (asked, columns, str(where))
    batches = dataset.scan(columns, where, **asked)
    assert sum(each.num_rows for each in batches) == expected.num_rows


def _zoned(time: Any) -> datetime:
    there: datetime = time.to_datetime()
    return there.astimezone(timezone(timedelta(hours=5)))


def _condition(draw: Random, history: RandomHistory, schema: pa.Schema) -> Any:
    way = draw.random()
    if way < 0.15:
        return ~_condition(draw, history, schema)
    if way < 0.35:
        one, other = (_condition(draw, history, schema) for _ in range(2))
        return one & other if way < 0.25 else one | other
    field = draw.choice(list(schema))
    column = pc.field(field.name)
    if pa.types.is_struct(field.type) and way < 0.6:
        return pc.field(field.name, "a") == draw.choice([0, 1])
    if pa.types.is_nested(field.type) or way < 0.45:
        return column.is_null() if way < 0.4 else column.is_valid()
    if field.name in history.kinds:
        values = TYPES[history.kinds[field.name]][1]
    elif pa.types.is_temporal(field.type):
        values = pa.array([NOON + timedelta(days=n) for n in range(4)]).cast(field.type, safe=False)
        values = values.to_pylist()
    else:
        values = [0, 1, 2, 3]
    if way < 0.6:
        return column.isin(pa.array(draw.sample(values, min(2, len(values))), field.type))
    scalar = pa.scalar(draw.choice(values), field.type)
    if way < 0.65:
        return pc.coalesce(column == scalar, pa.scalar(draw.random() < 0.5))
    if pa.types.is_boolean(field.type) or way < 0.75:
        return column == scalar if way < 0.9 else column != scalar
    return column < scalar if way < 0.85 else column >= scalar
