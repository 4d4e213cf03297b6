"""Write columns as DDL text, in the form that `ddl` reads."""

import re
from collections.abc import Collection

from odfbuild.odf.datatypes import type_name
from odfbuild.odf.ddl import DdlError
from odfbuild.odf.events import (
    DataSchema,
    DataType,
    DataTypeBinary,
    DataTypeBool,
    DataTypeDate,
    DataTypeDecimal,
    DataTypeFloat32,
    DataTypeFloat64,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
    DataTypeUInt32,
    DataTypeUInt64,
    TimeUnit,
)
from odfbuild.odf.value_paths import ITEM, KEY, VALUE, ValuePath, below, member

__all__ = ["to_ddl"]


def to_ddl(schema: DataSchema, uuids: Collection[ValuePath] = ()) -> tuple[str, ...]:
    """Return one column text for each field; raises DdlError for types that DDL lacks here.

    `uuids` are where bytes are declared as UUID.
    """
    return tuple(
        f"{_quoted(each.name)} {_item(each.type, each.name, below(uuids, each.name))}"
        for each in schema.fields
    )


_WORDS: dict[DataType, str] = {
    DataTypeBool(): "BOOLEAN",
    DataTypeInt32(): "INT",
    DataTypeInt64(): "BIGINT",
    DataTypeUInt32(): "INT UNSIGNED",
    DataTypeUInt64(): "BIGINT UNSIGNED",
    DataTypeFloat32(): "FLOAT",
    DataTypeFloat64(): "DOUBLE",
    DataTypeDate(): "DATE",
    DataTypeString(): "STRING",
    DataTypeTimestamp(): "TIMESTAMP",
    DataTypeTimestamp(TimeUnit.MILLISECOND): "TIMESTAMP",
    DataTypeTimestamp(None, "UTC"): "TIMESTAMP",
    DataTypeTimestamp(TimeUnit.MILLISECOND, "UTC"): "TIMESTAMP",
    DataTypeTime(TimeUnit.MICROSECOND): "TIME",
}


def _quoted(name: str) -> str:
    if re.fullmatch(r"\w[\w$]*", name):
        return name
    return "`" + name.replace("`", "``") + "`"


def _item(data_type: DataType, column: str, uuids: frozenset[ValuePath]) -> str:
    if isinstance(data_type, DataTypeOption):
        return _written(data_type.inner, column, uuids)
    return f"{_written(data_type, column, uuids)} NOT NULL"


def _written(data_type: DataType, column: str, uuids: frozenset[ValuePath]) -> str:
    match data_type:
        case DataTypeDecimal(precision=precision, scale=scale):
            return f"DECIMAL({precision},{scale})"
        case DataTypeBinary() if () in uuids:
            return "UUID"
        case DataTypeBinary(fixed_length=length):
            return "BINARY" if length is None else f"BINARY({length})"
        case DataTypeList(item_type=item, fixed_length=None):
            return f"ARRAY<{_item(item, column, below(uuids, ITEM))}>"
        case DataTypeMap(key_type=key, value_type=value, keys_sorted=None | False) if (
            not isinstance(key, DataTypeOption)
        ):
            keys = _written(key, column, below(uuids, KEY))
            return f"MAP<{keys}, {_item(value, column, below(uuids, VALUE))}>"
        case DataTypeStruct(fields=fields):
            members = (
                f"{_quoted(f.name)} {_item(f.type, column, below(uuids, member(f.name)))}"
                for f in fields
            )
            return f"STRUCT<{', '.join(members)}>"
    word = _WORDS.get(data_type)
    if word is None:
        raise DdlError(
            what=f"column {column!r}: DDL has no word for {type_name(data_type)}",
            why="only the types that a read schema may use can be written as DDL",
            fix="cast the column, or use the ODF form of the schema",
            column=column,
            text="",
            index=0,
            offset=0,
        )
    return word
