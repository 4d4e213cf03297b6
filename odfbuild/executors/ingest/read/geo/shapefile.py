"""Shapefiles inside a zip archive (ODF 0.34.1, "ReadStep::EsriShapefile").

GDAL reads them, through pyogrio, batch by batch into Arrow; pyogrio is an extra of the package and
imported only here.  The table's fields become columns, the shapes a column of GeoJSON text.
Nothing is projected: coordinates are those of the file.

A shapefile is several files of one name: `.shp` the shapes, `.dbf` the table, `.shx` an index
(rebuilt where it is missing), `.cpg` the encoding of the table's texts.

The encoding is that of the `.cpg` file, else that of the language mark in the table, else UTF-8 if
all texts are valid UTF-8, else ISO 8859-1.
"""

import codecs
import fnmatch
import re
import struct
import tempfile
import warnings
import zipfile
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.ingest.prepare import prepare
from odfbuild.executors.ingest.read.geo.features import GEOMETRY_COLUMN
from odfbuild.executors.ingest.read.geo.geometry import geojson_of, wkb_column
from odfbuild.executors.ingest.read.notes import ReadNotes, columns_drift
from odfbuild.executors.ingest.read.options import LARGE, collected, empty
from odfbuild.executors.ingest.read.parquet import ColumnCast
from odfbuild.executors.ingest.read.problems import (
    Bad,
    InvalidSourceError,
    Rejected,
    UnsupportedReadError,
    counted,
    quoted,
)
from odfbuild.executors.ingest.read.values import Column
from odfbuild.host.files import open_regular, read_regular
from odfbuild.odf.events import CompressionFormat, PrepStepDecompress, ReadStepEsriShapefile
from odfbuild.odf.schema.arrow import declared_schema
from odfbuild.values import dataclass

_NEEDED: Final = (".shp", ".dbf")
_USED: Final = (*_NEEDED, ".shx", ".cpg")
_LISTED: Final = 10
_FILE_CODE: Final = 9994  # the number that .shp and .shx begin with
_HEADER: Final = 100
_DBF_HEADER: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapefileParts:
    """The files of one shapefile in a folder of their own: `shapes` and its siblings.

    `language` is the mark of the table's encoding, `declared` the text of the `.cpg` file, `entry`
    the name of the shapes in the archive.
    """

    entry: str
    shapes: Path
    records: int
    language: int
    declared: str | None


def take_parts(archive: Path, wanted: str | None, folder: Path, name: str) -> ShapefileParts:
    """Unpack the selected shapefile into an empty folder.

    `wanted` is an exact name or a glob pattern; None where the archive has only one.  Raises
    InvalidSourceError, DamagedArchiveError.
    """
    names = _names(archive, name)
    entry = _chosen([each for each in names if _is_shapes(each)], wanted, name)
    stem = PurePosixPath(entry).with_suffix("")
    for suffix in _USED:
        part = next((each for each in names if _is_part(each, entry, stem, suffix)), None)
        if part is None and suffix in _NEEDED:
            raise _lacking(name, entry, suffix)
        if part is not None:
            step = PrepStepDecompress(format=CompressionFormat.ZIP, sub_path=part)
            prepare((step,), archive, folder, name=name).rename(folder / f"layer{suffix}")
    return _check_sizes(folder, entry, name)


def _names(archive: Path, name: str) -> list[str]:
    try:
        with zipfile.ZipFile(archive) as packed:
            return [each for each in packed.namelist() if each and not each.endswith("/")]
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError) as error:
        raise InvalidSourceError(
            what=f"{name} is not a complete zip archive",
            why=f"a shapefile is several files, read out of one archive; {error}",
            fix="fetch it again; the archive itself is read, so leave Decompress out of `prepare`",
        ) from None


def _is_shapes(entry: str) -> bool:
    """Return whether an entry is a file of shapes, and not an extra one of macOS."""
    path = PurePosixPath(entry)
    hidden = "__MACOSX" in path.parts[:1] or path.name.startswith("._")
    return path.suffix.lower() == ".shp" and not hidden


