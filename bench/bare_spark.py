"""The floor that an ingest is measured against: read typed rows, sort, write one Parquet file.

Run as `python bare_spark.py SOURCE TARGET`; SOURCE is .csv or .ndjson.  The seconds from the
session being ready to the end of the write go to the file that the environment names.
"""

import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

__all__ = ["main"]

_SCHEMA = "time TIMESTAMP, id BIGINT, city STRING, amount DOUBLE, note STRING"


def main(source: str, target: str) -> None:
    """Turn one text file into one Parquet file with a default local session."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "4g")
        .getOrCreate()
    )
    started = time.perf_counter()
    if source.endswith(".csv"):
        rows = spark.read.csv(source, schema=_SCHEMA, header=True)
    else:
        rows = spark.read.json(source, schema=_SCHEMA)
    rows.orderBy("time").coalesce(1).write.mode("overwrite").parquet(target)
    if said := os.environ.get("BENCH_WORK"):
        Path(said).write_text(str(time.perf_counter() - started))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
