"""The schema of a new slice: system columns, then what the frame and the schema in force say."""

from dataclasses import replace
from typing import TYPE_CHECKING

from odfbuild.errors import EngineError
from odfbuild.odf import events
from odfbuild.odf.events import DataField, DataSchema, DatasetVocabulary, DataType, TimeUnit
from odfbuild.odf.schema.columns import EVENT_TIME, evolve, system_fields
from odfbuild.odf.schema.types import inner, is_optional, optional, repeated, type_name

if TYPE_CHECKING:
    import pyarrow as pa


_INTEGERS = (
    events.DataTypeInt8,
    events.DataTypeInt16,
    events.DataTypeInt32,
    events.DataTypeInt64,
    events.DataTypeUInt8,
    events.DataTypeUInt16,
    events.DataTypeUInt32,
    events.DataTypeUInt64,
)


class BadInputSchemaError(EngineError):
    """Rows cannot be stored in a slice because of their columns."""

    code = "bad-input-schema"


def slice_schema(
    frame: "pa.Schema",
    vocab: DatasetVocabulary,
    in_force: DataSchema | None,
    *,
    retires: bool = False,
) -> DataSchema:
    """Return the schema of the dataset after a slice made of such a frame.

    Without a schema in force the data columns are as in the frame.  With one, its columns keep
    place, type and optionality, and columns that it lacks are added at the end as optional ones.
    With `retires`, the frame's columns are what the definition says: optional ones that it no
    longer makes stay in the schema, to be null.  Raises BadInputSchemaError, SchemaEvolutionError.
    """
    from odfbuild.odf.schema.arrow import from_arrow

    _check_names(frame.names, vocab)
    found = {field.name: _stored_type(field.type) for field in from_arrow(frame).fields}
    _check_operation(found.pop(vocab.operation_type_column, None), vocab)
    system = system_fields(vocab, _event_time(found, vocab, in_force))
    data = tuple(DataField(name, data_type) for name, data_type in found.items())
    known = set() if in_force is None else {field.name for field in in_force.fields}
    for field in data:
        _check_type(field, parts=field.name not in known)
    if in_force is None:
        return DataSchema(system + data)
    new = _with_optionality(system + data, in_force.fields)
    if retires:
        new = (*new, *_retired_fields(new, in_force.fields))
    return evolve(in_force, DataSchema(new))


def _retired_fields(
    new: tuple[DataField, ...], old: tuple[DataField, ...]
) -> tuple[DataField, ...]:
    made = {field.name for field in new}
    return tuple(each for each in old if each.name not in made and is_optional(each.type))


def _check_names(names: list[str], vocab: DatasetVocabulary) -> None:
    for name in (vocab.offset_column, vocab.system_time_column):
        if name in names:
            raise BadInputSchemaError(
                what=f"the data has a column {name!r}",
                why="that name belongs to a system column, which is filled in when rows are stored",
                fix=f"rename the column in the query (`select {name} as _{name} ...`), or give the "
                "system column another name with SetVocab",
            )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadInputSchemaError(
            what=f"the data has several columns of one name: {', '.join(map(repr, twice))}",
            why="columns are identified by name",
            fix="rename them in the query",
        )


def _check_operation(found: DataType | None, vocab: DatasetVocabulary) -> None:
    if found is not None and not isinstance(inner(found), _INTEGERS):
        name = vocab.operation_type_column
        raise BadInputSchemaError(
            what=f"the operation column {name!r} is of type {type_name(inner(found))}",
            why="operations are the integers 0 (append), 1 (retract), 2 and 3 (correct from, to)",
            fix=f"cast {name!r} to INT in the query, or rename it if it is not an operation",
        )


