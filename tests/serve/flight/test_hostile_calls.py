"""Bytes that are no FlightSQL: each is refused, and the server answers whoever comes next."""

import gzip
import random
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pyarrow.flight as fl
import pytest

from odfbuild.host.protobuf import field
from odfbuild.serve.flight.messages import SERVICE
from odfbuild.serve.flight.statement import Statement
from odfbuild.serve.query.question import QueryQuestion
from tests.serve.flight.flight_client import FlightSqlClient, calling, statement, wrapped
from tests.serve.query.test_routes import FIRST, LIMITS, built
from tests.support.servers.datasets import DatasetServer, serving_datasets
from tests.support.servers.ftp import certificate

CALLS = (
    *("Handshake", "ListFlights", "GetFlightInfo", "PollFlightInfo", "GetSchema"),
    *("DoGet", "DoPut", "DoExchange", "DoAction", "ListActions"),
)
STATUSES = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.OK}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatasetServer]:
    folder = tmp_path_factory.mktemp("server")
    built(folder, FIRST)
    limits = {**LIMITS, "request": 3.0}
    with serving_datasets(folder, "--flight", "0", limits=limits) as found:
        yield found
        assert found.process.poll() is None
        log = (folder / "log").read_text()
        assert "a call failed" not in log, log[-3_000:]


@pytest.fixture
def client(server: DatasetServer) -> Iterator[FlightSqlClient]:
    """A caller for whom the server still is there at the end of each test."""
    with calling(server.flight or "", server.token("read", datasets="team.*")) as found:
        yield found
        assert found.ask('select count(*) as n from "team.cities"') == [{"n": 2}]


@pytest.fixture(scope="module")
def channel(server: DatasetServer) -> Iterator[Any]:
    address = (server.flight or "").removeprefix("grpc://").rstrip("/")
    with grpc.insecure_channel(address) as found:
        yield found


def status(
    channel: Any, token: str | None, name: str, *messages: bytes, **more: Any
) -> tuple[grpc.StatusCode, str]:
    """Return how a call of some messages ends, and what is said."""
    call = channel.stream_stream(f"/{SERVICE}/{name}")
    metadata = [] if token is None else [("authorization", f"Bearer {token}")]
    try:
        for _ in call(iter(messages), metadata=metadata, timeout=30, **more):
            pass
    except grpc.RpcError as error:
        return error.code(), error.details()
    return grpc.StatusCode.OK, ""


def mutated(chance: random.Random, data: bytes) -> bytes:
    """Return bytes that are nearly others: cut, longer, or changed at some places."""
    found = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(found) + 1)
        match chance.randrange(4):
            case 0:
                del found[at:]
            case 1:
                found[at:at] = chance.randbytes(chance.randrange(1, 9))
            case 2:
                found[at : at + 1] = bytes([chance.randrange(256)])
            case _:
                found[at:at] = found[:at]
    return bytes(found)


@pytest.mark.holds("serving-flight")
def test_any_bytes_are_refused_and_harm_nobody(
    server: DatasetServer, client: FlightSqlClient, channel: Any
) -> None:
    chance = random.Random(11)
    handle = Statement(QueryQuestion(query="select 1", limit=1_000), b"x").handle()
    commands = [
        statement("select"),
        wrapped("CommandPreparedStatementQuery", field(1, handle)),
        wrapped("TicketStatementQuery", field(1, handle)),
        wrapped("CommandGetTables", field(1, b"odf") + field(3, b"%") + field(5, 1)),
        wrapped("CommandGetSqlInfo", field(1, b"\x01\x02")),
        wrapped("ActionCreatePreparedStatementRequest", field(1, b"select")),
    ]
    found = set()
    for _ in range(600):
        inner = (
            mutated(chance, chance.choice(commands))
            if chance.random() < 0.5
            else chance.choice(commands)
        )
        outer = chance.choice(
            [
                field(1, 2) + field(2, inner),
                field(1, inner),
                field(1, b"CreatePreparedStatement") + field(2, inner),
                chance.randbytes(chance.randrange(60)),
            ]
        )
        message = mutated(chance, outer) if chance.random() < 0.5 else outer
        code, text = status(channel, client.token, chance.choice(CALLS), message)
        assert code in STATUSES or "dataset" in text or "busy" in text, (code, text, message)
        found.add(code)
    assert grpc.StatusCode.INVALID_ARGUMENT in found


