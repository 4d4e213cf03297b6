"""FlightSQL with the driver of Apache Arrow, as tools of business intelligence use it."""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import ProgrammingError

from tests.executors.engine.spark.connect.server import CLIENT
from tests.serve.conftest import AT_ONCE
from tests.serve.query.test_routes import FIRST, LIMITS, MANY, SECOND, built
from tests.support.servers.datasets import DatasetServer, serving_datasets


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, store_url: str | None
) -> Iterator[DatasetServer]:
    folder = tmp_path_factory.mktemp("server")
    built(folder, FIRST, workspace=store_url or "workspace")
    limits = {**LIMITS, "answer": 30.0, **AT_ONCE}
    with serving_datasets(folder, "--flight", "0", limits=limits, store=store_url) as found:
        yield found


@pytest.fixture(scope="module")
def reader(server: DatasetServer) -> str:
    return server.token("read", datasets="team.*")


@contextmanager
def connected(server: DatasetServer, **options: str) -> Iterator[Any]:
    assert server.flight is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there are no transactions, so each query is its own
        connection = dbapi.connect(server.flight, db_kwargs=options)
    with connection:
        yield connection


def bearer(token: str) -> dict[str, str]:
    return {"adbc.flight.sql.authorization_header": f"Bearer {token}"}


_OF_PANDAS = """
import json, sys, warnings
import pandas
from adbc_driver_flightsql import dbapi

warnings.simplefilter("ignore")  # no transactions; pandas asks for SQLAlchemy
address, authorization, query = sys.argv[1:]
key = "adbc.flight.sql.authorization_header"
with dbapi.connect(address, db_kwargs={key: authorization}) as connection:
    with connection.cursor() as cursor:
        cursor.execute(query)
        found = cursor.fetch_df()
    read = pandas.read_sql(query, connection)
pandas.testing.assert_frame_equal(read, found, check_dtype=False)
kinds = "".join(each.kind for each in found.dtypes)
print(json.dumps([list(found.columns), kinds, int(found["people"].sum())]))
"""


