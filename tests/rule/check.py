"""Run one query over one history, step by step, and hold every step against one batch query.

python -m tests.rule.check --from SEED --count N runs many, and says with which seed to go on.
"""

import argparse
import math
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.executors.engine import TransformInputFrame, TransformWork
from odfbuild.executors.spark.engine import SparkEngine
from odfbuild.executors.spark.settings import Size
from odfbuild.odf.arrow import from_arrow
from odfbuild.odf.events import DatasetVocabulary, OffsetInterval, TransformSql
from odfbuild.odf.timestamp import Timestamp
from tests.rule.histories import SCHEMAS, Portion, Row, history
from tests.rule.shapes import SHAPES, Shape

__all__ = ["Played", "check", "played", "seeded"]

VOCAB = DatasetVocabulary()
_ADDED = (0, 3)
_SYSTEM = ("offset", "op", "system_time")


class _Log:
    """The records of one dataset so far, in slices."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.records: list[Row] = []
        self.slices: list[Path] = []

    def add(self, records: list[Row], schema: pa.Schema) -> OffsetInterval | None:
        if not records:
            return None
        start = len(self.records)
        rows = [{"offset": start + n, "system_time": 0, **each} for n, each in enumerate(records)]
        self.records += rows
        path = self.folder / f"{self.name}-{start}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema), path)
        self.slices.append(path)
        return OffsetInterval(start, start + len(records) - 1)

    def standing(self, columns: Iterable[str]) -> Counter[tuple[Any, ...]]:
        """Return the rows that are left, by plain counting."""
        names = list(columns)
        left: Counter[tuple[Any, ...]] = Counter()
        for each in self.records:
            left[tuple(_plain(each[name]) for name in names)] += 1 if each["op"] in _ADDED else -1
        assert min(left.values(), default=0) >= 0, "a row is taken back that is not there"
        return +left


@dataclass(frozen=True, slots=True)
class Played:
    """A step that was run: its changes, and all records until then."""

    number: int
    changes: pa.Table
    inputs: Mapping[str, _Log]
    output: _Log
    watermark: int | None


def check(engine: SparkEngine, folder: Path, shape: Shape, portions: Iterable[Portion]) -> None:
    """Fail unless every step leaves what the batch query gives of what stands in the inputs."""
    for step in played(engine, folder, shape, portions):
        _check_pairs(step.changes.column("op").to_pylist())
        columns = [name for name in step.changes.schema.names if name != "op"]
        expected = _batch(engine, shape, step.inputs, columns, step.watermark)
        assert step.output.standing(columns) == expected, f"{shape.name}, step {step.number}"


def played(
    engine: SparkEngine, folder: Path, shape: Shape, portions: Iterable[Portion]
) -> Iterator[Played]:
    """Yield the steps of a history, as they are run; those with nothing new are left out."""
    inputs = {name: _Log(folder, name) for name in SCHEMAS}
    output, mark = _Log(folder, "output"), None
    for number, portion in enumerate(portions):
        past = {name: tuple(log.slices) for name, log in inputs.items()}
        news = {name: log.add(portion.records[name], SCHEMAS[name]) for name, log in inputs.items()}
        before, mark = mark, portion.watermark
        if mark == before and not any(news.values()):
            continue
        frames = tuple(
            TransformInputFrame(
                alias=name, paths=tuple(log.slices[len(past[name]) :]), interval=news[name],
                schema=from_arrow(SCHEMAS[name]), vocab=VOCAB, past=past[name],
            )
            for name, log in inputs.items()
        )  # fmt: skip
        found = engine.transform(
            TransformWork(
                inputs=frames, transform=TransformSql(engine="spark", query=shape.query),
                vocab=VOCAB, staging=folder, output=tuple(output.slices),
                watermark=_time(mark), watermark_before=_time(before),
            )
        )  # fmt: skip
        table = pa.Table.from_batches(found.batches(), schema=found.schema)
        output.add(table.to_pylist(), _slice_schema(table.schema))
        yield Played(number, table, inputs, output, mark)


def _time(millis: int | None) -> Timestamp | None:
    return None if millis is None else Timestamp.from_millis(millis)


def seeded(seed: int) -> tuple[Shape, list[Portion]]:
    """Return the query and the history of a seed."""
    draw = Random(seed)
    return SHAPES[seed % len(SHAPES)], history(draw)


def _batch(
    engine: SparkEngine,
    shape: Shape,
    inputs: Mapping[str, _Log],
    columns: list[str],
    mark: int | None,
) -> Counter[tuple[Any, ...]]:
    session = engine._sessions.session(Size.SMALL)
    for name, log in inputs.items():
        fields = [field for field in SCHEMAS[name] if field.name not in _SYSTEM]
        rows = log.standing(field.name for field in fields).elements()
        named = [dict(zip([f.name for f in fields], row, strict=True)) for row in rows]
        plain = [
            {key: None if value == "nan" else value for key, value in row.items()} for row in named
        ]
        for row, original in zip(plain, named, strict=True):
            row.update({key: math.nan for key, value in original.items() if value == "nan"})
        table = pa.Table.from_pylist(plain, pa.schema(fields))
        table = table.cast(pa.schema([_micros(field) for field in fields]))
        session.createDataFrame(table).createOrReplaceTempView(name)
    closed = "timestamp_millis(-1)" if mark is None else f"timestamp_millis({mark}L)"
    found = session.sql((shape.batch or shape.query).replace("{W}", closed)).toArrow()
    return Counter(tuple(_plain(row[name]) for name in columns) for row in found.to_pylist())


def _micros(field: pa.Field) -> pa.Field:
    return (
        field.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(field.type) else field
    )


def _slice_schema(schema: pa.Schema) -> pa.Schema:
    millis = pa.timestamp("ms", tz="UTC")
    data = [
        field.with_type(millis) if pa.types.is_timestamp(field.type) else field
        for field in schema
        if field.name != "op"
    ]
    system = [("offset", pa.int64()), ("op", pa.int32()), ("system_time", millis)]
    return pa.schema([*(pa.field(*each) for each in system), *data])


def _check_pairs(operations: list[int]) -> None:
    """Every correction is a pair, one directly behind the other."""
    for at, op in enumerate(operations):
        if op == 2:
            assert operations[at + 1 : at + 2] == [3], "a correction without its second half"
        if op == 3:
            assert operations[at - 1 : at] == [2], "a correction without its first half"


def _plain(value: Any) -> Any:
    """Return a value that is equal where GROUP BY says so."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, list):
        return tuple(map(_plain, value))
    return int(value.timestamp() * 1000) if hasattr(value, "timestamp") else value


def main() -> None:
    """Check as many seeds as asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as top, SparkEngine(Path(top) / "jvm", cores=2) as engine:
        for seed in range(chosen.first, chosen.first + chosen.count):
            with tempfile.TemporaryDirectory(dir=top) as folder:
                shape, portions = seeded(seed)
                try:
                    check(engine, Path(folder), shape, portions)
                except BaseException as error:
                    error.add_note(f"seed {seed} ({shape.name}); go on with --from {seed}")
                    raise
            if seed % 100 == 99:
                print(f"{seed + 1 - chosen.first} histories hold; --from {seed + 1}", flush=True)


if __name__ == "__main__":
    main()
