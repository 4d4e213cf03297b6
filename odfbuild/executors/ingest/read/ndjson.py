"""Newline-delimited JSON into typed columns (ODF 0.34.1, "ReadStep::NdJson").

The file is read in pieces of complete lines.  Arrow reads a piece if it can; a piece with numbers
in strings, nested times or an error is read again line by line, which also gives line numbers.
Without a schema it is inferred from the first 1000 records, with columns in alphabetical order.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.json as arrow_json

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.ingest.read.json_records import (
    DECODER,
    build,
    check_buildable,
    infer_schema,
    not_an_object,
    sieve,
)
from odfbuild.executors.ingest.read.notes import BadRowFile, ReadNotes, drift_of
from odfbuild.executors.ingest.read.options import LARGE, collected, empty, formats_of
from odfbuild.executors.ingest.read.problems import InvalidSourceError, Rejected, refusal
from odfbuild.executors.ingest.read.text import BLOCK, check_encoding, utf8_blocks
from odfbuild.executors.ingest.read.values import Formats, cast_columns, check_nulls
from odfbuild.odf.events import ReadStepNdJson
from odfbuild.odf.schema.arrow import declared_schema
from odfbuild.values import dataclass

_SAMPLE: Final = 1000
_PIECE: Final = 8 << 20
_LONGEST_LINE: Final = 256 << 20
_COUNTED: Final = 100


def read_ndjson(
    step: ReadStepNdJson, path: Path, *, staging: Path, name: str, notes: ReadNotes
) -> Frame | None:
    """Return one row per line; None if there is no line and no schema.

    Raises InvalidSourceError with lines and columns, UnsupportedReadError for options.
    """
    source = _LineSource(path, name, check_encoding(step.encoding))
    schema = declared_schema(step)
    if schema is not None:
        check_buildable(schema)
        notes.drift = drift_of(source.sample(lenient=True), schema)
    else:
        schema = infer_schema(source.sample(lenient=notes.bad_rows is not None))
        if not len(schema):
            return None
    reader = _NdJsonReader(source, schema, formats_of(step), notes.bad_rows)
    if path.stat().st_size > LARGE:
        return collected(reader.tables(), schema, staging, notes.held)
    tables = list(reader.tables())
    return Frame.of(pa.concat_tables(tables)) if tables else empty(schema)


def ndjson_record_lines(step: ReadStepNdJson, path: Path, name: str) -> Iterator[int]:
    """Yield the line, from 1, of each record."""
    source = _LineSource(path, name, check_encoding(step.encoding))
    lines = (line for piece in source.pieces() for line in piece.splitlines())
    return (number for number, line in enumerate(lines, 1) if line.strip())


@dataclass(frozen=True, slots=True)
class _LineSource:
    path: Path
    name: str
    encoding: str

    def pieces(self, size: int = _PIECE) -> Iterator[bytes]:
        """Yield the text in pieces of complete lines, of about this size."""
        buffered: list[bytes] = []
        total = 0
        for block in utf8_blocks(self.path, self.encoding, self.name):
            buffered.append(block)
            total += len(block)
            if total < size:
                continue
            text = b"".join(buffered)
            cut = text.rfind(b"\n") + 1
            if cut:
                yield text[:cut]
            elif total > _LONGEST_LINE:
                raise InvalidSourceError(
                    what=f"{self.name} has a line of more than {_LONGEST_LINE >> 20} MiB",
                    why="NdJson has one record per line",
                    fix="use `kind: Json` for one document",
                )
            buffered, total = [text[cut:]], len(text) - cut
        if total:
            yield b"".join(buffered)

    def sample(self, *, lenient: bool) -> list[dict[str, Any]]:
        """Return the first records; when lenient, other lines are skipped."""
        lines = (line for piece in self.pieces(BLOCK) for line in piece.splitlines())
        found = []
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    found.append(_parse_record(line))
                except ValueError as error:
                    if not lenient:
                        raise _not_json(self.name, [(number, str(error))]) from None
            if len(found) == _SAMPLE:
                break
        return found


class _NdJsonReader:
    """Reads the pieces of one file in order."""

    def __init__(
        self, source: _LineSource, schema: pa.Schema, formats: Formats, bad_rows: BadRowFile | None
    ) -> None:
        self._source = source
        self._bad_rows = bad_rows
        self._schema = schema
        self._formats = formats
        self._raw = _raw_schema(schema)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of each piece."""
        line = 1
        for piece in self._source.pieces():
            table = self._by_arrow(piece)
            yield self._by_line(piece, line) if table is None else table
            line += len(piece.splitlines()) if b"\r" in piece else piece.count(b"\n")

    def _by_arrow(self, piece: bytes) -> pa.Table | None:
        """Return the rows of a piece as Arrow reads them; None if there is any doubt."""
        if self._raw is None or piece.startswith(b"null") or b"\nnull" in piece:
            return None
        try:
            if not piece.isascii():
                piece.decode()
            table = arrow_json.read_json(
                pa.BufferReader(piece),
                arrow_json.ReadOptions(block_size=BLOCK),
                arrow_json.ParseOptions(
                    explicit_schema=self._raw, unexpected_field_behavior="ignore"
                ),
            )
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return None
        if table.num_rows != _count_lines(piece):
            return None
        try:
            return self._typed_columns(table)
        except Rejected:
            return None

    def _typed_columns(self, table: pa.Table) -> pa.Table:
        """Give the columns that were read as text their types."""
        columns = {field.name: table.column(field.name) for field in self._schema}
        texts = [f for f in self._schema if f.type != columns[f.name].type]
        made = cast_columns(
            [columns[f.name] for f in texts], pa.schema(texts), self._formats, table.num_rows
        )
        columns |= {field.name: column for field, column in zip(texts, made, strict=True)}
        check_nulls(list(columns.values()), self._schema)
        return pa.Table.from_arrays(list(columns.values()), schema=self._schema)

    def _by_line(self, piece: bytes, first: int) -> pa.Table:
        """Return the rows of a piece, read line by line; raise for bad ones, or put them aside."""
        lines = {n: line for n, line in enumerate(piece.splitlines(), first) if line.strip()}
        records: dict[int, dict[str, Any]] = {}
        bad: dict[int, Sequence[str]] = {}
        for number, line in lines.items():
            try:
                records[number] = _parse_record(line)
            except ValueError as error:
                bad[number] = [str(error)]
        if self._bad_rows is None:
            return self._table(records, bad)
        at = list(records)
        table, misfits = sieve(list(records.values()), self._schema, self._formats)
        bad |= {at[row]: reasons for row, reasons in misfits.items()}
        for number in sorted(bad):
            self._bad_rows.put(number, bad[number], lines[number])
        return table

    def _table(
        self, records: Mapping[int, dict[str, Any]], bad: Mapping[int, Sequence[str]]
    ) -> pa.Table:
        if bad:
            raise _not_json(self._source.name, [(n, bad[n][0]) for n in bad])
        try:
            return self._built(list(records.values()))
        except Rejected as rejected:
            raise rejected.at_lines(self._source.name, list(records).__getitem__) from None

    def _built(self, records: Sequence[Mapping[str, Any]]) -> pa.Table:
        return build(records, self._schema, self._formats)


