"""Spooling of pushed rows into one complete file: streams, Arrow data, Arrow's protocol.

Nothing is held in memory as a whole.  A DataFrame is written as Parquet, of which a source reads
the columns that it declares.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, Final

from odfbuild.errors import EngineError
from odfbuild.executors.ingest.media import PushFormat
from odfbuild.odf.events import AddPushSource
from odfbuild.odf.schema.ddl import parse_ddl

PARQUET: Final = PushFormat.PARQUET
_BLOCK: Final = 1 << 20
_STREAM: Final = "__arrow_c_stream__"


class BadRowsGivenError(EngineError):
    """Rows that were passed to the Python API cannot be ingested."""

    code = "bad-rows"


def spool(stream: IO[bytes], path: Path) -> None:
    """Copy a stream of bytes to its end into a file."""
    with path.open("wb") as out:
        while block := stream.read(_BLOCK):
            if not isinstance(block, bytes):
                raise _unfit("a file that is open as text", "bytes are read", "open it with 'rb'")
            out.write(block)


def spool_rows(data: object, path: Path) -> None:
    """Write a table, a reader of batches or a DataFrame into one Parquet file, in its order.

    The index of a pandas DataFrame is no column.  Raises BadRowsGivenError for other things.
    """
    if is_spark(data):
        from odfbuild.executors.engine.spark.user_session import write_rows

        write_rows(data, path)
        return
    _write(_batches(data), path)


def is_spark(data: object) -> bool:
    """Tell a DataFrame of Spark, without importing it."""
    return _comes_from(data, "pyspark") and hasattr(data, "toLocalIterator")


def check_columns(path: Path, source: AddPushSource, name: str) -> None:
    """Refuse columns that the source does not declare: they would vanish without a word."""
    import pyarrow.parquet as pq

    read = source.read
    declared = parse_ddl(read.ddl_schema) if read.ddl_schema else read.schema
    if declared is None:
        return
    known = [field.name for field in declared.fields]
    for column in pq.read_schema(path).names:
        if column not in known:
            raise BadRowsGivenError(
                what=f"{name}: the push source '{source.source_name}' declares no column {column}",
                why=f"it declares {', '.join(known)}",
                fix="leave the column out, rename it, or declare it in `read.schema`",
            )


def _batches(data: object) -> Any:
    """Return a reader of the batches of something that has rows."""
    import pyarrow as pa

    try:
        if isinstance(data, pa.RecordBatch):
            return pa.Table.from_batches([data]).to_reader()
        if _comes_from(data, "pandas"):
            return pa.Table.from_pandas(data, preserve_index=False).to_reader()
        if hasattr(data, _STREAM):
            return pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _unfit(_kind(data), str(error).split("\n")[0], "convert the column first") from None
    raise _unfit(
        _kind(data),
        "rows come as an Arrow table, a reader of record batches, a DataFrame of pandas, Polars or "
        "Spark, or whatever else has the method " + _STREAM,
        "convert it to one of these, or name a file",
    )


def _write(reader: Any, path: Path) -> None:
    import pyarrow as pa

    from odfbuild.executors.data.parquet import FileWriter

    _check_twice(reader.schema.names)
    try:
        with FileWriter(
            path, reader.schema, compression="snappy", write_page_checksum=True
        ) as writer:
            for batch in reader:
                writer.write_batch(batch)
    except (pa.ArrowException, TypeError, ValueError) as error:
        what = "data with columns that Parquet does not hold, or that could not be read"
        raise _unfit(what, str(error).split("\n")[0], "convert the column first") from None


def _check_twice(names: Iterable[str]) -> None:
    names = list(names)
    twice = next((each for each in names if names.count(each) > 1), None)
    if twice is not None:
        raise _unfit(
            f"data with several columns {twice}", "columns are identified by name", "rename one"
        )


def _comes_from(data: object, package: str) -> bool:
    return type(data).__module__.partition(".")[0] == package


def _kind(data: object) -> str:
    return f"a value of type {type(data).__module__}.{type(data).__qualname__}"


def _unfit(what: str, why: str, fix: str) -> BadRowsGivenError:
    return BadRowsGivenError(what=f"{what} cannot be pushed", why=why, fix=fix)
