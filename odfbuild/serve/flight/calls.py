"""Calls of Arrow Flight: each is one message of a caller, and the reply to it.

The caller is identified before a message is read.  The token is a bearer token, or the password of
basic authentication, with any user.
"""

import asyncio
import logging
import time
from base64 import b64decode
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO, Final, TypeAlias, cast
from weakref import WeakValueDictionary

import grpc

from odfbuild.errors import OdfBuildError
from odfbuild.host.frames import framed, read_frame
from odfbuild.host.protobuf import MalformedMessageError
from odfbuild.serve.access import AccessError, Caller
from odfbuild.serve.files.place import store_refusal
from odfbuild.serve.flight import messages as msg
from odfbuild.serve.flight.listings import columns_of, listing_rows
from odfbuild.serve.flight.statement import Statement, question_of, read_handle
from odfbuild.serve.flight.statuses import error_text, status_of
from odfbuild.serve.query.answers import Answers
from odfbuild.serve.query.flight_data import flight_data, schema_bytes
from odfbuild.serve.served import Served
from odfbuild.state.remote.view.outage import is_outage
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

_LOG = logging.getLogger("odfbuild.serve.access")
_ERRORS = logging.getLogger("odfbuild.serve")
_BASIC: Final = "basic"
_CLOSED: Final = b"\x08\x01"  # the result of CloseSession: status 1
_IN_MEMORY: Final = 1 << 20  # bytes of an answer in memory; a longer one waits in a file
_ACTIONS: Final = {
    "CreatePreparedStatement": "Determine the columns of the answer to a SELECT.",
    "ClosePreparedStatement": "Do nothing: the server stores no statements.",
    "CloseSession": "Do nothing: the server stores no sessions.",
}


@dataclass(frozen=True, slots=True)
class CallRequest:
    """The message of a call, its caller, and the key under which the answer is counted."""

    message: bytes
    caller: Caller
    who: str


CallHandler: TypeAlias = Callable[[CallRequest], AsyncGenerator[bytes, None]]
"""Returns the reply to a call, message by message."""


