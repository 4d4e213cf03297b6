"""The DataFusion engine: queries in this process, without Java."""

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from odfbuild.errors import EngineFailedError, InvalidQueryError
from odfbuild.executors.data.fine_times import FineTimes, noting
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.rows import row_keys
from odfbuild.executors.engine.analysis import Analysis, RefusedQueryError
from odfbuild.executors.engine.arrow.requirements import repeated_name
from odfbuild.executors.engine.datafusion import query, transform
from odfbuild.executors.engine.datafusion.aggregates import aggregates_of, check_aggregates
from odfbuild.executors.engine.datafusion.constants import check_constants
from odfbuild.executors.engine.datafusion.places import placed
from odfbuild.executors.engine.datafusion.session import (
    check_plan,
    columns,
    last_of,
    query_context,
    rows_of,
)
from odfbuild.executors.engine.datafusion.sums import check_bounded, check_fit
from odfbuild.executors.engine.protocol import RawQueryWork, TransformWork
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.planner.queries import PREPROCESS_INPUT
from odfbuild.sql.analysis.facts import QueryFacts, diagnostics, examine
from odfbuild.sql.findings import Reason
from odfbuild.sql.text.steps import QueryStep, steps_of

if TYPE_CHECKING:
    from odfbuild.executors.engine.protocol import Inputs
    from odfbuild.executors.engine.querier import QueryRequest
    from odfbuild.project.opened import Opened

_OF_INGEST = frozenset(
    {
        Reason.SYNTAX,
        Reason.STEPS,
        Reason.UNKNOWN_INPUT,
        Reason.ENVIRONMENT,
        Reason.ARGUMENTS,
    }
)
_OF_ANALYSIS = tuple(reason for reason in Reason if reason is not Reason.NOT_LINEAR)