def _chosen(shapes: Sequence[str], wanted: str | None, name: str) -> str:
    if wanted is None:
        found = list(shapes)
    else:
        found = [each for each in shapes if each == wanted] or [
            each for each in shapes if fnmatch.fnmatchcase(each, wanted)
        ]
    if len(found) == 1:
        return found[0]
    if not shapes:
        what, why = f"{name} has no shapefile", "no entry of the archive ends with .shp"
    elif wanted is None:
        what, why = f"{name} has {counted(len(shapes), 'shapefile')}", _entry_list(shapes)
    elif found:
        what = f"{counted(len(found), 'shapefile')} of {name} match `subPath: {wanted}`"
        why = _entry_list(found)
    else:
        what, why = f"no shapefile of {name} matches `subPath: {wanted}`", _entry_list(shapes)
    raise InvalidSourceError(what, why, "name exactly one of its .shp files in `read.subPath`")


def _entry_list(entries: Sequence[str]) -> str:
    more = f" and {len(entries) - _LISTED} more" if len(entries) > _LISTED else ""
    return "the archive has " + ", ".join(entries[:_LISTED]) + more


def _is_part(each: str, entry: str, stem: PurePosixPath, suffix: str) -> bool:
    if suffix == ".shp":
        return each == entry
    path = PurePosixPath(each)
    same_name = path.stem.lower() == stem.name.lower() and path.suffix.lower() == suffix
    return same_name and path.parent == stem.parent


def _lacking(name: str, entry: str, suffix: str) -> InvalidSourceError:
    return InvalidSourceError(
        what=f"{name}: {entry} has no {suffix} file next to it",
        why="the shapes are in the .shp file, their columns in the .dbf file",
        fix="put both into the archive, in the same folder and with the same name",
    )


def _check_sizes(folder: Path, entry: str, name: str) -> ShapefileParts:
    """Check the sizes in the headers; GDAL would make nulls of missing data."""
    shapes, table, index = (folder / f"layer{suffix}" for suffix in (".shp", ".dbf", ".shx"))
    _check_shapes(shapes, f"{name}: {entry}")
    records, language = _check_table(table, f"{name}: the .dbf file of {entry}")
    if index.exists():
        _check_shapes(index, f"{name}: the .shx file of {entry}")
        shape_count = (index.stat().st_size - _HEADER) // 8
        if shape_count != records:
            raise _broken(
                f"{name}: {entry} has {counted(shape_count, 'shape')} and {records} records",
                "each shape has one record in the .dbf file",
            )
    declared = folder / "layer.cpg"
    text = read_regular(declared).decode("ascii", "replace") if declared.exists() else None
    return ShapefileParts(
        entry=entry, shapes=shapes, records=records, language=language, declared=text
    )


def _check_shapes(path: Path, name: str) -> None:
    with open_regular(path) as file:
        header = file.read(_HEADER)
    if len(header) < _HEADER or struct.unpack_from(">i", header)[0] != _FILE_CODE:
        raise _broken(f"{name} is not a file of shapes", "it does not begin like one")
    size = 2 * struct.unpack_from(">i", header, 24)[0]
    if path.stat().st_size < size:
        raise _broken(f"{name} was cut off", f"of {size} bytes {path.stat().st_size} are there")


def _check_table(path: Path, name: str) -> tuple[int, int]:
    """Return how many records a table has and the mark of its encoding."""
    with open_regular(path) as file:
        header = file.read(_DBF_HEADER)
    if len(header) < _DBF_HEADER:
        raise _broken(f"{name} was cut off", f"it has {len(header)} bytes")
    records, start, width = struct.unpack_from("<IHH", header, 4)
    size = start + records * width
    if start <= _DBF_HEADER or path.stat().st_size < size:
        raise _broken(f"{name} was cut off", f"of {size} bytes {path.stat().st_size} are there")
    return records, header[29]


def _broken(what: str, why: str) -> InvalidSourceError:
    return InvalidSourceError(what, why, "fetch the archive again, or rebuild it")


RAW: Final = "iso8859-1"
"""An encoding in which every byte is a character: GDAL returns texts in it, to be decoded."""

