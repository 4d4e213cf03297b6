"""Spark's own geometries: for queries to work with, not for datasets to keep."""

from typing import TYPE_CHECKING, Any

from odfbuild.errors import InvalidQueryError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["check_storable"]


def check_storable(frame: "DataFrame") -> None:
    """Refuse columns of GEOMETRY and GEOGRAPHY, nested ones too.  Raises InvalidQueryError."""
    for field in frame.schema.fields:
        kind = _geometric(field.dataType)
        if kind is not None:
            name = field.name
            raise InvalidQueryError(
                what=f"the column {name} of the query is a {kind.upper()}",
                why="only Spark has this type; datasets keep geometries as well-known binary",
                fix=f"select st_asbinary({name}) AS {name}, and st_srid({name}) where it matters"
                if _geometric(field.dataType, nested=False)
                else "apply st_asbinary to the geometries within it",
            )


def _geometric(kind: Any, *, nested: bool = True) -> str | None:
    """Return `geometry` or `geography` if a type is one, or holds one."""
    word = str(kind.typeName()).partition("(")[0]
    if word in {"geometry", "geography"}:
        return word
    if not nested:
        return None
    match word:
        case "array":
            return _geometric(kind.elementType)
        case "map":
            return _geometric(kind.keyType) or _geometric(kind.valueType)
        case "struct":
            return next((found for f in kind.fields if (found := _geometric(f.dataType))), None)
    return None
