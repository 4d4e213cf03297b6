"""Messages of Arrow Flight and FlightSQL that a read-only server supports.

They are Protocol Buffers, described in Flight.proto and FlightSql.proto of Apache Arrow.  A command
is the bytes of an `Any`, in a descriptor or as a ticket.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from odfbuild.host.protobuf import MalformedMessageError, Value, field, fields, numbers
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

SERVICE: Final = "arrow.flight.protocol.FlightService"
_TYPE: Final = "type.googleapis.com/arrow.flight.protocol.sql."
_CMD: Final = 2  # the type of a descriptor that is a command
_UNKNOWN: Final = -1  # the number of rows, or of bytes, of an answer


class UnsupportedError(Exception):
    """A request is part of the protocol, but not supported by this server."""


@dataclass(frozen=True, slots=True)
class StatementQuery:
    """A SELECT to execute."""

    query: str


@dataclass(frozen=True, slots=True)
class PreparedStatementQuery:
    """A prepared statement to execute."""

    handle: bytes


@dataclass(frozen=True, slots=True)
class StatementTicket:
    """The rows of a statement."""

    handle: bytes


@dataclass(frozen=True, slots=True)
class SqlInfo:
    """Facts about the server, by number; all if none is given."""

    wanted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Catalogs:
    """The catalogs."""


@dataclass(frozen=True, slots=True)
class DbSchemas:
    """The schemas of a catalog, or of all; `name` is a pattern of LIKE."""

    catalog: str | None
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The tables; `schema` and `name` are patterns of LIKE, None fits all."""

    catalog: str | None
    schema: str | None
    name: str | None
    types: tuple[str, ...]
    has_columns: bool


@dataclass(frozen=True, slots=True)
class TableTypes:
    """The kinds of tables."""


@dataclass(frozen=True, slots=True)
class PrimaryKeys:
    """The primary key of a table."""


@dataclass(frozen=True, slots=True)
class ForeignKeys:
    """The foreign keys of a table, to a table, or between two."""


Listing: TypeAlias = (
    SqlInfo | Catalogs | DbSchemas | Tables | TableTypes | PrimaryKeys | ForeignKeys
)
Command: TypeAlias = StatementQuery | PreparedStatementQuery | StatementTicket | Listing


@dataclass(frozen=True, slots=True)
class Action:
    """An action: its name, and the bytes that belong to it."""

    name: str
    body: bytes


def read_command(data: bytes) -> Command:
    """Return a command.  Raises MalformedMessageError and UnsupportedError."""
    name, given = _unwrapped(data)
    match name:
        case "CommandStatementQuery":
            _refuse_transaction(given)
            return StatementQuery(_text(given, 1) or "")
        case "CommandPreparedStatementQuery":
            return PreparedStatementQuery(_bytes(given, 1))
        case "TicketStatementQuery":
            return StatementTicket(_bytes(given, 1))
        case "CommandGetSqlInfo":
            return SqlInfo(_numbers(given, 1))
        case "CommandGetCatalogs":
            return Catalogs()
        case "CommandGetDbSchemas":
            return DbSchemas(_text(given, 1), _text(given, 2))
        case "CommandGetTables":
            return Tables(
                catalog=_text(given, 1),
                schema=_text(given, 2),
                name=_text(given, 3),
                types=_texts(given, 4),
                has_columns=any(_numbers(given, 5)[-1:]),
            )
        case "CommandGetTableTypes":
            return TableTypes()
        case "CommandGetPrimaryKeys":
            return PrimaryKeys()
        case "CommandGetExportedKeys" | "CommandGetImportedKeys" | "CommandGetCrossReference":
            return ForeignKeys()
    raise UnsupportedError(f"{excerpt(name, 60)} is not supported: datasets are only read.")


def read_descriptor(data: bytes) -> bytes:
    """Return the command of a FlightDescriptor, as bytes.

    Raises MalformedMessageError, and UnsupportedError for a path.
    """
    given = fields(data)
    if (_numbers(given, 1) or (0,))[-1] != _CMD:
        raise UnsupportedError("Descriptors must be commands of FlightSQL, not paths.")
    return _bytes(given, 2)


