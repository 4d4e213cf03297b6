"""The history of a dataset on Spark: reading what a merge needs of it, and making it shorter.

A condensed history is what `state_text` gives, sorted by key so that a merge can pass over most of
it, in Parquet that is small and quickly read.  Page checksums are left out: who keeps the files
checks them whole.
"""

# ruff: noqa: S608 - the texts are made of quoted names only

from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.executors.engine import CondenseRequest
from odfbuild.executors.spark.admission import built
from odfbuild.executors.spark.errors import spark_errors
from odfbuild.executors.spark.frames import from_files, from_table, gather, slice_table
from odfbuild.executors.spark.merge import needed_history, normal
from odfbuild.executors.spark.merge_parts import state_text
from odfbuild.executors.spark.places import to_write
from odfbuild.executors.spark.session import Views
from odfbuild.executors.spark.settings import Size
from odfbuild.executors.spark.sqltypes import comparable, quoted
from odfbuild.odf.arrow import to_arrow
from odfbuild.odf.events import MergeStrategyLedger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["condensed", "past_cost", "past_rows"]

_OLD: Final = "__odf_old"
_EXPANSION: Final = 4  # bytes in memory for a byte of a slice, roughly
_ROW: Final = 16  # bytes in memory for a row at least: sorted keys take far fewer in a file
_STORED: Final = MappingProxyType(
    {
        "compression": "snappy",
        "parquet.writer.version": "v2",  # differences of integers, common beginnings of texts
        "parquet.block.size": str(16 << 20),
        "parquet.page.write-checksum.enabled": "false",
    }
)


def past_cost(paths: Sequence[Path]) -> int:
    """Return about how many bytes the rows of a history take in memory."""
    return sum(
        max(_EXPANSION * path.stat().st_size, _ROW * pq.read_metadata(path).num_rows)
        for path in paths
    )


def past_rows(
    session: "SparkSession", paths: Sequence[Path], schema: pa.Schema, size: Size
) -> "DataFrame":
    """Return these columns of a history, null where a file lacks one."""
    if size is Size.BIG:
        return normal(from_files(session, paths, schema))
    return normal(from_table(session, pa.concat_tables([slice_table(p, schema) for p in paths])))


def condensed(
    session: "SparkSession", views: Views, request: CondenseRequest, size: Size, log: Path | None
) -> tuple[Path, ...]:
    """Write the shorter history of a request and return its files in order."""
    in_force, key = to_arrow(request.in_force), _key(request)
    names = _names(request, in_force)
    schema = pa.schema([in_force.field(name) for name in names])
    views.add(_OLD, past_rows(session, request.history, schema, size))
    with spark_errors("condense the history", log=log):
        rows = built(session, _text(request, names, key))
        order = [comparable(quoted(name), rows.schema[name].dataType) for name in key]
        return _written(_sorted(rows, order, size), request.into, size)


def _written(rows: "DataFrame", into: Path, size: Size) -> tuple[Path, ...]:
    if size is Size.BIG:
        rows.write.options(**_STORED).parquet(to_write(into))
        return tuple(sorted(into.glob("*.parquet")))
    into.mkdir()
    frame = gather(rows, size, into, rows.columns, lambda batches: batches)
    pq.write_table(frame.table, into / "rows.parquet", store_schema=False)
    return (into / "rows.parquet",)


def _key(request: CondenseRequest) -> tuple[str, ...]:
    return tuple(getattr(request.merge, "primary_key", ()))


def _names(request: CondenseRequest, in_force: pa.Schema) -> tuple[str, ...]:
    """Return the columns that any later merge may need, whatever its source has."""
    vocab = request.vocab
    apart = {vocab.system_time_column, vocab.event_time_column}
    data = [name for name in in_force.names if name not in apart]
    return needed_history(request.merge, vocab, data)


def _text(request: CondenseRequest, names: Sequence[str], key: Sequence[str]) -> str:
    if isinstance(request.merge, MergeStrategyLedger):
        whole = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in key)
        return f"SELECT DISTINCT {', '.join(map(quoted, key))} FROM {_OLD} WHERE {whole}"
    columns = ", ".join(map(quoted, names))
    return f"SELECT state.* FROM ({state_text(key, request.vocab, _OLD, columns)})"


def _sorted(rows: "DataFrame", order: Sequence[str], size: Size) -> "DataFrame":
    from pyspark.sql.functions import expr

    by = [expr(each) for each in order]
    return rows.sortWithinPartitions(*by) if size is Size.SMALL else rows.orderBy(*by)
