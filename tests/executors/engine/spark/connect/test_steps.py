"""Steps on a server give what they give here: slices, hashes, errors; and leave nothing there."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.engine.spark.admission import RefusedPlanError, admitted
from odfbuild.executors.engine.spark.cluster.driver import (
    analysed_text,
    begin_step,
    built,
    end_step,
    is_deterministic,
    view_rows,
)
from odfbuild.executors.engine.spark.cluster.executors import ClusterLostError
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.settings import GUARDED, PINNED, StepSize
from tests.executors.engine.spark.building import built_on
from tests.executors.engine.spark.connect.server import TOKEN, ConnectServer
from tests.hostile.attacks import COMMANDS, PROGRAMS, READS
from tests.hostile.test_sql import TABLE, refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = 7_000
EACH = 4  # of the hostile queries, one of so many: the slow tests have all


def lay(folder: Path) -> Path:
    """Put the same source into a folder."""
    source = folder / "data" / "rows.csv"
    source.parent.mkdir(parents=True)
    drawn = random.Random(5)
    lines = [
        f"2024-01-{drawn.randint(1, 28):02} 00:00:{drawn.randint(0, 59):02},k{row},{row}"
        for row in range(ROWS)
    ]
    source.write_text("\n".join(["t,k,v", *lines, ""]), "utf-8")
    return folder


@pytest.mark.parametrize("large", [False, True], ids=["few rows", "many rows"])
def test_slices_are_those_of_this_machine(
    remote: SparkEngine,
    engine: SparkEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    large: bool,
) -> None:
    for each in (remote, engine) if large else ():
        monkeypatch.setattr(each, "_limit", -1)
    here = built_on(engine, lay(tmp_path / "here"))
    there = built_on(remote, lay(tmp_path / "there"))
    assert len(here["src"]) == 3
    assert len(here["out"]) == 1
    assert there == here


@pytest.fixture
def table(session: "SparkSession") -> "Iterator[SparkSession]":
    session.createDataFrame(TABLE).createOrReplaceTempView("t")
    yield session
    session.catalog.dropTempView("t")


@pytest.mark.holds("sql-server")
@pytest.mark.parametrize(
    "query",
    [
        pytest.param(each, marks=() if at % EACH == 0 else pytest.mark.slow)
        for at, each in enumerate([*PROGRAMS, *READS, *COMMANDS])
    ],
)
def test_a_hostile_query_does_nothing_there(
    query: str, table: "SparkSession", tmp_path: Path
) -> None:
    said = refused(table, query.replace("{mark}", str(tmp_path / "mark")))
    assert "root:" not in said
    assert not (tmp_path / "mark").exists()
    assert [each.name for each in table.catalog.listTables()] == ["t"]
    assert table.conf.get("spark.sql.variable.substitute") == "false"


@pytest.mark.holds("sql-server")
def test_tables_of_the_server_are_no_inputs(table: "SparkSession") -> None:
    table.sql("create table theirs using parquet as select 1 as secret")
    try:
        with pytest.raises(RefusedPlanError, match="LogicalRelation"):
            admitted(table, "select secret from theirs")
        with pytest.raises(RefusedPlanError):
            admitted(table, "select secret from default.theirs")
    finally:
        table.sql("drop table theirs")


def test_a_time_without_a_date_is_none_there_either(table: "SparkSession") -> None:
    query = "select cast(concat('12:3', x) as timestamp) as u from t"
    with pytest.raises(PySparkException, match="no date: 12:31"):
        admitted(table, query).toArrow()


def test_a_frame_is_what_its_query_was(table: "SparkSession") -> None:
    """Names of views in it mean what they meant when it was made."""
    begin_step(table)
    frames = [
        admitted(table, "select x from t"),
        built(table, "SELECT x FROM t"),
        view_rows(table, "t"),
    ]
    table.createDataFrame(pa.table({"x": [7], "s": ["y"]})).createOrReplaceTempView("t")
    assert [each.toArrow()["x"].to_pylist() for each in frames] == [[1, 2]] * 3
    assert built(table, "SELECT x FROM t").toArrow()["x"].to_pylist() == [7]
    end_step(table)
    assert [each.name for each in table.catalog.listTables()] == ["t"]


def test_plans_are_read_as_here(table: "SparkSession") -> None:
    begin_step(table)
    frame = admitted(table, "select x from t")
    assert is_deterministic(frame)
    assert "LocalRelation" in analysed_text(frame)
    assert not is_deterministic(frame.selectExpr("monotonically_increasing_id() AS n"))
    end_step(table)


def test_settings_are_in_force_in_each_session(remote: SparkEngine) -> None:
    for size in StepSize:
        session = remote._sessions.session(size)
        for name, value in {**PINNED, **GUARDED}.items():
            assert session.conf.get(name) == value


def test_errors_name_the_place_in_the_query(remote: SparkEngine, tmp_path: Path) -> None:
    with pytest.raises(InvalidQueryError, match=r"`c`.*`v`\] \(line 1, column 25\)"):
        built_on(remote, lay(tmp_path), "select t as event_time, c from src")


def test_a_session_is_released_when_its_engine_closes(
    server: ConnectServer, token_file: Path, tmp_path: Path
) -> None:
    from pyspark.sql.connect.session import SparkSession

    with SparkEngine(tmp_path, master=server.address) as engine:
        session: Any = engine._sessions.session(StepSize.SMALL)
        assert session.range(1).count() == 1
        client = session.client
    assert token_file.exists()
    assert client.is_closed
    port = server.address.rpartition(":")[2]
    again: Any = SparkSession(
        f"sc://localhost:{port}/;token={TOKEN};user_id=odfbuild;session_id={client._session_id}"
    )
    with pytest.raises(PySparkException, match="SESSION_CLOSED"):
        again.range(1).count()
    again.client.close()


def test_a_session_that_the_server_gave_up_is_lost_and_the_next_step_has_another(
    server: ConnectServer, token_file: Path, tmp_path: Path
) -> None:
    assert token_file.exists()
    with SparkEngine(tmp_path, master=server.address) as engine:

        def counted() -> int:
            with engine._views("count", StepSize.SMALL, 0) as (session, _):
                return int(session.range(3).count())

        assert counted() == 3
        given: Any = engine._sessions.session(StepSize.SMALL)
        given.client.release_session()
        with pytest.raises(ClusterLostError, match="Spark failed to count"):
            counted()
        assert counted() == 3
