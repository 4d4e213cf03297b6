"""Tables and requests for the engine's tests, made of the columns and rows that vectors hold."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.protocol import (
    IngestRequest,
    TransformInputFrame,
    TransformWork,
    query_over,
)
from odfbuild.odf.events import (
    DatasetVocabulary,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    OffsetInterval,
    SqlQueryStep,
    TransformSql,
)
from odfbuild.odf.schema.arrow import from_arrow

__all__ = [
    "MILLIS",
    "VOCAB",
    "ingest_request",
    "rows_of",
    "sql",
    "strategy_of",
    "table_of",
    "work_on",
    "written",
]

VOCAB = DatasetVocabulary()
MILLIS = pa.timestamp("ms", tz="UTC")
_TYPES = {
    "Int32": pa.int32(),
    "Int64": pa.int64(),
    "String": pa.string(),
    "Timestamp": MILLIS,
    "Date": pa.date32(),
    "Float64": pa.float64(),
}


def table_of(given: Mapping[str, Any]) -> pa.Table:
    """Return a table written as in the vectors: columns with types, and rows."""
    fields = [pa.field(c["name"], _TYPES[c["type"]], c["nullable"]) for c in given["columns"]]
    columns = [
        pa.array([_value(row[at], field.type) for row in given["rows"]], field.type)
        for at, field in enumerate(fields)
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _value(value: Any, kind: pa.DataType) -> Any:
    if value is None or not isinstance(value, str):
        return value
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat(value)
    return date.fromisoformat(value) if pa.types.is_date(kind) else value


def strategy_of(given: Mapping[str, Any]) -> MergeStrategy:
    key = tuple(given.get("primaryKey", ()))
    match given["kind"]:
        case "Append":
            return MergeStrategyAppend()
        case "Ledger":
            return MergeStrategyLedger(primary_key=key)
        case "UpsertStream":
            return MergeStrategyUpsertStream(primary_key=key)
        case "ChangelogStream":
            return MergeStrategyChangelogStream(primary_key=key)
        case _:
            compared = given.get("compareColumns")
            return MergeStrategySnapshot(
                primary_key=key, compare_columns=None if compared is None else tuple(compared)
            )


def written(folder: Path, table: pa.Table) -> Path:
    """Write a table as Parquet under a new name."""
    path = folder / f"{uuid4().hex}.parquet"
    pq.write_table(table, path)
    return path


def ingest_request(
    folder: Path,
    source: pa.Table,
    merge: MergeStrategy,
    history: Sequence[pa.Table] = (),
    *,
    vocab: DatasetVocabulary = VOCAB,
    preprocess: str | TransformSql | None = None,
    infer: bool = False,
    as_file: bool = False,
) -> IngestRequest:
    """Return a request; the schema in force is that of the newest slice."""
    slices = tuple(written(folder, each) for each in history)
    query = sql(preprocess) if isinstance(preprocess, str) else preprocess
    return IngestRequest(
        source=Frame.at(written(folder, source)) if as_file else Frame.of(source),
        preprocess=query,
        merge=merge,
        vocab=vocab,
        history=slices,
        in_force=from_arrow(history[-1].schema) if history else None,
        staging=folder,
        infer=infer,
    )


def sql(query: str, **steps: str) -> TransformSql:
    """Return a transform of one query, after steps that are named by their aliases."""
    if not steps:
        return TransformSql(engine="spark", query=query)
    named = [SqlQueryStep(alias=alias, query=text) for alias, text in steps.items()]
    last = SqlQueryStep(alias=None, query=query)
    return TransformSql(engine="spark", queries=(*named, last))


def work_on(
    folder: Path, transform: TransformSql, **inputs: Sequence[pa.Table] | pa.Schema
) -> TransformWork:
    """Return a step over slices by alias; a schema stands for an input without new rows."""
    frames = tuple(_input(folder, alias, given) for alias, given in inputs.items())
    return TransformWork(
        inputs=frames,
        query=query_over(transform, frames, VOCAB),
        vocab=VOCAB,
        staging=folder,
    )


def _input(folder: Path, alias: str, given: Sequence[pa.Table] | pa.Schema) -> TransformInputFrame:
    tables = () if isinstance(given, pa.Schema) else tuple(given)
    schema = given if isinstance(given, pa.Schema) else tables[-1].schema
    offsets = [offset for table in tables for offset in table.column("offset").to_pylist()]
    interval = OffsetInterval(start=offsets[0], end=offsets[-1]) if offsets else None
    return TransformInputFrame(
        alias=alias.replace("__", "."),
        paths=tuple(written(folder, table) for table in tables if table.num_rows),
        interval=interval,
        schema=from_arrow(schema),
        vocab=VOCAB,
    )


def rows_of(frame: Frame) -> list[dict[str, Any]]:
    """Return the rows of a frame, times as text."""
    table = pa.Table.from_batches(frame.batches(), schema=frame.schema)
    assert table.num_rows == frame.rows
    return [{name: _shown(value) for name, value in row.items()} for row in table.to_pylist()]


def _shown(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value
