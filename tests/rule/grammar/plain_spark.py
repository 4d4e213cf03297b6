"""Plain batch SQL in Spark, in a process of its own that knows of nothing else.

Each line of standard input is a JSON object: `states`, each with `views` (names and the queries
that they stand for, in order) and the `query`.  For each there comes a line: `rows`, a list for
each state of rows in the form of `plain`, or `error`.  Arguments are options of Java.
"""

import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STATE = "__state"
_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "OFF",
}


def plain(value: Any) -> Any:
    """Return a value as JSON has it: a time as milliseconds, a struct as pairs, one zero."""
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(milliseconds=1)
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else str(value.normalize())
    if isinstance(value, dict):
        return [[name, plain(each)] for name, each in value.items()]
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


def answers(session: "SparkSession", lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Yield the answer to each request."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    for line in lines:
        try:
            yield {"rows": _rows(session, json.loads(line)["states"])}
        except PySparkException as error:
            yield {"error": f"{error.getCondition()}: {str(error)[:500]}"}
        except Py4JJavaError as error:  # of a job that failed as PySpark knows no class for
            yield {"error": f"None: {str(error.java_exception)[:500]}"}


def _rows(session: "SparkSession", states: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    from pyspark.sql.functions import lit

    frames: list[DataFrame] = []
    for state in states:
        for name, query in state["views"]:
            session.sql(query).createOrReplaceTempView(name)
        frames.append(session.sql(state["query"]).withColumn(_STATE, lit(len(frames))))
    found: list[list[dict[str, Any]]] = [[] for _ in frames]
    frame = reduce(lambda one, other: one.unionAll(other), frames)
    for row in _listed(frame):
        state = row.pop(_STATE)
        found[state].append({name: plain(value) for name, value in row.items()})
    return found


def _listed(frame: "DataFrame") -> list[dict[str, Any]]:
    import pyarrow as pa

    try:
        found: list[dict[str, Any]] = frame.toArrow().to_pylist()
    except pa.ArrowInvalid:  # Spark calls the field of a struct never null that is null at times
        found = [row for batch in frame._collect_as_arrow() for row in batch.to_pylist()]
    return found


def main() -> None:
    from pyspark.sql import SparkSession

    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a JVM prints is no answer
    builder = SparkSession.builder.master("local[1]").appName("plain")
    builder = builder.config("spark.driver.extraJavaOptions", " ".join([_JAVA, *sys.argv[1:]]))
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    for answer in answers(session, sys.stdin):
        said.write(json.dumps(answer) + "\n")
        said.flush()
    session.stop()


if __name__ == "__main__":
    main()
