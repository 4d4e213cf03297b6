"""Read a shapefile inside a zip archive (ODF 0.34.1, "ReadStep::EsriShapefile").

GDAL reads it, through pyogrio, batch by batch into Arrow; pyogrio is an extra of the package and
imported only here.  The table's fields become columns, the shapes a column of GeoJSON text.
Nothing is projected: coordinates are those of the file.
"""

import re
import tempfile
import warnings
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from odfbuild.executors.frames import Frame
from odfbuild.executors.readers.casting import Cast
from odfbuild.executors.readers.drift import Besides, columns_drift
from odfbuild.executors.readers.features import GEOMETRY_COLUMN
from odfbuild.executors.readers.options import declared_schema
from odfbuild.executors.readers.problems import (
    Bad,
    InvalidSourceError,
    Rejected,
    UnsupportedReadError,
)
from odfbuild.executors.readers.shapefile_parts import Parts, take_parts
from odfbuild.executors.readers.shapefile_text import (
    RAW,
    decoded,
    encoding_by_language,
    encoding_by_name,
)
from odfbuild.executors.readers.sink import LARGE, empty, on_disk
from odfbuild.executors.readers.values import Column
from odfbuild.executors.readers.wkb import geojson_of
from odfbuild.executors.readers.wkb_writer import wkb_column
from odfbuild.odf.events import ReadStepEsriShapefile

__all__ = ["read_shapefile"]

_TOGETHER: Final = 1 << 13
_PIECE: Final = 16 << 20
_WIDEST: Final = 1 << 16
_SHAPES: Final = "wkb_geometry"  # longer than a name in a table can be
_ROWS: Final = ""  # keeps the number of rows where no other column is there
_OF_SHAPE: Final = "column geometry: "
_RAW_TO_GDAL: Final = "ISO-8859-1"


def read_shapefile(
    step: ReadStepEsriShapefile, path: Path, *, staging: Path, name: str, besides: Besides
) -> Frame | None:
    """Return one row a shape; None for an empty file without a schema.

    Raises InvalidSourceError with rows, UnsupportedReadError without pyogrio.
    """
    declared = declared_schema(step)
    if path.stat().st_size == 0:
        return None if declared is None else empty(declared)
    _check_installed()
    with tempfile.TemporaryDirectory(dir=staging, prefix="shapefile-") as folder:
        parts = take_parts(path, step.sub_path, Path(folder), name)
        source = _Source(parts, _encoding(parts, name), name)
        if declared is not None:
            found = [each for each in source.schema() if each.name != GEOMETRY_COLUMN]
            besides.drift = columns_drift(pa.schema(found), declared, leave=(GEOMETRY_COLUMN,))
        return _frame(source, declared, staging)


def _check_installed() -> None:
    """Refuse to go on without pyogrio."""
    try:
        import pyogrio  # noqa: F401
    except ImportError as error:
        raise UnsupportedReadError(
            what="`read: {kind: EsriShapefile}` needs pyogrio, which is not installed",
            why=str(error),
            fix="install it: pip install 'odfbuild[geo]'",
        ) from None


def _encoding(parts: Parts, name: str) -> str:
    if parts.declared is not None and parts.declared.strip():
        return encoding_by_name(parts.declared, name)
    known = encoding_by_language(parts.language)
    return known or ("utf-8" if _is_utf8(_Source(parts, RAW, name)) else RAW)


def _is_utf8(source: "_Source") -> bool:
    """Tell whether all texts of a table are UTF-8."""
    try:
        for batch in source.batches(shapes=False):
            for field, column in zip(batch.schema, batch.columns, strict=True):
                if pa.types.is_string(field.type):
                    decoded(column, "utf-8", field.name, _width(field))
    except Rejected:
        return False
    return True


def _frame(source: "_Source", declared: pa.Schema | None, staging: Path) -> Frame:
    found = source.schema()
    if declared is not None:
        _check_names(found, declared, source.name)
    schema = _inferred(found) if declared is None else declared
    cast = Cast(schema, source.name)
    tables = (_fitted(cast, piece, schema) for piece in source.tables(set(schema.names)))
    if source.size > LARGE:
        return on_disk(tables, schema, staging)
    made = list(tables)
    return Frame.of(pa.concat_tables(made)) if made else empty(schema)


