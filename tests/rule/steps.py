"""Run one query over one history, step by step, as a dataset would: on slices, into slices."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.seal import Sealed, seal
from odfbuild.executors.engine.protocol import TransformInputFrame, TransformWork, query_over
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.events import DataSchema, DatasetVocabulary, OffsetInterval, TransformSql
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.odf.timestamp import Timestamp
from tests.rule.histories import History
from tests.rule.inputs import Row

__all__ = ["Log", "Played", "Query", "Step", "Transforms", "in_spark", "played", "sealed"]

VOCAB = DatasetVocabulary()
_NOW = Timestamp.from_millis(0)


class Query(Protocol):
    """What can be played."""

    @property
    def transform(self) -> TransformSql:
        """Return the query as a dataset has it."""


class Transforms(Protocol):
    """An engine, as far as it runs steps."""

    def transform(self, work: TransformWork) -> Frame:
        """Return what a step changes."""


Engine = TypeVar("Engine", bound=Transforms)
Step = Callable[[SparkEngine, TransformWork, int], Sealed]


@dataclass(slots=True)
class Log:
    """The records of one input so far, in slices."""

    folder: Path
    name: str
    schema: pa.Schema
    records: list[Row] = field(default_factory=list)
    slices: list[Path] = field(default_factory=list)

    def add(self, records: Sequence[Row]) -> None:
        """Write a slice, if there is something to write."""
        if not records:
            return
        start = len(self.records)
        rows = [{"offset": start + n, "system_time": 0, **each} for n, each in enumerate(records)]
        self.records += rows
        path = self.folder / f"{self.name}-{start}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, self.schema), path)
        self.slices.append(path)


@dataclass(frozen=True, slots=True)
class Played:
    """A step that was run: what came out, and all records of the inputs and of the output."""

    number: int
    sealed: Sealed
    changes: tuple[Row, ...]
    inputs: Mapping[str, Log]
    output: tuple[Row, ...]
    watermark: int | None

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns that the query gives."""
        system = {VOCAB.offset_column, VOCAB.operation_type_column, VOCAB.system_time_column}
        return [each.name for each in self.sealed.schema.fields if each.name not in system]


def sealed(engine: Transforms, work: TransformWork, start: int) -> Sealed:
    """Run a step and write what comes out, from an offset on."""
    return seal(
        engine.transform(work),
        vocab=VOCAB,
        system_time=_NOW,
        event_time=_NOW,
        start=start,
        in_force=work.in_force,
        into=work.staging / f"output-{start}.parquet",
        retires=True,
    )


@contextmanager
def in_spark() -> Iterator[None]:
    """Let steps be computed by Spark alone, however little they need."""
    with (
        patch("odfbuild.executors.engine.arrow.keyed.touched_states", return_value=None),
        patch("odfbuild.executors.engine.arrow.joins.weighted", return_value=None),
    ):
        yield


def played(
    engine: Engine,
    folder: Path,
    query: Query,
    found: History,
    step: Callable[[Engine, TransformWork, int], Sealed] = sealed,
) -> Iterator[Played]:
    """Yield the steps of a history, as they are run; those with nothing new are left out.

    As in a chain, what a step read stays new for the next one where nothing is recorded of it.
    """
    inputs = {name: Log(folder, name, schema) for name, schema in found.schemas.items()}
    known = query_over(query.transform, (_frame(log, 0) for log in inputs.values()), VOCAB)
    read = dict.fromkeys(inputs, 0)
    slices: list[Path] = []
    output: list[Row] = []
    in_force: DataSchema | None = None
    mark: int | None = None
    checkpoint: Path | None = None
    for number, portion in enumerate(found.portions):
        for name, log in inputs.items():
            log.add(portion.records[name])
        frames = tuple(_frame(log, read[name]) for name, log in inputs.items())
        before, mark = mark, portion.watermark
        if mark == before and not any(each.paths for each in frames):
            continue
        work = TransformWork(
            inputs=frames, query=known, vocab=VOCAB,
            staging=folder, output=tuple(slices), in_force=in_force,
            watermark=_time(mark), watermark_before=_time(before), unbroken=True,
            checkpoint=checkpoint, new_checkpoint=folder / f"checkpoint-{number}.parquet",
        )  # fmt: skip
        done = step(engine, work, len(output))
        in_force = done.schema
        changes = () if done.path is None else tuple(pq.read_table(done.path).to_pylist())
        output += changes
        if done.path is not None:
            slices.append(done.path)
        left = (
            work.new_checkpoint if work.new_checkpoint and work.new_checkpoint.is_file() else None
        )
        if changes or mark != before or _others(checkpoint, left):
            read = {name: len(log.slices) for name, log in inputs.items()}
            checkpoint = left
        yield Played(number, done, changes, inputs, tuple(output), mark)


def _others(before: Path | None, left: Path | None) -> bool:
    """Tell whether a step counted what the one before did not."""
    if left is None:
        return False
    return before is None or before.read_bytes() != left.read_bytes()


def _frame(log: Log, read: int) -> TransformInputFrame:
    """Return what is new of an input of which so many slices were read."""
    new = log.slices[read:]
    interval = None
    if new:
        start = int(new[0].stem.rpartition("-")[2])
        interval = OffsetInterval(start, len(log.records) - 1)
    return TransformInputFrame(
        alias=log.name, paths=tuple(new), interval=interval, schema=from_arrow(log.schema),
        vocab=VOCAB, past=tuple(log.slices[:read]),
    )  # fmt: skip


def _time(millis: int | None) -> Timestamp | None:
    return None if millis is None else Timestamp.from_millis(millis)
