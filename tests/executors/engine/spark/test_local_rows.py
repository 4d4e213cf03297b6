"""Rows that are told without a job are those that a job gives, of every type, errors included."""

import socket
from datetime import date, time
from decimal import Decimal

import pyarrow as pa
import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.frames import local_table
from odfbuild.executors.engine.spark.jvm.gateway import Prompt
from odfbuild.executors.engine.spark.settings import StepSize

pytestmark = pytest.mark.spark

ROWS = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int32()),
        "d": pa.array([Decimal("1.10"), None, Decimal("-2.20")], pa.decimal128(20, 2)),
        "f": [1.5, -0.0, None],
        "s": ["a", None, "ü"],
        "b": [b"x", None, b""],
        "day": [date(2020, 1, 1), None, date(1500, 1, 1)],
        "at": pa.array([0, None, -5], pa.timestamp("us", "UTC")),
        "l": [[1, 2], None, []],
        "m": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "st": [{"x": 1, "y": "z"}, None, {"x": None, "y": "q"}],
        "t": pa.array([time(1, 2, 3), None, time(0)], pa.time64("us")),
    }
)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM told",
        "SELECT i + 1 AS i, upper(s) AS s, st.x, element_at(m, 'a') AS a FROM told WHERE i > 0",
        "SELECT named_struct('a', i, 'b', array(d, d * 2)) AS n, CAST(day AS TIMESTAMP) FROM told",
        "SELECT s, at FROM told WHERE i > 100",
    ],
)
def test_what_is_told_without_a_job_is_what_a_job_gives(engine: SparkEngine, query: str) -> None:
    session = engine._sessions.session(StepSize.SMALL)
    session.createDataFrame(ROWS).createOrReplaceTempView("told")
    try:
        told = local_table(session.sql(query))
        assert told is not None
        given = session.sql(query).toArrow()
        assert told.schema == given.schema
        assert told.equals(given)
    finally:
        session.catalog.dropTempView("told")


def test_what_needs_a_job_is_not_told(engine: SparkEngine) -> None:
    session = engine._sessions.session(StepSize.SMALL)
    assert local_table(session.sql("SELECT count(*) AS n FROM range(3) GROUP BY id")) is None


def test_long_answers_come_whole_and_without_delay(engine: SparkEngine) -> None:
    session = engine._sessions.session(StepSize.SMALL)
    rows = pa.table({"n": range(30_000), "s": [f"{n * 7919:x}" for n in range(30_000)]})
    assert local_table(session.createDataFrame(rows)) == rows
    connection = session.sparkContext._gateway._gateway_client.get_thread_connection()
    assert isinstance(connection.stream.raw, Prompt) or not hasattr(socket, "TCP_QUICKACK")