def _parse_record(line: bytes) -> dict[str, Any]:
    """Return one JSON object; raises ValueError with the problem of the line."""
    try:
        found = DECODER.decode(line.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.colno}") from None
    except RecursionError:
        raise ValueError("not JSON: nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError(not_an_object(found))
    return found


def _not_json(name: str, bad: list[tuple[int, str]]) -> InvalidSourceError:
    return refusal(
        name,
        bad[:_COUNTED],
        more=len(bad) > _COUNTED,
        why="NdJson has one object per line",
        fix="correct the file, or set `encoding` in `read`"
        if any("UTF-8" in text for _, text in bad)
        else "correct the file; for one document or an array use `kind: Json`",
    )


def _count_lines(piece: bytes) -> int:
    """Count the lines that are not blank, without splitting the text if possible."""
    simple = piece.count(b"\n") + (not piece.endswith(b"\n"))
    if b"\r" not in piece and b"\n\n" not in piece and not piece.startswith(b"\n"):
        return simple
    return sum(1 for line in piece.splitlines() if line.strip())


def _raw_schema(schema: pa.Schema) -> pa.Schema | None:
    """Return the schema for Arrow to read with, times as text; None if it cannot read all."""
    fields = [_raw_field(field) for field in schema]
    known = [field for field in fields if field is not None]
    return pa.schema(known) if len(known) == len(fields) else None


def _raw_field(field: pa.Field) -> pa.Field | None:
    if pa.types.is_temporal(field.type):
        return pa.field(field.name, pa.string())
    return pa.field(field.name, field.type) if _is_plain(field.type) else None


def _is_plain(target: pa.DataType) -> bool:
    """Return whether Arrow reads the type exactly as `json_records` does."""
    if pa.types.is_struct(target):
        return all(child.nullable and _is_plain(child.type) for child in target)
    if pa.types.is_list(target):
        return target.value_field.nullable and _is_plain(target.value_type)
    return (
        pa.types.is_integer(target)
        or target in {pa.string(), pa.bool_(), pa.float32(), pa.float64()}
        or pa.types.is_decimal(target)
    )
