"""Joins with versions of tables: after every step the result is what plain Python makes of it."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine import TransformInputFrame, TransformWork
from odfbuild.executors.spark.engine import SparkEngine
from odfbuild.odf.arrow import from_arrow
from odfbuild.odf.events import (
    DatasetVocabulary,
    OffsetInterval,
    SqlQueryStep,
    TemporalTable,
    TransformSql,
)
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.sql.incremental import query_class
from odfbuild.planner.sql.query import steps_of
from tests.rule.histories import SCHEMAS, Row, history
from tests.rule.temporal import TEMPORAL, Temporal, standing

ROUNDS = 1
_MILLIS = pa.timestamp("ms", tz="UTC")
_SYSTEM = [("offset", pa.int64()), ("op", pa.int32()), ("system_time", _MILLIS)]
_EACH = pytest.mark.parametrize("shape", TEMPORAL, ids=[each.name for each in TEMPORAL])


class _Log:
    """The records of a dataset so far; `slices` are the files that hold them."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path, self.records = folder / name, list[Row]()
        self.slices: list[Path] = []

    def add(self, records: Sequence[Row], schema: pa.Schema) -> OffsetInterval | None:
        if not records:
            return None
        start = len(self.records)
        rows = [{"offset": start + n, "system_time": 0, **each} for n, each in enumerate(records)]
        self.records += rows
        self.slices.append(self.path.with_suffix(f".{start}"))
        pq.write_table(pa.Table.from_pylist(rows, schema), self.slices[-1])
        return OffsetInterval(start, len(self.records) - 1)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        yield engine


@_EACH
def test_a_query_has_its_class(shape: Temporal) -> None:
    known = {name: from_arrow(schema) for name, schema in SCHEMAS.items()}
    assert query_class(steps_of(_transform(shape)), known).name == shape.kind


@pytest.mark.spark
@_EACH
def test_every_step_leaves_the_rows_that_met_their_versions(
    engine: SparkEngine, tmp_path: Path, shape: Temporal
) -> None:
    for number in range(ROUNDS):
        folder = tmp_path / str(number)
        folder.mkdir()
        play(engine, folder, shape, TEMPORAL.index(shape) * 1000 + number)


@pytest.mark.spark
@pytest.mark.slow
@_EACH
def test_many_histories_leave_the_rows_that_met_their_versions(
    engine: SparkEngine, tmp_path: Path, shape: Temporal
) -> None:
    for number in range(ROUNDS, 20):
        folder = tmp_path / str(number)
        folder.mkdir()
        play(engine, folder, shape, TEMPORAL.index(shape) * 1000 + number)


def play(engine: SparkEngine, folder: Path, shape: Temporal, seed: int) -> None:
    """Run the steps of a random history, and hold each against the meaning of the query."""
    inputs = {name: _Log(folder, name) for name in SCHEMAS}
    output, mark = _Log(folder, "output"), None
    for number, portion in enumerate(history(Random(seed))):
        past = {name: tuple(log.slices) for name, log in inputs.items()}
        news = {name: log.add(portion.records[name], SCHEMAS[name]) for name, log in inputs.items()}
        before, mark = mark, portion.watermark
        if mark == before and not any(news.values()):
            continue
        frames = tuple(
            TransformInputFrame(
                alias=name, paths=tuple(log.slices[len(past[name]) :]), interval=news[name],
                schema=from_arrow(SCHEMAS[name]), vocab=DatasetVocabulary(), past=past[name],
            )
            for name, log in inputs.items()
        )  # fmt: skip
        work = TransformWork(
            inputs=frames, transform=_transform(shape), vocab=DatasetVocabulary(), staging=folder,
            output=tuple(output.slices), watermark=_time(mark), watermark_before=_time(before),
        )  # fmt: skip
        found = engine.transform(work)
        table = pa.Table.from_batches(found.batches(), schema=found.schema)
        output.add([_told(row) for row in table.to_pylist()], _stored(table.schema))
        columns = [name for name in table.schema.names if name != "op"]
        logs = {name: log.records for name, log in inputs.items()}
        told = Counter(_plain(row, columns) for row in standing(output.records, columns))
        meant = Counter(_plain(row, columns) for row in shape.meaning(logs, mark))
        assert told == meant, f"{shape.name}, seed {seed}, step {number}"


def _transform(shape: Temporal) -> TransformSql:
    return TransformSql(
        engine="spark",
        queries=tuple(SqlQueryStep(alias=alias, query=text) for alias, text in shape.queries),
        temporal_tables=tuple(TemporalTable(name, key) for name, key in shape.keys.items()),
    )


def _time(millis: int | None) -> Timestamp | None:
    return None if millis is None else Timestamp.from_millis(millis)


def _stored(schema: pa.Schema) -> pa.Schema:
    fields = [
        field.with_type(_MILLIS) if pa.types.is_timestamp(field.type) else field
        for field in schema
        if field.name != "op"
    ]
    return pa.schema([*(pa.field(*each) for each in _SYSTEM), *fields])


def _told(row: Row) -> Row:
    """Return a row with times in milliseconds."""
    return {
        name: int(value.timestamp() * 1000) if hasattr(value, "timestamp") else value
        for name, value in row.items()
    }


def _plain(row: Row, columns: Sequence[str]) -> tuple[Any, ...]:
    """Return values that are equal where GROUP BY says so."""
    values = (row[name] for name in columns)
    return tuple(
        ("nan" if math.isnan(v) else v + 0.0) if isinstance(v, float) else v for v in values
    )
