"""The history of a dataset on Spark: what a merge reads of it, and shorter forms of it.

Both sides of a plain join are sorted by key, the history too, however little of it matters.  Where
a column of the key can be compared outside of Spark, the history is cut down there, while Spark is
still starting (`data.lookup`).  Else keys of new rows that fit into memory are sent to all
tasks, which then read the history once, in any order, and pass over the files and pages whose keys
lie outside of those.

A condensed history is what `state_text` gives, sorted by key so that a merge can pass over most of
it, in Parquet that is small and quickly read.  Page checksums are left out: who keeps the files
checks them whole.
"""

# ruff: noqa: S608 - the texts are made of quoted names only

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.arrow.hidden_names import hidden_prefix
from odfbuild.executors.engine.arrow.merging.history import condensed_columns
from odfbuild.executors.engine.protocol import CondenseRequest
from odfbuild.executors.engine.spark.cluster.driver import built, functions
from odfbuild.executors.engine.spark.cluster.objects import frame_of, objects_of, schema_of
from odfbuild.executors.engine.spark.cluster.shared_files import written_parts
from odfbuild.executors.engine.spark.errors import spark_errors
from odfbuild.executors.engine.spark.frames import from_files, from_table, gather, slice_table
from odfbuild.executors.engine.spark.ingest.merge import normal
from odfbuild.executors.engine.spark.ingest.merge_parts import Narrowing, state_text
from odfbuild.executors.engine.spark.session import Views, in_all_digits, with_settings
from odfbuild.executors.engine.spark.settings import BROADCAST, StepSize
from odfbuild.executors.engine.spark.sql_text import comparable, literal, quoted, to_read, to_write
from odfbuild.odf.merge_strategies import key_of, skips_keys
from odfbuild.odf.schema.arrow import to_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_OLD: Final = "__odf_old"
_GROUP_BYTES: Final = 16 << 20  # few, as a merge passes over most of them
_STORED: Final = MappingProxyType(
    {
        "compression": "snappy",
        "parquet.writer.version": "v2",  # differences of integers, common beginnings of texts
        "parquet.block.size": str(_GROUP_BYTES),
        "parquet.page.write-checksum.enabled": "false",
    }
)


def history_rows(
    session: "SparkSession", paths: Sequence[Path], schema: pa.Schema, size: StepSize
) -> "DataFrame":
    """Return these columns of a history, null where a file lacks one."""
    if size is StepSize.BIG:
        return normal(from_files(session, paths, schema))
    return normal(from_table(session, pa.concat_tables([slice_table(p, schema) for p in paths])))


def condensed(
    session: "SparkSession",
    views: Views,
    request: CondenseRequest,
    size: StepSize,
    log: Path | None,
) -> tuple[Path, ...]:
    """Write the shorter history of a request and return its files in order."""
    in_force, key = to_arrow(request.in_force), _key(request)
    names = condensed_columns(request, in_force)
    schema = pa.schema([in_force.field(name) for name in names])
    views.add(_OLD, history_rows(session, request.history, schema, size))
    with spark_errors("condense the history", log=log):
        rows = built(session, _text(request, names, key))
        order = [comparable(quoted(name), rows.schema[name].dataType) for name in key]
        return _written(_sorted(rows, order, size), request.into, size)


def _written(rows: "DataFrame", into: Path, size: StepSize) -> tuple[Path, ...]:
    if size is StepSize.BIG:

        def write(frame: "DataFrame") -> None:
            frame.write.options(**_STORED).parquet(to_write(into))

        return tuple(written_parts(rows, write, into, group_bytes=_GROUP_BYTES, millis=True))
    into.mkdir()
    frame = gather(rows, size, into, rows.columns, lambda batches: batches)
    pq.write_table(frame.table, into / "rows.parquet", store_schema=False)
    return (into / "rows.parquet",)


def _key(request: CondenseRequest) -> tuple[str, ...]:
    return key_of(request.merge)


def _text(request: CondenseRequest, names: Sequence[str], key: Sequence[str]) -> str:
    if skips_keys(request.merge):
        whole = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in key)
        return f"SELECT DISTINCT {', '.join(map(quoted, key))} FROM {_OLD} WHERE {whole}"
    columns = ", ".join(map(quoted, names))
    hidden = hidden_prefix((*names, *key))
    state = state_text(key, request.vocab, _OLD, columns, hidden=hidden)
    return f"SELECT {hidden}state.* FROM ({state})"


