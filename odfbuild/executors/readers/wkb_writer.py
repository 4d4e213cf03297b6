"""Turn geometries from GeoJSON text into well-known binary, for columns that are declared as such.

Little-endian; heights are marked by ISO's thousands.  Spark's `st_geomfromwkb` takes this form.
"""

import math
import struct
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from odfbuild.executors.readers.problems import Bad, Rejected
from odfbuild.executors.readers.values import Column
from odfbuild.json_text import parse_json

__all__ = ["wkb_column", "wkb_of"]

_LITTLE: Final = b"\1"
_HEIGHT: Final = 1000
_POINT, _LINE, _POLYGON = 1, 2, 3
_KINDS: Final = {
    "Point": _POINT,
    "LineString": _LINE,
    "Polygon": _POLYGON,
    "MultiPoint": 4,
    "MultiLineString": 5,
    "MultiPolygon": 6,
    "GeometryCollection": 7,
}
_OF_MANY: Final = {4: _POINT, 5: _LINE, 6: _POLYGON}
_DEEPEST: Final = 32


def wkb_column(texts: Column) -> Column:
    """Return a column of geometries as binary; raises Rejected with the rows that are none."""
    made: list[bytes | None] = []
    bad: list[Bad] = []
    for row, text in enumerate(texts.to_pylist()):
        try:
            made.append(None if text is None else wkb_of(parse_json(text)))
        except ValueError as error:
            made.append(None)
            bad.append(Bad(row, f"column geometry: {error}"))
    if bad:
        raise Rejected(bad, more=False)
    return pa.array(made, pa.binary())


def wkb_of(geometry: Any) -> bytes:
    """Return a geometry of plain dicts, lists and numbers; raises ValueError if it is none."""
    return _geometry(geometry, 0)


def _geometry(geometry: Any, depth: int) -> bytes:
    name = geometry.get("type") if isinstance(geometry, dict) else None
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None or depth > _DEEPEST:
        raise ValueError(f"{name!r} is no type of geometry")
    if kind == _KINDS["GeometryCollection"]:
        members = _list(geometry.get("geometries"), "geometries")
        return _head(kind, 2, len(members)) + b"".join(_geometry(m, depth + 1) for m in members)
    coordinates = _list(geometry.get("coordinates"), "coordinates")
    size = _size(coordinates)
    if kind not in _OF_MANY:
        return _simple(kind, coordinates, size)
    parts = (_simple(_OF_MANY[kind], _list(each, "coordinates"), size) for each in coordinates)
    return _head(kind, size, len(coordinates)) + b"".join(parts)


def _simple(kind: int, coordinates: Sequence[Any], size: int) -> bytes:
    if kind == _POINT:
        return _head(kind, size) + _position(coordinates or [math.nan] * size, size)
    if kind == _LINE:
        return _head(kind, size, len(coordinates)) + _positions(coordinates, size)
    rings = [_list(ring, "coordinates") for ring in coordinates]
    made = (struct.pack("<I", len(ring)) + _positions(ring, size) for ring in rings)
    return _head(kind, size, len(rings)) + b"".join(made)


def _head(kind: int, size: int, count: int | None = None) -> bytes:
    code = kind + (_HEIGHT if size == 3 else 0)
    return _LITTLE + struct.pack("<I", code) + (b"" if count is None else struct.pack("<I", count))


def _size(coordinates: Any) -> int:
    """Return how many numbers each position has: 3 if the first one has a height."""
    at = coordinates
    while isinstance(at, list) and at and isinstance(at[0], list):
        at = at[0]
    return 3 if isinstance(at, list) and len(at) > 2 else 2


def _positions(positions: Sequence[Any], size: int) -> bytes:
    return b"".join(_position(_list(each, "coordinates"), size) for each in positions)


def _position(numbers: Sequence[Any], size: int) -> bytes:
    if len(numbers) < size or not all(type(each) in (int, float) for each in numbers):
        raise ValueError(f"a position of it is not {size} numbers")
    try:
        return struct.pack(f"<{size}d", *numbers[:size])
    except OverflowError:
        raise ValueError("a number of it is too large") from None


def _list(found: Any, name: str) -> list[Any]:
    if not isinstance(found, list):
        raise ValueError(f"its `{name}` are no array")
    return found
