"""Output of rows: in a format, to standard output or a file, a batch at a time."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING

from odfbuild.errors import UsageRefusedError
from odfbuild.values import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from odfbuild.odf.schema.value_paths import ValuePath


TABLE_ROWS = 20


class RowFormat(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    NDJSON = "ndjson"
    PARQUET = "parquet"
    ARROW = "arrow"


_BY_ENDING = {
    ".csv": RowFormat.CSV,
    ".json": RowFormat.JSON,
    ".ndjson": RowFormat.NDJSON,
    ".jsonl": RowFormat.NDJSON,
    ".parquet": RowFormat.PARQUET,
    ".arrow": RowFormat.ARROW,
    ".feather": RowFormat.ARROW,
}
_BINARY = frozenset({RowFormat.PARQUET, RowFormat.ARROW})


@dataclass(frozen=True, slots=True)
class Destination:
    """A format and a file; None is standard output."""

    output: RowFormat
    path: Path | None = None
    safe_csv: bool = False

    @property
    def is_table(self) -> bool:
        """Tell whether the rows are for reading, so that not all need be there."""
        return self.output is RowFormat.TABLE

    @property
    def is_binary(self) -> bool:
        """Tell whether the rows keep their types."""
        return self.output in _BINARY


def destination(
    output: RowFormat | None, path: Path | None, *, safe_csv: bool = False
) -> Destination:
    """Return where rows go; the end of a file's name tells the format, if nothing else does.

    Raises UsageRefusedError for what a terminal or a file cannot take.
    """
    chosen = output
    if chosen is None:
        chosen = RowFormat.TABLE if path is None else _BY_ENDING.get(path.suffix.lower())
    if path is not None and chosen in {None, RowFormat.TABLE}:
        raise UsageRefusedError(
            what=f"{path}: no format for a file" if chosen is None else "a table is no file format",
            why=f"the end of its name says the format: {', '.join(_BY_ENDING)}; or -o does",
            fix="name the format, such as -o csv",
        )
    assert chosen is not None  # noqa: S101 - refused above
    if safe_csv:
        from odfbuild.cli.render.rows import check_safe_csv

        check_safe_csv(chosen, safe_csv=True)
    if path is not None and not path.resolve().parent.is_dir():
        raise UsageRefusedError(
            what=f"{path}: there is no folder {path.parent}",
            why="the rows go to a file in it",
            fix="make the folder, or name another one",
        )
    if path is None and chosen in _BINARY and sys.stdout.isatty():
        raise UsageRefusedError(
            what=f"{chosen.value} is not for a terminal",
            why="it is not made of text",
            fix="name a file (--to FILE), or send the output to one",
        )
    return Destination(chosen, path, safe_csv)


def shown_uuids(
    to: Destination,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    paths: Collection[ValuePath],
) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Return rows with these bytes as UUIDs: as text, or with that type in files."""
    from odfbuild.app.inspection.uuids import with_uuids_in_batches

    return with_uuids_in_batches(schema, batches, paths, as_text=not to.is_binary)


def write_out(to: Destination, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Write rows of a schema; a file has all of them or, if anything fails, stays as it was."""
    if to.path is not None:
        with _file(to.path) as file:
            _write(to, schema, batches, file)
    elif to.output in _BINARY:
        sys.stdout.flush()
        _write(to, schema, batches, sys.stdout.buffer)
    else:
        from odfbuild.cli.render.rows import write_rows

        rows = schema.names, _rows(batches)
        write_rows(rows, to.output, sys.stdout, safe_csv=to.safe_csv)


def _write(
    to: Destination, schema: pa.Schema, batches: Iterable[pa.RecordBatch], file: IO[bytes]
) -> None:
    if to.output is RowFormat.PARQUET:
        from odfbuild.executors.data.parquet import FileWriter

        with FileWriter(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    elif to.output is RowFormat.ARROW:
        import pyarrow as pa

        with pa.ipc.new_file(file, schema) as stream:
            for batch in batches:
                stream.write_batch(batch)
    else:
        from odfbuild.cli.render.rows import write_rows

        text = io.TextIOWrapper(file, "utf-8", "backslashreplace", newline="\n")
        rows = schema.names, _rows(batches)
        write_rows(rows, to.output, text, safe_csv=to.safe_csv)
        text.flush()
        text.detach()


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[object, ...]]:
    from odfbuild.executors.data.python_values import python_values
    from odfbuild.executors.data.views import faults_named

    for batch in batches:
        with faults_named():
            columns = [python_values(column) for column in batch.columns]
        yield from zip(*columns, strict=True)


@contextmanager
def _file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of another when all of it is written; a pipe as it is."""
    from odfbuild.cli.files import refuse_sources, require_folder
    from odfbuild.project.files.checkout import refuse_links
    from odfbuild.state.files.disk import Disk, pending

    refuse_links(path)
    refuse_sources(path)
    require_folder(path)
    real = path.resolve()
    if real.exists() and not real.is_file():
        with suppress(BrokenPipeError), real.open("wb") as file:  # its reader has seen enough
            yield file
        return
    draft, disk = pending(real.parent), Disk()
    try:
        with draft.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        disk.rename(draft, real)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    disk.sync(real.parent)