_CODE_PAGE: Final = re.compile(r"(?:ANSI|OEM|CP|IBM|WINDOWS|MS)?[ _-]*([0-9]{3,5})", re.IGNORECASE)
_ISO: Final = re.compile(r"(?:ISO[ _-]*)?8859[ _-]?([0-9]{1,2})", re.IGNORECASE)
_BY_LANGUAGE: Final = {
    **dict.fromkeys((1, 11, 13, 15, 17, 21, 24, 25, 27), "cp437"),
    **dict.fromkeys((2, 10, 14, 16, 18, 20, 22, 26, 29, 37, 55), "cp850"),
    **dict.fromkeys((3, 87, 88, 89), "cp1252"),
    **dict.fromkeys((8, 23, 102), "cp865"),
    **dict.fromkeys((31, 34, 35, 64, 100, 135), "cp852"),
    **dict.fromkeys((19, 123), "cp932"),
    **dict.fromkeys((77, 122), "cp936"),
    **dict.fromkeys((78, 121), "cp949"),
    **dict.fromkeys((79, 120), "cp950"),
    **dict.fromkeys((80, 124), "cp874"),
    **dict.fromkeys((38, 101), "cp866"),
    **dict.fromkeys((28, 108), "cp863"),
    **dict.fromkeys((106, 134), "cp737"),
    **dict.fromkeys((107, 136), "cp857"),
    36: "cp860",
    103: "cp861",
    200: "cp1250",
    201: "cp1251",
    202: "cp1254",
    203: "cp1253",
    204: "cp1257",
}


def encoding_by_language(mark: int) -> str | None:
    """Return the encoding of a table's language mark, None if it has none."""
    return _BY_LANGUAGE.get(mark)


def encoding_by_name(declared: str, name: str) -> str:
    """Return Python's name of the encoding that a `.cpg` file names, in any usual spelling.

    Raises InvalidSourceError for an encoding that is not known.
    """
    text = declared.strip().strip("\0")
    page, iso = _CODE_PAGE.fullmatch(text), _ISO.fullmatch(text)
    spelled = f"cp{page[1]}" if page else text
    try:
        found = codecs.lookup(f"iso8859-{iso[1]}" if iso else spelled).name
        "".encode(found)
    except LookupError:
        raise InvalidSourceError(
            what=f"{name}: its .cpg file names the encoding {quoted(text)}",
            why="no encoding of this name is known, so its texts cannot be read",
            fix="correct the .cpg file in the archive: UTF-8, or a code page such as 1252",
        ) from None
    return found


def decoded(column: Column, encoding: str, field: str, width: int) -> Column:
    """Return a column of raw texts, decoded.

    A character that the width of the field cut in two is left out.  Raises Rejected with the
    invalid rows.
    """
    if encoding == RAW or pc.all(pc.string_is_ascii(column), min_count=0).as_py():
        return column
    made: list[str | None] = []
    bad: list[Bad] = []
    for row, text in enumerate(column.to_pylist()):
        raw = None if text is None else text.encode(RAW)
        try:
            made.append(None if raw is None else _decoded(raw, encoding, width))
        except UnicodeDecodeError:
            made.append(None)
            bad.append(Bad(row, f"column {field}: {raw!r} is not text in {encoding}"))
    if bad:
        raise Rejected(bad[:100], more=len(bad) > 100)
    return pa.array(made, pa.string())


def _decoded(raw: bytes, encoding: str, width: int) -> str:
    return codecs.getincrementaldecoder(encoding)().decode(raw, final=len(raw) < width)


_TOGETHER: Final = 1 << 13
_PIECE: Final = 16 << 20
_WIDEST: Final = 1 << 16
_SHAPES: Final = "wkb_geometry"  # longer than a name in a table can be
_ROWS: Final = ""  # keeps the number of rows where there is no other column
_OF_SHAPE: Final = "column geometry: "
_RAW_TO_GDAL: Final = "ISO-8859-1"


def read_shapefile(
    step: ReadStepEsriShapefile, path: Path, *, staging: Path, name: str, notes: ReadNotes
) -> Frame | None:
    """Return one row per shape; None for an empty file without a schema.

    Raises InvalidSourceError with rows, UnsupportedReadError without pyogrio.
    """
    declared = declared_schema(step)
    if path.stat().st_size == 0:
        return None if declared is None else empty(declared)
    _check_installed()
    with tempfile.TemporaryDirectory(dir=staging, prefix="shapefile-") as folder:
        parts = take_parts(path, step.sub_path, Path(folder), name)
        source = _OpenShapefile(parts, _encoding(parts, name), name)
        if declared is not None:
            notes.drift = columns_drift(source.schema(), declared)
        return _frame(source, declared, staging, notes.held)


