"""Ingest on Spark: preprocess, conversion to the stored form, merge into the history."""

# ruff: noqa: S608 - the texts are made of quoted names only

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.data.conformance import conform
from odfbuild.executors.data.frames import Frame, Repeated
from odfbuild.executors.engine.protocol import IngestRequest
from odfbuild.executors.engine.spark.admission import built
from odfbuild.executors.engine.spark.errors import SentQuery, spark_errors
from odfbuild.executors.engine.spark.frames import (
    PIECE,
    POSITION,
    first_of_keys,
    from_files,
    from_frame,
    gather_checked,
)
from odfbuild.executors.engine.spark.ingest.history import (
    fits_in_memory,
    joins,
    looks_up,
    narrowing,
    near,
    past_rows,
    stored_once,
)
from odfbuild.executors.engine.spark.ingest.merge import (
    LEFT_OUT,
    merge_text,
    needed_history,
    normal,
    reads_operations,
)
from odfbuild.executors.engine.spark.ingest.merge_faults import ASKED, FAULT, fault_error
from odfbuild.executors.engine.spark.ingest.merge_parts import (
    MergeInputError,
    Merging,
    Narrowing,
    check_known,
    kinds_of,
)
from odfbuild.executors.engine.spark.ingest.preprocess import preprocessed, sent_steps
from odfbuild.executors.engine.spark.session import Views
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.executors.engine.spark.sql_text import quoted, spark_schema, spark_type
from odfbuild.odf.events import MergeStrategyLedger
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.schema.columns import own_names
from odfbuild.planner.queries import PREPROCESS_INPUT
from odfbuild.sql.analysis.facts import QueryFacts
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_NEW, _OLD = "__odf_new", "__odf_old"
_RFC3339 = (
    r"^\\d{4}-\\d\\d-\\d\\d([Tt ]\\d\\d:\\d\\d(:\\d\\d(\\.\\d+)?)?([Zz]|[+-]\\d\\d:?\\d\\d)?)?$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _IngestWork:
    """What every part of one ingest needs; `is_near` says that the history was cut down."""

    session: "SparkSession"
    views: Views
    request: IngestRequest
    size: StepSize
    log: Path | None
    by_piece: bool
    is_near: bool


def ingested(
    session: "SparkSession",
    views: Views,
    request: IngestRequest,
    facts: QueryFacts | None,
    size: StepSize,
    log: Path | None,
    *,
    by_piece: bool,
    is_near: bool,
) -> Frame:
    """Return the merged rows; `facts` are those of the preprocess query, if there is one.

    `by_piece` says that the source has several pieces (`spark.pieces`); so has the result then.
    `is_near` says that the history was cut down to what the rows may touch.
    """
    work = _IngestWork(
        session=session, views=views, request=request, size=size, log=log, by_piece=by_piece,
        is_near=is_near,
    )  # fmt: skip
    source = from_frame(session, request.source, size)
    if facts is not None:
        source = preprocessed(session, views, source, facts, size, log, by_piece=by_piece)
    elif request.infer:
        source = source.selectExpr(*_default_preprocess(source, request))
    _check_names(source.columns, request)
    is_fine = facts is not None or request.infer
    new = normal(source, cut=not is_fine)
    offered: Frame | None = None
    if facts is not None and _is_read_often(work):
        with spark_errors("merge the source rows", sent_steps(facts, by_piece=by_piece), log):
            new, rows = stored_once(new, request.staging)
        offered = None if by_piece else rows
        if (cut := near(request, rows)) is not None:
            work = replace(work, request=cut, is_near=True)
    views.add(_NEW, new)
    merging = replace(_merging(work, new), is_fine=is_fine)
    is_ledger = isinstance(request.merge, MergeStrategyLedger)
    marks = is_ledger and facts is not None and size is StepSize.SMALL and merging.old is not None
    merging = replace(merging, marks=marks)
    if by_piece and isinstance(request.merge, MergeStrategyLedger):
        check_known(request.merge.primary_key, merging.new, "primary key")
        views.add(_NEW, first_of_keys(session, new, _NEW, request.merge.primary_key, marks=marks))
    with joins(session) if size is StepSize.BIG else nullcontext():
        merged = _merged(work, merging, sent_steps(facts, by_piece=by_piece))
    merged = _as_declared(merged, request) if facts is None else replace(merged, offered=offered)
    if merged.table is None and merged.rows > 1 and isinstance(request.merge, MergeStrategyLedger):
        with spark_errors("look for repeated keys", log=log):
            return replace(merged, repeated=_repeated(session, merged, request.merge.primary_key))
    return merged


def _repeated(session: "SparkSession", merged: Frame, key: Sequence[str]) -> Repeated | None:
    """Return what is several times among the keys of rows in files; a key with a null is none."""
    from pyspark.sql import functions

    schema = pa.schema([merged.schema.field(name) for name in key])
    rows = from_files(session, [part.path for part in merged.parts], schema)
    keys = ", ".join(map(quoted, key))
    counted = rows.dropna().groupBy(*map(quoted, key)).agg(functions.expr("count(1) AS __odf_c"))
    found = counted.where("__odf_c > 1").selectExpr(
        "count(*) OVER () AS __odf_n", "__odf_c", f"struct({keys}) AS __odf_k"
    )
    least = found.orderBy("__odf_k").limit(1).collect()
    if not least:
        return None
    row = least[0]
    return Repeated(int(row["__odf_n"]), row["__odf_k"].asDict(), int(row["__odf_c"]))


def _merged(work: _IngestWork, merging: Merging, sent: tuple[SentQuery, ...]) -> Frame:
    request, op = work.request, work.request.vocab.operation_type_column
    with spark_errors("merge the source rows", sent, work.log):
        merging = replace(merging, narrowing=_narrowing(work, merging))
    with spark_errors("merge the source rows", log=work.log):
        rows = built(work.session, merge_text(merging, _NEW, _OLD))
    lost: list[pa.RecordBatch] = []
    names = [name for name in rows.columns if name != ASKED]
    with spark_errors("merge the source rows", sent, work.log):
        frame = gather_checked(
            rows,
            work.size,
            request.staging,
            names,
            lambda batches: _taken(_checked(batches, op, request), op, lost),
            (op, FAULT),
        )
    if not lost:
        return frame
    left_out = pa.Table.from_batches(lost).select([name for name in names if name != op])
    return replace(frame, left_out=left_out)


def _taken(
    batches: Iterator[pa.RecordBatch], op: str, lost: list[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that a Ledger takes, and put the others to those lost."""
    for batch in batches:
        marked = pc.equal(batch.column(op), LEFT_OUT)
        if not pc.any(marked).as_py():
            yield batch
            continue
        lost.append(batch.filter(marked))
        yield batch.filter(pc.invert(marked))


def _is_read_often(work: _IngestWork) -> bool:
    """Tell whether what a query gives is read for its keys first, and only then as a whole."""
    return work.size is StepSize.BIG and looks_up(work.request)


def _narrowing(work: _IngestWork, merging: Merging) -> Narrowing | None:
    """Say how few the new rows are, where a long history would be read for their keys alone."""
    key = getattr(merging.strategy, "primary_key", ())
    if work.size is StepSize.SMALL or merging.old is None or not set(key) <= merging.new.keys():
        return None
    if merging.is_near or not looks_up(work.request):
        return None
    return narrowing(work.session, _NEW, key, merging.new)


def _merging(work: _IngestWork, new: "DataFrame") -> Merging:
    """Return what is merged, with the history as a view if there is any."""
    request, op = work.request, work.request.vocab.operation_type_column
    kinds = kinds_of(new.schema, without=(POSITION, PIECE, op))
    old = _history(work, kinds)
    if old is not None:
        work.views.add(_OLD, old)
    return Merging(
        strategy=request.merge,
        vocab=request.vocab,
        new=kinds,
        old=None if old is None else kinds_of(old.schema),
        size=work.size,
        operation=kinds_of(new.schema).get(op),
        by_piece=work.by_piece,
        is_near=work.is_near and fits_in_memory(work.request.history),
    )


def _reserved(request: IngestRequest) -> tuple[str, ...]:
    """Return the names that no column of the source may have."""
    vocab = request.vocab
    names = (vocab.offset_column, vocab.operation_type_column, vocab.system_time_column)
    return names[::2] if reads_operations(request.merge) else names


def _default_preprocess(frame: "DataFrame", request: IngestRequest) -> list[str]:
    """Return the columns of a source without schema: clashes renamed, event time made a time."""
    vocab, columns = request.vocab, []
    operations = reads_operations(request.merge)
    renamed = own_names(frame.columns, vocab, operations=operations)
    for field in frame.schema.fields:
        name = renamed.get(field.name, field.name)
        text = quoted(field.name)
        if name == vocab.event_time_column:
            text = _as_time(text, field.dataType.typeName())
        columns.append(f"{text} AS {quoted(name)}")
    return columns


def _as_time(column: str, kind: str) -> str:
    """Return an event time: integers are seconds since 1970, text is RFC 3339."""
    if kind in {"byte", "short", "integer", "long"}:
        return f"timestamp_seconds({column})"
    if kind != "string":
        return column
    refused = f"raise_error(concat('not an RFC 3339 time: ', {column}))"
    time = f"CAST(upper({column}) AS TIMESTAMP)"
    return (
        f"CASE WHEN {column} IS NULL OR {column} RLIKE '{_RFC3339}' THEN {time} "
        f"ELSE CAST({refused} AS TIMESTAMP) END"
    )


def _check_names(names: list[str], request: IngestRequest) -> None:
    reserved = _reserved(request)
    for name in names:
        if name in reserved:
            raise MergeInputError(
                what=f"the source has a column named {name!r}",
                why="that is a system column of the dataset: it is written by the build",
                fix=f"rename it in `preprocess`, or give the system column another name in "
                f"SetVocab: SELECT {quoted(name)} AS ... FROM {PREPROCESS_INPUT}",
                columns=(name,),
            )


def _history(work: _IngestWork, new: Mapping[str, Any]) -> "DataFrame | None":
    """Return what the strategy needs of the history, columns that a slice lacks as nulls."""
    request = work.request
    needed = needed_history(request.merge, request.vocab, new)
    if not needed or not request.history or request.in_force is None:
        return None
    schema = _history_schema(needed, to_arrow(request.in_force), new)
    return past_rows(work.session, request.history, schema, work.size)


def _history_schema(
    needed: tuple[str, ...], in_force: pa.Schema, new: Mapping[str, Any]
) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_type

    fields = []
    for name in needed:
        if name in in_force.names:
            fields.append(in_force.field(name))
        elif name in new:
            fields.append(pa.field(name, to_arrow_type(new[name], timezone="UTC")))
    return pa.schema(fields)


def _checked(
    batches: Iterator[pa.RecordBatch], op: str, request: IngestRequest
) -> Iterator[pa.RecordBatch]:
    """Yield the rows; raises MergeInputError for the first that must not be there."""
    for batch in batches:
        highest = pc.max(batch.column(op)).as_py()
        if highest is not None and highest >= FAULT:
            at = pc.index(pc.greater_equal(batch.column(op), FAULT), True).as_py()
            row = batch.slice(at, 1).to_pylist()[0]
            code, asked = row.pop(op), row.pop(ASKED, None)
            raise fault_error(row, request.merge, code, request.vocab, asked)
        yield batch


def _as_declared(frame: Frame, request: IngestRequest) -> Frame:
    """Give columns what the source declared and Spark does not keep: types, and being required.

    A schema in force has its own say in what is required, and rows of the history may be null
    where newer ones are not; so only the first rows are held to it.
    """
    source = request.source.schema
    fields = []
    for field in frame.schema:
        declared = source.field(field.name) if field.name in source.names else field
        if spark_type(declared.type) == spark_schema(frame.schema).field(field.name).type:
            field = field.with_type(declared.type)  # noqa: PLW2901
        if request.in_force is None:
            field = field.with_nullable(field.nullable and declared.nullable)  # noqa: PLW2901
        fields.append(field)
    schema = pa.schema(fields)
    if frame.table is not None:
        batches = [_batch_as(each, schema) for each in frame.table.to_batches()]
        return Frame.of(pa.Table.from_batches(batches, schema))
    return Frame(schema=schema, parts=frame.parts)


def _batch_as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [conform(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
