"""Columns of a transform: those of its result, with their types, and those of its inputs.

Pure and without an engine.  Names are resolved by Spark's rules; a type is given only where it is
certain, so that it never differs from the engine's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from odfbuild.odf.events import DataSchema, DataType, DataTypeNull, DataTypeOption
from odfbuild.sql.columns.expressions import UnknownColumn, UnknownFunction, WrongConstant
from odfbuild.sql.columns.output import (
    Attribute,
    ColumnRef,
    OpenPart,
    RelationColumns,
    input_rows,
    unknown_rows,
)
from odfbuild.sql.columns.relations import Relations
from odfbuild.sql.text.as_of_joins import as_of_joins, missing
from odfbuild.sql.text.shape import TextPlace
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.steps import QueryStep, is_foreign, is_of_spark
from odfbuild.sql.text.types import Interval, as_stored
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the result.

    `name` is empty where only the engine determines it (an item without alias that is not a
    column).  `type` is the stored type, None where it is not known; DataTypeOption where it may be
    null.  `sources` are the columns that its values are computed from, also as conditions of a
    CASE; `place` is the step and the position of the item in its text.  With `copied` the values
    are unchanged, or null for missing rows of an outer join.  `unstorable` is the name of a known
    type that cannot be stored.
    """

    name: str
    type: DataType | None
    sources: frozenset[ColumnRef]
    place: tuple[int, TextPlace] | None
    copied: bool = False
    unstorable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryColumns:
    """The columns of a transform, and its use of the top-level columns of its inputs.

    `outputs` is None if the columns are not known; then `unknown` says why.  `shaping` are the
    columns that decide on rows, groups or order, in any step.  `star_inputs` are the inputs of
    which a star selects all columns.  `places` is the first place where each column is named, also
    in the exclusion of a star; a column selected by a star has the star's place only if nothing
    names it.  `unknown_columns` are names that no relation in scope has, `unknown_functions` those
    that the engine does not have, `wrong_constants` those with which it fails on any row.
    """

    outputs: tuple[OutputColumn, ...] | None
    shaping: frozenset[ColumnRef]
    star_inputs: frozenset[str]
    unknown: str | None
    places: Mapping[ColumnRef, tuple[int, TextPlace]] = field(default_factory=dict)
    unknown_columns: tuple[UnknownColumn, ...] = ()
    unknown_functions: tuple[UnknownFunction, ...] = ()
    wrong_constants: tuple[WrongConstant, ...] = ()


def columns_of(steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema | None]) -> QueryColumns:
    """Return the columns of the steps, given those of the inputs; None is an unknown input.

    Inputs have the columns that the query sees: for a query that names the operation column also
    the system columns.
    """
    if is_foreign(steps):
        return unknown_columns(inputs, "an engine elsewhere reports them when the query runs")
    if not is_of_spark(steps):
        return _of_datafusion(steps, inputs)
    tables = NamedRelations(inputs)
    reader = Relations(tables.rows)
    rows = RelationColumns([])
    for number, step in enumerate(steps):
        reader.step = number
        try:
            shape = step.statement.shape
        except SqlTextError as error:
            return _unreadable(f"step {number + 1} cannot be read: {error}")
        rows = reader.query(shape)
        _keys_of_versions(reader, number, step, inputs)
        if step.alias is not None:
            tables.steps[step.alias] = rows
    outputs, unknown = _outputs(rows)
    if reader.opaque:
        outputs, unknown = None, f"{reader.opaque[0]} is not understood here"
    return QueryColumns(
        outputs=outputs,
        shaping=frozenset(reader.shaping),
        star_inputs=frozenset(reader.star_inputs),
        unknown=unknown if steps else "there is no query",
        places=reader.places,
        unknown_columns=tuple(reader.unknown_columns),
        unknown_functions=tuple(dict.fromkeys(reader.unknown_functions)),
        wrong_constants=tuple(dict.fromkeys(reader.wrong_constants)),
    )


def _of_datafusion(
    steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema | None]
) -> QueryColumns:
    """Return the columns of steps in DataFusion's dialect, whose types only the engine tells."""
    from odfbuild.sql.columns.datafusion import FlowRelations, flow_shape

    tables = NamedRelations(inputs)
    reader = FlowRelations(tables.rows)
    rows = RelationColumns([])
    for number, step in enumerate(steps):
        reader.step = number
        try:
            rows = reader.query(flow_shape(step, inputs))
        except SqlTextError as error:
            return _unreadable(f"step {number + 1} cannot be read: {error}")
        if reader.doubt is not None:
            return unknown_columns(inputs, f"{reader.doubt} is not understood here")
        if step.alias is not None:
            tables.steps[step.alias] = rows
    known, unknown = _outputs(rows)
    outputs = known and tuple(replace(each, type=None) for each in known)
    return QueryColumns(
        outputs=outputs,
        shaping=frozenset(reader.shaping),
        star_inputs=frozenset(reader.star_inputs),
        unknown=unknown if steps else "there is no query",
        places=reader.places,
    )


def unknown_columns(inputs: Mapping[str, DataSchema | None], why: str) -> QueryColumns:
    """Return the result for a query that is not understood: it may use any column."""
    used = (
        ColumnRef(name, field.name)
        for name, schema in inputs.items()
        for field in (() if schema is None else schema.fields)
    )
    return QueryColumns(
        outputs=None,
        shaping=frozenset(used),
        star_inputs=frozenset(inputs),
        unknown=why,
    )


def _keys_of_versions(
    reader: Relations, number: int, step: QueryStep, inputs: Mapping[str, DataSchema | None]
) -> None:
    """Count the primary keys of the tables whose versions a step reads: they decide on rows."""
    for each in as_of_joins(step.statement):
        name, key = each.table.text, dict(step.temporal).get(each.table.text, ())
        absent = missing(name, key, inputs)
        place = each.table.place
        reader.unknown_columns += [UnknownColumn(column, number, place, None) for column in absent]
        if name in inputs:
            reader.shaping |= {ColumnRef(name, column) for column in key if column not in absent}


class NamedRelations:
    """The relations that steps can read by name; `steps` grows with each step that is read."""

    def __init__(self, inputs: Mapping[str, DataSchema | None]) -> None:
        self.inputs = inputs
        self.steps: dict[str, RelationColumns] = {}

    def rows(self, name: str, qualifier: str) -> RelationColumns:
        step = self.steps.get(name)
        if step is not None:
            return step.named(qualifier)
        if name not in self.inputs:
            return unknown_rows().named(qualifier)
        return input_rows(name, self.inputs[name], qualifier)


def _outputs(rows: RelationColumns) -> tuple[tuple[OutputColumn, ...] | None, str | None]:
    if rows.open:
        return None, _reason(rows.open)
    return tuple(_output(each) for each in rows.columns), None


def _output(column: Attribute) -> OutputColumn:
    kind = as_stored(column.value.kind)
    known = DataTypeOption(kind) if kind is not None and column.value.nullable else kind
    return OutputColumn(
        column.name, known, column.sources, column.place, column.copied, _unstorable(column)
    )


def _unstorable(column: Attribute) -> str | None:
    match column.value.kind:
        case Interval():
            return "INTERVAL"
        case DataTypeNull():
            return "VOID"
    return None


def _reason(parts: Iterable[OpenPart]) -> str:
    inputs = sorted({name for part in parts for name in part.inputs})
    if not inputs:
        return "a part of the query is not understood"
    return f"the columns of {' and '.join(inputs)} are not known"


def _unreadable(why: str) -> QueryColumns:
    return QueryColumns(outputs=None, shaping=frozenset(), star_inputs=frozenset(), unknown=why)