def test_a_frame_of_pandas_has_the_rows_and_their_types(server: DatasetServer, reader: str) -> None:
    assert server.flight is not None
    query = 'select "offset", people, area from "team.cities" order by "offset"'
    authorization = f"Bearer {reader}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", _OF_PANDAS, server.flight, authorization, query],
        env={**os.environ, "PYTHONPATH": str(CLIENT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["offset", "people", "area"], "iif", 300]


def test_rows_come_through_the_driver_as_arrow_and_as_python(
    server: DatasetServer, reader: str
) -> None:
    with connected(server, **bearer(reader)) as connection, connection.cursor() as cursor:
        cursor.execute('select "offset", city, people, area from "team.cities" order by "offset"')
        found = cursor.fetch_arrow_table()
        assert found.schema.types == [pa.int64(), pa.string(), pa.int64(), pa.float64()]
        assert found.to_pylist() == [
            {"offset": 0, "city": "A", "people": 100, "area": 1.5},
            {"offset": 1, "city": "B", "people": 200, "area": None},
        ]
        assert duckdb.sql("select sum(people) from found").fetchall() == [(300,)]
        cursor.execute('select sum(people) as n from "odf"."odf"."team.cities"')
        assert cursor.fetchall() == [(300,)]


def test_a_token_is_given_as_the_password_of_anybody(server: DatasetServer, reader: str) -> None:
    with (
        connected(server, username="ana", password=reader) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute('select count(*) as n from "team.cities"')
        assert cursor.fetchall() == [(2,)]
    with (
        pytest.raises(ProgrammingError, match=r"UNAUTHENTICATED.*not known"),
        connected(server, username="ana", password="wrong"),
    ):
        pass


def test_the_driver_lists_what_may_be_read(server: DatasetServer, reader: str) -> None:
    with connected(server, **bearer(reader)) as connection:
        info = connection.adbc_get_info()
        assert info["vendor_name"] == "odfbuild"
        assert connection.adbc_get_table_types() == ["TABLE"]
        (catalog,) = connection.adbc_get_objects(depth="all").read_all().to_pylist()
        (schema,) = catalog["catalog_db_schemas"]
        (table,) = schema["db_schema_tables"]
        assert (catalog["catalog_name"], schema["db_schema_name"]) == ("odf", "odf")
        assert table["table_name"] == "team.cities"
        columns = connection.adbc_get_table_schema("team.cities")
        assert [each["column_name"] for each in table["table_columns"]] == columns.names
        assert columns.names == ["offset", "op", "system_time", "t", "city", "people", "area"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("select * from secret", "NOT_FOUND.*There is no dataset secret"),
        ('select nothing from "team.cities"', "INVALID_ARGUMENT.*invalid-query.*nothing.*fix:"),
        ("select * frm t", "INVALID_ARGUMENT.*line 1, column"),
        ("drop table t", "INVALID_ARGUMENT.*not-a-select"),
        ("select * from read_parquet('/etc/passwd')", "INVALID_ARGUMENT.*function"),
        ('select ? from "team.cities"', "INVALID_ARGUMENT.*no-parameters.*fix: write the values"),
        ("select '" + "x" * (1 << 20) + "'", "RESOURCE_EXHAUSTED|too-long"),
    ],
)
def test_what_is_wrong_with_a_query_is_said(
    server: DatasetServer, reader: str, query: str, words: str
) -> None:
    with (
        connected(server, **bearer(reader)) as connection,
        connection.cursor() as cursor,
        pytest.raises(Exception, match=words),
    ):
        cursor.execute(query)


def test_parameters_and_changes_are_refused(server: DatasetServer, reader: str) -> None:
    with connected(server, **bearer(reader)) as connection, connection.cursor() as cursor:
        with pytest.raises(Exception, match="parameters"):
            cursor.execute('select * from "team.cities" where people > ?', [1])
        with pytest.raises(Exception, match=r"not-implemented.*only read"):
            cursor.adbc_ingest("mine", pa.table({"a": [1]}), mode="create")


def test_a_statement_that_was_prepared_reads_the_rows_of_now(
    server: DatasetServer, reader: str
) -> None:
    query = "select count(*) as n from \"team.cities\" where city <> 'B'"
    with connected(server, **bearer(reader)) as connection, connection.cursor() as cursor:
        cursor.adbc_prepare(query)
        cursor.execute(query)
        assert cursor.fetchall() == [(1,)]
        built(server.project, FIRST, SECOND, workspace=server.store or "workspace")
        cursor.execute(query)
        assert cursor.fetchall() == [(2,)]
    built(server.project, FIRST, SECOND, workspace=server.store or "workspace")


def test_a_client_that_is_killed_leaves_the_server_to_others(
    server: DatasetServer, reader: str
) -> None:
    program = (
        "import sys, warnings; warnings.simplefilter('ignore')\n"
        "from adbc_driver_flightsql import dbapi\n"
        "key = 'adbc.flight.sql.authorization_header'\n"
        "with dbapi.connect(sys.argv[1], db_kwargs={key: sys.argv[2]}) as c:\n"
        "    cursor = c.cursor(); print('asks', flush=True); cursor.execute(sys.argv[3])\n"
        "    cursor.fetchall()\n"
    )
    asked = f"select count(*) as n from {MANY}"
    for _ in range(3):
        client = subprocess.Popen(
            [sys.executable, "-c", program, server.flight or "", f"Bearer {reader}", asked],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ},
        )
        assert client.stdout is not None
        assert client.stdout.readline() == b"asks\n"
        with pytest.raises(subprocess.TimeoutExpired):
            client.wait(3)
        client.kill()
        client.wait()
        client.stdout.close()
    with connected(server, **bearer(reader)) as connection, connection.cursor() as cursor:
        cursor.execute("select 1 as x")
        assert cursor.fetchall() == [(1,)]


def test_a_dataset_without_rows_is_listed_and_refused(tmp_path: Path) -> None:
    built(tmp_path)
    with serving_datasets(tmp_path, "--flight", "0", "--anonymous-read") as found:
        with connected(found) as connection, connection.cursor() as cursor:
            assert connection.adbc_get_table_schema("secret").names == []
            with pytest.raises(ProgrammingError, match="no rows"):
                cursor.execute("select * from secret")
        assert found.stop() == 0
