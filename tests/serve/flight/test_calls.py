"""Calls of FlightSQL: who may ask what, limits, cancelled calls, and slow and many readers."""

import threading
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pyarrow.flight as fl
import pytest

from odfbuild.host.protobuf import field
from odfbuild.odf.refs import DatasetAlias
from odfbuild.serve.flight.statement import Statement, read_handle
from odfbuild.serve.limits import ServerLimits
from odfbuild.serve.query.question import PinnedDataset, QueryQuestion
from odfbuild.serve.tokens import TokenFile
from tests.serve.flight.flight_client import FlightSqlClient, calling, statement, wrapped
from tests.serve.query.test_routes import FIRST, LIMITS, MANY, built
from tests.support.servers.datasets import DatasetServer, serving_datasets

CITIES = 'select city from "team.cities" order by "offset"'
ROWS = [{"city": "A"}, {"city": "B"}]
WIDE = "select n, repeat('x', 300) as s from (select unnest(range(0, 90000)) as n)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatasetServer]:
    folder = tmp_path_factory.mktemp("server")
    built(folder, FIRST)
    with serving_datasets(folder, "--flight", "0", limits=LIMITS) as found:
        yield found


@pytest.fixture(scope="module")
def client(server: DatasetServer) -> Iterator[FlightSqlClient]:
    with calling(server.flight or "", server.token("read", datasets="team.*")) as found:
        yield found


def handle_of(question: QueryQuestion) -> bytes:
    return wrapped("TicketStatementQuery", field(1, Statement(question, b"").handle()))


@pytest.mark.holds("serving-flight")
def test_no_ticket_reaches_what_its_bearer_may_not_read(
    server: DatasetServer, client: FlightSqlClient
) -> None:
    alias = DatasetAlias.parse("secret")
    dataset = server.workspace.open(alias)
    assert dataset is not None
    head = dataset.head()
    with calling(server.flight or "", server.token("read")) as other:
        stolen = [other.ticket("select * from secret")]
        prepared = other.prepare("select * from secret")
        assert other.reader(stolen[0]).read_all().num_rows == 2
    text = 'select * from "team.cities"'
    for name, query in (("secret", "select * from secret"), ("team.cities", text)):
        for block in (head, None):
            pinned = PinnedDataset(name, dataset.id, block)
            stolen.append(handle_of(QueryQuestion(query=query, datasets=(pinned,))))
    stolen.append(handle_of(QueryQuestion(query="select * from secret")))
    for each in stolen:
        with pytest.raises(KeyError, match="There is no dataset"):
            client.reader(each).read_all()
    with pytest.raises(KeyError, match="There is no dataset secret"):
        client.info(wrapped("CommandPreparedStatementQuery", field(1, prepared)))
    with pytest.raises(KeyError, match="There is no dataset secret"):
        client.info(statement("select * from secret"))


def calls_of(client: FlightSqlClient, ticket: bytes) -> list[Callable[[], object]]:
    """Return calls of each kind."""
    return [
        lambda: client.info(wrapped("CommandGetTables")),
        lambda: client.info(statement("select 1")),
        lambda: client.reader(ticket).read_all(),
        lambda: client.reader(wrapped("CommandGetSqlInfo")).read_all(),
        lambda: client.prepare("select 1"),
        lambda: list(client.client.list_actions(client.options())),
    ]


@pytest.mark.holds("serving-flight")
def test_nobody_is_answered_without_a_token_to_read(server: DatasetServer) -> None:
    address = server.flight or ""
    writer, late = server.token("write"), server.token("read")
    with calling(address, late) as known:
        ticket = known.ticket(CITIES)
    cases: list[tuple[str | None, type[Exception], str]] = [
        (None, fl.FlightUnauthenticatedError, "A token is needed"),
        ("wrong", fl.FlightUnauthenticatedError, "not known"),
        (writer, fl.FlightUnauthorizedError, "not allow to read"),
    ]
    for token, kind, words in cases:
        with calling(address, token) as client:
            for call in calls_of(client, ticket):
                with pytest.raises(kind, match=words):
                    call()
    with calling(address, late) as known:
        assert known.reader(ticket).read_all().num_rows == 2
        tokens = server.tokens.read_text()
        try:
            server.tokens.write_text('{"tokens": []}')
            with pytest.raises(fl.FlightUnauthenticatedError):
                known.reader(ticket).read_all()
        finally:
            server.tokens.write_text(tokens)