def _check_installed() -> None:
    """Raise UnsupportedReadError if pyogrio is not installed."""
    try:
        import pyogrio  # noqa: F401
    except ImportError as error:
        raise UnsupportedReadError(
            what="`read: {kind: EsriShapefile}` needs pyogrio, which is not installed",
            why=str(error),
            fix="install it: pip install 'odfbuild[geo]'",
        ) from None


def _encoding(parts: ShapefileParts, name: str) -> str:
    if parts.declared is not None and parts.declared.strip():
        return encoding_by_name(parts.declared, name)
    known = encoding_by_language(parts.language)
    return known or ("utf-8" if _is_utf8(_OpenShapefile(parts, RAW, name)) else RAW)


def _is_utf8(source: "_OpenShapefile") -> bool:
    """Return whether all texts of a table are UTF-8."""
    try:
        for batch in source.batches(shapes=False):
            for field, column in zip(batch.schema, batch.columns, strict=True):
                if pa.types.is_string(field.type):
                    decoded(column, "utf-8", field.name, _width(field))
    except Rejected:
        return False
    return True


def _frame(source: "_OpenShapefile", declared: pa.Schema | None, staging: Path, held: int) -> Frame:
    found = source.schema()
    if declared is not None:
        _check_names(found, declared, source.name)
    schema = _infer_columns(found) if declared is None else declared
    cast = ColumnCast(schema, source.name)
    tables = (_in_schema(cast, piece, schema) for piece in source.tables(set(schema.names)))
    if source.size > LARGE:
        return collected(tables, schema, staging, held)
    made = list(tables)
    return Frame.of(pa.concat_tables(made)) if made else empty(schema)


def _in_schema(cast: ColumnCast, piece: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give a piece the types of the schema, shapes as well-known binary if they are declared so."""
    at = schema.get_field_index(GEOMETRY_COLUMN)
    if at >= 0 and pa.types.is_binary(schema.field(at).type):
        there = piece.schema.get_field_index(GEOMETRY_COLUMN)
        shapes = wkb_column(piece.column(there))
        piece = piece.set_column(there, GEOMETRY_COLUMN, shapes)
    return cast.apply(piece)


def _infer_columns(found: pa.Schema) -> pa.Schema:
    """Return the columns in alphabetical order; all numbers are floats, as in the reference."""
    names = sorted(set(found.names))
    return pa.schema([pa.field(name, _inferred_type(found.field(name).type)) for name in names])


def _inferred_type(found: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(found) or pa.types.is_floating(found):
        return pa.float64()
    return pa.timestamp("ms", "UTC") if pa.types.is_timestamp(found) else found


def _check_names(found: pa.Schema, declared: pa.Schema, name: str) -> None:
    """Refuse missing columns that are required, and columns that differ by capitals only."""
    by_letters = {each.lower(): each for each in found.names}
    for field in declared:
        similar = by_letters.get(field.name.lower())
        if field.name not in found.names and (similar or not field.nullable):
            raise InvalidSourceError(
                what=f"{name} lacks the column {field.name}",
                why=f"it has {', '.join(found.names)}",
                fix=f"capitals matter: write `{similar}`"
                if similar
                else "correct the name in `read.schema`, or make the column optional",
            )


@dataclass(frozen=True, slots=True)
class _OpenShapefile:
    """A shapefile that is unpacked, and the encoding of its texts."""

    parts: ShapefileParts
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
        # GDAL warns of rings that it closes or reverses; Python attributes that to this module
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
                fix="fetch the archive again, or rebuild it",
            ) from None

    def _shown(self, field: pa.Field) -> pa.Field:
        """Return a field with its name decoded."""
        raw = field.name.encode(RAW)
        return pa.field(raw.decode(self.encoding, "replace"), field.type)

    def _check_unique(self, names: Sequence[str]) -> None:
        twice = sorted(name for name in set(names) if names.count(name) > 1)
        if twice:
            raise InvalidSourceError(
                what=f"{self.name}: {self.parts.entry} has several columns {twice[0]}",
                why="columns are identified by name",
                fix="rebuild the shapefile with other names",
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
            fix="rebuild the shapefile"
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
