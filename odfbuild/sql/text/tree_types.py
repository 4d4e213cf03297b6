"""Types that casts name, from the parser's form.

Knows sqlglot; imported when a text is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlglot import exp

from odfbuild.odf.events import (
    DataField,
    DataType,
    DataTypeDecimal,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeStruct,
)
from odfbuild.sql.text import types
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.tokens import place_of

_TYPES: dict[str, DataType] = {
    "BOOLEAN": types.BOOLEAN,
    "TINYINT": types.BYTE,
    "SMALLINT": types.SHORT,
    "INT": types.INT,
    "BIGINT": types.BIGINT,
    "FLOAT": types.FLOAT,
    "DOUBLE": types.DOUBLE,
    "TEXT": types.STRING,
    "BINARY": types.BINARY,
    "DATE": types.DATE,
    "TIMESTAMPTZ": types.TIMESTAMP,
    "TIMESTAMPLTZ": types.TIMESTAMP,
    "TIMESTAMPNTZ": types.LOCAL_TIME,
}


def data_type(node: Any) -> DataType | None:
    """Return the type that a cast names; what is inside of it may be null.  Raises SqlTextError."""
    if not isinstance(node, exp.DataType) or node.args.get("collate"):
        return None
    name = getattr(node.this, "name", "")
    if name == "DECIMAL":
        return _decimal([each.this for each in node.expressions])
    if name == "STRUCT":
        return _struct_of_tree(node.expressions)
    inner = [data_type(each) for each in node.expressions if name in {"ARRAY", "MAP"}]
    match name, inner:
        case "ARRAY", [item] if item is not None:
            return DataTypeList(DataTypeOption(item))
        case "MAP", [key, value] if key is not None and value is not None:
            return DataTypeMap(key, DataTypeOption(value))
    return _TYPES.get(name)


def _decimal(sizes: Sequence[Any]) -> DataType:
    wrong = [each for each in sizes if not (each.is_int and each.name.isdecimal())]
    for each in [*wrong, *sizes[2:]]:
        what = "a DECIMAL has two whole numbers at most: its digits, and those after the point"
        raise SqlTextError("syntax-error", what, place_of(each))
    digits = [int(each.name) for each in sizes]
    return DataTypeDecimal(*(digits + [10, 0][len(digits) :]))


def _struct_of_tree(members: Iterable[Any]) -> DataType | None:
    fields = []
    for each in members:
        of = None if each.args.get("constraints") else data_type(each.args.get("kind"))
        if of is None:
            return None
        fields.append(DataField(each.name, DataTypeOption(of)))
    return DataTypeStruct(tuple(fields))
