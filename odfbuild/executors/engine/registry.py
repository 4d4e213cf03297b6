"""Registry of engines: those that a project configures, as one; each query goes to its own.

Sources are merged, and questions answered, by Spark; what is in DataFusion's dialect is run by
DataFusion, in this process.  Neither is imported, nor started, before it is needed.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.protocol import (
    CondenseRequest,
    IngestRequest,
    RawQueryWork,
    TransformWork,
)
from odfbuild.host.permissions import NotPermittedError
from odfbuild.odf.events import TransformSql
from odfbuild.project.opened import Opened
from odfbuild.sql.text.steps import DATAFUSION

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from odfbuild.executors.engine.analysis import Analysis
    from odfbuild.executors.engine.datafusion.engine import DataFusionEngine
    from odfbuild.executors.engine.inputs import Inputs
    from odfbuild.executors.engine.querier import QueryRequest
    from odfbuild.executors.engine.spark.engine import SparkEngine

Item = TypeVar("Item")
Result = TypeVar("Result")


def check_master(project: Opened) -> None:
    """Raise MasterNotPermittedError where the target's cluster may not be used."""
    try:
        project.permissions.check_master(project.spark.master)
    except NotPermittedError as error:
        error.span = project.config.places.get(f"master {project.target}")
        raise


def engine_of(project: Opened) -> "EnginesByName":
    """Return the engines, none started yet.  Raises MasterNotPermittedError."""
    from odfbuild.executors.engine.spark.engine import SparkEngine

    check_master(project)
    spark = project.spark
    return EnginesByName(
        SparkEngine(
            project.workspace.cache,
            master=spark.master,
            memory=spark.memory,
            resident=spark.resident,
        )
    )


class EnginesByName:
    """An Engine made of Spark, which starts when it is first needed, and of DataFusion."""

    def __init__(self, spark: "SparkEngine") -> None:
        self._spark = spark
        self._datafusion: DataFusionEngine | None = None

    def prepare(self, planned_bytes: int | None = None) -> None:
        """Start Java without waiting for it."""
        self._spark.prepare(planned_bytes)

    def ingest(self, request: IngestRequest) -> Frame:
        query = request.preprocess
        if query is None or query.engine != DATAFUSION:
            return self._spark.ingest(request)
        rows, plain = self._preprocessed(request, request.source, query)
        return _offering(self._spark.ingest(plain), rows)

    def ingest_together(
        self, request: IngestRequest, sources: Sequence[Frame]
    ) -> tuple[Frame, ...]:
        query = request.preprocess
        if query is None or query.engine != DATAFUSION:
            return self._spark.ingest_together(request, sources)
        done = [self._preprocessed(request, each, query)[0] for each in sources]
        plain = replace(request, preprocess=None, infer=False)
        found = self._spark.ingest_together(plain, done)
        return tuple(_offering(each, rows) for each, rows in zip(found, done, strict=True))

    def _preprocessed(
        self, request: IngestRequest, source: Frame, query: TransformSql
    ) -> tuple[Frame, IngestRequest]:
        work = RawQueryWork(source=source, query=query, staging=request.staging)
        rows = self._own().raw_query(work)
        return rows, replace(request, source=rows, preprocess=None, infer=False)

    def condense(self, request: CondenseRequest) -> "tuple[Path, ...]":
        return self._spark.condense(request)

    def raw_query(self, work: RawQueryWork) -> Frame:
        return self._of(work.query.engine).raw_query(work)

    def transform(self, work: TransformWork) -> Frame:
        return self._of(work.query.transform.engine).transform(work)

    def positions(self, work: TransformWork) -> Frame:
        """Return the rows of a row-by-row step, with their positions; see `ReplayEngine`."""
        return self._of(work.query.transform.engine).positions(work)

    def results(self, work: TransformWork, many: "Sequence[Inputs]") -> "Sequence[pa.Table]":
        """Return what the query of a step gives of selections of rows; see `ReplayEngine`."""
        return self._of(work.query.transform.engine).results(work, many)

    def validate(self, work: TransformWork) -> "pa.Schema":
        return self._of(work.query.transform.engine).validate(work)

    def analyse(self, question: "Analysis") -> "pa.Schema":
        """Return the columns that a query gives, whether or not a step could compute it."""
        return self._of(question.steps[0].engine).analyse(question)

    def query(self, request: "QueryRequest") -> Frame:
        """Return the rows of the answer to a question, which is one of Spark SQL."""
        return self._spark.query(request)

    def spread(
        self, function: Callable[[Item], Result], items: Sequence[Item], /
    ) -> tuple[Result, ...]:
        return self._spark.spread(function, items)

    def cancel(self) -> None:
        self._spark.cancel()
        if self._datafusion is not None:
            self._datafusion.cancel()

    def close(self) -> None:
        self._spark.close()

    def __enter__(self) -> "EnginesByName":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _of(self, name: str) -> "SparkEngine | DataFusionEngine":
        return self._own() if name == DATAFUSION else self._spark

    def _own(self) -> "DataFusionEngine":
        if self._datafusion is None:
            from odfbuild.executors.engine.datafusion.engine import DataFusionEngine

            self._datafusion = DataFusionEngine()
        return self._datafusion


def _offering(merged: Frame, rows: Frame) -> Frame:
    """Return merged rows with what a query gave to the merge beside them."""
    return replace(merged, offered=rows, cut=(*rows.cut, *merged.cut))
