"""FlightSQL by hand: its messages made of fields, sent by the client of pyarrow."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from odfbuild.host.protobuf import field, fields

TYPE = "type.googleapis.com/arrow.flight.protocol.sql."


def wrapped(name: str, content: bytes = b"") -> bytes:
    """Return a message of FlightSQL."""
    return field(1, (TYPE + name).encode()) + field(2, content)


def statement(query: str) -> bytes:
    return wrapped("CommandStatementQuery", field(1, query.encode()))


class FlightSqlClient:
    """A caller with a token, or with none."""

    def __init__(self, client: fl.FlightClient, token: str | None) -> None:
        self.client = client
        self.token = token

    def options(self, timeout: float | None = None) -> fl.FlightCallOptions:
        given = [] if self.token is None else [(b"authorization", f"Bearer {self.token}".encode())]
        return fl.FlightCallOptions(timeout=timeout, headers=given)

    def info(self, command: bytes, timeout: float | None = None) -> fl.FlightInfo:
        descriptor = fl.FlightDescriptor.for_command(command)
        return self.client.get_flight_info(descriptor, self.options(timeout))

    def reader(self, ticket: bytes | fl.Ticket, timeout: float | None = None) -> Any:
        given = ticket if isinstance(ticket, fl.Ticket) else fl.Ticket(ticket)
        return self.client.do_get(given, self.options(timeout))

    def rows(self, command: bytes, timeout: float | None = None) -> pa.Table:
        """Return what a command gives, of the columns that were announced."""
        info = self.info(command, timeout)
        found = self.reader(info.endpoints[0].ticket, timeout).read_all()
        assert found.schema == info.schema
        return found

    def ask(self, query: str, timeout: float | None = None) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.rows(statement(query), timeout).to_pylist()
        return rows

    def act(self, name: str, body: bytes, timeout: float | None = None) -> list[bytes]:
        found = self.client.do_action(fl.Action(name, body), self.options(timeout))
        return [each.body.to_pybytes() for each in found]

    def prepare(self, query: str, timeout: float | None = None) -> bytes:
        """Return the handle of a statement."""
        body = wrapped("ActionCreatePreparedStatementRequest", field(1, query.encode()))
        (made,) = self.act("CreatePreparedStatement", body, timeout)
        handle = fields(bytes(fields(made)[2][0]))[1][0]
        assert isinstance(handle, bytes)
        return handle

    def ticket(self, query: str) -> bytes:
        """Return the ticket of the rows of a query."""
        found: bytes = self.info(statement(query)).endpoints[0].ticket.ticket
        return found


@contextmanager
def calling(address: str, token: str | None = None, **more: Any) -> Iterator[FlightSqlClient]:
    """Connect to a server."""
    client = fl.connect(address.replace("grpc://", "grpc+tcp://").rstrip("/"), **more)
    try:
        yield FlightSqlClient(client, token)
    finally:
        client.close()
