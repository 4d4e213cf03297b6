"""Frames to DataFrames and back: through Arrow while rows are few, through Parquet files else.

Both ways give the same rows in the same order.  A DataFrame that is to be returned comes sorted;
its parts are then in order, and are written one behind the other into one file.

The optimizer evaluates projections and filters over rows that are in the driver, by the same
interpreted expressions that tasks use when no code is generated.  What is left of such a query are
rows, which are handed over as one Arrow stream.

The number of the piece is carried through the user's query as transforms carry positions, and rows
of a piece never change places with those of another.
"""

# ruff: noqa: S608 - the texts are made of quoted names only

import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.data.conformance import conform, null_column, retyped, row_numbers
from odfbuild.executors.data.frames import FilePart, Frame, RowsPart, opened_file, reaches
from odfbuild.executors.data.parquet import FileWriter
from odfbuild.executors.engine.arrow.merging.pieces import PIECE
from odfbuild.executors.engine.arrow.merging.plain_types import plain_schema
from odfbuild.executors.engine.spark.cluster.driver import (
    arrow_table,
    built,
    local_batches,
    local_rows,
)
from odfbuild.executors.engine.spark.cluster.objects import frame_of, objects_of
from odfbuild.executors.engine.spark.cluster.shared_files import written_parts
from odfbuild.executors.engine.spark.cluster.stored_rows import StoredPart
from odfbuild.executors.engine.spark.session import Views, in_all_digits
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.executors.engine.spark.sql_text import one_zero, quoted, to_read, to_write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def check_storable(frame: "DataFrame") -> None:
    """Refuse columns of GEOMETRY and GEOGRAPHY, nested ones too.  Raises InvalidQueryError."""
    for field in frame.schema.fields:
        kind = _geometric(field.dataType)
        if kind is not None:
            name = field.name
            raise InvalidQueryError(
                what=f"the column {name} of the query is a {kind.upper()}",
                why="only Spark has this type; datasets store geometries as well-known binary",
                fix=f"select st_asbinary({name}) AS {name}, and st_srid({name}) where it matters"
                if _geometric(field.dataType, nested=False)
                else "apply st_asbinary to the geometries within it",
            )


def _geometric(kind: Any, *, nested: bool = True) -> str | None:
    """Return `geometry` or `geography` if a type is one, or holds one."""
    word = str(kind.typeName()).partition("(")[0]
    if word in {"geometry", "geography"}:
        return word
    if not nested:
        return None
    match word:
        case "array":
            return _geometric(kind.elementType)
        case "map":
            return _geometric(kind.keyType) or _geometric(kind.valueType)
        case "struct":
            return next((found for f in kind.fields if (found := _geometric(f.dataType))), None)
    return None


def local_table(frame: "DataFrame") -> pa.Table | None:
    """Return the rows of a query over few rows, as `toArrow` does; None if it needs a job."""
    from pyspark.sql.pandas.types import to_arrow_schema

    batches = local_batches(frame)
    if batches is None:
        return None
    found = list(batches)
    if not found:
        return to_arrow_schema(frame.schema, timezone="UTC").empty_table()
    whole = pa.concat_tables(found)
    return retyped(whole, whole.schema)


def first_of_keys(
    session: "SparkSession",
    new: "DataFrame",
    name: str,
    key: Sequence[str],
    *,
    hidden: str,
    marks: bool = False,
) -> "DataFrame":
    """Return the rows of the view `name` whose key is in no earlier piece.

    Within one piece a key may come twice, as it may within one source; a null matches nothing.
    With `marks` all rows come, and the column of the hidden name `in_earlier` tells the others.
    """
    keys = ", ".join(map(quoted, key))
    missing = " OR ".join(f"{quoted(part)} IS NULL" for part in key)
    first = f"min({PIECE}) OVER (PARTITION BY {keys})"
    columns = ", ".join(map(quoted, new.columns))
    rows = f"(SELECT *, {first} AS {hidden}first FROM {name})"
    is_first = f"({hidden}first = {PIECE} OR {missing})"
    if marks:
        marked = f"NOT {is_first} AS {hidden}in_earlier"
        return built(session, f"SELECT {columns}, {marked} FROM {rows}")
    return built(session, f"SELECT {columns} FROM {rows} WHERE {is_first}")


POSITION = "__odf_pos"  # where a row stood in the input
_EXPANSION = 4  # bytes in memory for a byte of Parquet, roughly
_GROUP_BYTES = 32 << 20  # of a row group: who reads rows from its middle reads those before

Edit = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def cost(*sources: Frame | Path) -> int:
    """Return about how many bytes the rows of these take in memory."""
    total = 0
    for source in sources:
        if isinstance(source, Path):
            total += _EXPANSION * source.stat().st_size
        elif source.table is not None:
            total += source.table.nbytes
        else:
            total += sum(_EXPANSION * part.path.stat().st_size for part in source.files)
    return total


