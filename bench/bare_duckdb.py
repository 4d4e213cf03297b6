"""The floor of an ingest without Java: read typed rows, sort, write one Parquet file with DuckDB.

Run as `python bare_duckdb.py SOURCE TARGET`; SOURCE is CSV.
"""

import sys

import duckdb

__all__ = ["main"]

_COLUMNS = (
    "{'time': 'TIMESTAMPTZ', 'id': 'BIGINT', 'city': 'VARCHAR', 'amount': 'DOUBLE', "
    "'note': 'VARCHAR'}"
)


def main(source: str, target: str) -> None:
    """Turn one CSV file into one Parquet file, in the order of time, then of the file."""
    rows = f"read_csv('{source}', header = true, columns = {_COLUMNS})"
    query = f"from {rows} order by time, id"
    duckdb.sql(f"copy ({query}) to '{target}' (format parquet, compression snappy)")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
