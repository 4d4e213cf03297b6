"""Linear steps: a row-by-row query over the new rows, operations carried through.

Two columns go with every row from the input through each SELECT of the query: the operation, and
the position, which is `input number << 48 | offset`.  They give the result its order, and mend
correction pairs that a filter or an explode broke: -C alone becomes -R, +C alone becomes +A, and
pairs of several rows stay pairs only if there are equally many on both sides.

A query that names the operation column asks for the raw event log: its inputs have offset, op and
system time as plain columns, and what it selects as `op` is the operation (absent means append).

Rows come in the order of their positions; the two halves of a pair have positions p and p + 1.
Where both sides have equally many rows, the i-th goes with the i-th, each -C directly before its
+C.  Where they have not, there are no pairs: the old rows are retracted, the new ones appended.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.arrow.merging.plain_types import plain_schema
from odfbuild.executors.engine.arrow.pairs import correction_pairs
from odfbuild.executors.engine.arrow.requirements import check_event_time, given_operations
from odfbuild.executors.engine.protocol import TransformWork, unseen_columns
from odfbuild.executors.engine.spark.admission import admitted
from odfbuild.executors.engine.spark.cluster.driver import (
    analysed_text,
    functions,
    is_deterministic,
)
from odfbuild.executors.engine.spark.errors import SentQuery, SparkQueryError, spark_errors
from odfbuild.executors.engine.spark.frames import POSITION, cost, gather
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.executors.engine.spark.sql_text import comparable, quoted
from odfbuild.executors.engine.spark.transform.columns import OPERATION, check_columns, hidden
from odfbuild.executors.engine.spark.transform.inputs import NewRows
from odfbuild.executors.engine.spark.transform.run import Runs, StepRun
from odfbuild.odf.events import DatasetVocabulary
from odfbuild.sql.analysis.facts import QueryFacts
from odfbuild.sql.text.edits import carry
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_ROW_BY_ROW = re.compile(
    "Project|Filter|Generate|Union|SubqueryAlias|View|LocalRelation|LogicalRDD|Relation|"
    "LogicalRelation|Repartition|WithCTE|CTERelationDef|CTERelationRef|"
    "MapInArrow"  # rows of objects: no query may have it that is admitted
)
_NODES = re.compile(r"(?:\A|^[: ]*[+:]- )(\w+)", re.MULTILINE)
_UNSTABLE = re.compile(
    r"\b(current_user|current_timestamp|current_date|current_time|localtimestamp|now|reflect|"
    r"java_method|try_reflect|input_file_name|version)\("
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysedStep:
    """A step that Spark has analysed but not run: `frame` has the carried columns first.

    `columns` are those of the result: op, event time, then the others as the query gives them.
    """

    frame: "DataFrame"
    columns: tuple[str, ...]
    vocab: DatasetVocabulary
    raw: bool
    ordered: bool
    sent: tuple[SentQuery, ...]

    def finish(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows with correction pairs mended; refuses rows without an event time."""
        ordered = batches if self.ordered else _by_position(batches)
        arranged = (self._result_columns(batch) for batch in ordered)
        op = self.vocab.operation_type_column
        return arranged if self.raw else correction_pairs(arranged, op, POSITION)

    def _result_columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of the result and the position."""
        check_event_time(batch, self.vocab)
        names = [*self.columns, POSITION]
        columns = [self._operation(batch), *(batch.column(name) for name in names[1:])]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def _operation(self, batch: pa.RecordBatch) -> pa.Array:
        op = self.vocab.operation_type_column
        if not self.raw:
            return batch.column(OPERATION)
        if op not in batch.schema.names:
            return pa.array([0] * batch.num_rows, pa.int32())
        return given_operations(batch.column(op), op)


def _by_position(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield few rows in the order of their positions, which are all different."""
    first = next(batches)
    table = pa.Table.from_batches([first, *batches])
    positions = table.column(POSITION)
    if not pc.all(pc.greater(positions[1:], positions[:-1]), min_count=0).as_py():
        table = table.take(pc.sort_indices(positions))
    yield table.combine_chunks().to_batches()[0] if table.num_rows else first


@dataclass(frozen=True, slots=True)
class Linear:
    """A step that runs its query over the new rows alone."""

    work: TransformWork

    def changes(self, runs: Runs) -> Frame:
        with runs(cost_of_new(self.work)) as run:
            return rows_of_step(run, self.work, "run the query")


def cost_of_new(work: TransformWork) -> int:
    """Return how many bytes the new rows of the inputs are, roughly."""
    return cost(*(path for source in work.inputs for path in source.paths))


def rows_of_step(run: StepRun, work: TransformWork, doing: str, also: Sequence[str] = ()) -> Frame:
    """Run a step that Spark has to analyse yet; `also` are carried columns to be given as well."""
    step = planned_step(run, work)
    with spark_errors(doing, step.sent, run.log):
        return gather(step.frame, run.size, work.staging, (*step.columns, *also), step.finish)


