"""Succession of data schemas: a SetDataSchema only ever adds optional fields.

Order and attributes of fields are free.  Arrow says of nearly every field that it is nullable, so
optionality is compared only between schemas in ODF form.
"""

from functools import lru_cache

from odfbuild.odf.chain.errors import invalid, no_op
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DataType,
    DataTypeList,
    DataTypeMap,
    DataTypeStruct,
    SetDataSchema,
)
from odfbuild.odf.opaque import opaque_parts
from odfbuild.odf.schema.types import inner, is_optional, spelled_out


def check_schema(current: SetDataSchema, new: SetDataSchema) -> None:
    """Refuse a schema that changes nothing, or that breaks the readers of the current one."""
    old_schema, new_schema = schema_of(current), schema_of(new)
    if old_schema == new_schema and not any(opaque_parts(new_schema)):
        raise no_op(new, "the schema is already so")
    both_odf = current.schema is not None and new.schema is not None
    for problem in _field_problems(old_schema.fields, new_schema.fields, "", strict=both_odf):
        raise invalid(
            new,
            problem,
            "slices written so far keep their schema, so later ones can only add to it",
            "keep the field and add an optional one beside it, or start a new dataset",
        )


def schema_in_force(state: ChainState) -> DataSchema | None:
    """Return the schema of the dataset's data, system columns included; None before the first."""
    return None if state.schema is None else schema_of(state.schema)


def schema_of(event: SetDataSchema) -> DataSchema:
    """Return the schema that an event sets, decoding it when it is in Arrow's form.

    Raises ProtocolError when the bytes are no schema, or use a type that ODF does not have.
    """
    if event.schema is not None:
        return event.schema
    return _decoded(event.raw_arrow_schema or b"")


@lru_cache(maxsize=1024)
def _decoded(raw: bytes) -> DataSchema:
    """Return the schema of Arrow bytes; many blocks hold the same ones."""
    from odfbuild.odf.schema.arrow_bytes import from_arrow_bytes

    return from_arrow_bytes(raw)


def _field_problems(
    old: tuple[DataField, ...], new: tuple[DataField, ...], path: str, *, strict: bool
) -> list[str]:
    old_by_name = {each.name: each for each in old}
    new_by_name = {each.name: each for each in new}
    problems = []
    for name, each in old_by_name.items():
        place = f"{path}{name}"
        if name not in new_by_name:
            problems.append(f"field {place!r} is gone")
        else:
            problems += _type_problems(each.type, new_by_name[name].type, place, strict=strict)
    for name, each in new_by_name.items():
        if strict and name not in old_by_name and not is_optional(each.type):
            problems.append(f"new field {path + name!r} is required")
    return problems


def _type_problems(old: DataType, new: DataType, place: str, *, strict: bool) -> list[str]:
    became = _optionality_change(old, new)
    if strict and became is not None:
        return [f"field {place!r} became {became}"]
    old, new = inner(old), inner(new)
    match old, new:
        case DataTypeStruct(), DataTypeStruct():
            return _field_problems(old.fields, new.fields, f"{place}.", strict=strict)
        case DataTypeList(), DataTypeList() if old.fixed_length == new.fixed_length:
            return _type_problems(old.item_type, new.item_type, f"{place}[]", strict=strict)
        case DataTypeMap(), DataTypeMap():
            keys = _type_problems(old.key_type, new.key_type, f"{place}.key", strict=strict)
            values = _type_problems(old.value_type, new.value_type, f"{place}.value", strict=strict)
            return keys + values
        case _ if spelled_out(old) != spelled_out(new):
            return [f"field {place!r} changed its type"]
    return []


def _optionality_change(old: DataType, new: DataType) -> str | None:
    was, is_now = is_optional(old), is_optional(new)
    if was == is_now:
        return None
    return "optional" if is_now else "required"