def from_frame(
    session: "SparkSession",
    views: Views,
    frame: Frame,
    size: StepSize,
    position: str = POSITION,
) -> "DataFrame":
    """Return the rows of a frame with their `position` in it as last column.

    Its files are read until the views end, and not by other steps.
    """
    if size is StepSize.BIG and frame.parts:
        return _from_parts(session, views, frame, position)
    table = frame.table
    if table is None:
        table = pa.Table.from_batches(frame.batches(), schema=frame.schema)
    positions = row_numbers(table.num_rows)
    return from_table(session, table.append_column(position, positions))


def _from_parts(session: "SparkSession", views: Views, frame: Frame, position: str) -> "DataFrame":
    objects, stored = objects_of(session), {}
    if objects is not None:
        paths = tuple(dict.fromkeys(part.path for part in frame.files))
        job, given = objects.lent(paths)
        views.hold(job)
        stored = dict(zip(paths, given, strict=True))
    kinds = _kinds(frame.schema)
    frames, before = [], 0
    for part in frame.files:
        first = before - part.start
        rows = (
            frame_of(session, [stored[part.path]], kinds, (position, first))
            if stored
            else from_files(session, (part.path,), frame.schema, first, position)
        )
        if part != FilePart.of_file(part.path):
            rows = rows.where(f"`{position}` BETWEEN {before} AND {before + part.rows - 1}")
        frames.append(rows)
        before += part.rows
    return reduce(lambda first, second: first.unionAll(second), frames)


def _kinds(schema: pa.Schema) -> "StructType":
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(plain_schema(schema))


def from_table(session: "SparkSession", table: pa.Table, *, whole: bool = True) -> "DataFrame":
    """Return the rows of a table, in order.

    `whole`: in one partition, as what looks at several rows wants them; what looks at one at a
    time can be told without a job if they are left as they are.
    """
    plain = retyped(table, plain_schema(table.schema))
    # PySpark loses the rows behind an empty chunk; and nested columns need a chunk, be it empty
    filled = [batch for batch in plain.to_batches() if batch.num_rows]
    given = pa.Table.from_batches(filled or [_empty(plain.schema)], plain.schema)
    frame = local_rows(session, given)
    return frame.coalesce(1) if whole else frame


def from_files(
    session: "SparkSession",
    paths: Sequence[Path],
    schema: pa.Schema,
    first: int | None = None,
    position: str = POSITION,
) -> "DataFrame":
    """Return the rows of Parquet files that have this schema or only some columns of it.

    With `first` the rows of each file are numbered from it on, in `position` as the last column.
    """
    kinds, objects = _kinds(schema), objects_of(session)
    if objects is not None:
        return objects.frame(session, paths, kinds, None if first is None else (position, first))
    frame = session.read.schema(kinds).parquet(*map(to_read, paths))
    if first is None:
        return frame
    return frame.selectExpr("*", f"_metadata.row_index + {first} AS `{position}`")


def with_one_zero(rows: "DataFrame") -> "DataFrame":
    """Return rows with one zero in columns of floating-point numbers, as queries read them."""
    texts = [
        f"{one_zero(quoted(each.name), each.dataType)} AS {quoted(each.name)}"
        for each in rows.schema.fields
    ]
    plain = [f"{quoted(name)} AS {quoted(name)}" for name in rows.columns]
    return rows if texts == plain else rows.selectExpr(*texts)


def slice_table(path: Path, schema: pa.Schema) -> pa.Table:
    """Return the columns of `schema` of one slice; columns that it lacks are null."""
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        there = set(file.schema_arrow.names)
        found = file.read(columns=[name for name in schema.names if name in there])
    columns = [
        _conformed(found.column(field.name), field.type)
        if field.name in there
        else null_column(found.num_rows, field.type)
        for field in schema
    ]
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return pa.Table.from_arrays(columns, schema=nullable)