def planned_step(run: StepRun, work: TransformWork, *, empty: bool = False) -> AnalysedStep:
    """Let Spark analyse a step.  `empty` leaves the rows of the inputs out.

    Raises InvalidQueryError with the place in the user's text.
    """
    facts = work.query.facts
    raw = facts.names_op
    for number, source in enumerate(work.inputs):
        if source.alias in facts.inputs:
            new = NewRows(source=source, number=number, raw=raw)
            rows = new.frame(run.session, run.views.lent, run.size, empty=empty)
            run.views.add(source.alias, rows)
    sent = _sent(work)
    result = _last(run, work, sent)
    _check_plan(result)
    check_columns(result, work.vocab, raw=raw)
    op, time = work.vocab.operation_type_column, work.vocab.event_time_column
    others = [name for name in result.columns if name not in {*hidden(raw=raw), op, time}]
    rows, ordered = _in_order(result, time, facts, run.size)
    return AnalysedStep(
        frame=rows,
        columns=(op, time, *others),
        vocab=work.vocab,
        raw=raw,
        ordered=ordered,
        sent=sent,
    )


def _sent(work: TransformWork) -> tuple[SentQuery, ...]:
    """Return the steps of the query as Spark gets them."""
    steps, raw = work.query.steps, work.query.facts.names_op
    absent = () if raw else unseen_columns(each.vocab for each in work.inputs)
    return tuple(
        SentQuery(number, len(steps), carry(step.statement, hidden(raw=raw), absent))
        for number, step in enumerate(steps)
    )


def _last(run: StepRun, work: TransformWork, sent: Sequence[SentQuery]) -> "DataFrame":
    """Analyse the steps of the query in turn and return the last."""
    unseen = () if work.query.facts.names_op else unseen_columns(each.vocab for each in work.inputs)
    frame = None
    for step, query in zip(work.query.steps, sent, strict=True):
        try:
            with spark_errors("read the query", (query,), run.log):
                frame = admitted(run.session, query.carried.text, query)
        except SparkQueryError as error:
            raise with_hint(error, unseen) from None
        if step.alias is not None:
            run.views.add(step.alias, frame)
    assert frame is not None  # noqa: S101 - a query has a step
    return frame


def with_hint(error: SparkQueryError, system: Sequence[str]) -> SparkQueryError:
    """Add what to do to the error for a query that names system columns which it cannot see."""
    unresolved = (error.condition or "").startswith("UNRESOLVED_COLUMN")
    named = [name for name in system if f"`{name}`" in error.what.split("Did you mean")[0]]
    if not unresolved or not named:
        return error
    return SparkQueryError(
        error.what,
        f"a query sees the event time and the data columns; {named[0]!r} belongs to the event log",
        "leave it out; or select `op` as well, which gives the query the raw event log",
        error.condition,
        message=error.message,
        at=error.at,
    )


def _check_plan(frame: "DataFrame") -> None:
    """Refuse what the static check could have missed: Spark's own reading has the last word."""
    for node in _NODES.findall(check_stable(frame)):
        if not _ROW_BY_ROW.fullmatch(node):
            raise InvalidQueryError(
                what=f"unsupported query: it needs {node}",
                why="this version computes row-by-row queries only: projections, filters, "
                "explode, LATERAL VIEW and UNION ALL",
                fix="leave that part to those who read the dataset",
            )


def check_stable(frame: "DataFrame") -> str:
    """Refuse a query whose result may differ from run to run; return what Spark reads in it."""
    text = analysed_text(frame)
    found = _UNSTABLE.search(text)
    if found or not is_deterministic(frame):
        name = f"{found.group(1)}()" if found else "a function"
        raise InvalidQueryError(
            what=f"the query uses {name} whose result may differ from run to run",
            why="a step must give the same rows when it is run again to verify it",
            fix="use the columns of the input, such as its event time, instead",
        )
    return text


def _in_order(
    frame: "DataFrame", time: str, facts: QueryFacts, size: StepSize
) -> tuple["DataFrame", bool]:
    """Return the rows, sorted by Spark if they must be: by position, then by all columns.

    Few rows of a query that gives at most one row for one are sorted later, if at all.
    """
    if size is StepSize.SMALL and not facts.fans_out:
        return frame, False
    names = [name for name in frame.columns if name not in {*hidden(raw=facts.names_op), time}]
    kinds = {f.name: f.dataType for f in frame.schema.fields}
    order = [POSITION, *(comparable(quoted(name), kinds[name]) for name in (time, *names))]
    expr = functions(frame).expr
    by = [expr(text) for text in (order if facts.fans_out else order[:1])]
    if size is StepSize.SMALL:
        return frame.coalesce(1).sortWithinPartitions(*by), True
    return frame.orderBy(*by), True


def step_schema(run: StepRun, work: TransformWork) -> pa.Schema:
    """Return the columns that a step gives, all nullable, without reading rows."""
    from pyspark.sql.pandas.types import to_arrow_schema

    step = planned_step(run, work, empty=True)
    schema = plain_schema(to_arrow_schema(step.frame.schema, timezone="UTC"))
    op = pa.field(step.columns[0], pa.int32())
    return pa.schema([op, *(schema.field(name) for name in step.columns[1:])])