@pytest.mark.parametrize("name", CALLS)
def test_a_call_of_no_message_or_of_none_in_time_ends(
    client: FlightSqlClient, channel: Any, name: str
) -> None:
    code, _ = status(channel, client.token, name)
    assert code in STATUSES
    if name in ("Handshake", "ListFlights", "PollFlightInfo", "DoPut", "DoExchange"):
        return

    def never() -> Iterator[bytes]:
        time.sleep(20)
        yield b""

    call = channel.stream_stream(f"/{SERVICE}/{name}")
    begun = time.monotonic()
    answered = call(never(), metadata=[("authorization", f"Bearer {client.token}")])
    with pytest.raises(grpc.RpcError) as caught:
        list(answered)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert time.monotonic() - begun < 15


@pytest.mark.holds("serving-flight")
def test_messages_that_are_too_long_or_compressed_are_refused(
    server: DatasetServer, client: FlightSqlClient, channel: Any
) -> None:
    long = field(1, 2) + field(2, statement("select '" + "x" * (20 << 20) + "'"))
    code, _ = status(channel, client.token, "GetFlightInfo", long)
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    code, text = status(channel, client.token, "GetFlightInfo", b"\x0a\x00" * (1 << 19))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "more than 1,000 values" in text
    bomb = b"\x0a" + b"\x00" * (64 << 20)
    assert len(gzip.compress(bomb)) < 1 << 20
    before = memory(server)
    code, _ = status(
        channel, client.token, "GetFlightInfo", bomb, compression=grpc.Compression.Gzip
    )
    assert code is not grpc.StatusCode.OK
    assert memory(server) - before < 48 << 10


@pytest.mark.holds("serving-flight")
def test_many_large_messages_at_once_take_bounded_memory(
    server: DatasetServer, client: FlightSqlClient, channel: Any
) -> None:
    begin = channel.stream_stream(f"/{SERVICE}/DoGet")
    large = b"\x0a" + bytes((2 << 20) - 8)
    for metadata, most in (([], 48 << 10), ([token_header(client)], 256 << 10)):
        before = memory(server)
        for call in [begin(iter([large]), metadata=metadata) for _ in range(600)]:
            with pytest.raises(grpc.RpcError):
                list(call)
        assert memory(server) - before < most


@pytest.mark.holds("serving-flight")
def test_a_caller_who_sends_nothing_delays_no_other(tmp_path: Path) -> None:
    """More silent calls of one token than may be in arrival at once; another token has answers."""
    built(tmp_path, FIRST)
    count = 'select count(*) as n from "team.cities"'
    limits = {**LIMITS, "request": 120.0}
    ended = threading.Event()

    def never() -> Iterator[bytes]:
        ended.wait(120)
        yield b""

    with serving_datasets(tmp_path, "--flight", "0", limits=limits) as server:
        address = server.flight or ""
        silent = calling(address, server.token("read"))
        other = calling(address, server.token("read", datasets="team.*"))
        place = address.removeprefix("grpc://").rstrip("/")
        with silent as first, other as second, grpc.insecure_channel(place) as channel:
            begin = channel.stream_stream(f"/{SERVICE}/DoGet")
            waiting = [begin(never(), metadata=[token_header(first)]) for _ in range(20)]
            for _ in range(3):
                assert second.ask(count) == [{"n": 2}]
            assert all(call.is_active() for call in waiting)
            for call in waiting:
                call.cancel()
            assert first.ask(count) == [{"n": 2}]
            ended.set()


def token_header(client: FlightSqlClient) -> tuple[str, str]:
    """Return the header that identifies a caller."""
    return "authorization", f"Bearer {client.token}"


def memory(server: DatasetServer) -> int:
    """Return the most memory that the server has had, in KiB."""
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0])


