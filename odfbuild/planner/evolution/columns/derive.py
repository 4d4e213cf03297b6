"""Columns that a definition makes, as far as known without engine and data.  Pure.

Data columns only: without offset, operation and system time; the event time comes first and is
never null, as it is stored.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeAlias

from odfbuild.odf.chain.state import ChainState, vocabulary
from odfbuild.odf.events import (
    AddPushSource,
    DataField,
    DataSchema,
    DatasetKind,
    DatasetVocabulary,
    DataType,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
    MetadataEvent,
    SetPollingSource,
    SetTransform,
    SetVocab,
    TimeUnit,
)
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.schema.columns import EVENT_TIME, system_fields
from odfbuild.odf.schema.ddl import DdlError, parse_ddl
from odfbuild.odf.schema.types import inner, optional
from odfbuild.planner.queries import PREPROCESS_INPUT
from odfbuild.sql.analysis.facts import names_operation
from odfbuild.sql.text.shape import TextPlace
from odfbuild.sql.text.steps import QueryStep, steps_of
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.sql.columns import QueryColumns
    from odfbuild.sql.columns.output import ColumnRef

    ColumnsOfQuery: TypeAlias = Callable[
        [Sequence[QueryStep], Mapping[str, DataSchema | None]], QueryColumns
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Makes:
    """The part of a definition that decides its columns: where rows come from, and how."""

    kind: DatasetKind
    vocab: DatasetVocabulary
    source: SetPollingSource | AddPushSource | None = None
    transform: SetTransform | None = None

    @property
    def steps(self) -> tuple[QueryStep, ...]:
        """Return the query of the transform, or of the preprocess step; empty if there is none."""
        sql = None if self.transform is None else self.transform.transform
        if self.source is not None:
            sql = self.source.preprocess
        return () if sql is None or is_opaque(sql) else steps_of(sql)

    @property
    def columns_key(self) -> object:
        """Return what has to be equal for the columns to be so, given the same inputs."""
        if self.source is None:
            return (self.vocab, self.transform)
        return (self.vocab, self.source.read, self.steps)


@dataclass(frozen=True, slots=True)
class DerivedColumn:
    """A column and what makes it; a type of None is not known."""

    name: str
    type: "DataType | None"
    sources: "frozenset[ColumnRef]" = frozenset()
    place: tuple[int, TextPlace] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedColumns:
    """The columns that a definition makes; None if not known, then `unknown` says why.

    `inputs` are the schemas that the query sees, by the names that it uses.
    """

    columns: tuple[DerivedColumn, ...] | None
    unknown: str | None = None
    query: "QueryColumns | None" = None
    steps: tuple[QueryStep, ...] = ()
    inputs: Mapping[str, DataSchema | None] = field(default_factory=dict)
    lost_time: bool = False

    def column(self, name: str) -> DerivedColumn | None:
        """Return a column by its name."""
        return next((each for each in self.columns or () if each.name == name), None)

    def sources(self) -> Mapping[str, frozenset[object]] | None:
        """Return what each column is made of, None if a query does not say."""
        if self.query is None or self.columns is None:
            return None
        return {each.name: frozenset[object](each.sources) for each in self.columns}


def makes_of(state: ChainState) -> Makes:
    """Return what makes the columns of a chain from its head on."""
    pushed = next(iter(state.push.values()), None)
    return Makes(
        kind=state.kind,
        vocab=state.vocab,
        source=state.polling or pushed,
        transform=state.transform,
    )


def makes_of_events(kind: DatasetKind, events: Sequence[MetadataEvent]) -> Makes:
    """Return what makes the columns of a dataset that begins with these events."""
    vocab = vocabulary(next((e for e in events if isinstance(e, SetVocab)), SetVocab()))
    sources = [e for e in events if isinstance(e, SetPollingSource | AddPushSource)]
    return Makes(
        kind=kind,
        vocab=vocab,
        source=next(iter(sources), None),
        transform=next((e for e in events if isinstance(e, SetTransform)), None),
    )


def data_schema(schema: DataSchema, vocab: DatasetVocabulary) -> DataSchema:
    """Return the data columns of a schema in force, the event time first."""
    return DataSchema(_in_stored_order(schema.fields, vocab))


def derive(
    makes: Makes, inputs: Mapping[str, DataSchema | None], columns: "ColumnsOfQuery | None" = None
) -> DerivedColumns:
    """Return the columns that a definition makes of inputs, by the names its query uses.

    `columns` reads queries, `columns_of` by default.
    """
    if makes.source is not None:
        return _of_source(makes, makes.source, columns)
    if makes.transform is None:
        return DerivedColumns(columns=None, unknown="the definition has no source and no transform")
    if is_opaque(makes.transform.transform):
        return DerivedColumns(columns=None, unknown="the transform is of an unknown kind")
    return _of_query(makes, inputs, columns)


def _of_source(
    makes: Makes, source: SetPollingSource | AddPushSource, columns: "ColumnsOfQuery | None"
) -> DerivedColumns:
    try:
        read = _read_schema(source)
    except DdlError as error:
        return DerivedColumns(columns=None, unknown=f"the read schema cannot be read: {error.what}")
    if source.preprocess is not None:
        if is_opaque(source.preprocess):
            return DerivedColumns(columns=None, unknown="the preprocess step is of an unknown kind")
        seen = None if read is None else DataSchema(tuple(_stored_fields(read.fields)))
        return _of_query(makes, {PREPROCESS_INPUT: seen}, columns)
    if read is None:
        why = "the read step declares no schema, so the columns are those of the data"
        return DerivedColumns(columns=None, unknown=why)
    time = makes.vocab.event_time_column
    fields = tuple(_stored_fields(read.fields))
    lost = time not in {each.name for each in fields}
    return stored_columns(
        makes, tuple(DerivedColumn(f.name, f.type) for f in fields), lost_time=lost
    )


def _read_schema(source: SetPollingSource | AddPushSource) -> DataSchema | None:
    read = source.read
    if is_opaque(read):
        return None
    if read.schema is not None:
        return read.schema
    return None if read.ddl_schema is None else parse_ddl(read.ddl_schema)


def _of_query(
    makes: Makes, inputs: Mapping[str, DataSchema | None], columns: "ColumnsOfQuery | None"
) -> DerivedColumns:
    from odfbuild.sql.columns import columns_of

    steps = makes.steps
    found = (columns or columns_of)(steps, _seen(makes, inputs))
    if found.outputs is None or any(not each.name for each in found.outputs):
        nameless = "a column has no alias, so only the engine knows its name"
        why = found.unknown or nameless
        return DerivedColumns(columns=None, unknown=why, query=found, steps=steps, inputs=inputs)
    outputs = tuple(
        DerivedColumn(
            each.name, None if each.type is None else optional(each.type), each.sources, each.place
        )
        for each in found.outputs
    )
    time = makes.vocab.event_time_column
    lost = all(each.name != time for each in outputs)
    made = stored_columns(makes, outputs, lost_time=lost)
    return replace(made, query=found, steps=steps, inputs=inputs)


def _seen(makes: Makes, inputs: Mapping[str, DataSchema | None]) -> Mapping[str, DataSchema | None]:
    """Return the inputs as a query sees them: one that names the operation sees all columns."""
    if makes.transform is None:
        return inputs
    op = makes.vocab.operation_type_column
    if not names_operation(makes.steps, inputs, op):
        return inputs
    system = system_fields(makes.vocab)[:-1]
    return {
        name: None if schema is None else DataSchema((*system, *schema.fields))
        for name, schema in inputs.items()
    }


def stored_columns(
    makes: Makes, columns: tuple[DerivedColumn, ...], *, lost_time: bool
) -> DerivedColumns:
    """Return the columns as they are stored; a root without event time gets that of the fetch."""
    vocab = makes.vocab
    if lost_time and makes.kind is DatasetKind.ROOT:
        columns = (DerivedColumn(vocab.event_time_column, EVENT_TIME), *columns)
    time = [each for each in columns if each.name == vocab.event_time_column]
    first = [replace(e, type=None if e.type is None else inner(e.type)) for e in time[:1]]
    hidden = hidden_names(vocab) | {vocab.event_time_column}
    rest = [each for each in columns if each.name not in hidden]
    return DerivedColumns(columns=(*first, *rest), lost_time=lost_time)


def _in_stored_order(
    fields: Sequence[DataField], vocab: DatasetVocabulary
) -> tuple[DataField, ...]:
    time = vocab.event_time_column
    first = [DataField(time, inner(each.type)) for each in fields if each.name == time]
    hidden = hidden_names(vocab) | {time}
    rest = (DataField(each.name, each.type) for each in fields if each.name not in hidden)
    return (*first, *rest)


def hidden_names(vocab: DatasetVocabulary) -> set[str]:
    """Return the names of the system columns but for the event time."""
    return {vocab.offset_column, vocab.operation_type_column, vocab.system_time_column}


def _stored_fields(fields: Sequence[DataField]) -> tuple[DataField, ...]:
    return tuple(DataField(each.name, _stored_type(each.type)) for each in fields)


def _stored_type(of: DataType) -> DataType:
    """Return a type as slices keep it: instants in UTC milliseconds, times in microseconds."""
    match of:
        case DataTypeOption(inner=value):
            return DataTypeOption(_stored_type(value))
        case DataTypeTimestamp():
            return EVENT_TIME
        case DataTypeTime():
            return DataTypeTime(TimeUnit.MICROSECOND)
        case DataTypeList(item_type=item):
            return replace(of, item_type=_stored_type(item))
        case DataTypeMap(key_type=key, value_type=value):
            return replace(of, key_type=_stored_type(key), value_type=_stored_type(value))
        case DataTypeStruct(fields=fields):
            return DataTypeStruct(_stored_fields(fields))
        case _:
            return of
