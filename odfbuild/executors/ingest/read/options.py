"""Frames of readers, in memory or on disk, and the time formats of read steps."""

import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Final

import pyarrow as pa

from odfbuild.executors.data.frames import FilePart, Frame, HeldRows, footer_sum
from odfbuild.executors.data.parquet import FileWriter, write_groups
from odfbuild.executors.ingest.read.problems import supported
from odfbuild.executors.ingest.read.values import Formats
from odfbuild.odf.events import ReadStepCsv, ReadStepJson, ReadStepNdJson
from odfbuild.odf.read_options import pattern_of

LARGE: Final = 64 << 20
"""Bytes of text up to which rows are kept in memory."""

_GROUP: Final = 1 << 17
_CODEC: Final = "none"  # of a file that is read once or twice, and gone after the step


def empty(schema: pa.Schema) -> Frame:
    """Return a frame without rows."""
    return Frame.of(schema.empty_table())


def collected(pieces: Iterable[pa.Table], schema: pa.Schema, staging: Path, held: int) -> Frame:
    """Return pieces of rows as a frame: in memory up to `held` bytes of them, else in a file."""
    if not held:
        return _on_disk(pieces, schema, staging)
    left, few, size = iter(pieces), list[pa.RecordBatch](), 0
    for piece in left:
        few += piece.to_batches()
        size += piece.nbytes
        if size > held:
            return _on_disk(chain(_given_up(few, schema), left), schema, staging)
    return Frame(schema=schema, parts=(HeldRows.joined(few, schema),))


def _given_up(batches: list[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield batches as tables, each of which is kept by nobody else."""
    while batches:
        yield pa.Table.from_batches([batches.pop(0)], schema)


def _on_disk(pieces: Iterable[pa.Table], schema: pa.Schema, staging: Path) -> Frame:
    """Write pieces of rows, in order, into one Parquet file of the staging folder."""
    with tempfile.NamedTemporaryFile(
        dir=staging, prefix="read-", suffix=".parquet", delete=False
    ) as out:
        path = Path(out.name)
        try:
            rows = _write(pieces, schema, out)
        except BaseException:
            path.unlink()
            raise
    return Frame(schema=schema, parts=(FilePart(path, 0, rows, footer_sum(path)),))


def _write(pieces: Iterable[pa.Table], schema: pa.Schema, out: IO[bytes]) -> int:
    """Write row groups; return the number of rows."""
    with FileWriter(
        out, schema, compression=_CODEC, use_dictionary=False, write_page_checksum=True
    ) as writer:
        return write_groups(writer, _groups(pieces), _GROUP)


def _groups(pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Join small pieces to row groups of a sensible size."""
    buffered: list[pa.Table] = []
    rows = 0
    for piece in pieces:
        buffered.append(piece)
        rows += piece.num_rows
        if rows >= _GROUP:
            yield pa.concat_tables(buffered)
            buffered, rows = [], 0
    if buffered:
        yield pa.concat_tables(buffered)


def formats_of(step: ReadStepCsv | ReadStepJson | ReadStepNdJson) -> Formats:
    """Return the strftime patterns for dates and timestamps, None for RFC 3339.

    Raises UnsupportedReadError.
    """
    with supported():
        return Formats(
            date=pattern_of("dateFormat", step.date_format),
            timestamp=pattern_of("timestampFormat", step.timestamp_format),
        )
