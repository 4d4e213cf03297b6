"""What one plain batch query gives of what is in the inputs: the oracle of every step."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.settings import StepSize
from tests.rule.inputs import SYSTEM
from tests.rule.rows import counted, standing
from tests.rule.shapes import Shape
from tests.rule.steps import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Batch"]

_STEP = "__step"


class Batch:
    """The batch queries of a history's steps, which are read at once and run together."""

    def __init__(self, engine: SparkEngine, shape: Shape) -> None:
        self._session = engine._sessions.session(StepSize.SMALL)
        self._shape = shape
        self._frames: list[DataFrame] = []

    def add(self, inputs: Mapping[str, Log], mark: int | None) -> None:
        """Take in what stands after a step."""
        from pyspark.sql.functions import lit

        for name, log in inputs.items():
            _view(self._session, name, log)
        closed = "timestamp_millis(-1)" if mark is None else f"timestamp_millis({mark}L)"
        found = self._session.sql(self._shape.meaning.replace("{W}", closed))
        self._frames.append(found.withColumn(_STEP, lit(len(self._frames))))

    def rows(self, columns: Sequence[str]) -> list[Counter[Any]]:
        """Return the rows that each step should leave."""
        if not self._frames:
            return []
        whole = reduce(lambda one, other: one.unionAll(other), self._frames)
        # `toArrow` refuses structs that are null and have required members
        table = pa.Table.from_batches(whole._collect_as_arrow(empty_list_if_zero_records=False))
        found = [[] for _ in self._frames]  # type: list[list[dict[str, Any]]]
        for each in table.to_pylist():
            found[each[_STEP]].append(each)
        return [counted(rows, columns) for rows in found]


def _view(session: "SparkSession", name: str, log: Log) -> None:
    """Make the rows that are left of an input readable under its name."""
    fields = [field for field in log.schema if field.name not in SYSTEM]
    rows = standing(log.records, [field.name for field in fields])
    table = pa.Table.from_pylist(rows, pa.schema(fields))
    micros = pa.schema([_micros(field) for field in fields])
    session.createDataFrame(table.cast(micros)).createOrReplaceTempView(name)


def _micros(field: pa.Field) -> pa.Field:
    instant = pa.types.is_timestamp(field.type)
    return field.with_type(pa.timestamp("us", "UTC")) if instant else field
