"""Ingest on Spark: preprocess, conversion to the stored form, merge into the history."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from odfbuild.executors.data.frames import Frame, Repeated
from odfbuild.executors.data.python_values import python_rows
from odfbuild.executors.engine.arrow.hidden_names import hidden_prefix
from odfbuild.executors.engine.arrow.merging.faults import (
    FAULT,
    taken_rows,
    valid_rows,
)
from odfbuild.executors.engine.arrow.merging.history import looks_up, narrowed_history
from odfbuild.executors.engine.arrow.merging.pieces import PIECE
from odfbuild.executors.engine.arrow.merging.plain_types import as_declared
from odfbuild.executors.engine.arrow.merging.rules import (
    check_known,
    check_names,
    history_schema,
    needed_history,
)
from odfbuild.executors.engine.arrow.merging.values import RFC3339
from odfbuild.executors.engine.protocol import IngestRequest
from odfbuild.executors.engine.spark.cluster.driver import built, functions
from odfbuild.executors.engine.spark.errors import SentQuery, spark_errors
from odfbuild.executors.engine.spark.frames import (
    first_of_keys,
    from_frame,
    from_parts,
    gather_checked,
)
from odfbuild.executors.engine.spark.ingest.history import (
    fits_in_memory,
    history_rows,
    joins,
    narrowing,
    stored_once,
)
from odfbuild.executors.engine.spark.ingest.merge import merge_text, normal
from odfbuild.executors.engine.spark.ingest.merge_parts import (
    Merging,
    Narrowing,
    kinds_of,
)
from odfbuild.executors.engine.spark.ingest.preprocess import preprocessed, sent_steps
from odfbuild.executors.engine.spark.ingest.ranges import ranges_of
from odfbuild.executors.engine.spark.session import Views
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.executors.engine.spark.sql_text import literal, quoted
from odfbuild.odf.merge_strategies import key_of, only_adds, reads_operations, skips_keys
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.schema.columns import own_names
from odfbuild.sql.analysis.facts import QueryFacts
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_NEW, _OLD = "__odf_new", "__odf_old"


@dataclass(frozen=True, slots=True, kw_only=True)
class _IngestWork:
    """What every part of one ingest needs; `is_narrowed` says that the history was cut down."""

    session: "SparkSession"
    views: Views
    request: IngestRequest
    size: StepSize
    log: Path | None
    by_piece: bool
    is_narrowed: bool
    hidden: str

    @property
    def position(self) -> str:
        """Return the name of the column of the position of each row."""
        return f"{self.hidden}pos"


def ingested(
    session: "SparkSession",
    views: Views,
    request: IngestRequest,
    facts: QueryFacts | None,
    size: StepSize,
    log: Path | None,
    *,
    by_piece: bool,
    is_narrowed: bool,
) -> Frame:
    """Return the merged rows; `facts` are those of the preprocess query, if there is one.

    `by_piece` says that the source has several pieces (`spark.pieces`); so has the result then.
    `is_narrowed` says that the history was cut down to what the rows may touch.
    """
    work = _IngestWork(
        session=session, views=views, request=request, size=size, log=log, by_piece=by_piece,
        is_narrowed=is_narrowed, hidden=hidden_prefix(_texts(request, facts)),
    )  # fmt: skip
    source = from_frame(session, views, request.source, size, work.position)
    if facts is not None:
        source = preprocessed(
            session, views, source, facts, size, log, work.position, by_piece=by_piece
        )
    elif request.infer:
        source = source.selectExpr(*_default_preprocess(source, request))
    check_names(source.columns, request.merge, request.vocab)
    is_fine = facts is not None or request.infer
    new = normal(source, cut=not is_fine)
    offered: Frame | None = None
    if facts is not None and _is_read_often(work):
        with spark_errors("merge the source rows", sent_steps(facts, by_piece=by_piece), log):
            new, rows = stored_once(new, request.staging)
        offered = None if by_piece else rows
        if (cut := narrowed_history(request, rows)) is not None:
            work = replace(work, request=cut, is_narrowed=True)
    views.add(_NEW, new)
    merging = replace(_merging(work, new), is_fine=is_fine)
    if size is StepSize.BIG and not is_fine and not by_piece and only_adds(request.merge):
        merging = replace(merging, ranges=ranges_of(request.source, merging.time, work.hidden))
    key, skips = key_of(request.merge), skips_keys(request.merge)
    marks = skips and facts is not None and size is StepSize.SMALL and merging.old is not None
    merging = replace(merging, marks=marks)
    if by_piece and skips:
        check_known(key, merging.new, "primary key")
        first = first_of_keys(session, new, _NEW, key, hidden=work.hidden, marks=marks)
        views.add(_NEW, first)
    with joins(session) if size is StepSize.BIG else nullcontext():
        merged = _merge(work, merging, sent_steps(facts, by_piece=by_piece))
    merged = (
        as_declared(merged, request.source.schema, first=request.in_force is None)
        if facts is None
        else replace(merged, offered=offered)
    )
    if merged.table is None and merged.rows > 1 and skips:
        with spark_errors("look for repeated keys", log=log):
            return replace(merged, repeated=_repeated_keys(session, merged, key))
    return merged


def _repeated_keys(session: "SparkSession", merged: Frame, key: Sequence[str]) -> Repeated | None:
    """Return what is several times among the keys of rows in files; a key with a null is none."""
    schema = pa.schema([merged.schema.field(name) for name in key])
    rows = from_parts(session, merged, schema)
    keys = ", ".join(map(quoted, key))
    times = f"{hidden_prefix(key)}times"
    counted = (
        rows.dropna().groupBy(*map(quoted, key)).agg(functions(rows).expr(f"count(1) AS {times}"))
    )
    found = counted.where(f"{times} > 1").selectExpr(
        "count(*) OVER () AS keys", f"{times} AS times", f"struct({keys}) AS key"
    )
    least = python_rows(found.orderBy("key").limit(1).toArrow())
    if not least:
        return None
    row = least[0]
    return Repeated(int(row["keys"]), row["key"], int(row["times"]))


def _merge(work: _IngestWork, merging: Merging, sent: tuple[SentQuery, ...]) -> Frame:
    request, op = work.request, work.request.vocab.operation_type_column
    with spark_errors("merge the source rows", sent, work.log):
        merging = replace(merging, narrowing=_narrowing(work, merging))
    with spark_errors("merge the source rows", log=work.log):
        rows = built(work.session, merge_text(merging, _NEW, _OLD))
        rows = rows if merging.ranges is None else merging.ranges.sorted_rows(rows)
    lost: list[pa.RecordBatch] = []
    asked = merging.name("asked")
    names = [name for name in rows.columns if name != asked]
    with spark_errors("merge the source rows", sent, work.log):
        frame = gather_checked(
            rows,
            work.size,
            request.staging,
            names,
            lambda batches: taken_rows(
                valid_rows(batches, request.merge, request.vocab, asked), op, lost
            ),
            (op, FAULT),
        )
    if not lost:
        return frame
    left_out = pa.Table.from_batches(lost).select([name for name in names if name != op])
    return replace(frame, left_out=left_out)


def _is_read_often(work: _IngestWork) -> bool:
    """Tell whether what a query gives is read for its keys first, and only then as a whole."""
    return work.size is StepSize.BIG and looks_up(work.request)


def _narrowing(work: _IngestWork, merging: Merging) -> Narrowing | None:
    """Say how few the new rows are, where a long history would be read for their keys alone."""
    key = key_of(merging.strategy)
    if work.size is StepSize.SMALL or merging.old is None or not set(key) <= merging.new.keys():
        return None
    if merging.is_narrowed or not looks_up(work.request):
        return None
    return narrowing(work.session, _NEW, key, merging.new)


def _merging(work: _IngestWork, new: "DataFrame") -> Merging:
    """Return what is merged, with the history as a view if there is any."""
    request, op = work.request, work.request.vocab.operation_type_column
    kinds = kinds_of(new.schema, without=(work.position, *((PIECE,) if work.by_piece else ()), op))
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
        is_narrowed=work.is_narrowed and fits_in_memory(work.request.history),
        hidden=work.hidden,
    )


def _texts(request: IngestRequest, facts: QueryFacts | None) -> Iterator[str]:
    """Yield what names of columns are in, or come from, in an ingest."""
    yield from request.source.schema.names
    if request.in_force is not None:
        yield from (field.name for field in request.in_force.fields)
    yield from (step.statement.text for step in (() if facts is None else facts.steps))
    vocab = request.vocab
    yield from (getattr(vocab, name) for name in vocab.__slots__)


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
        f"CASE WHEN {column} IS NULL OR {column} RLIKE {literal(RFC3339)} THEN {time} "
        f"ELSE CAST({refused} AS TIMESTAMP) END"
    )


def _history(work: _IngestWork, new: Mapping[str, Any]) -> "DataFrame | None":
    """Return what the strategy needs of the history, columns that a slice lacks as nulls."""
    from pyspark.sql.pandas.types import to_arrow_type

    request = work.request
    needed = needed_history(request.merge, request.vocab, new)
    if not needed or not request.history or request.in_force is None:
        return None
    kinds = {name: to_arrow_type(kind, timezone="UTC") for name, kind in new.items()}
    schema = history_schema(needed, to_arrow(request.in_force), kinds)
    return history_rows(work.session, request.history, schema, work.size)