def read_ticket(data: bytes) -> bytes:
    """Return the content of a Ticket.  Raises MalformedMessageError."""
    return _bytes(fields(data), 1)


def read_action(data: bytes) -> Action:
    """Return an Action.  Raises MalformedMessageError."""
    given = fields(data)
    return Action(_text(given, 1) or "", _bytes(given, 2))


def read_preparation(body: bytes) -> str:
    """Return the query of an ActionCreatePreparedStatementRequest.

    Raises MalformedMessageError, and UnsupportedError within a transaction.
    """
    name, given = _unwrapped(body)
    if name != "ActionCreatePreparedStatementRequest":
        raise MalformedMessageError(f"it is {excerpt(name, 60)}, which prepares no statement")
    _refuse_transaction(given)
    return _text(given, 1) or ""


def prepared(handle: bytes, columns: bytes) -> bytes:
    """Return the Result of a preparation; without parameters."""
    made = _wrapped("ActionCreatePreparedStatementResult", field(1, handle) + field(2, columns))
    return result(made)


def result(body: bytes) -> bytes:
    """Return one Result of an action."""
    return field(1, body)


def action_type(name: str, description: str) -> bytes:
    """Return one ActionType."""
    return field(1, name.encode()) + field(2, description.encode())


def schema_result(columns: bytes) -> bytes:
    """Return a SchemaResult."""
    return field(1, columns)


def statement_ticket(handle: bytes) -> bytes:
    """Return the content of a Ticket for the rows of a statement."""
    return _wrapped("TicketStatementQuery", field(1, handle))


def flight_info(columns: bytes, descriptor: bytes, ticket: bytes) -> bytes:
    """Return a FlightInfo of one endpoint, which is this server."""
    endpoint = field(1, field(1, ticket))
    counts = field(4, _UNKNOWN) + field(5, _UNKNOWN)
    return field(1, columns) + field(2, descriptor) + field(3, endpoint) + counts


def _wrapped(name: str, content: bytes) -> bytes:
    return field(1, (_TYPE + name).encode()) + field(2, content)


def _unwrapped(data: bytes) -> tuple[str, Mapping[int, Sequence[Value]]]:
    """Return the name of a message in an Any, and its fields."""
    given = fields(data)
    name = _text(given, 1) or ""
    if not name.startswith(_TYPE):
        raise MalformedMessageError("it is not a message of FlightSQL")
    return name.removeprefix(_TYPE), fields(_bytes(given, 2))


def _refuse_transaction(given: Mapping[int, Sequence[Value]]) -> None:
    if given.get(2):
        raise UnsupportedError("Transactions are not supported: datasets are only read.")


def _bytes(given: Mapping[int, Sequence[Value]], number: int) -> bytes:
    """Return the bytes of a field, empty if it is missing: of several the last, as in proto3."""
    found = given.get(number, [b""])[-1]
    if not isinstance(found, bytes):
        raise MalformedMessageError(f"field {number} is not bytes")
    return found


def _text(given: Mapping[int, Sequence[Value]], number: int) -> str | None:
    return _decoded(_bytes(given, number), number) if number in given else None


def _texts(given: Mapping[int, Sequence[Value]], number: int) -> tuple[str, ...]:
    return tuple(_decoded(each, number) for each in given.get(number, ()))


def _decoded(value: Value, number: int) -> str:
    if not isinstance(value, bytes):
        raise MalformedMessageError(f"field {number} is not text")
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise MalformedMessageError(f"field {number} is not text in UTF-8") from None


def _numbers(given: Mapping[int, Sequence[Value]], number: int) -> tuple[int, ...]:
    """Return the numbers of a field, packed or not."""
    found: list[int] = []
    for each in given.get(number, ()):
        found += numbers(each) if isinstance(each, bytes) else [each]
    return tuple(found)
