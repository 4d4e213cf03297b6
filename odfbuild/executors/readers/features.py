"""Read the features of GeoJSON: a record of the properties, and the geometry as text (RFC 7946).

The column `geometry` holds the geometry; a property of that name gives way to it, as in the
reference.  The `id` of a feature is in its record where that is asked for and no property has the
name.  `bbox` and members that the format does not know are left out.
"""

from typing import Any, Final

from odfbuild.executors.readers.geometry import GEOMETRY, geometry_text
from odfbuild.executors.readers.json_stream import JsonStream, NotJsonError
from odfbuild.executors.readers.records import shown

__all__ = ["GEOMETRY_COLUMN", "ID_COLUMN", "NotAFeatureError", "read_feature"]

GEOMETRY_COLUMN: Final = "geometry"
ID_COLUMN: Final = "id"


class NotAFeatureError(ValueError):
    """A value that is JSON, but no feature; the text says why."""


def read_feature(stream: JsonStream, *, with_id: bool = False) -> dict[str, Any]:
    """Return the record of the feature that is next; one that is wrong is read to its end.

    Raises NotAFeatureError, and NotJsonError.
    """
    if stream.peek() != "{":
        raise NotAFeatureError(f"{shown(stream.value())} is not a feature")
    members = {}
    for key in stream.members():
        members[key] = _geometry(stream) if key == "geometry" else stream.value()
    return _record(members, with_id=with_id)


def _geometry(stream: JsonStream) -> Any:
    try:
        return stream.value(GEOMETRY)
    except NotJsonError:
        raise
    except ValueError as error:
        raise stream.broken(str(error)) from None


def _record(members: dict[str, Any], *, with_id: bool) -> dict[str, Any]:
    if members.get("type") != "Feature":
        found = f"is {shown(members['type'])}" if "type" in members else "is missing"
        raise NotAFeatureError(f"`type` {found}, not 'Feature'")
    for name in ("properties", "geometry"):
        if name not in members:
            raise NotAFeatureError(f"the feature has no `{name}`")
        if not isinstance(members[name], dict | None):
            raise NotAFeatureError(f"`{name}` is not an object")
    properties = members["properties"] or {}
    if with_id and ID_COLUMN in members:
        properties = {ID_COLUMN: members[ID_COLUMN], **properties}
    return {**properties, GEOMETRY_COLUMN: _text(members["geometry"])}


def _text(geometry: Any) -> str | None:
    if geometry is None:
        return None
    try:
        return geometry_text(geometry)
    except ValueError:
        raise NotAFeatureError("`geometry` has a number beyond the range of numbers") from None
    except RecursionError:
        raise NotAFeatureError("`geometry` is nested too deeply") from None