class DataFusionEngine:
    """What an Engine does with queries; the rows of sources are merged by another."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()

    def raw_query(self, work: RawQueryWork) -> Frame:
        """Return what a preprocess query gives, in the order of the source where there is one."""
        facts = _facts(steps_of(work.query), [PREPROCESS_INPUT], _OF_INGEST)
        noted = FineTimes()
        with (
            self._running(),
            noting(noted),
            query_context(spill=work.staging, clock=True) as context,
        ):
            schema = pa.schema([each.with_nullable(True) for each in work.source.schema])
            texts = transform.texts_of(facts.steps)
            found, held = [], []
            for batch in work.source.batches():
                held.append(batch.cast(schema))
                if facts.is_linear and not facts.ordered:
                    context.add(PREPROCESS_INPUT, pa.Table.from_batches(held, schema))
                    found.append(rows_of(last_of(context, texts)))
                    held = []
            if held or not found:
                context.add(PREPROCESS_INPUT, pa.Table.from_batches(held, schema))
                frame = last_of(context, texts)
                check_aggregates(aggregates_of(frame))
                found.append(rows_of(frame))
                check_fit(context, frame, texts)
            rows = pa.concat_tables(found)
        _check_unique(rows.schema)
        if not facts.is_linear and not facts.ordered:
            keys = row_keys(rows)
            rows = rows.take(_order(keys))
        return replace(Frame.of(rows), cut=tuple(noted.first.values()))

    def transform(self, work: TransformWork) -> Frame:
        """Run one step of a transform over the new rows of its inputs."""
        _admit(work)
        with self._running():
            if not work.query.facts.is_linear:
                return transform.recomputed_changes(work)
            if not work.in_full:
                return transform.linear(work)
            if work.query.facts.names_op:
                raise InvalidQueryError(
                    what="a query of the event log cannot correct what another one wrote",
                    why="its result is a changelog, which this engine cannot recompute",
                    fix="odfbuild rebuild NAME rebuilds the dataset with the new query",
                )
            return transform.recomputed_changes(work)

    def positions(self, work: TransformWork) -> Frame:
        """Return the rows of a row-by-row step, with their positions; see `ReplayEngine`."""
        _admit(work)
        with self._running():
            return transform.linear(work, (transform.POSITION,))

    def results(self, work: TransformWork, many: "Sequence[Inputs]") -> "tuple[pa.Table, ...]":
        """Return what the query of a step gives of selections of rows; see `ReplayEngine`."""
        _admit(work)
        with self._running():
            return tuple(transform.results(work, many))

    def validate(self, work: TransformWork) -> pa.Schema:
        """Return the schema that the step would give, without reading rows."""
        _admit(work)
        with self._running():
            found, steps = transform.step_schema(work), work.query.steps
            check_constants(steps, transform.texts_of(steps), transform.seen_columns(work))
            return found

    def analyse(self, question: Analysis) -> pa.Schema:
        """Return the columns that a query gives.  Raises InvalidQueryError."""
        try:
            return self._columns(question)
        except InvalidQueryError as error:
            raise placed(error, question.steps) from None

    def _columns(self, question: Analysis) -> pa.Schema:
        if question.preprocesses:
            return self._given_columns(question)
        ops = {each.vocab.operation_type_column for each in question.inputs}
        ops.add(question.vocab.operation_type_column)
        aliases = [each.alias for each in question.inputs]
        facts = examine(question.steps, aliases, ops)
        found = diagnostics(facts, _OF_ANALYSIS)
        if found:
            raise RefusedQueryError(found)
        raw = facts.names_op
        inputs = {
            each.alias: pa.schema(transform.visible(to_arrow(each.schema), each.vocab, raw=raw))
            for each in question.inputs
            if each.alias in facts.inputs
        }
        with self._running():
            found = transform.result_schema(question.steps, inputs, question.vocab, raw=raw)
            check_constants(question.steps, transform.texts_of(question.steps), inputs)
        return found

    def _given_columns(self, question: Analysis) -> pa.Schema:
        """Return the columns that a preprocess query gives of what a source declares."""
        (source,) = question.inputs
        facts = _facts(question.steps, [source.alias], _OF_INGEST)
        schema = pa.schema([each.with_nullable(True) for each in to_arrow(source.schema)])
        with self._running(), query_context(spill=None, clock=True) as context:
            context.add(source.alias, schema.empty_table())
            texts = transform.texts_of(facts.steps)
            frame = last_of(context, texts)
            found = columns(frame)
            check_aggregates(aggregates_of(frame))
            check_bounded(context, frame, texts)
            check_plan(frame)
        _check_unique(found)
        return found

    def query(self, request: "QueryRequest") -> Frame:
        """Answer a question; see `Querier`."""
        with self._running():
            return query.answer(request)

    def cancel(self) -> None:
        """Let the results of what runs now be thrown away."""
        self._cancelled.set()

    def close(self) -> None:
        """Do nothing: contexts end with their queries."""

    @contextmanager
    def _running(self) -> Iterator[None]:
        self._go_on()
        yield
        self._go_on()

    def _go_on(self) -> None:
        """Raise EngineFailedError once the engine was cancelled."""
        if self._cancelled.is_set():
            raise EngineFailedError(
                what="the step was interrupted",
                why="the run was stopped",
                fix="run the command again",
            )


def open_engine(_: "Opened") -> DataFusionEngine:
    """Return the engine; a project has no settings for it."""
    return DataFusionEngine()


def _check_unique(columns: pa.Schema) -> None:
    twice = repeated_name(columns.names)
    if twice is not None:
        raise InvalidQueryError(
            what=f"the preprocess query has two result columns named {twice!r}",
            why="column names of a dataset must be unique",
            fix="rename one of them with AS",
        )


def _order(keys: pa.Table) -> pa.Array:
    import pyarrow.compute as pc

    return pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names])


def _admit(work: TransformWork) -> None:
    if work.query.problems:
        raise RefusedQueryError(work.query.problems)


def _facts(
    steps: Sequence[QueryStep], inputs: Collection[str], reasons: Collection[Reason]
) -> QueryFacts:
    facts = examine(steps, inputs, ())
    found = diagnostics(facts, tuple(reasons))
    if found:
        raise RefusedQueryError(found)
    return facts