def _event_time(
    found: dict[str, DataType], vocab: DatasetVocabulary, in_force: DataSchema | None
) -> DataType:
    """Take the event time out of the columns; a missing one is as in force, else an instant."""
    name = vocab.event_time_column
    data_type = inner(found.pop(name, events.DataTypeNull()))
    if isinstance(data_type, events.DataTypeNull):
        known = {} if in_force is None else {f.name: inner(f.type) for f in in_force.fields}
        return known.get(name, EVENT_TIME)
    if not isinstance(data_type, events.DataTypeDate | events.DataTypeTimestamp):
        raise BadInputSchemaError(
            what=f"the event time column {name!r} is of type {type_name(data_type)}",
            why="event time is a DATE or a TIMESTAMP",
            fix=f"cast {name!r} in the query, or name another column in SetVocab.eventTimeColumn",
        )
    return data_type


def _check_type(field: DataField, *, parts: bool) -> None:
    """Refuse a column without a type, one with two fields of a name, and lists that are always
    empty.

    Where `parts` count, one of which a part has no type, too.
    """
    whole = isinstance(inner(field.type), events.DataTypeNull)
    if whole or (parts and _is_untyped(field.type)):
        raise BadInputSchemaError(
            what=f"the column {field.name!r} has {'' if whole else 'a part of '}no type: all its "
            "values are null",
            why="the first rows fix the schema of a dataset, and a column of nulls has no type",
            fix="declare the column in the read schema, or cast it in the query",
        )
    twice = repeated(field.type)
    if twice is not None:
        raise BadInputSchemaError(
            what=f"the column {field.name!r} has two fields called {twice!r}",
            why="the fields of a struct have different names",
            fix="rename one of them in the query: struct(... AS a, ... AS b)",
        )
    if _is_always_empty(field.type):
        raise BadInputSchemaError(
            what=f"the column {field.name!r} has lists of the fixed length 0",
            why="Parquet files cannot store them correctly",
            fix="cast it to a list of any length in the query, or omit the column",
        )


def _is_always_empty(of: DataType) -> bool:
    match inner(of):
        case events.DataTypeList(item_type=item, fixed_length=length):
            return length == 0 or _is_always_empty(item)
        case events.DataTypeStruct(fields=fields):
            return any(_is_always_empty(field.type) for field in fields)
        case _:
            return False


def _is_untyped(of: DataType) -> bool:
    match inner(of):
        case events.DataTypeNull():
            return True
        case events.DataTypeList(item_type=item):
            return _is_untyped(item)
        case events.DataTypeStruct(fields=fields):
            return any(_is_untyped(field.type) for field in fields)
        case _:
            return False


def _stored_type(of: DataType) -> DataType:
    """Return the type as Parquet keeps it: instants in ms UTC, times in ms or finer."""
    match of:
        case events.DataTypeOption(inner=value):
            return events.DataTypeOption(_stored_type(value))
        case events.DataTypeTimestamp():
            return EVENT_TIME
        case events.DataTypeTime(unit=TimeUnit.SECOND):
            return events.DataTypeTime(TimeUnit.MILLISECOND)
        case events.DataTypeList(item_type=item):
            return replace(of, item_type=_stored_type(item))
        case events.DataTypeStruct(fields=fields):
            return events.DataTypeStruct(
                tuple(replace(f, type=_stored_type(f.type)) for f in fields)
            )
        case _:
            return of


def _with_optionality(
    new: tuple[DataField, ...], old: tuple[DataField, ...]
) -> tuple[DataField, ...]:
    """Take over the optionality in force; older rows lack added columns: those are optional."""
    known = {field.name: field.type for field in old}
    return tuple(replace(f, type=_aligned_type(f.type, known.get(f.name))) for f in new)


def _aligned_type(new: DataType, old: DataType | None) -> DataType:
    if old is None:
        return optional(new)
    value = _aligned_value(inner(new), inner(old))
    return events.DataTypeOption(value) if is_optional(old) else value


def _aligned_value(new: DataType, old: DataType) -> DataType:
    match new, old:
        case events.DataTypeStruct(), events.DataTypeStruct():
            return events.DataTypeStruct(_with_optionality(new.fields, old.fields))
        case events.DataTypeList(), events.DataTypeList():
            return replace(new, item_type=_aligned_type(new.item_type, old.item_type))
    return new
