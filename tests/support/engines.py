"""An engine without a JVM: rows as Python dicts, for tests of everything around an engine."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.errors import EngineFailedError, InvalidQueryError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.analysis import Analysis, PlacedQueryError, QueryPlace
from odfbuild.executors.engine.protocol import (
    CondenseRequest,
    IngestRequest,
    RawQueryWork,
    TransformInputFrame,
    TransformWork,
)
from odfbuild.executors.engine.querier import QueryRequest
from odfbuild.odf.events import (
    DatasetVocabulary,
    MergeStrategy,
    Transform,
)
from odfbuild.odf.merge_strategies import key_of, reads_operations, skips_keys
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.schema.columns import own_names
from tests.support.oracles import merge as oracle

__all__ = ["FakeEngine", "Rows", "copy_all"]

Item = TypeVar("Item")
Result = TypeVar("Result")
Rows = list[dict[str, Any]]
Query = Callable[[Mapping[str, Rows]], Rows]


def copy_all(inputs: Mapping[str, Rows]) -> Rows:
    """Return the new rows of all inputs, one after the other."""
    return [row for rows in inputs.values() for row in rows]


@dataclass
class FakeEngine:
    """Merges as the oracle does, and runs Python functions in the place of query texts.

    `asked` are the questions that it was asked, `columns` its answers to some, by query text.
    """

    queries: Mapping[str, Query] = field(default_factory=dict)
    failing: frozenset[str] = frozenset()
    started: list[str] = field(default_factory=list)
    columns: Mapping[str, Sequence[pa.Field]] = field(default_factory=dict)
    refused: frozenset[str] = frozenset()
    asked: list[str] = field(default_factory=list)

    def prepare(
        self,
        planned_bytes: int | None = None,
        queries: Collection[str] = (),
        *,
        merges: bool = True,
    ) -> None:
        self.started.append("prepare")

    def held(self, merge: MergeStrategy, preprocess: Transform | None, /) -> int:
        return 0

    def ingest(self, request: IngestRequest) -> Frame:
        self.asked.append("ingest")
        table = _own_names(request, request.source)
        kept = _merged(request, table.to_pylist())
        return _frame(kept, table.schema, request.vocab)

    def ingest_together(
        self, request: IngestRequest, sources: Sequence[Frame]
    ) -> tuple[Frame, ...]:
        self.asked.append("ingest together")
        key = getattr(request.merge, "primary_key", None)
        before: set[tuple[Any, ...]] = set()
        frames = []
        for source in sources:
            table = _own_names(request, source)
            rows = _merged(request, table.to_pylist())
            new = [row for row in rows if key is None or _key(row, key) not in before]
            before |= {_key(row, key) for row in new if key is not None}
            frames.append(_frame(new, table.schema, request.vocab))
        return tuple(frames)

    def spread(
        self, function: Callable[[Item], Result], items: Sequence[Item], /
    ) -> tuple[Result, ...]:
        self.asked.append("spread")
        return tuple(map(function, items))

    def condense(self, request: CondenseRequest) -> tuple[Path, ...]:
        self.asked.append("condense")
        old = [row for path in request.history for row in pq.read_table(path).to_pylist()]
        schema = to_arrow(request.in_force)
        if skips_keys(request.merge):
            schema = pa.schema([schema.field(name) for name in key_of(request.merge)])
        request.into.mkdir()
        rows = pa.Table.from_pylist(_condensed(request.merge, old), schema)
        pq.write_table(rows, request.into / "rows.parquet")
        return (request.into / "rows.parquet",)

    def raw_query(self, work: RawQueryWork) -> Frame:
        (step,) = work.query.queries or ()
        self._check(step.query)
        table = work.source.table
        if table is None:
            table = pa.Table.from_batches(work.source.batches(), work.source.schema)
        rows = self.queries.get(step.query, copy_all)({"input": table.to_pylist()})
        return Frame.of(pa.Table.from_pylist(rows, schema=table.schema))

    def _check(self, query: str) -> None:
        if query in self.failing:
            raise EngineFailedError(what="it broke", why="the test asked for it", fix="none")
        if query in self.refused:
            raise InvalidQueryError(what="it is wrong", why="so", fix="none")

    def transform(self, work: TransformWork) -> Frame:
        (step,) = work.query.transform.queries or ()
        self._check(step.query)
        tables = {each.alias: _read(each) for each in work.inputs}
        inputs = {alias: table.to_pylist() for alias, table in tables.items()}
        rows = self.queries.get(step.query, copy_all)(inputs)
        schema = next(iter(tables.values())).schema
        return _frame(rows, schema, work.vocab)

    def positions(self, work: TransformWork) -> Frame:
        """Return the rows of a step that copies all of them, with their positions."""
        table = self.transform(work).table
        assert table is not None
        places = [(n << 48) + at for n, each in enumerate(work.inputs) for at in _offsets(each)]
        return Frame.of(table.append_column("position", pa.array(places, pa.int64())))

    def results(
        self, work: TransformWork, many: Sequence[Mapping[str, pa.Table]]
    ) -> Sequence[pa.Table]:
        """Return what a query gives of each of several selections of rows."""
        (step,) = work.query.transform.queries or ()
        query = self.queries.get(step.query, copy_all)
        return [
            pa.Table.from_pylist(query({name: table.to_pylist() for name, table in each.items()}))
            for each in many
        ]

    def validate(self, work: TransformWork) -> pa.Schema:
        return self.transform(work).schema

    def analyse(self, question: Analysis) -> pa.Schema:
        """Answer with `columns`, else with those of the first input as the query sees them."""
        text = question.steps[-1].text
        self.asked.append(text)
        if text in self.refused:
            at = QueryPlace(len(question.steps) - 1, 0, len(text))
            raise PlacedQueryError(
                "it is wrong (line 1)", "so", "none", message="it is wrong", at=at
            )
        op = pa.field(question.vocab.operation_type_column, pa.int32())
        first = question.inputs[0]
        hidden = {first.vocab.offset_column, first.vocab.system_time_column, op.name}
        seen = [f for f in to_arrow(first.schema) if f.name not in hidden]
        return pa.schema([op, *self.columns.get(text, seen)])

    def query(self, request: QueryRequest) -> Frame:
        """Answer with what `queries` has for the text, else with the rows of all views."""
        self.asked.append(request.text)
        if request.text in self.refused:
            at = QueryPlace(0, 0, len(request.text))
            raise PlacedQueryError(
                "it is wrong (line 1)", "so", "none", message="it is wrong", at=at
            )
        views = request.views
        inputs = {
            name: [row for batch in view.batches() for row in batch.to_pylist()]
            for name, view in views.items()
        }
        rows = self.queries.get(request.text, copy_all)(inputs)
        schema = None if request.text in self.queries else next(iter(views.values())).columns()
        return Frame.of(pa.Table.from_pylist(rows, schema=schema)).slice(
            0, len(rows) if request.limit is None else request.limit
        )

    def cancel(self) -> None:
        self.started.append("cancel")

    def close(self) -> None:
        self.started.append("close")


def _own_names(request: IngestRequest, source: Frame) -> pa.Table:
    """Return the rows of a source; without a schema, no column is called as a system column is."""
    assert source.table is not None
    if not request.infer:
        return source.table
    operations = reads_operations(request.merge)
    names = source.table.column_names
    other = own_names(names, request.vocab, operations=operations)
    return source.table.rename_columns([other.get(name, name) for name in names])


def _merged(request: IngestRequest, rows: Rows) -> Rows:
    """Merge rows as the oracles do, which call the operation `op`; a condensed history has none."""
    op = request.vocab.operation_type_column
    history = [row for path in request.history for row in pq.read_table(path).to_pylist()]
    named = [{**row, "op": row[op]} if op in row else row for row in history]
    merged = oracle.merged(request.merge, named, rows, request.vocab.event_time_column)
    return [{**row, op: row["op"]} if "op" in row else row for row in merged]


def _condensed(merge: MergeStrategy, old: Rows) -> Rows:
    key = key_of(merge)
    if skips_keys(merge):
        return [dict(zip(key, each, strict=True)) for each in {_key(row, key) for row in old}]
    return list(oracle.state(old, key).values())


def _key(row: Mapping[str, Any], key: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[column] for column in key)


def _offsets(source: TransformInputFrame) -> list[int]:
    """Return the offsets of the new rows, in order."""
    if not source.paths or source.interval is None:
        return []
    return list(range(source.interval.start, source.interval.end + 1))


def _read(source: TransformInputFrame) -> pa.Table:
    hidden = {source.vocab.offset_column, source.vocab.system_time_column}
    wanted = [f for f in to_arrow(source.schema) if f.name not in hidden]
    schema = pa.schema(wanted)
    if not source.paths or source.interval is None:
        return schema.empty_table()
    table = pa.concat_tables([pq.read_table(path) for path in source.paths])
    low, high = source.interval.start, source.interval.end
    offsets = table.column(source.vocab.offset_column).to_pylist()
    mask = pa.array([low <= each <= high for each in offsets])
    return table.filter(mask).select(schema.names)


def _frame(rows: Rows, schema: pa.Schema, vocab: DatasetVocabulary) -> Frame:
    op = vocab.operation_type_column
    fields = [pa.field(op, pa.int32(), nullable=False)]
    fields += [field for field in schema if field.name != op]
    full = [{op: 0, **row} for row in rows]
    return Frame.of(pa.Table.from_pylist(full, schema=pa.schema(fields)))
