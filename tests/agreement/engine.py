"""An engine without a JVM that runs queries: DuckDB answers where its dialect has the words."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.data.changelog import current_table
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.analysis import Analysis
from odfbuild.executors.engine.protocol import (
    IngestRequest,
    TransformInputFrame,
    TransformWork,
    system_columns,
)
from odfbuild.odf.events import DataField, DataSchema, DatasetVocabulary
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.sql.columns import columns_of
from odfbuild.sql.text.steps import QueryStep
from tests.support.engines import FakeEngine, Rows

__all__ = ["DuckEngine"]


class DuckEngine(FakeEngine):
    """Compares two states of a query's result; rows that DuckDB cannot tell are none.

    Types are those that the texts tell, or DuckDB's own.
    """

    def transform(self, work: TransformWork) -> Frame:
        steps = work.query.steps
        schema = _result(steps, work.query.columns, work.vocab, work.in_force)
        if work.query.facts.is_linear and not work.in_full:
            changes = _linear(steps, work, schema)
        else:
            now = {each.alias: _standing(each, (*each.past, *each.paths)) for each in work.inputs}
            after = _rows(steps, now, schema)
            held = _replayed(work.output, work.vocab, schema)
            changes = _difference(held, after)
        time = work.vocab.event_time_column
        if any(row[time] is None for row in changes):
            raise InvalidQueryError(what="rows without event time", why="so", fix="none")
        op = pa.field(work.vocab.operation_type_column, pa.int32(), nullable=False)
        return Frame.of(pa.Table.from_pylist(changes, pa.schema([op, *schema])))

    def analyse(self, question: Analysis) -> pa.Schema:
        inputs = {}
        for each in question.inputs:
            hidden = system_columns(each.vocab)
            fields = tuple(f for f in each.schema.fields if f.name not in hidden)
            inputs[each.alias] = DataSchema(fields)
        op = pa.field(question.vocab.operation_type_column, pa.int32())
        return pa.schema([op, *_result(question.steps, inputs, question.vocab, None)])

    def ingest(self, request: IngestRequest) -> Frame:
        found = super().ingest(request)
        table = found.table
        assert table is not None
        time = table.schema.get_field_index(request.vocab.event_time_column)
        assert time >= 0
        return found


def _result(
    steps: Sequence[QueryStep],
    inputs: Mapping[str, DataSchema],
    vocab: DatasetVocabulary,
    in_force: DataSchema | None,
) -> pa.Schema:
    """Return the columns of a result: the event time, then those of the text."""
    found = columns_of(steps, inputs)
    if found.outputs is None:
        return _asked(steps, inputs, vocab)
    fields = [
        DataField(each.name or f"col{at}", each.type)
        for at, each in enumerate(found.outputs)
        if each.type is not None
    ]
    known = [] if in_force is None else [f.name for f in in_force.fields]
    for each in found.outputs:
        if each.type is None and each.name in known:
            assert in_force is not None
            fields.append(next(f for f in in_force.fields if f.name == each.name))
    untyped = [e.name for e in found.outputs if e.type is None and e.name not in known]
    schema = to_arrow(DataSchema(tuple(fields)))
    time = vocab.event_time_column
    for name in untyped:
        kind = pa.timestamp("ms", "UTC") if name == time else pa.string()
        schema = schema.append(pa.field(name, kind))
    if time not in schema.names:
        raise InvalidQueryError(what="no event time", why="so", fix="none")
    op = vocab.operation_type_column  # what a query calls so is no column of its own
    names = [time, *(n for n in schema.names if n not in {time, op})]
    return pa.schema([schema.field(n).with_nullable(n != time) for n in names])


def _asked(
    steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema], vocab: DatasetVocabulary
) -> pa.Schema:
    """Return the columns as DuckDB tells them."""
    with duckdb.connect() as database:
        database.execute("set timezone = 'UTC'")
        for alias, schema in inputs.items():
            database.register(alias, to_arrow(schema).empty_table())
        try:
            text = sqlglot.transpile(steps[-1].text, read="spark", write="duckdb")[0]
            found = database.sql(text).to_arrow_table().schema
        except (duckdb.Error, sqlglot.errors.SqlglotError) as error:
            raise InvalidQueryError(what=f"DuckDB: {error}", why="so", fix="none") from None
    time = vocab.event_time_column
    kinds = {each.name: each.type for each in found}
    kinds |= {n: pa.timestamp("ms", "UTC") for n, t in kinds.items() if pa.types.is_timestamp(t)}
    return pa.schema([(n, kinds[n]) for n in (time, *(n for n in kinds if n != time))])


def _linear(steps: Sequence[QueryStep], work: TransformWork, schema: pa.Schema) -> Rows:
    found: Rows = []
    for back in (True, False):
        inputs = {each.alias: _new(each, back=back) for each in work.inputs}
        found += [{"op": int(back), **row} for row in _rows(steps, inputs, schema)]
    op = work.vocab.operation_type_column
    return [{op: row.pop("op"), **row} for row in found]


def _rows(steps: Sequence[QueryStep], inputs: Mapping[str, pa.Table], schema: pa.Schema) -> Rows:
    """Return what a query gives of rows, in the types of the result."""
    with duckdb.connect() as database:
        database.execute("set timezone = 'UTC'")
        for alias, table in inputs.items():
            database.register(alias, table)
        try:
            for step in steps:
                text = sqlglot.transpile(step.text, read="spark", write="duckdb")[0]
                if step.alias is not None:
                    database.execute(f'create temp view "{step.alias}" as {text}')
            found = database.sql(text).to_arrow_table()
            rows: Rows = found.select(schema.names).cast(_open(schema)).to_pylist()
        except (duckdb.Error, sqlglot.errors.SqlglotError, pa.ArrowInvalid, KeyError):
            return []
        except pa.ArrowNotImplementedError:
            return []
    return rows


def _open(schema: pa.Schema) -> pa.Schema:
    return pa.schema([each.with_nullable(True) for each in schema])


def _new(source: TransformInputFrame, *, back: bool) -> pa.Table:
    """Return the new rows that come, or those that are taken back."""
    op = source.vocab.operation_type_column
    hidden = system_columns(source.vocab)
    names = [f.name for f in to_arrow(source.schema) if f.name not in hidden]
    table = _table(source, source.paths)
    mask = pa.array([(row in (1, 2)) == back for row in table.column(op).to_pylist()], pa.bool_())
    return table.filter(mask).select(names)


def _standing(source: TransformInputFrame, paths: Sequence[Any]) -> pa.Table:
    hidden = system_columns(source.vocab)
    names = [f.name for f in to_arrow(source.schema) if f.name not in hidden]
    return current_table(_table(source, paths), names, source.vocab)


def _table(source: TransformInputFrame, paths: Sequence[Any]) -> pa.Table:
    schema = to_arrow(source.schema)
    tables = [pq.read_table(path) for path in paths]
    full = [pa.Table.from_pylist(each.to_pylist(), schema) for each in tables]
    table = pa.concat_tables(full) if full else schema.empty_table()
    if source.interval is None:
        return table
    offsets = table.column(source.vocab.offset_column).to_pylist()
    return table.filter(pa.array([each <= source.interval.end for each in offsets], pa.bool_()))


def _replayed(paths: Sequence[Any], vocab: DatasetVocabulary, schema: pa.Schema) -> Rows:
    op = pa.field(vocab.operation_type_column, pa.int32())
    offset = pa.field(vocab.offset_column, pa.int64())
    full = pa.schema([offset, op, *schema])
    rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
    table = pa.Table.from_pylist([{n: r.get(n) for n in full.names} for r in rows], _open(full))
    left: Rows = current_table(table, schema.names, vocab).to_pylist()
    return left


def _difference(before: Rows, after: Rows) -> Rows:
    was = Counter(map(_key, before))
    now = Counter(map(_key, after))
    rows = {_key(row): row for row in (*before, *after)}
    gone = [{"op": 1, **rows[key]} for key in (was - now).elements()]
    return gone + [{"op": 0, **rows[key]} for key in (now - was).elements()]


def _key(row: Mapping[str, Any]) -> str:
    return repr(sorted(row.items()))
