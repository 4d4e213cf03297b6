"""Conversion of geometries between GeoJSON text and well-known binary.

Binary is written little-endian, with heights marked by ISO's thousands, as Spark's
`st_geomfromwkb` takes it.

Text is written without blanks, with sorted keys, whole floats with `.0`, other numbers with the
fewest digits that identify them; letters are not escaped.

Both marks of heights and measures are read: ISO's thousands and the high bits of EWKB.  Heights are
kept; measures are dropped, as GeoJSON has no place for them.  Lines and polygons become
MultiLineString and MultiPolygon, as in the reference, so that a column has one type only.
"""

import json
import math
import re
import struct
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from odfbuild.executors.ingest.read.json_records import RepeatedMembers, json_object
from odfbuild.executors.ingest.read.problems import Bad, Rejected
from odfbuild.executors.ingest.read.values import Column
from odfbuild.host.json_text import parse_json


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a number of JSON")


GEOMETRY: Final = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=json_object)
"""Decoder of geometries; their numbers are binary, as in every geographic library."""


def repeated_key(value: Any) -> str | None:
    """Return a key that an object of a geometry has twice, None if there is none."""
    if isinstance(value, RepeatedMembers):
        return min(value.twice)
    parts = (
        [e for n, e in value.items() if n != "coordinates"] if isinstance(value, dict) else value
    )
    if not isinstance(parts, list):
        return None
    return next((key for each in parts if (key := repeated_key(each)) is not None), None)


_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
)
_EXPONENT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|(-?)([0-9.]+)e([-+][0-9]+)')


def geometry_text(geometry: Any) -> str:
    """Return a geometry of plain dicts, lists and numbers as text.

    Raises ValueError for a number that JSON cannot represent.
    """
    text = _ENCODER.encode(geometry)
    return _EXPONENT.sub(_number, text) if "e-" in text or "e+" in text else text


def _number(found: re.Match[str]) -> str:
    """Write an exponent as the reference does: 0.00001, 1e-6, 1e16."""
    sign, digits, exponent = found.groups()
    if digits is None:
        return found[0]
    if int(exponent) == -5:
        return f"{sign}0.0000{digits.replace('.', '')}"
    return f"{sign}{digits}e{int(exponent)}"


_Z_BIT: Final = 1 << 31
_M_BIT: Final = 1 << 30
_CODE: Final = (1 << 28) - 1
_POINT, _LINE, _POLYGON, _COLLECTION, _TRIANGLE = 1, 2, 3, 7, 17
_MULTI: Final = {
    _LINE: "MultiLineString",
    _POLYGON: "MultiPolygon",
    4: "MultiPoint",
    5: "MultiLineString",
    6: "MultiPolygon",
    15: "MultiPolygon",
    16: "MultiPolygon",
}


def geojson_of(wkb: bytes) -> str:
    """Return a geometry as text.

    Raises ValueError for one that is broken, of another kind or with numbers that JSON lacks.
    """
    try:
        return geometry_text(_WkbReader(wkb).geometry())
    except struct.error:
        raise ValueError("the geometry ends too early") from None


class _WkbReader:
    """A reader of the bytes; each method reads one part and moves behind it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def geometry(self) -> dict[str, Any]:
        """Return the next geometry as GeoJSON has it."""
        order, kind, size, kept = self._head()
        if kind == _COLLECTION:
            count = self._count(order)
            members = [self.geometry() for _ in range(count)]
            return {"type": "GeometryCollection", "geometries": members}
        coordinates = self._coordinates(order, kind, size, kept)
        if kind == _POINT:
            return {"type": "Point", "coordinates": coordinates}
        if kind not in _MULTI:
            raise ValueError(f"geometries of the kind {kind} have no form in GeoJSON")
        many = [coordinates] if kind in (_LINE, _POLYGON) else coordinates
        return {"type": _MULTI[kind], "coordinates": many}

    def _head(self) -> tuple[str, int, int, int]:
        """Return byte order, kind, numbers per position, and how many of these are kept."""
        order = "<" if self._data[self._at : self._at + 1] == b"\1" else ">"
        (code,) = struct.unpack_from(f"{order}I", self._data, self._at + 1)
        self._at += 5
        thousands, kind = divmod(code & _CODE, 1000)
        has_z = bool(code & _Z_BIT) or thousands in (1, 3)
        has_m = bool(code & _M_BIT) or thousands in (2, 3)
        return order, kind, 2 + has_z + has_m, 2 + has_z

    def _coordinates(self, order: str, kind: int, size: int, kept: int) -> Any:
        if kind == _POINT:
            (position,) = self._positions(order, 1, size, kept)
            return [] if all(math.isnan(number) for number in position) else position
        count = self._count(order)
        if kind == _LINE:
            return self._positions(order, count, size, kept)
        if kind in (_POLYGON, _TRIANGLE):
            return [self._positions(order, self._count(order), size, kept) for _ in range(count)]
        return [self._coordinates(*self._head()) for _ in range(count)]

    def _count(self, order: str) -> int:
        (count,) = struct.unpack_from(f"{order}I", self._data, self._at)
        self._at += 4
        return int(count)

    def _positions(self, order: str, count: int, size: int, kept: int) -> list[tuple[float, ...]]:
        flat = struct.unpack_from(f"{order}{count * size}d", self._data, self._at)
        self._at += 8 * count * size
        return list(zip(*(flat[each::size] for each in range(kept)), strict=True))


_LITTLE: Final = b"\1"
_HEIGHT: Final = 1000
_POINT_CODE, _LINE_CODE, _POLYGON_CODE = 1, 2, 3
_KINDS: Final = {
    "Point": _POINT_CODE,
    "LineString": _LINE_CODE,
    "Polygon": _POLYGON_CODE,
    "MultiPoint": 4,
    "MultiLineString": 5,
    "MultiPolygon": 6,
    "GeometryCollection": 7,
}
_OF_MANY: Final = {4: _POINT_CODE, 5: _LINE_CODE, 6: _POLYGON_CODE}
_DEEPEST: Final = 32


def wkb_column(texts: Column) -> Column:
    """Return a column of geometries as binary; raises Rejected with the invalid rows."""
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
    """Return a geometry of plain dicts, lists and numbers as binary; raises ValueError."""
    return _geometry(geometry, 0)


def _geometry(geometry: Any, depth: int) -> bytes:
    name = geometry.get("type") if isinstance(geometry, dict) else None
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None or depth > _DEEPEST:
        raise ValueError(f"{name!r} is not a type of geometry")
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
    if kind == _POINT_CODE:
        return _head(kind, size) + _position(coordinates or [math.nan] * size, size)
    if kind == _LINE_CODE:
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
        raise ValueError(f"one of its positions is not {size} numbers")
    try:
        return struct.pack(f"<{size}d", *numbers[:size])
    except OverflowError:
        raise ValueError("one of its numbers is too large") from None


def _list(found: Any, name: str) -> list[Any]:
    if not isinstance(found, list):
        raise ValueError(f"its `{name}` are not an array")
    return found