@pytest.mark.holds("serving-flight")
def test_who_connects_and_says_nothing_is_left_in_time(
    server: DatasetServer, client: FlightSqlClient
) -> None:
    host, _, port = (server.flight or "").removeprefix("grpc://").rstrip("/").rpartition(":")
    for said in (b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03"):
        with socket.create_connection((host, int(port)), timeout=20) as opened:
            opened.sendall(said)
            begun = time.monotonic()
            while opened.recv(4_096):
                pass
            assert time.monotonic() - begun < 15


def test_damaged_handles_are_refused(client: FlightSqlClient) -> None:
    def handle_of(query: bytes, rest: bytes, columns: bytes | int = b"") -> bytes:
        return field(1, query) + field(2, rest) + field(3, columns)

    for handle in (
        b"",
        b"\xff",
        field(1, b"select 1"),
        handle_of(b"select 1", b""),
        handle_of(b"select 1", b"[]"),
        handle_of(b"select 1", b"{}", 1),
        handle_of(b"\xff", b"{}"),
        handle_of(b"select 1", b"[" * 100_000),
        handle_of(b"select 1", b'{"columns": 1}'),
        handle_of(b"select 1", b'{"limit": 99999999}'),
        handle_of(b"select 1", b'{"datasets": [{}]}'),
    ):
        ticket = wrapped("TicketStatementQuery", field(1, handle))
        with pytest.raises(Exception, match=r"bad-handle: .*prepare the statement again"):
            client.reader(ticket).read_all()
        with pytest.raises(Exception, match="bad-handle"):
            client.info(wrapped("CommandPreparedStatementQuery", field(1, handle)))
    long = handle_of(b"select '" + b"x" * (1 << 20) + b"'", b"{}")
    with pytest.raises(Exception, match="too-long"):
        client.reader(wrapped("TicketStatementQuery", field(1, long))).read_all()


def test_calls_at_once_are_bounded_and_others_are_answered_after_them(
    server: DatasetServer, client: FlightSqlClient, channel: Any
) -> None:
    ended = threading.Event()

    def never() -> Iterator[bytes]:
        ended.wait(20)
        yield b""

    begin = channel.stream_stream(f"/{SERVICE}/DoGet")
    metadata = [("authorization", f"Bearer {client.token}")]
    calls = [begin(never(), metadata=metadata) for _ in range(150)]
    codes = set()
    for call in calls:
        with pytest.raises(grpc.RpcError) as caught:
            list(call)
        codes.add(caught.value.code())
    ended.set()
    assert codes <= {
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAVAILABLE,  # a stream that was refused, for the client to try again
    }
    assert client.ask("select 1 as x") == [{"x": 1}]


def test_a_second_signal_ends_a_server_with_a_reader_at_once(tmp_path: Path) -> None:
    built(tmp_path, FIRST)
    query = "select n, repeat('x', 300) as s from (select unnest(range(0, 90000)) as n)"
    with (
        serving_datasets(tmp_path, "--flight", "0", "--anonymous-read") as server,
        calling(server.flight or "") as client,
    ):
        reader = client.reader(client.ticket(query))
        assert reader.read_chunk().data.num_rows > 0
        server.process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(2)
        server.process.terminate()
        assert server.process.wait(4) == 0


def test_a_port_that_is_in_use_is_named(tmp_path: Path) -> None:
    built(tmp_path, FIRST)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AssertionError, match=rf"error\[unusable-port\].*port {port}"):  # noqa: SIM117
            with serving_datasets(tmp_path, "--flight", str(port)):
                pass


def test_a_damaged_dataset_is_named_by_a_code_and_by_no_path(tmp_path: Path) -> None:
    built(tmp_path, FIRST)
    with (
        serving_datasets(tmp_path, "--flight", "0", "--anonymous-read") as server,
        calling(server.flight or "") as client,
    ):
        datasets = [*(server.folder / "datasets").iterdir()]
        for each in datasets:
            head = each / "refs" / "head"
            head.chmod(0o600)
            head.write_bytes(b"damaged")
        with pytest.raises(fl.FlightInternalError) as caught:
            client.ask('select 1 from "team.cities"')
        assert "corrupt-head" in str(caught.value)
        assert str(tmp_path) not in str(caught.value)
        assert client.rows(wrapped("CommandGetTables", field(5, 1))).num_rows == 0
        assert client.ask("select 1 as x") == [{"x": 1}]


def test_a_server_with_a_certificate_speaks_tls_only(tmp_path: Path) -> None:
    built(tmp_path, FIRST)
    pem, context = certificate(tmp_path)
    options = ("--tls-certificate", str(pem), "--tls-key", str(pem))
    with serving_datasets(tmp_path, "--flight", "0", *options) as server:
        address, token = server.flight or "", server.token("read")
        assert address.startswith("grpc+tls://127.0.0.1:")
        roots = "-----BEGIN CERT" + pem.read_text().partition("-----BEGIN CERT")[2]
        with calling(address, token, tls_root_certs=roots) as client:
            assert client.ask("select 1 as x") == [{"x": 1}]
        with (
            calling(address.replace("grpc+tls", "grpc"), token) as client,
            pytest.raises(fl.FlightUnavailableError),
        ):
            client.info(statement("select 1"), timeout=10)
        host, _, port = address.removeprefix("grpc+tls://").rstrip("/").rpartition(":")
        with (
            socket.create_connection((host, int(port))) as opened,
            context.wrap_socket(opened, server_hostname=host) as secured,
        ):
            assert secured.version() in ("TLSv1.2", "TLSv1.3")