def _fitted(cast: Cast, piece: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give a piece the types of the schema, shapes as well-known binary if they are declared so."""
    at = schema.get_field_index(GEOMETRY_COLUMN)
    if at >= 0 and pa.types.is_binary(schema.field(at).type):
        there = piece.schema.get_field_index(GEOMETRY_COLUMN)
        shapes = wkb_column(piece.column(there))
        piece = piece.set_column(there, GEOMETRY_COLUMN, shapes)
    return cast.apply(piece)


def _inferred(found: pa.Schema) -> pa.Schema:
    """Return the columns in alphabetical order; all numbers are floats, as in the reference."""
    names = sorted(set(found.names))
    return pa.schema([pa.field(name, _inferred_type(found.field(name).type)) for name in names])


def _inferred_type(found: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(found) or pa.types.is_floating(found):
        return pa.float64()
    return pa.timestamp("ms", "UTC") if pa.types.is_timestamp(found) else found


def _check_names(found: pa.Schema, declared: pa.Schema, name: str) -> None:
    """Refuse columns that are required and lacking, or that differ by capitals only."""
    by_letters = {each.lower(): each for each in found.names}
    for field in declared:
        near = by_letters.get(field.name.lower())
        if field.name not in found.names and (near or not field.nullable):
            raise InvalidSourceError(
                what=f"{name} lacks the column {field.name}",
                why=f"it has {', '.join(found.names)}",
                fix=f"capitals matter: write `{near}`"
                if near
                else "correct the name in `read.schema`, or make the column optional",
            )


@dataclass(frozen=True, slots=True)
class _Source:
    """A shapefile that is unpacked, and the encoding of its texts."""

    parts: Parts
    encoding: str
    name: str

    @property
    def size(self) -> int:
        """Bytes of shapes and table."""
        shapes = self.parts.shapes
        return shapes.stat().st_size + shapes.with_suffix(".dbf").stat().st_size

    def schema(self) -> pa.Schema:
        """Return the columns with their names as they are shown, the geometry as text."""
        with self._open(shapes=False) as reader:
            fields = [self._shown(field) for field in reader.schema]
        others = [field for field in fields if field.name != GEOMETRY_COLUMN]
        self._check_unique([field.name for field in others])
        return pa.schema([*others, pa.field(GEOMETRY_COLUMN, pa.string())])

    def tables(self, wanted: Container[str]) -> Iterator[pa.Table]:
        """Yield the wanted columns of each batch."""
        first = 1
        for batch in self.batches(shapes=GEOMETRY_COLUMN in wanted):
            try:
                yield self._table(batch, wanted)
            except Rejected as rejected:
                raise self._unreadable(first, rejected.found[0]) from None
            first += batch.num_rows

    def batches(self, *, shapes: bool) -> Iterator[pa.RecordBatch]:
        """Yield the rows as GDAL gives them."""
        with self._open(shapes=shapes) as reader:
            yield from reader

    @contextmanager
    def _open(self, *, shapes: bool) -> Iterator[Any]:
        import pyogrio

        pyogrio.set_gdal_config_options({"SHAPE_RESTORE_SHX": True})
        # GDAL warns of rings that it closes or turns; Python takes this module for their origin
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=re.escape(__name__))
        each = max(1, self.size // max(1, self.parts.records))
        try:
            with pyogrio.open_arrow(
                self.parts.shapes,
                use_pyarrow=True,
                batch_size=max(1, min(_TOGETHER, _PIECE // each)),
                read_geometry=shapes,
                ENCODING=_RAW_TO_GDAL,
            ) as (_, reader):
                yield reader
        except (RuntimeError, OSError, pa.ArrowInvalid) as error:
            raise InvalidSourceError(
                what=f"{self.name}: {self.parts.entry} cannot be read",
                why=str(error).split("\n")[0],
                fix="fetch the archive again, or make it anew",
            ) from None

    def _shown(self, field: pa.Field) -> pa.Field:
        """Return a field under the name that its bytes stand for."""
        raw = field.name.encode(RAW)
        return pa.field(raw.decode(self.encoding, "replace"), field.type)

    def _check_unique(self, names: Sequence[str]) -> None:
        twice = sorted(name for name in set(names) if names.count(name) > 1)
        if twice:
            raise InvalidSourceError(
                what=f"{self.name}: {self.parts.entry} has several columns {twice[0]}",
                why="columns are told apart by their names",
                fix="make the shapefile anew with other names",
            )

    def _table(self, batch: pa.RecordBatch, wanted: Container[str]) -> pa.Table:
        columns: dict[str, Column] = {_ROWS: pa.nulls(batch.num_rows)}
        for field, column in zip(batch.schema, batch.columns, strict=True):
            shown = self._shown(field)
            if field.name == _SHAPES:
                columns[GEOMETRY_COLUMN] = _geometries(column)
            elif shown.name in wanted and shown.name != GEOMETRY_COLUMN:
                is_text = pa.types.is_string(field.type)
                columns[shown.name] = self._decoded(field, column) if is_text else column
        return pa.table(columns)

    def _decoded(self, field: pa.Field, column: Column) -> Column:
        return decoded(column, self.encoding, self._shown(field).name, _width(field))

    def _unreadable(self, first: int, bad: Bad) -> InvalidSourceError:
        of_shape = bad.text.startswith(_OF_SHAPE)
        return InvalidSourceError(
            what=f"{self.name}: row {first + bad.row}: {bad.text}",
            why="shapes are written as GeoJSON"
            if of_shape
            else "its .cpg file, or the mark in its table, names the encoding",
            fix="make the shapefile anew"
            if of_shape
            else "correct the .cpg file in the archive: UTF-8, or a code page such as 1252",
        )


def _width(field: pa.Field) -> int:
    """Return how many bytes a field has in the table."""
    return int((field.metadata or {}).get(b"GDAL:OGR:width", _WIDEST))


def _geometries(column: Column) -> Column:
    made: list[str | None] = []
    for row, shape in enumerate(column):
        try:
            made.append(geojson_of(shape.as_py()) if shape.is_valid else None)
        except ValueError as error:
            raise Rejected([Bad(row, f"{_OF_SHAPE}{error}")], more=False) from None
    return pa.array(made, pa.string())
