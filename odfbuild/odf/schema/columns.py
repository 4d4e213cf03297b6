"""Data schemas as plain values: system columns, DDL and raw Arrow forms, growth by new columns.

History is permanent, so a schema only grows: slices written under an older one are read with null
in the columns that came later (ODF 0.34.1, "Schema Evolution").
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from odfbuild.errors import ProtocolError
from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DatasetVocabulary,
    DataType,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeStruct,
    DataTypeTimestamp,
    TimeUnit,
)
from odfbuild.odf.schema.types import inner, is_optional, spelled_out, type_name
from odfbuild.values import dataclass

EVENT_TIME: DataType = DataTypeTimestamp(TimeUnit.MILLISECOND, "UTC")


class SchemaEvolutionError(ProtocolError):
    """A schema does more than add optional columns to the one in force.

    `problems` says it column by column.
    """

    code = "schema-evolution"

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(
            what="the new schema breaks the one in force: " + "; ".join(problems),
            why="rows written so far keep their columns, so a schema may only gain optional ones "
            '(ODF 0.34.1, "Schema Evolution")',
            fix="keep the columns as they are (cast them in the query) and add new ones, or start "
            "a new dataset",
        )
        self.problems = problems

    def of_data(self, name: str) -> "SchemaEvolutionError":
        """Return the error for a file of which no definition says what columns it has."""
        made = SchemaEvolutionError(self.problems)
        made.what = f"{name}: {self.what}"
        made.why = f"the source declares no columns, so they are those of the data; {self.why}"
        made.fix = (
            "declare the columns in `read.schema` as the dataset has them: what a file lacks is "
            "null then, and what is new is left out and reported; or start a new dataset"
        )
        return made


def own_names(
    names: Sequence[str], vocab: DatasetVocabulary, *, operations: bool = False
) -> Mapping[str, str]:
    """Return other names for columns of a source that are called as system columns are.

    An underscore goes before the name, and more of them until no column has it, as in the
    reference.  With `operations`, the source gives the column of operations itself.
    """
    reserved = {vocab.offset_column, vocab.system_time_column}
    reserved |= set() if operations else {vocab.operation_type_column}
    taken, found = {*names, *reserved}, dict[str, str]()
    for name in names:
        if name in reserved:
            new = f"_{name}"
            while new in taken:
                new = f"_{new}"
            found[name] = new
    return found


def system_fields(
    vocab: DatasetVocabulary, event_time: DataType = EVENT_TIME
) -> tuple[DataField, ...]:
    """Return the four system columns, all required, in the order in which slices begin."""
    return (
        DataField(vocab.offset_column, DataTypeInt64()),
        DataField(vocab.operation_type_column, DataTypeInt32()),
        DataField(vocab.system_time_column, DataTypeTimestamp(TimeUnit.MILLISECOND, "UTC")),
        DataField(vocab.event_time_column, inner(event_time)),
    )


def evolve(current: DataSchema, new: DataSchema) -> DataSchema:
    """Return the current schema with the optional columns that `new` adds at the end.

    Columns both have keep their place; `new` may name them in another order and may change extra
    attributes.  Structs, also inside lists, grow by the same rule.  Raises SchemaEvolutionError
    that lists every other difference.
    """
    problems: list[str] = []
    fields = _Growth(problems).fields(current.fields, new.fields, "")
    if problems:
        raise SchemaEvolutionError(tuple(problems))
    return DataSchema(fields, current.extra if new.extra is None else new.extra)


@dataclass(frozen=True, slots=True)
class _Growth:
    """One comparison, filling the list of problems."""

    problems: list[str]

    def fields(
        self, old: tuple[DataField, ...], new: tuple[DataField, ...], path: str
    ) -> tuple[DataField, ...]:
        by_name = {field.name: field for field in new}
        kept = [self._merged_field(field, by_name.pop(field.name, None), path) for field in old]
        for field in by_name.values():
            if not is_optional(field.type):
                self.problems.append(
                    f"new column {path + field.name!r} ({type_name(field.type)}) is not optional"
                )
        return (*kept, *by_name.values())

    def _merged_field(self, old: DataField, new: DataField | None, path: str) -> DataField:
        place = path + old.name
        if new is None:
            self.problems.append(f"column {place!r} ({type_name(old.type)}) is gone")
            return old
        merged = self._type(old.type, new.type, place)
        return replace(old, type=merged, extra=old.extra if new.extra is None else new.extra)

    def _type(self, old: DataType, new: DataType, place: str) -> DataType:
        match old, new:
            case DataTypeOption(), DataTypeOption():
                return DataTypeOption(self._type(old.inner, new.inner, place))
            case DataTypeStruct(), DataTypeStruct():
                return DataTypeStruct(self.fields(old.fields, new.fields, place + "."))
            case DataTypeList(), DataTypeList() if old.fixed_length == new.fixed_length:
                item = self._type(old.item_type, new.item_type, place + "[]")
                return replace(old, item_type=item)
            case DataTypeMap(), DataTypeMap():
                key = self._type(old.key_type, new.key_type, place + ".key")
                value = self._type(old.value_type, new.value_type, place + ".value")
                return replace(old, key_type=key, value_type=value)
        if spelled_out(old) != spelled_out(new):
            self.problems.append(f"column {place!r}: {type_name(old)} -> {type_name(new)}")
        return old