def _sorted(rows: "DataFrame", order: Sequence[str], size: StepSize) -> "DataFrame":
    expr = functions(rows).expr
    by = [expr(each) for each in order]
    return rows.sortWithinPartitions(*by) if size is StepSize.SMALL else rows.orderBy(*by)


_MOST_ROWS: Final = 2_000_000  # new rows whose keys are sent to all tasks
_MOST_BYTES: Final = 64 << 20  # of texts in these keys
_LONGEST_BOUND: Final = 200
_ORDERED: Final = frozenset({"byte", "short", "integer", "long", "date", "string", "decimal"})
_FIXED: Final = frozenset({*_ORDERED, "boolean", "float", "double", "timestamp"}) - {"string"}
_TEXTS: Final = frozenset({"string", "binary"})
_SETTINGS: Final = MappingProxyType(
    {
        # the size of a file says little about its rows: only what was counted is sent to all
        BROADCAST: "-1",
        "spark.sql.optimizer.disableHints": "false",
        "spark.sql.broadcastTimeout": "86400",
    }
)


def joins(session: "SparkSession") -> AbstractContextManager[None]:
    """Let joins be done as the statements within say; queries of users are read before."""
    return with_settings(session, _SETTINGS)


def fits_in_memory(paths: Sequence[Path]) -> bool:
    """Tell whether the rows of files by `narrowed_history` are few enough for all tasks."""
    footers = [pq.read_metadata(path) for path in paths]
    groups = [each.row_group(number) for each in footers for number in range(each.num_row_groups)]
    rows: int = sum(group.num_rows for group in groups)
    size: int = sum(group.total_byte_size for group in groups)
    return rows <= _MOST_ROWS and size <= _MOST_BYTES


def stored_once(frame: "DataFrame", staging: Path) -> tuple["DataFrame", Frame]:
    """Return the rows as files that can be read several times, where they are costly to make.

    Objects are there as long as the frame of them is.
    """
    session, objects = frame.sparkSession, objects_of(frame.sparkSession)
    if objects is not None:
        parts = objects.left(frame, _GROUP_BYTES)
        rows = frame_of(session, [each.stored for each in parts], frame.schema)
        return rows, Frame(schema=schema_of(frame), parts=parts)
    folder = staging / f"new-{uuid4().hex}"

    def write(rows: "DataFrame") -> None:
        with in_all_digits(session):
            rows.write.option("compression", "snappy").parquet(to_write(folder))

    paths = written_parts(frame, write, folder, group_bytes=_GROUP_BYTES)
    return session.read.schema(frame.schema).parquet(to_read(folder)), Frame.at(*paths)


def narrowing(
    session: "SparkSession", new: str, key: Sequence[str], kinds: Mapping[str, Any]
) -> Narrowing | None:
    """Look at the keys of the new rows; return None if they are too many, or of unknown size."""
    names = {name: kinds[name].typeName() for name in key}
    if not set(names.values()) <= _FIXED | _TEXTS:
        return None
    texts = [f"octet_length({quoted(n)})" for n, kind in names.items() if kind in _TEXTS]
    size = " + ".join(f"coalesce({each}, 0)" for each in texts) or "0"
    first = quoted(key[0])
    if names[key[0]] not in _ORDERED:
        first = "CAST(NULL AS STRING)"
    found = built(
        session,
        f"SELECT count(*) AS rows, coalesce(sum({size}), 0) AS size, "
        f"CAST(min({first}) AS STRING) AS low, CAST(max({first}) AS STRING) AS high FROM {new}",
    ).toArrow()
    (seen,) = found.to_pylist()
    if seen["rows"] > _MOST_ROWS or seen["size"] > _MOST_BYTES:
        return None
    kind = kinds[key[0]].simpleString()
    low, high = (_bound(seen[end], kind) for end in ("low", "high"))
    return Narrowing(low, high) if low and high else Narrowing(None, None)


def _bound(value: str | None, kind: str) -> str | None:
    if value is None or len(value) > _LONGEST_BOUND:
        return None
    return f"CAST({literal(value)} AS {kind})"
