"""Several sources as one: each row knows which piece it came with, and pieces come in order.

The number of the piece is carried through the user's query as transforms carry positions, and rows
of a piece never change places with those of another.
"""

# ruff: noqa: S608 - the texts are made of quoted names only
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.frames import Frame
from odfbuild.executors.spark.admission import built
from odfbuild.executors.spark.sqltypes import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["PIECE", "first_of_keys", "joined", "parted"]

PIECE = "__odf_piece"


def joined(sources: Sequence[Frame]) -> Frame:
    """Return the rows of tables of one schema, behind each other, with the number of each."""
    numbered = [
        source.table.append_column(PIECE, pa.repeat(pa.scalar(number, pa.int32()), source.rows))
        for number, source in enumerate(sources)
        if source.table is not None
    ]
    return Frame.of(pa.concat_tables(numbered))


def parted(frame: Frame, count: int) -> tuple[Frame, ...]:
    """Return the rows of each piece as a frame of its own, without the numbers."""
    table = frame.table
    if table is None:
        table = pa.Table.from_batches(frame.batches(), schema=frame.schema)
    numbers, rows = table.column(PIECE), table.drop_columns([PIECE])
    sizes = dict.fromkeys(range(count), 0)
    for each in pc.value_counts(numbers).to_pylist():
        sizes[each["values"]] = each["counts"]
    frames, start = [], 0
    for number in range(count):
        frames.append(Frame.of(rows.slice(start, sizes[number])))
        start += sizes[number]
    return tuple(frames)


def first_of_keys(
    session: "SparkSession", new: "DataFrame", name: str, key: Sequence[str]
) -> "DataFrame":
    """Return the rows of the view `name` whose key is in no earlier piece.

    Within one piece a key may come twice, as it may within one source; a null matches nothing.
    """
    keys = ", ".join(map(quoted, key))
    missing = " OR ".join(f"{quoted(part)} IS NULL" for part in key)
    first = f"min({PIECE}) OVER (PARTITION BY {keys})"
    columns = ", ".join(map(quoted, new.columns))
    return built(
        session,
        f"SELECT {columns} FROM (SELECT *, {first} AS __odf_first FROM {name}) "
        f"WHERE __odf_first = {PIECE} OR {missing}",
    )
