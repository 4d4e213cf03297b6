"""Steps of transforms: rows one by one, or the difference of two results.

A query that works row by row runs over pieces of the new rows, one after the other, so that many of
them need little memory; operation and position of each row go through it.  Any other one runs over
all rows that stand, sorted by all their columns: what it gives then depends on their values alone,
and neither on the portions in which they came nor on what replaced what.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.data.conformance import conform
from odfbuild.executors.data.fine_times import FineTimes, noting
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.lookup import in_millis
from odfbuild.executors.data.parquet import scan_slices
from odfbuild.executors.data.rows import sort_columns, with_one_zero
from odfbuild.executors.engine.arrow.pairs import correction_pairs
from odfbuild.executors.engine.arrow.requirements import (
    check_event_time,
    check_names,
    given_operations,
)
from odfbuild.executors.engine.arrow.whole import by_value, completed, full_changes
from odfbuild.executors.engine.datafusion.aggregates import aggregates_of, check_aggregates
from odfbuild.executors.engine.datafusion.session import (
    MEMORY,
    QueryContext,
    check_plan,
    check_sums,
    columns,
    last_of,
    plan_text,
    query_context,
    rows_of,
)
from odfbuild.executors.engine.datafusion.spool import spooled
from odfbuild.executors.engine.datafusion.sums import check_bounded, check_fit
from odfbuild.executors.engine.protocol import (
    POSITION_SHIFT,
    Inputs,
    TransformInputFrame,
    TransformWork,
    system_columns,
)
from odfbuild.odf.events import DatasetVocabulary
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.sql.text.statement import DataFusionStatement
from odfbuild.sql.text.steps import QueryStep

OPERATION: Final = "__odf_op"
POSITION: Final = "__odf_pos"
_PIECE: Final = 1 << 18  # rows that a query looks at one by one together


def texts_of(
    steps: Sequence[QueryStep], carried: Sequence[str] = ()
) -> tuple[tuple[str | None, str], ...]:
    """Return alias and text for the engine of each step; some columns may be carried through."""
    names = ", ".join(f'"{each}"' for each in carried)
    found = []
    for step in steps:
        statement = step.statement
        assert isinstance(statement, DataFusionStatement)  # noqa: S101 - of its dialect
        found.append((step.alias, statement.carrying(names) if carried else statement.sent))
    return tuple(found)


# Row by row


def linear(work: TransformWork, also: Sequence[str] = ()) -> Frame:
    """Return the changes of a step that looks at new rows one by one; `also` are carried columns.

    Raises InvalidQueryError.
    """
    raw, op = work.query.facts.names_op, work.vocab.operation_type_column
    noted = FineTimes()
    with noting(noted), query_context(spill=work.staging, clock=False) as context:
        arranged = _rows_in_order(work, context)
        batches = arranged if raw else correction_pairs(arranged, op, POSITION)
        names, first = _names_of(work), next(batches)
        kept = first.schema.empty_table().select([*names, *also]).schema
        rows = (each.select(kept.names) for each in chain([first], batches))
        frame = spooled(rows, kept, work.staging)
    return replace(frame, cut=tuple(noted.first.values()))


def _names_of(work: TransformWork) -> list[str]:
    return list(step_schema(work).names)


def _rows_in_order(work: TransformWork, context: QueryContext) -> Iterator[pa.RecordBatch]:
    """Yield the columns of the result and the position, in the order of positions."""
    raw, op = work.query.facts.names_op, work.vocab.operation_type_column
    texts = texts_of(work.query.steps, _hidden(raw=raw))
    names = _names_of(work)
    sources = [each for each in work.inputs if each.alias in work.query.facts.inputs]
    for each in sources:
        context.add(each.alias, _seen(each, raw=raw).empty_table())
    yield _in_order(rows_of(last_of(context, texts)), names, op, work.vocab, raw=raw)
    for number, each in enumerate(work.inputs):
        if each not in sources:
            continue
        for piece in _pieces(each, number, raw=raw):
            context.add(each.alias, piece)
            found = rows_of(last_of(context, texts))
            yield _in_order(found, names, op, work.vocab, raw=raw)
        context.add(each.alias, _seen(each, raw=raw).empty_table())


def _in_order(
    rows: pa.Table, names: Sequence[str], op: str, vocab: DatasetVocabulary, *, raw: bool
) -> pa.RecordBatch:
    """Return rows by position; those of one position, which are made of one row, by value."""
    values = rows.select([name for name in names if name in rows.column_names])
    columns = [rows.column(POSITION), *sort_columns(values)]
    keys = pa.table(columns, names=[str(number) for number in range(len(columns))])
    order = pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names])
    rows = rows.take(order).combine_chunks()
    if not raw:
        operations = rows.column(OPERATION)
    elif op in rows.column_names:
        operations = given_operations(rows.column(op), op)
    else:
        operations = pa.chunked_array([pa.repeat(pa.scalar(0, pa.int32()), rows.num_rows)])
    found = [operations, *(rows.column(name) for name in [*names[1:], POSITION])]
    table = pa.table([each.combine_chunks() for each in found], names=[*names, POSITION])
    batches = table.to_batches()
    batch = batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)
    check_event_time(batch, vocab)
    return batch


def _pieces(source: TransformInputFrame, number: int, *, raw: bool) -> Iterator[pa.Table]:
    """Yield the new rows of an input as queries see them, with what is carried through first."""
    if source.interval is None or not source.paths:
        return
    vocab, seen = source.vocab, _seen(source, raw=raw)
    held: list[pa.RecordBatch] = []
    for batch in scan_slices(source.paths, schema=source.schema):
        offsets = batch.column(vocab.offset_column).cast(pa.int64())
        within = pc.and_(
            pc.greater_equal(offsets, source.interval.start),
            pc.less_equal(offsets, source.interval.end),
        )
        carried = {
            OPERATION: batch.column(vocab.operation_type_column).cast(pa.int32()),
            POSITION: pc.add(offsets, pa.scalar(number << POSITION_SHIFT, pa.int64())),
        }
        found = [
            carried[each.name] if each.name in carried else conform(batch[each.name], each.type)
            for each in seen
        ]
        held.append(pa.RecordBatch.from_arrays(found, schema=seen).filter(within))
        if sum(each.num_rows for each in held) >= _PIECE:
            yield with_one_zero(pa.Table.from_batches(held))
            held = []
    if held:
        yield with_one_zero(pa.Table.from_batches(held))


def _hidden(*, raw: bool) -> tuple[str, ...]:
    return (POSITION,) if raw else (OPERATION, POSITION)


def _seen(source: TransformInputFrame, *, raw: bool) -> pa.Schema:
    """Return the columns of an input: those carried through, then those that queries see."""
    kinds = {OPERATION: pa.int32(), POSITION: pa.int64()}
    carried = [pa.field(name, kinds[name]) for name in _hidden(raw=raw)]
    return pa.schema([*carried, *visible(to_arrow(source.schema), source.vocab, raw=raw)])


def visible(schema: pa.Schema, vocab: DatasetVocabulary, *, raw: bool) -> list[pa.Field]:
    """Return the columns that a query sees: event time and data, or all of the event log."""
    system = () if raw else system_columns(vocab)
    return [pa.field(each.name, in_millis(each.type)) for each in schema if each.name not in system]


# The whole result


def recomputed_changes(work: TransformWork) -> Frame:
    """Return the changes of a step that compares its whole result with what the dataset holds.

    Raises InvalidQueryError, InvalidChangelogError, and EngineFailedError where there are too many
    rows for the memory.
    """
    step_schema(work)
    return full_changes(work, lambda inputs: next(results(work, (inputs,))), most=MEMORY)


def results(work: TransformWork, many: Iterable[Inputs]) -> Iterator[pa.Table]:
    """Yield what the query gives of each of some selections of rows, as the dataset stores it."""
    texts = texts_of(work.query.steps)
    for inputs in many:
        with query_context(spill=None, clock=False) as context:
            for alias, rows in inputs.items():
                context.add(alias, by_value(rows))
            frame = last_of(context, texts)
            found = completed(rows_of(frame), work)
            check_fit(context, frame, texts)
        yield found


# Columns


def step_schema(work: TransformWork) -> pa.Schema:
    """Return the columns that a step gives, all nullable, without reading rows."""
    return result_schema(work.query.steps, seen_columns(work), work.vocab, raw=_raw(work))


def seen_columns(work: TransformWork) -> dict[str, pa.Schema]:
    """Return the columns that the query of a step sees of each input that it reads."""
    return {
        each.alias: pa.schema(visible(to_arrow(each.schema), each.vocab, raw=_raw(work)))
        for each in work.inputs
        if each.alias in work.query.facts.inputs
    }


def _raw(work: TransformWork) -> bool:
    return work.query.facts.names_op


def result_schema(
    steps: Sequence[QueryStep],
    inputs: dict[str, pa.Schema],
    vocab: DatasetVocabulary,
    *,
    raw: bool,
) -> pa.Schema:
    """Return operation, event time and the other columns of a result.  Raises InvalidQueryError."""
    found, text = _checked_columns(steps, inputs)
    if "Join" in text:  # a step has their sides in the order of sizes
        _checked_columns(steps, inputs, reorders_joins=False)
    _check(found, vocab, raw=raw)
    op, time = vocab.operation_type_column, vocab.event_time_column
    others = [each for each in found if each.name not in {op, time}]
    return pa.schema([pa.field(op, pa.int32()), found.field(time), *others])


def _checked_columns(
    steps: Sequence[QueryStep], inputs: dict[str, pa.Schema], *, reorders_joins: bool = True
) -> tuple[pa.Schema, str]:
    """Return the columns of a query that can run, and the text of its plan."""
    with query_context(spill=None, clock=False, reorders_joins=reorders_joins) as context:
        frame = _over_no_rows(context, steps, inputs)
        found, text = columns(frame), plan_text(frame)
        if reorders_joins:
            check_aggregates(aggregates_of(frame))
            if "Subquery" not in text or not _checked_subqueries(steps, inputs):
                check_sums(frame)
            check_bounded(context, frame, texts_of(steps))
        check_plan(frame)
        return found, text


def _checked_subqueries(steps: Sequence[QueryStep], inputs: dict[str, pa.Schema]) -> bool:
    """Raise InvalidQueryError where an aggregate within a subquery cannot be computed.

    A plan shows it once subqueries are joins; not every query has such a plan: then return False.
    """
    with query_context(spill=None, clock=False, joins_subqueries=True) as context:
        frame = _over_no_rows(context, steps, inputs)
        try:
            found = aggregates_of(frame)
        except InvalidQueryError:
            return False
        check_aggregates(found)
        check_sums(frame)
        return True


def _over_no_rows(
    context: QueryContext, steps: Sequence[QueryStep], inputs: dict[str, pa.Schema]
) -> Any:
    for alias, schema in inputs.items():
        context.add(alias, schema.empty_table())
    return last_of(context, texts_of(steps))


def _check(found: pa.Schema, vocab: DatasetVocabulary, *, raw: bool) -> None:
    check_names(found.names, vocab, raw=raw)
    op, time = vocab.operation_type_column, vocab.event_time_column
    if op in found.names and not pa.types.is_integer(found.field(op).type):
        raise InvalidQueryError(
            what=f"{op!r} is {found.field(op).type} in the query's result",
            why="operations are the numbers 0 to 3",
            fix="pass the op of the input through unchanged",
        )
    times = [each.name for each in found if _is_time(each.type)]
    if time not in times:
        kind = f"{found.field(time).type}, not a date or timestamp" if time in found.names else ""
        raise InvalidQueryError(
            what=f"{time!r} is {kind} in the query's result"
            if kind
            else f"the query has no result column {time!r}",
            why="every record of a dataset has an event time",
            fix=f"select {' or '.join(times)} as {time}, or name that column in SetVocab"
            if times
            else f"select the {time} of the input, too",
        )


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))