class Calls:
    """The calls of one server, by their names."""

    def __init__(self, served: Served, answers: Answers) -> None:
        self._served = served
        self._answers = answers
        self._listing = asyncio.Lock()
        self._arrivals: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._known: Mapping[str, CallHandler] = {
            "GetFlightInfo": self._flight_info,
            "GetSchema": self._schema,
            "DoGet": self._rows,
            "DoAction": self._action,
            "ListActions": self._actions,
        }

    async def answer(self, name: str, requests: AsyncIterator[bytes], context: Any) -> None:
        """Answer a call, or end it with a status."""
        begun, who, status = time.monotonic(), "-", grpc.StatusCode.CANCELLED
        peer = _address(context)  # not known once the caller has disconnected
        try:
            caller = self._caller(context)
            who = caller.name
            await self._answer(name, requests, caller, context)
            status = grpc.StatusCode.OK
        except Exception as error:  # the top of a call: the caller gets the error
            status, text = _refusal(error)
            context.set_code(status)  # abort() would keep the call, and its message, in a cycle
            context.set_details(text)
        finally:
            seconds = time.monotonic() - begun
            _LOG.info('%s %s "FLIGHT %s" %s - %.3f', peer, who, name, status.name, seconds)

    def _caller(self, context: Any) -> Caller:
        """Return the caller.  Raises AccessError (401, 403)."""
        given = [value for key, value in context.invocation_metadata() if key == "authorization"]
        if len(given) > 1:
            raise AccessError(401, "Exactly one token is needed.")
        headers = {"authorization": _as_bearer(given[0])} if given else {}
        caller = self._served.access.caller(headers)
        self._answers.check_reader(caller)
        return caller

    async def _answer(
        self, name: str, requests: AsyncIterator[bytes], caller: Caller, context: Any
    ) -> None:
        limits = self._served.settings.limits
        if name == "Handshake":
            await _shake_hands(context)
            return
        handler = self._known.get(name)
        if handler is None:
            raise msg.UnsupportedError(f"{name} is not supported: datasets are only read.")
        who = _caller_key(caller, context)
        turn = self._arrivals.setdefault(who, asyncio.Semaphore(limits.of_one_caller))
        async with asyncio.timeout(limits.request), turn:
            message = await _message(requests)
        async with aclosing(handler(CallRequest(message, caller, who))) as replies:
            async for each in replies:
                self._served.access.check_token(caller)
                async with asyncio.timeout(limits.piece):
                    await context.write(each)

    # calls

    async def _flight_info(self, request: CallRequest) -> AsyncGenerator[bytes, None]:
        """Yield the columns of a command, and the ticket for its rows."""
        data = msg.read_descriptor(request.message)
        command = msg.read_command(data)
        if isinstance(command, msg.StatementQuery | msg.PreparedStatementQuery):
            statement = await self._statement(command, request.caller)
            ticket = msg.statement_ticket(statement.handle())
            yield msg.flight_info(statement.columns, request.message, ticket)
        else:
            yield msg.flight_info(schema_bytes(_columns(command)), request.message, data)

    async def _schema(self, request: CallRequest) -> AsyncGenerator[bytes, None]:
        command = msg.read_command(msg.read_descriptor(request.message))
        if isinstance(command, msg.StatementQuery | msg.PreparedStatementQuery):
            yield msg.schema_result((await self._statement(command, request.caller)).columns)
        else:
            yield msg.schema_result(schema_bytes(_columns(command)))

    async def _rows(self, request: CallRequest) -> AsyncGenerator[bytes, None]:
        """Yield the rows of a ticket."""
        command = msg.read_command(msg.read_ticket(request.message))
        match command:
            case msg.StatementTicket(handle=handle):
                statement = read_handle(handle, self._served.settings.limits)
                async for each in self._answer_rows(statement, request):
                    yield each
            case msg.StatementQuery() | msg.PreparedStatementQuery():
                raise MalformedMessageError("it is a command, not the ticket for its rows")
            case _:
                async with self._listing:  # one at a time, as each may read every dataset
                    table = await self._served.place.reading(
                        listing_rows, command, self._served, request.caller
                    )
                for each in flight_data(table):
                    yield each

    async def _action(self, request: CallRequest) -> AsyncGenerator[bytes, None]:
        action = msg.read_action(request.message)
        match action.name:
            case "CreatePreparedStatement":
                command = msg.StatementQuery(msg.read_preparation(action.body))
                statement = await self._statement(command, request.caller)
                yield msg.prepared(statement.handle(), statement.columns)
            case "ClosePreparedStatement":
                return
            case "CloseSession":
                yield msg.result(_CLOSED)
            case name:
                known = ", ".join(_ACTIONS)
                asked_for = excerpt(name, 60)
                raise msg.UnsupportedError(
                    f"The action {asked_for!r} is not supported, only {known}."
                )

    async def _actions(self, request: CallRequest) -> AsyncGenerator[bytes, None]:  # noqa: ARG002
        for name, description in _ACTIONS.items():
            yield msg.action_type(name, description)

    # statements

    async def _statement(
        self, command: msg.StatementQuery | msg.PreparedStatementQuery, caller: Caller
    ) -> Statement:
        """Return a statement on the current datasets; renew a prepared one if they changed."""
        limits = self._served.settings.limits
        if isinstance(command, msg.PreparedStatementQuery):
            known = read_handle(command.handle, limits)
            if await self._served.place.reading(self._answers.is_current, known.question, caller):
                return known
            question = question_of(known.question.query, limits)
        else:
            question = question_of(command.query, limits)
        return Statement(*await self._answers.columns(question, caller))

    async def _answer_rows(
        self, statement: Statement, request: CallRequest
    ) -> AsyncGenerator[bytes, None]:
        """Yield the messages of an answer, which is complete before the first is sent.

        So a slow reader does not occupy a process: the answer waits in a file without a name.
        """
        folder = self._served.workspace.cache
        with SpooledTemporaryFile(_IN_MEMORY, dir=str(folder)) as file:
            spool = cast(BinaryIO, file)
            async with aclosing(
                self._answers.messages(statement.question, request.caller)
            ) as messages:
                async for each in messages:
                    await asyncio.to_thread(spool.write, framed(each))
            spool.seek(0)
            with self._served.transfer("answer", request.who):
                while (kept := await asyncio.to_thread(read_frame, spool)) is not None:
                    yield kept


