"""Turn geometries from well-known binary into GeoJSON text.

Both ways to mark heights and measures are read, ISO's thousands and the high bits of EWKB.
Heights are kept; measures are left out, as GeoJSON has no place for them.  Lines and polygons come
out as MultiLineString and MultiPolygon, as in the reference, so that a column has one type only.
"""

import math
import struct
from typing import Any, Final

from odfbuild.executors.readers.geometry import geometry_text

__all__ = ["geojson_of"]

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
        return geometry_text(_Reader(wkb).geometry())
    except struct.error:
        raise ValueError("the geometry ends too early") from None


class _Reader:
    """A place in the bytes; each step reads one part and stands behind it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def geometry(self) -> dict[str, Any]:
        """Return the geometry that is next as GeoJSON has it."""
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
        """Return byte order, kind, numbers in a position, and how many of these are kept."""
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
