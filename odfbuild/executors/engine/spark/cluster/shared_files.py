"""Files that executors write, into a shared folder or by way of a store.

In a shared folder they are held against the rows that were written: a part that is not seen here
would be rows that are missing, without an error of Spark.  Folders of a network may take a moment
until they show what is in them.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq

from odfbuild.executors.engine.spark.cluster.driver import functions, has_files_here, observation
from odfbuild.executors.engine.spark.cluster.objects import objects_of
from odfbuild.executors.engine.spark.cluster.probe import ClusterFolderError
from odfbuild.executors.process.interrupt import pause

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PATIENCE: Final = 60.0
"""Seconds until what executors wrote has to be seen here: NFS keeps what it knows of a folder."""

_ROUND: Final = 0.5


def written_parts(
    frame: "DataFrame",
    write: "Callable[[DataFrame], None]",
    folder: Path,
    *,
    group_bytes: int,
    millis: bool = False,
    patience: float = PATIENCE,
) -> list[Path]:
    """Let Spark write a frame into a folder of Parquet files, and return these, in order.

    `write` does so where executors see the folder; else there are row groups of so many bytes, and
    times in milliseconds with `millis`.  Raises ClusterFolderError where executors of a cluster
    wrote rows that are not seen here.
    """
    objects = objects_of(frame.sparkSession)
    if objects is not None:
        return objects.written(frame, folder, group_bytes, millis=millis)
    if has_files_here(frame.sparkSession):
        write(frame)
        return _parts(folder)
    counting, count = observation(frame), functions(frame).expr("count(1) AS rows")
    write(frame.observe(counting, count))
    return seen_parts(folder, int(counting.get["rows"]), patience)


def seen_parts(folder: Path, rows: int, patience: float = PATIENCE) -> list[Path]:
    """Return the Parquet files of a folder once they have so many rows.

    Raises ClusterFolderError where they do not after so many seconds.
    """
    until = time.monotonic() + patience
    while (found := sum(pq.read_metadata(each).num_rows for each in _parts(folder))) != rows:
        if time.monotonic() > until:
            raise ClusterFolderError(
                what=f"executors wrote {rows:,} rows, and {found:,} of them are visible here",
                why=f"they do not all share the folder {folder}",
                fix="mount the folder of the workspace at the same path on every machine of the "
                "cluster, then run again: nothing of the step was written",
            )
        pause(_ROUND)
    return _parts(folder)


def _parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"))