def _columns(command: msg.Command) -> Any:
    if isinstance(command, msg.StatementQuery | msg.PreparedStatementQuery | msg.StatementTicket):
        raise MalformedMessageError("a ticket is not a command")
    return columns_of(command)


async def _message(requests: AsyncIterator[bytes]) -> bytes:
    """Return the one message of a call; gRPC keeps the last one until its generator is closed."""
    generator = cast(AsyncGenerator[bytes, None], aiter(requests))
    try:
        async with aclosing(generator):
            return await anext(generator)
    except StopAsyncIteration:
        raise MalformedMessageError("there is no message") from None


async def _shake_hands(context: Any) -> None:
    """Return the token to the caller, as a bearer token for further calls."""
    for key, value in context.invocation_metadata():
        if key == "authorization":
            await context.send_initial_metadata((("authorization", _as_bearer(value)),))
            return
    raise AccessError(401, "A token is needed: as the password, or as a bearer token.")


def _as_bearer(given: str) -> str:
    """Return the header of a token that is given as a password.  Raises AccessError (401)."""
    scheme, _, text = given.partition(" ")
    if scheme.lower() != _BASIC:
        return given
    text = text.strip().rstrip("=")  # some clients leave out the padding
    try:
        pair = b64decode(text + "=" * (-len(text) % 4), validate=True).decode()
    except ValueError:
        raise AccessError(401, "User and password cannot be read.") from None
    return f"Bearer {pair.partition(':')[2]}"


def _refusal(error: Exception) -> tuple["grpc.StatusCode", str]:
    """Return the status of an error of a call, and its text."""
    match error:
        case AccessError():
            return status_of(error)
        case MalformedMessageError():
            text = f"The bytes are not a message of this call: {error}."
            return grpc.StatusCode.INVALID_ARGUMENT, error_text("bad-message", text)
        case msg.UnsupportedError():
            return grpc.StatusCode.UNIMPLEMENTED, error_text("not-implemented", str(error))
        case TimeoutError():
            text = "The caller stopped sending or receiving."
            return grpc.StatusCode.DEADLINE_EXCEEDED, error_text("too-slow", text)
        case OdfBuildError() if is_outage(error):
            _ERRORS.warning("%s: %s", error.code, error.what)
            refusal = store_refusal(error)
            return grpc.StatusCode.UNAVAILABLE, error_text(error.code, refusal.text)
        case OdfBuildError():
            _ERRORS.warning("%s: %s", error.code, error.what)
            text = f"The dataset cannot be read: {error.code}."
            return grpc.StatusCode.INTERNAL, error_text(error.code, text)
        case _:
            _ERRORS.error("a call failed", exc_info=error)
            text = f"The server failed: {type(error).__name__}."
            return grpc.StatusCode.INTERNAL, error_text("failed", text)


def _caller_key(caller: Caller, context: Any) -> str:
    """Return the key under which a caller's answers are counted: a token, or an address."""
    return (
        f"address {_address(context)}" if caller.token is None else f"token {caller.token.digest}"
    )


def _address(context: Any) -> str:
    """Return the address of a caller, without its port."""
    kind, _, rest = str(context.peer()).partition(":")
    return rest.rpartition(":")[0] if kind in ("ipv4", "ipv6") else "-"
