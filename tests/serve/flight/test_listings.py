"""Listings over FlightSQL: their columns, patterns, and what is shown to whom."""

import re
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.host.protobuf import field, varint
from odfbuild.serve.flight.listings import fits
from tests.serve.flight.flight_client import FlightSqlClient, calling, wrapped
from tests.serve.query.test_routes import FIRST, built
from tests.support.servers.datasets import DatasetServer, serving_datasets


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatasetServer]:
    folder = tmp_path_factory.mktemp("server")
    built(folder, FIRST)
    with serving_datasets(folder, "--flight", "0") as found:
        yield found


@pytest.fixture(scope="module")
def everything(server: DatasetServer) -> Iterator[FlightSqlClient]:
    with calling(server.flight or "", server.token("read")) as found:
        yield found


def tables(client: FlightSqlClient, **given: str | bool) -> list[str]:
    """Return the names of the tables that fit, in their order."""
    numbers = {"catalog": 1, "schema": 2, "name": 3, "kind": 4, "columns": 5}
    parts = [
        field(numbers[name], value if isinstance(value, bool) else value.encode())
        for name, value in given.items()
    ]
    found = client.rows(wrapped("CommandGetTables", b"".join(parts)))
    names: list[str] = found.column("table_name").to_pylist()
    return names


def test_tables_are_those_that_fit(everything: FlightSqlClient) -> None:
    both = ["secret", "team.cities"]
    assert tables(everything) == both
    assert tables(everything, columns=True) == both
    assert tables(everything, catalog="odf", schema="o_f", name="%") == both
    assert tables(everything, name="team.%", kind="TABLE") == ["team.cities"]
    assert tables(everything, name="s_cret") == ["secret"]
    assert tables(everything, kind="VIEW") == []
    assert tables(everything, catalog="other") == []
    assert tables(everything, catalog="") == []
    assert tables(everything, schema="") == []


def test_columns_of_tables_are_those_of_their_rows(everything: FlightSqlClient) -> None:
    found = everything.rows(wrapped("CommandGetTables", field(5, 1)))
    for row in found.to_pylist():
        columns = pa.ipc.read_schema(pa.py_buffer(row["table_schema"]))
        rows = everything.info(
            wrapped(
                "CommandStatementQuery", field(1, f'select * from "{row["table_name"]}"'.encode())
            )
        ).schema
        assert columns.names == rows.names
        assert columns.types == rows.types


def test_who_may_not_read_a_dataset_is_not_told_of_it(server: DatasetServer) -> None:
    with calling(server.flight or "", server.token("read", datasets="team.*")) as client:
        assert tables(client) == ["team.cities"]
        assert tables(client, name="secret", columns=True) == []


def test_each_listing_has_the_columns_of_the_protocol(everything: FlightSqlClient) -> None:
    """`rows` compares what is announced with what comes."""
    catalogs = everything.rows(wrapped("CommandGetCatalogs"))
    assert catalogs.to_pylist() == [{"catalog_name": "odf"}]
    schemas = everything.rows(wrapped("CommandGetDbSchemas"))
    assert schemas.to_pylist() == [{"catalog_name": "odf", "db_schema_name": "odf"}]
    assert everything.rows(wrapped("CommandGetDbSchemas", field(2, b"x%"))).num_rows == 0
    assert everything.rows(wrapped("CommandGetTableTypes")).to_pylist() == [{"table_type": "TABLE"}]
    table = field(3, b"secret")
    keys = everything.rows(wrapped("CommandGetPrimaryKeys", table))
    assert keys.num_rows == 0
    assert keys.schema.names[-2:] == ["key_name", "key_sequence"]
    for name in ("CommandGetExportedKeys", "CommandGetImportedKeys", "CommandGetCrossReference"):
        keys = everything.rows(wrapped(name, table))
        assert keys.num_rows == 0
        assert keys.schema.field("update_rule").type == pa.uint8()
        assert len(keys.schema) == 13


def test_facts_of_the_server_are_those_that_are_asked_for(everything: FlightSqlClient) -> None:
    whole = everything.rows(wrapped("CommandGetSqlInfo"))
    facts = dict(zip(*whole.to_pydict().values(), strict=True))
    assert facts[0] == "odfbuild"
    assert facts[3] is True
    assert facts[504] == '"'
    for asked in (field(1, varint(504) + varint(3)), field(1, 504) + field(1, 3)):
        some = everything.rows(wrapped("CommandGetSqlInfo", asked)).to_pydict()
        assert some == {"info_name": [3, 504], "value": [True, '"']}
    assert everything.rows(wrapped("CommandGetSqlInfo", field(1, 77_777))).num_rows == 0


def test_the_schema_of_a_command_is_given_alone(everything: FlightSqlClient) -> None:
    import pyarrow.flight as fl

    for command in (
        wrapped("CommandGetTables"),
        wrapped("CommandStatementQuery", field(1, b'select city from "team.cities"')),
    ):
        descriptor = fl.FlightDescriptor.for_command(command)
        schema = everything.client.get_schema(descriptor, everything.options()).schema
        assert schema == everything.info(command).schema
    handle = everything.prepare("select 1 as x")
    assert everything.info(wrapped("CommandPreparedStatementQuery", field(1, handle))).schema == (
        pa.schema([("x", pa.int64())])
    )


@given(st.text("ab%_", max_size=8), st.text("ab", max_size=8))
def test_a_pattern_fits_as_like_has_it(pattern: str, text: str) -> None:
    model = pattern.replace("%", ".*").replace("_", ".")
    assert fits(pattern, text) == (re.fullmatch(model, text) is not None)


def test_a_pattern_costs_no_more_than_its_length_times_that_of_the_text() -> None:
    begun = time.monotonic()
    assert not fits("%a" * 500 + "b", "a" * 1_000)
    assert time.monotonic() - begun < 2
