"""The floor that an ingest is measured against: read typed CSV, sort, write one Parquet file."""

import sys

from pyspark.sql import SparkSession

__all__ = ["main"]

_SCHEMA = "time TIMESTAMP, id BIGINT, city STRING, amount DOUBLE, note STRING"


def main(source: str, target: str) -> None:
    """Turn one CSV file into one Parquet file with a default local session."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "4g")
        .getOrCreate()
    )
    rows = spark.read.csv(source, schema=_SCHEMA, header=True)
    rows.orderBy("time").coalesce(1).write.mode("overwrite").parquet(target)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
