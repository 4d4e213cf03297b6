"""The Spark engine: each operation in the session and with the operator that fit its size."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from odfbuild.errors import EngineFailedError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.analysis import Analysis, RefusedQueryError
from odfbuild.executors.engine.protocol import (
    CondenseRequest,
    IngestRequest,
    RawQueryWork,
    TransformWork,
    looks_back,
)
from odfbuild.executors.engine.querier import QueryRequest
from odfbuild.executors.engine.spark.cluster.providers import provider_of
from odfbuild.executors.engine.spark.jvm.resident import residence
from odfbuild.executors.engine.spark.session import InterruptedStepError, Sessions, Start, Views
from odfbuild.executors.engine.spark.settings import LARGE, StepSize, size_of
from odfbuild.executors.process.interrupt import cancelled_by_interrupt
from odfbuild.odf.events import MergeStrategy, Transform, TransformSql
from odfbuild.planner.queries import PREPROCESS_INPUT
from odfbuild.sql.analysis.facts import QueryFacts, diagnostics, examine
from odfbuild.sql.findings import Reason
from odfbuild.sql.text.steps import QueryStep, steps_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from odfbuild.executors.engine.protocol import Inputs
    from odfbuild.executors.engine.spark.transform.run import StepRun
    from odfbuild.project.opened import Opened


Item = TypeVar("Item")
Result = TypeVar("Result")

_OF_INGEST = frozenset(
    {
        Reason.SYNTAX,
        Reason.STEPS,
        Reason.UNKNOWN_INPUT,
        Reason.ENVIRONMENT,
        Reason.FOREIGN_CODE,
    }
)
_OF_ANALYSIS = tuple(reason for reason in Reason if reason is not Reason.NOT_LINEAR)
_OF_SOURCES = tuple(reason for reason in _OF_ANALYSIS if reason is not Reason.RESERVED)


class SparkEngine:
    """An Engine on one JVM, which starts with the first step; steps may come from many threads.

    `cache` is a folder for the JVM's own files; `master` where Spark runs, by default within the
    JVM on `cores`; `settings`, `wait` and `objects` are those of a cluster's provider; `memory` the
    JVM's greatest heap (`2g`); `limit` the bytes of input from which on rows go through files;
    `home` the prefix of a workspace in a store; `note` is called with what the user may want to
    know.  `java_options` take the place of the class archive.
    `resident`: whether a JVM that was left running for this cache is used (`existing`), or one is
    left running, too (`auto`).
    """

    def __init__(
        self,
        cache: Path,
        *,
        cores: int | None = None,
        master: str | None = None,
        settings: Mapping[str, str] | None = None,
        wait: float | None = None,
        objects: str | None = None,
        home: str | None = None,
        memory: str | None = None,
        limit: int = LARGE,
        note: Callable[[str], None] = lambda _: None,
        java_options: Sequence[str] | None = None,
        resident: str = "off",
    ) -> None:
        given = None if java_options is None else tuple(java_options)
        start = Start(
            cores=cores,
            provider=None if master is None else provider_of(master, settings, wait, objects),
            memory=memory,
            java_options=given,
            resident=resident,
            home=home,
        )
        self._sessions = Sessions(cache, start, note)
        self._limit = limit

    def prepare(self, planned_bytes: int | None = None) -> None:
        """Start the JVM without waiting for it; `planned_bytes` is how much will be read."""
        self._sessions.warm_up(_first_queries, planned_bytes)

    def held(self, _: MergeStrategy, __: Transform | None) -> int:
        """Return 0: Spark reads what is large in files."""
        return 0

    def ingest(self, request: IngestRequest) -> Frame:
        return self._ingest(request)

    def ingest_together(
        self, request: IngestRequest, sources: Sequence[Frame]
    ) -> tuple[Frame, ...]:
        from odfbuild.executors.engine.arrow.merging.pieces import joined, parted

        frame = self._ingest(replace(request, source=joined(sources)), by_piece=True)
        return parted(frame, len(sources))

    def _ingest(self, request: IngestRequest, *, by_piece: bool = False) -> Frame:
        from odfbuild.executors.engine.arrow.merging.history import (
            history_cost,
            looks_up,
            narrowed_history,
        )
        from odfbuild.executors.engine.spark.frames import cost
        from odfbuild.executors.engine.spark.ingest import ingested

        facts = None
        if request.preprocess is not None:
            facts = _facts(request.preprocess, [PREPROCESS_INPUT], [], _OF_INGEST)
        history = request.history if looks_back(request) else ()
        planned, cut = cost(request.source) + history_cost(history), None
        if facts is None and size_of(planned, self._limit) is StepSize.BIG and looks_up(request):
            self._sessions.start(planned)
            cut = narrowed_history(request, request.source)
        if cut is not None:
            request, planned = cut, cost(request.source) + history_cost(cut.history)
        size = size_of(planned, self._limit)
        with self._views("merge the source rows", size, planned) as (session, views):
            return ingested(
                session, views, request, facts, size, self._sessions.log, by_piece=by_piece,
                is_narrowed=cut is not None,
            )  # fmt: skip

    def condense(self, request: CondenseRequest) -> tuple[Path, ...]:
        from odfbuild.executors.engine.arrow.merging.history import history_cost
        from odfbuild.executors.engine.spark.ingest.history import condensed

        planned = history_cost(request.history)
        size = size_of(planned, self._limit)
        with self._views("condense the history", size, planned) as (session, views):
            return condensed(session, views, request, size, self._sessions.log)

    def raw_query(self, work: RawQueryWork) -> Frame:
        from odfbuild.executors.engine.spark.frames import cost
        from odfbuild.executors.engine.spark.ingest.preprocess import raw_rows

        facts = _facts(work.query, [PREPROCESS_INPUT], [], _OF_INGEST)
        planned = cost(work.source)
        size = size_of(planned, self._limit)
        with self._views("run the query", size, planned) as (session, views):
            return raw_rows(session, views, work, facts, size, self._sessions.log)

    def transform(self, work: TransformWork) -> Frame:
        from odfbuild.executors.engine.spark.transform.choose import choose
        from odfbuild.executors.engine.spark.transform.fine_times import collecting

        with collecting() as cut:
            operator = choose(_admit(work), most=self._limit)
            frame = operator.changes(partial(self._run, "run the query"))
        return replace(frame, cut=tuple(cut.values())) if cut else frame

    def positions(self, work: TransformWork) -> Frame:
        """Return the rows of a row-by-row step, with their positions; see `Again`."""
        from odfbuild.executors.engine.spark.frames import POSITION
        from odfbuild.executors.engine.spark.transform.linear import cost_of_new, rows_of_step

        doing = "run the query again"
        with self._run(doing, cost_of_new(_admit(work))) as run:
            return rows_of_step(run, work, doing, (POSITION,))

    def results(self, work: TransformWork, many: "Sequence[Inputs]") -> "tuple[pa.Table, ...]":
        """Return what the query of a step gives of selections of rows; see `Again`."""
        from odfbuild.executors.engine.spark.transform.in_memory import results

        known = _admit(work)
        with self._run("run the query again", 0, StepSize.SMALL) as run:
            return tuple(results(run, known, many))

    def spread(
        self, function: Callable[[Item], Result], items: Sequence[Item], /
    ) -> tuple[Result, ...]:
        from odfbuild.executors.engine.spark.cluster.driver import has_python
        from odfbuild.executors.engine.spark.cluster.objects import objects_of
        from odfbuild.executors.engine.spark.cluster.spread import (
            has_stored_rows,
            spread_apart,
            spread_here,
            spread_out,
        )

        with self._views("write the slices", StepSize.BIG, 0) as (session, _):
            objects = objects_of(session)
            if objects is None and has_python(session):
                return spread_out(session, function, items)
            if objects is not None and has_python(session) and all(map(has_stored_rows, items)):
                make: Any = function  # of the one kind of items that there is then
                pieces: Any = items
                made: Any = spread_apart(session, objects, make, pieces)
                return made  # type: ignore[no-any-return]
            return spread_here(function, items)  # files, or Python, are here only

    def validate(self, work: TransformWork) -> "pa.Schema":
        from odfbuild.executors.engine.spark.transform.keyed import result_schema
        from odfbuild.executors.engine.spark.transform.linear import step_schema

        is_linear = _admit(work).query.facts.is_linear
        with self._run("read the query", 0, StepSize.SMALL) as run:
            return step_schema(run, work) if is_linear else result_schema(run, work)

    def analyse(self, question: Analysis) -> "pa.Schema":
        """Return the columns that a query gives, whether or not a step could compute it."""
        from odfbuild.executors.engine.spark.transform.analyse import analysed

        ops = {each.vocab.operation_type_column for each in question.inputs}
        ops.add(question.vocab.operation_type_column)
        facts = examine(question.steps, [each.alias for each in question.inputs], ops)
        found = diagnostics(facts, _OF_SOURCES if question.preprocesses else _OF_ANALYSIS)
        if found:
            raise RefusedQueryError(found)
        with self._views("read the query", StepSize.SMALL, 0) as (session, views):
            return analysed(session, views, question, facts, self._sessions.log)

    def query(self, request: QueryRequest) -> Frame:
        """Return the rows of the answer to a question; see `Querier`."""
        from odfbuild.executors.engine.spark.changelog import ChangelogReplay
        from odfbuild.executors.engine.spark.frames import cost
        from odfbuild.executors.engine.spark.query import queried

        facts = examine((QueryStep(None, request.text),), tuple(request.views), ())
        found = diagnostics(facts, tuple(_OF_INGEST))
        if found:
            raise RefusedQueryError(found)
        planned = cost(*(path for view in request.views.values() for path in view.paths))
        size = size_of(planned, self._limit)
        with (
            self._views("run the query", size, planned) as (session, views),
            cancelled_by_interrupt(self._sessions.cancel),
        ):
            replaying = ChangelogReplay(session=session, views=views, size=size)
            return queried(replaying, request, self._sessions.log)

    def cancel(self) -> None:
        self._sessions.cancel()

    def close(self) -> None:
        self._sessions.close()

    def __enter__(self) -> "SparkEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _run(
        self, doing: str, planned_bytes: int, size: StepSize | None = None
    ) -> "Iterator[StepRun]":
        """Yield where a step of a transform runs; its size is that of what it reads by default."""
        from odfbuild.executors.engine.spark.transform.run import StepRun

        size = size_of(planned_bytes, self._limit) if size is None else size
        with self._views(doing, size, planned_bytes) as (session, views):
            yield StepRun(session, views, size, self._sessions.log)

    @contextmanager
    def _views(
        self, doing: str, size: StepSize, planned_bytes: int
    ) -> "Iterator[tuple[SparkSession, Views]]":
        """Yield a session and views that last as long as the step; keep the log if Spark fails.

        A step that failed as its JVM ended says how that ended; the next one starts another.
        """
        from odfbuild.executors.engine.spark.errors import noticing_end, spark_errors
        from odfbuild.executors.engine.spark.jvm.failure import JavaGoneError

        try:
            self._sessions.start(planned_bytes)
            with spark_errors(doing, log=self._sessions.log):
                session = self._sessions.session(size)
                lent = self._sessions.lent(size)
                with noticing_end(session, doing), Views(session, lent) as views:
                    yield session, views
        except JavaGoneError as error:
            self._sessions.mark_failed()
            raise self._sessions.ended(error.what) or error from None
        except InterruptedStepError as error:
            raise self._sessions.lost(f"Spark failed to {doing}") or error from None
        except EngineFailedError as error:
            self._sessions.mark_failed()
            raise self._sessions.lost(f"Spark failed to {doing}") or error from None


def open_engine(project: "Opened") -> SparkEngine:
    """Return the engine as a project configures it, not started yet.

    Raises ProjectError for a word in the environment that is none.
    """
    spark = project.spark
    return SparkEngine(
        project.workspace.cache,
        master=spark.master,
        settings=spark.settings,
        wait=spark.wait,
        objects=spark.objects,
        home=project.workspace.url,
        memory=spark.memory,
        resident=residence(spark.resident),
    )


def _admit(work: TransformWork) -> TransformWork:
    """Return the work of a step whose query may run.  Raises RefusedQueryError."""
    if work.query.problems:
        raise RefusedQueryError(work.query.problems)
    return work


def _facts(
    transform: TransformSql,
    inputs: Collection[str],
    op_columns: Collection[str],
    reasons: Iterable[Reason],
) -> QueryFacts:
    """Return what the query says.  Raises RefusedQueryError for findings of these reasons."""
    facts = examine(steps_of(transform), inputs, op_columns)
    found = diagnostics(facts, tuple(reasons))
    if found:
        raise RefusedQueryError(found)
    return facts


def _first_queries(session: "SparkSession") -> None:
    """Load what every step needs: the way of rows in and out, and the door of queries."""
    import pyarrow as pa

    from odfbuild.executors.engine.spark.admission import admitted

    session.createDataFrame(pa.table({"a": [1]})).selectExpr("a + 1 AS b").toArrow()
    admitted(session, "SELECT 1 AS a")
