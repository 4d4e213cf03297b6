"""GeoJSON: one collection of features, or one per line (ODF 0.34.1, "ReadStep::GeoJson").

Properties become columns, the geometry a column of text, or of well-known binary if declared so.
A declared column `id` takes the ids of features that have no such property.  A file of any size is
read in pieces of some thousand features.  Without a schema it is inferred from the first 1000,
with columns in alphabetical order.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.ingest.read.geo.features import (
    GEOMETRY_COLUMN,
    ID_COLUMN,
    FeatureRecord,
    collection_features,
    features_by_line,
)
from odfbuild.executors.ingest.read.geo.geometry import wkb_column
from odfbuild.executors.ingest.read.json_records import build, check_buildable, infer_schema, sieve
from odfbuild.executors.ingest.read.notes import BadRowFile, DriftCollector, ReadNotes
from odfbuild.executors.ingest.read.options import LARGE, collected, empty
from odfbuild.executors.ingest.read.problems import Rejected, refusal
from odfbuild.executors.ingest.read.values import Formats, without_rows
from odfbuild.odf.events import ReadStepGeoJson, ReadStepNdGeoJson
from odfbuild.odf.schema.arrow import declared_schema

_SAMPLE: Final = 1000
_TOGETHER: Final = 1 << 13
_PIECE: Final = 16 << 20
_COUNTED: Final = 100


def read_geojson(
    step: ReadStepGeoJson, path: Path, *, staging: Path, name: str, notes: ReadNotes
) -> Frame | None:
    """Return one row per feature; None if there is no feature and no schema.

    Raises InvalidSourceError with lines and columns, UnsupportedReadError for types.
    """
    keep, declared = notes.bad_rows is not None, declared_schema(step)
    with_id = declared is not None and ID_COLUMN in declared.names
    reader = _GeoJsonReader(
        lambda: collection_features(path, name, keep=keep, with_id=with_id), name, notes
    )
    return reader.read(declared, path, staging)


def read_ndgeojson(
    step: ReadStepNdGeoJson, path: Path, *, staging: Path, name: str, notes: ReadNotes
) -> Frame | None:
    """Return one row per line, without blank ones; None if there is no line and no schema.

    Raises InvalidSourceError with lines and columns, UnsupportedReadError for types.
    """
    keep, declared = notes.bad_rows is not None, declared_schema(step)
    with_id = declared is not None and ID_COLUMN in declared.names
    reader = _GeoJsonReader(
        lambda: features_by_line(path, name, keep=keep, with_id=with_id), name, notes
    )
    return reader.read(declared, path, staging)


def feature_lines(
    step: ReadStepGeoJson | ReadStepNdGeoJson, path: Path, name: str
) -> Iterator[int]:
    """Yield the line, from 1, on which each feature begins."""
    features = collection_features if isinstance(step, ReadStepGeoJson) else features_by_line
    return (each.line for each in features(path, name))


class _GeoJsonReader:
    """Makes tables of the features of one file."""

    def __init__(
        self, features: Callable[[], Iterator[FeatureRecord]], name: str, notes: ReadNotes
    ) -> None:
        self._features = features
        self._name = name
        self._notes = notes

    def read(self, declared: pa.Schema | None, path: Path, staging: Path) -> Frame | None:
        if declared is not None:
            check_buildable(declared)
        schema = self._infer_columns() if declared is None else declared
        if not len(schema):
            return None
        drifting = DriftCollector(schema)
        frame = self._frame(schema, drifting, path, staging)
        if declared is not None:
            self._notes.drift = drifting.drift
        return frame

    def _frame(
        self, schema: pa.Schema, drifting: DriftCollector, path: Path, staging: Path
    ) -> Frame:
        if path.stat().st_size > LARGE:
            return collected(self._tables(schema, drifting), schema, staging, self._notes.held)
        tables = list(self._tables(schema, drifting))
        return Frame.of(pa.concat_tables(tables)) if tables else empty(schema)

    def _infer_columns(self) -> pa.Schema:
        """Return the columns of the first features; their geometries are not kept."""
        first = islice(self._features(), _SAMPLE)
        return infer_schema([{**each.record, GEOMETRY_COLUMN: None} for each in first])

    def _tables(self, schema: pa.Schema, drifting: DriftCollector) -> Iterator[pa.Table]:
        bad_rows = self._notes.bad_rows
        for piece in _pieces(self._features()):
            drifting.see([*map(_record_of, piece)])
            if bad_rows is None:
                yield self._table(piece, schema)
            else:
                yield _sieved_table(piece, schema, bad_rows)

    def _table(self, piece: list[FeatureRecord], schema: pa.Schema) -> pa.Table:
        bad = [(each.line, each.problem) for each in piece if each.problem is not None]
        if bad:
            raise refusal(
                self._name,
                bad[:_COUNTED],
                more=len(bad) > _COUNTED,
                why="a feature is an object with `type`, `properties` and `geometry` (RFC 7946)",
                fix="correct the file; records of another form are read by `kind: Json` or NdJson",
            )
        try:
            return _built(piece, schema)
        except Rejected as rejected:
            raise rejected.at_lines(self._name, lambda row: piece[row].line) from None


def _sieved_table(piece: list[FeatureRecord], schema: pa.Schema, bad_rows: BadRowFile) -> pa.Table:
    bad = {row: [each.problem] for row, each in enumerate(piece) if each.problem is not None}
    rest = [row for row in range(len(piece)) if row not in bad]
    table, misfits = _sieve([piece[row] for row in rest], schema)
    bad |= {rest[at]: list(reasons) for at, reasons in misfits.items()}
    for row, reasons in sorted(bad.items()):
        bad_rows.put(piece[row].line, reasons, piece[row].text)
    return table


def _built(piece: Sequence[FeatureRecord], schema: pa.Schema) -> pa.Table:
    """Return the rows; a geometry that is declared as binary becomes well-known binary."""
    table = build([each.record for each in piece], _as_text(schema), Formats())
    return table if table.schema == schema else _in_binary(table, schema)


def _sieve(
    piece: Sequence[FeatureRecord], schema: pa.Schema
) -> tuple[pa.Table, Mapping[int, Sequence[str]]]:
    """Return the rows that fit, and the problems of the others, by row."""
    table, bad = sieve([each.record for each in piece], _as_text(schema), Formats())
    if table.schema == schema:
        return table, bad
    try:
        return _in_binary(table, schema), bad
    except Rejected as rejected:
        kept = [row for row in range(len(piece)) if row not in bad]
        wrong = {each.row: [each.text] for each in rejected.found}
        located = {kept[row]: reasons for row, reasons in wrong.items()}
        return _in_binary(without_rows(table, wrong), schema), {**bad, **located}


def _as_text(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the geometry as text, as it is read."""
    at = schema.get_field_index(GEOMETRY_COLUMN)
    if at < 0 or not pa.types.is_binary(schema.field(at).type):
        return schema
    return schema.set(at, schema.field(at).with_type(pa.string()))


def _in_binary(table: pa.Table, schema: pa.Schema) -> pa.Table:
    at = schema.get_field_index(GEOMETRY_COLUMN)
    return table.set_column(at, schema.field(at), wkb_column(table.column(at)))


def _record_of(feature: FeatureRecord) -> Mapping[str, object]:
    """Return a record with an empty text for its geometry, or without it if that is null."""
    rest = {name: value for name, value in feature.record.items() if name != GEOMETRY_COLUMN}
    has_none = feature.record.get(GEOMETRY_COLUMN) is None
    return rest if has_none else {**rest, GEOMETRY_COLUMN: ""}


def _pieces(features: Iterator[FeatureRecord]) -> Iterator[list[FeatureRecord]]:
    """Yield features in groups: some thousand, or fewer if they are large."""
    buffered: list[FeatureRecord] = []
    size = 0
    for each in features:
        buffered.append(each)
        size += each.size
        if len(buffered) == _TOGETHER or size > _PIECE:
            yield buffered
            buffered, size = [], 0
    if buffered:
        yield buffered