def _conformed(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([conform(each, kind) for each in column.chunks], kind)


def gather(
    frame: "DataFrame", size: StepSize, staging: Path, columns: Sequence[str], edit: Edit
) -> Frame:
    """Run a sorted DataFrame and return these columns of what `edit` makes of its rows.

    `edit` gets at least one batch, which may be empty, so that it always shows its columns.
    """
    check_storable(frame)
    if size is StepSize.BIG:
        return _through_files(frame, staging, columns, edit)
    found = planned_rows(frame)
    table = _utc(_collect(frame)) if found is None else found
    edited = edit(iter(table.to_batches() or [_empty(table.schema)]))
    return Frame.of(_nullable(pa.Table.from_batches(edited).select(list(columns))))


def _collect(frame: "DataFrame") -> pa.Table:
    """Return the rows of a DataFrame as `toArrow` does, which refuses structs that are null."""
    found = arrow_table(frame)
    return retyped(found, found.schema)


def planned_rows(frame: "DataFrame") -> pa.Table | None:
    """Return the rows of a DataFrame over few rows; None if it takes a job to know them."""
    found = local_table(frame)
    return None if found is None else _utc(found)


def _through_files(frame: "DataFrame", staging: Path, columns: Sequence[str], edit: Edit) -> Frame:
    """Let Spark write its parts, and put them into one file: bounded memory whatever their size."""
    folder, parts = _written(frame, staging)
    whole = staging / f"rows-{uuid4().hex}.parquet"
    _write(edit(_batches(parts, _schema(frame))), whole, columns)
    shutil.rmtree(folder)
    return Frame.at(whole)


def gather_checked(
    frame: "DataFrame",
    size: StepSize,
    staging: Path,
    columns: Sequence[str],
    check: Edit,
    doubted: tuple[str, int],
) -> Frame:
    """Run a sorted DataFrame and return these columns of it; large ones stay in Spark's files.

    `check` lets rows pass or raises.  Of large results it sees only rows in doubt: with so much or
    more in a column of integers.
    """
    if size is StepSize.SMALL:
        return gather(frame, size, staging, columns, check)
    whole = _left(frame)
    if whole is None:
        _, parts = _written(frame, staging)
        whole = Frame.at(*parts, schema=_schema(frame))
    for _ in check(in_doubt(whole, *doubted).batches()):
        pass
    return whole.select(columns)


def _left(frame: "DataFrame") -> Frame | None:
    """Run a DataFrame and leave its rows in the store that executors write; None without one."""
    objects = objects_of(frame.sparkSession)
    if objects is None:
        return None
    return Frame(schema=_schema(frame), parts=objects.left(frame, _GROUP_BYTES))


def _written(frame: "DataFrame", staging: Path) -> tuple[Path, list[Path]]:
    folder = staging / f"parts-{uuid4().hex}"

    def write(rows: "DataFrame") -> None:
        writing = rows.write.option("compression", "snappy")
        writing = writing.option("parquet.enable.dictionary", "false")  # time lost: read once only
        writing = writing.option("parquet.block.size", str(_GROUP_BYTES))
        with in_all_digits(frame.sparkSession):
            writing.parquet(to_write(folder))

    return folder, written_parts(frame, write, folder, group_bytes=_GROUP_BYTES)


def in_doubt(frame: Frame, column: str, least: int) -> Frame:
    """Return the rows of a frame's files without those that have less in a column of integers.

    Files tell for each row group the greatest value, so nothing else is read.
    """
    kept: list[RowsPart] = []
    for each in frame.parts:
        if isinstance(each, StoredPart):
            kept += each.groups_reaching(column, least)
    for path, sum in {p.path: p.footer for p in frame.parts if isinstance(p, FilePart)}.items():
        at, footer = 0, pq.read_metadata(path)
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            if reaches(group, column, least):
                kept.append(FilePart(path, at, group.num_rows, sum))
            at += group.num_rows
    return Frame(schema=frame.schema, parts=tuple(kept))


def from_parts(session: "SparkSession", frame: Frame, schema: pa.Schema) -> "DataFrame":
    """Return these columns of the rows of a frame, of whose files each is taken as a whole."""
    stored = [each.stored for each in frame.parts if isinstance(each, StoredPart)]
    if not stored:
        return from_files(session, [part.path for part in frame.files], schema)
    return frame_of(session, stored, _kinds(schema))


def _batches(parts: Sequence[Path], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    yield _empty(schema)
    for part in parts:
        with opened_file(part) as file:
            for batch in file.iter_batches(1 << 16):
                yield from retyped(pa.Table.from_batches([batch]), schema).to_batches()


def _write(batches: Iterator[pa.RecordBatch], path: Path, columns: Sequence[str]) -> None:
    first = next(batches)
    kept = pa.schema([first.schema.field(name).with_nullable(True) for name in columns])
    with FileWriter(path, kept, compression="snappy", write_page_checksum=True) as writer:
        for batch in chain([first], batches):
            if batch.num_rows:
                writer.write_table(retyped(pa.Table.from_batches([batch.select(kept.names)]), kept))


def _schema(frame: "DataFrame") -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = _utc(to_arrow_schema(frame.schema, timezone="UTC").empty_table()).schema
    return pa.schema([field.with_nullable(True) for field in schema])


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def _utc(table: pa.Table) -> pa.Table:
    """Return the table with every timestamp in microseconds of UTC, its own metadata dropped."""
    wanted = pa.schema([pa.field(f.name, _in_utc(f.type), f.nullable) for f in table.schema])
    return table if table.schema.equals(wanted, check_metadata=True) else retyped(table, wanted)


def _in_utc(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC")
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _in_utc(f.type), f.nullable) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(_in_utc(kind.key_type), _in_utc(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_in_utc(kind.value_type))
    return kind


def _nullable(table: pa.Table) -> pa.Table:
    nullable = pa.schema([field.with_nullable(True) for field in table.schema])
    return pa.Table.from_arrays(table.columns, schema=nullable)
