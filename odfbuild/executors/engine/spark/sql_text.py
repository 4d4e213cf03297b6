"""Spark SQL expressions, types and paths as text.

One text is one call into the JVM; the same expression built from Column objects takes dozens.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


_PATTERNS = re.compile(r"([{}\[\]*?\\])")


def to_read(path: Path) -> str:
    """Return a path for reading just this file or folder."""
    return _PATTERNS.sub(r"\\\1", str(path))


def to_write(path: Path) -> str:
    """Return a path for making a folder of files."""
    return f"file:{path}"


def quoted(name: str) -> str:
    """Return a column name as SQL text."""
    return f"`{name.replace('`', '``')}`"


def literal(text: str) -> str:
    """Return a text as an SQL string."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def stored(expression: str, kind: "DataType") -> str:
    """Return the value as it is stored: every timestamp in UTC, floored to milliseconds."""
    return _rewritten(expression, kind, _stored_leaf, maps=False)


def in_utc(expression: str, kind: "DataType") -> str:
    """Return the value with every timestamp in UTC, in all its digits."""
    return _rewritten(expression, kind, _utc_leaf, maps=False)


def one_zero(expression: str, kind: "DataType") -> str:
    """Return the value with one zero among its floating-point numbers, also in structs and lists.

    One NaN is like another in Spark.
    """
    return _rewritten(expression, kind, _zero_leaf, maps=False)


def comparable(expression: str, kind: "DataType") -> str:
    """Return a value that can be compared and sorted: maps become sorted arrays of entries."""
    return _rewritten(expression, kind, lambda text, _: text, maps=True)


_Leaf = Callable[[str, Any], str]


def _stored_leaf(expression: str, kind: "DataType") -> str:
    if kind.typeName() == "timestamp":
        return f"timestamp_millis(unix_millis({expression}))"
    if kind.typeName() == "timestamp_ntz":
        return f"timestamp_millis(unix_millis(CAST({expression} AS TIMESTAMP)))"
    return expression


def _utc_leaf(expression: str, kind: "DataType") -> str:
    return f"CAST({expression} AS TIMESTAMP)" if kind.typeName() == "timestamp_ntz" else expression


def _zero_leaf(expression: str, kind: "DataType") -> str:
    name = kind.typeName()
    return f"{expression} + CAST(0 AS {name})" if name in {"float", "double"} else expression


def _rewritten(expression: str, kind: Any, leaf: _Leaf, *, maps: bool, depth: int = 0) -> str:
    """Apply `leaf` to the leaves of a value; `maps` also turns maps into sorted entries."""
    if not _touches(kind, leaf, maps):
        return leaf(expression, kind)
    name, inner = f"x{depth}", depth + 1
    match kind.typeName():
        case "array":
            item = _rewritten(name, kind.elementType, leaf, maps=maps, depth=inner)
            return f"transform({expression}, {name} -> {item})"
        case "struct":
            parts = ", ".join(
                f"{literal(f.name)}, "
                + _rewritten(
                    f"{expression}.{quoted(f.name)}", f.dataType, leaf, maps=maps, depth=depth
                )
                for f in kind.fields
            )
            return f"if({expression} IS NULL, NULL, named_struct({parts}))"
        case "map":
            key = _rewritten(f"{name}.key", kind.keyType, leaf, maps=maps, depth=inner)
            value = _rewritten(f"{name}.value", kind.valueType, leaf, maps=maps, depth=inner)
            entries = f"transform(map_entries({expression}), {name} -> struct({key}, {value}))"
            return f"array_sort({entries})" if maps else f"map_from_entries({entries})"
        case _:
            return leaf(expression, kind)


def _touches(kind: Any, leaf: _Leaf, maps: bool) -> bool:
    match kind.typeName():
        case "array":
            return _touches(kind.elementType, leaf, maps)
        case "struct":
            return any(_touches(f.dataType, leaf, maps) for f in kind.fields)
        case "map":
            return maps or any(_touches(k, leaf, maps) for k in (kind.keyType, kind.valueType))
        case _:
            return leaf("x", kind) != "x"
