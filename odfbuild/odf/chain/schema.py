"""Succession of data schemas: a SetDataSchema only ever adds optional fields.

Order and attributes of fields are free.  Engines have Arrow say of nearly every field that it is
nullable, so the optionality of a field that was there is compared only between schemas of one form.
"""

from functools import lru_cache
from itertools import zip_longest

from odfbuild.odf.chain.errors import invalid, no_op
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DataType,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeStruct,
    SetDataSchema,
)
from odfbuild.odf.opaque import opaque_parts
from odfbuild.odf.schema.types import inner, is_optional, repeated, spelled_out, type_name


def check_schema(current: SetDataSchema, new: SetDataSchema) -> None:
    """Refuse a schema that changes nothing, or that breaks the readers of the current one."""
    old_schema, new_schema = schema_of(current), schema_of(new)
    if old_schema == new_schema and not any(opaque_parts(new_schema)):
        raise no_op(new, "the schema is already so")
    same_form = (current.schema is None) == (new.schema is None)
    for problem in _field_problems(old_schema.fields, new_schema.fields, "", strict=same_form):
        raise invalid(
            new,
            problem,
            "slices written so far keep their schema, so later ones can only add to it",
            "keep the field and add another optional one, or start a new dataset",
        )


def check_forms(event: SetDataSchema) -> None:
    """Refuse a schema that names a field twice, and two forms of a schema that are not one.

    Readers up to ODF 0.36 go by the Arrow bytes, later ones by the other form.
    """
    schema = schema_of(event)
    if any(opaque_parts(schema)):
        return
    twice = repeated(DataTypeStruct(schema.fields))
    if twice is not None:
        raise invalid(
            event,
            f"it has two fields {twice!r}",
            "readers find columns by their names",
            "give each field its own name",
        )
    if event.raw_arrow_schema is None or event.schema is None:
        return
    legacy = _decode(event.raw_arrow_schema)
    if (what := _first_difference(legacy.fields, schema.fields)) is not None:
        raise invalid(
            event,
            f"rawArrowSchema is not the same as schema: {what}",
            'both describe the same slices (ODF 0.37, "SetDataSchema")',
            "leave rawArrowSchema out, or write the same fields in both",
        )


def _first_difference(legacy: tuple[DataField, ...], now: tuple[DataField, ...]) -> str | None:
    """Return in which column two schemas differ, None if in none; attributes are left alone."""
    for old, new in zip_longest(legacy, now):
        if old is None or new is None or old.name != new.name:
            names = ("no field" if each is None else repr(each.name) for each in (old, new))
            return "it has {} in the place of {}".format(*names)
        if _plain(old.type) != _plain(new.type):
            return f"field {new.name!r} is {type_name(old.type)}, and {type_name(new.type)} there"
    return None


def _plain(of: DataType) -> DataType:
    """Return a type spelled out, without the attributes of its fields, which Arrow has not."""
    match spelled_out(of):
        case DataTypeOption(inner=value):
            return DataTypeOption(_plain(value))
        case DataTypeList(item_type=item, fixed_length=length):
            return DataTypeList(_plain(item), length)
        case DataTypeMap(key_type=key, value_type=value, keys_sorted=is_sorted):
            return DataTypeMap(_plain(key), _plain(value), is_sorted)
        case DataTypeStruct(fields=fields):
            return DataTypeStruct(tuple(DataField(f.name, _plain(f.type)) for f in fields))
        case plain:
            return plain


def schema_in_force(state: ChainState) -> DataSchema | None:
    """Return the schema of the dataset's data, system columns included; None before the first."""
    return None if state.schema is None else schema_of(state.schema)


def schema_of(event: SetDataSchema) -> DataSchema:
    """Return the schema that an event sets, decoding it when it is in Arrow's form.

    Raises ProtocolError when the bytes are no schema, or use a type that ODF does not have.
    """
    if event.schema is not None:
        return event.schema
    return _decode(event.raw_arrow_schema or b"")


@lru_cache(maxsize=1024)
def _decode(raw: bytes) -> DataSchema:
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
        if name not in old_by_name and not is_optional(each.type):
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
