"""The floor that a Ledger is measured against: the rows of a CSV file whose key no slice has."""

import sys

from pyspark.sql import SparkSession

__all__ = ["main"]

_SCHEMA = "time TIMESTAMP, id BIGINT, amount DOUBLE"


def main(source: str, slices: str) -> None:
    """Anti-join one CSV file with the key column of Parquet files, with a default local session."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "4g")
        .getOrCreate()
    )
    rows = spark.read.csv(source, schema=_SCHEMA, header=True)
    keys = spark.read.option("pathGlobFilter", "*").parquet(slices).select("id")
    found = rows.join(keys, "id", "left_anti").orderBy("time")
    found.coalesce(1).write.mode("overwrite").parquet(f"{source}.bare")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