def test_a_token_is_given_as_password_or_bearer_and_once(server: DatasetServer) -> None:
    token = server.token("read").encode()
    with calling(server.flight or "") as client:
        assert client.client.authenticate_basic_token("", token) == (
            b"authorization",
            b"Bearer " + token,
        )
        for user, password in ((b"ana", b""), (token, b""), (b"ana:", token)):
            with pytest.raises(fl.FlightUnauthenticatedError):
                client.client.authenticate_basic_token(user, password)
        for values in ([b"Basic !"], [b"Digest x"], [b"Bearer " + token] * 2, [b""]):
            headers = [(b"authorization", each) for each in values]
            with pytest.raises(fl.FlightUnauthenticatedError):
                [*client.client.list_actions(fl.FlightCallOptions(headers=headers))]


def test_what_is_not_there_is_refused_by_name(client: FlightSqlClient) -> None:
    options = client.options()
    path = fl.FlightDescriptor.for_path("team.cities")
    calls: list[Callable[[], object]] = [
        lambda: [*client.client.list_flights(options=options)],
        lambda: client.client.get_flight_info(path, options),
        lambda: client.info(wrapped("CommandStatementUpdate", field(1, b"delete from t"))),
        lambda: client.info(wrapped("CommandGetXdbcTypeInfo")),
        lambda: client.info(wrapped("CommandStatementSubstraitPlan")),
        lambda: client.info(wrapped("CommandStatementQuery", field(1, b"x") + field(2, b"t"))),
        lambda: client.act("BeginTransaction", b""),
        lambda: client.act("CancelFlightInfo", b""),
        lambda: list(client.client.do_exchange(path, options)[1]),
    ]
    for call in calls:
        with pytest.raises(Exception, match=r"not-implemented: .*"):
            call()
    assert client.act("ClosePreparedStatement", b"anything") == []
    assert client.act("CloseSession", b"") == [b"\x08\x01"]
    names = [each.type for each in client.client.list_actions(options)]
    assert names == ["CreatePreparedStatement", "ClosePreparedStatement", "CloseSession"]


@pytest.mark.holds("serving-flight")
@pytest.mark.parametrize(
    ("query", "kind", "words"),
    [
        (f"select count(*) as n from {MANY}", fl.FlightTimedOutError, "time-limit"),
        ("select unnest(range(0, 3000)) as n", Exception, "size-limit: .*2,000 rows.*LIMIT"),
        ("select repeat('x', 3000000) as s", Exception, "size-limit: .*1,048,576 bytes"),
        (
            "select lpad('x', 2000000000) || rpad('x', 2000000000) as s",
            Exception,
            "(memory|time)-limit|engine-failed",
        ),
    ],
)  # fmt: skip
def test_an_answer_that_takes_too_much_is_refused_with_its_limit(
    server: DatasetServer,
    client: FlightSqlClient,
    query: str,
    kind: type[Exception],
    words: str,
) -> None:
    with pytest.raises(kind, match=words):
        client.ask(query)
    assert not [*(server.folder / "staging").glob("*")]
    assert client.ask(CITIES) == ROWS


def test_a_call_that_is_given_up_keeps_nobody_waiting(client: FlightSqlClient) -> None:
    ticket = client.ticket(f"select count(*) as n from {MANY}")
    for _ in range(4):
        with pytest.raises(fl.FlightTimedOutError):
            client.reader(ticket, timeout=0.5).read_all()
    begun = time.monotonic()
    assert client.ask(CITIES) == ROWS
    assert time.monotonic() - begun < 5


def test_rows_of_many_types_come_as_they_are(client: FlightSqlClient) -> None:
    found = client.rows(
        statement(
            "select 1 as a, 'é😀' as b, null::int as c, [1, null] as d, now() as e, true as f, "
            "named_struct('x', 1.5) as g, arrow_cast('k', 'Dictionary(Int32, Utf8)') as h, "
            "arrow_cast('k', 'Binary') as i, date '9999-12-31' as j"
        )
    )
    assert found.drop_columns(["e"]).to_pylist()[0]["b"] == "é😀"
    assert client.rows(statement('select city from "team.cities" where false')).num_rows == 0


