"""DataFrames that come from a Spark session of the user: written by it, in their order."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.errors import EngineFailedError
from odfbuild.executors.data.parquet import FileWriter
from odfbuild.executors.engine.spark.errors import spark_errors
from odfbuild.executors.engine.spark.session import is_connected
from odfbuild.executors.engine.spark.sql_text import to_write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def has_other_session() -> bool:
    """Tell whether this process has a Spark session that is not one of this package's engines."""
    context: Any = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return context is not None and context._active_spark_context is not None and not is_connected()


def write_rows(data: object, path: Path) -> None:
    """Write the rows of a DataFrame, part after part, into one Parquet file.

    Spark writes the parts beside it, so its executors must see that folder; nothing is collected.
    """
    folder = path.with_name(f"parts-{uuid4().hex}")
    with spark_errors("write the rows of the DataFrame"):
        cast("DataFrame", data).write.parquet(to_write(folder))
    parts = sorted(folder.glob("part-*.parquet"), key=_number)
    if not parts:
        raise EngineFailedError(
            what="Spark wrote the DataFrame where it cannot be seen",
            why=f"its executors do not share the folder {folder}",
            fix="write it to Parquet files yourself, and push these",
        )
    batches = _batches(parts)
    first = next(batches)
    with FileWriter(path, first.schema, compression="snappy", write_page_checksum=True) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch.cast(first.schema))
    shutil.rmtree(folder)


def _number(part: Path) -> tuple[int, str]:
    """Return where a part stands: `part-00003-<id>-c000.snappy.parquet` is of partition 3."""
    return int(part.name.split("-")[1]), part.name


def _open_part(part: Path) -> pq.ParquetFile:
    return pq.ParquetFile(part, coerce_int96_timestamp_unit="us", page_checksum_verification=True)


def _batches(parts: Sequence[Path]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all parts, first of all a batch that may be empty."""
    with _open_part(parts[0]) as file:
        empty = file.schema_arrow.remove_metadata().empty_table()
        columns = [pa.array([], field.type) for field in empty.schema]
        yield pa.RecordBatch.from_arrays(columns, schema=empty.schema)
    for part in parts:
        with _open_part(part) as file:
            yield from file.iter_batches()