def read_at_once(readers: int, read: Callable[[], int]) -> list[object]:
    """Return what each of several readers got: rows, or the error."""
    found: list[object] = []

    def one() -> None:
        try:
            found.append(read())
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=one) for _ in range(readers)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return found


def test_fifty_readers_at_once_are_answered_or_told_to_come_later(
    client: FlightSqlClient,
) -> None:
    ticket = client.ticket(CITIES)
    found = read_at_once(50, lambda: client.reader(ticket).read_all().num_rows)
    refused = [each for each in found if isinstance(each, Exception)]
    assert {each for each in found if isinstance(each, int)} == {2}
    assert all("busy: Too many" in str(each) for each in refused)
    listings = wrapped("CommandGetTables", field(5, 1))
    assert read_at_once(50, lambda: client.rows(listings).num_rows) == [1] * 50
    assert client.ask(CITIES) == ROWS


def test_fifty_readers_and_slow_ones_are_all_answered_where_there_is_time(tmp_path: Path) -> None:
    built(tmp_path, FIRST)
    limits = {"turn": 200.0, "piece": 4.0, "output": 128 << 20}
    wider = WIDE.replace("300", "1000")  # more than a client and gRPC take before it is read
    with serving_datasets(tmp_path, "--flight", "0", limits=limits) as server:
        address = server.flight or ""
        with calling(address, server.token("read")) as client:
            ticket, wide = client.ticket(CITIES), client.ticket(wider)
            slow = [client.reader(wide) for _ in range(3)]  # more than are answered at once
            for each in slow:
                assert each.read_chunk().data.num_rows > 0
            with calling(address, server.token("read")) as other:
                found = read_at_once(50, lambda: other.reader(ticket).read_all().num_rows)
            assert found == [2] * 50
            for each in slow:
                with pytest.raises(fl.FlightTimedOutError, match="too-slow"):
                    each.read_all()
            assert client.reader(wide).read_all().num_rows == 90_000
        pid = server.process.pid
        status = Path(f"/proc/{pid}/status").read_text()
        most = int(status.split("VmHWM:")[1].split()[0]) >> 10
        assert most < 400, f"{most} MiB"
        assert server.stop() == 0


def test_the_datasets_of_accounts_are_named_by_both(tmp_path: Path) -> None:
    built(tmp_path, FIRST)
    with serving_datasets(tmp_path, "--flight", "0", "--multi-tenant") as server:
        id = server.workspace.names()[DatasetAlias.parse("secret")]
        server.workspace.rename(DatasetAlias.parse("secret"), DatasetAlias.parse("ana/secret"))
        assert str(id)
        with calling(server.flight or "", server.token("read")) as client:
            tables = client.rows(wrapped("CommandGetTables")).column("table_name").to_pylist()
            assert tables == ["ana/secret"]
            assert client.ask('select city from "odf"."odf"."ana/secret" limit 1') == [ROWS[0]]
            with pytest.raises(KeyError):
                client.ask('select city from "team.cities"')


def test_a_handle_is_read_back_as_it_was_made() -> None:
    question = QueryQuestion(query="select 'é\n\x00😀'", limit=100_000)
    made = Statement(question, b"\x00\xff")
    assert read_handle(made.handle(), ServerLimits()) == made


def test_a_token_that_is_revoked_ends_an_answer_in_transit(tmp_path: Path) -> None:
    built(tmp_path, FIRST)
    with serving_datasets(tmp_path, "--flight", "0") as server:
        token = server.token("read")
        with calling(server.flight or "", token) as caller:
            reader = caller.reader(caller.ticket(WIDE))
            first = reader.read_chunk().data
            TokenFile(server.tokens).revoke(sha256(token.encode()).hexdigest()[:12])
            with pytest.raises(fl.FlightUnauthenticatedError, match="revoked"):
                reader.read_all()
            assert 0 < first.num_rows < 90_000
