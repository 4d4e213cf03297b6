"""Calls of Arrow Flight: each is one message of a caller, and what is answered to it.

Who calls is known before a message is read.  The token is a bearer token, or the password of basic
authentication, of which the user is nobody in particular.
"""

import asyncio
import logging
import time
from base64 import b64decode
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO, Final, TypeAlias, cast

import grpc

from odfbuild.errors import OdfBuildError
from odfbuild.host.frames import framed, read_frame
from odfbuild.host.protobuf import MalformedMessageError
from odfbuild.serve.access import AccessError, Caller
from odfbuild.serve.flight import messages as msg
from odfbuild.serve.flight.listings import columns_of, listed
from odfbuild.serve.flight.statement import Statement, question_of, read_handle
from odfbuild.serve.flight.statuses import said, status_of
from odfbuild.serve.query.answers import Answers
from odfbuild.serve.query.flight_data import flight_data, schema_bytes
from odfbuild.serve.served import Served
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

_LOG = logging.getLogger("odfbuild.serve.access")
_ERRORS = logging.getLogger("odfbuild.serve")
_BASIC: Final = "basic"
_CLOSED: Final = b"\x08\x01"  # the result of CloseSession: status 1
_IN_MEMORY: Final = 1 << 20  # bytes of an answer; more of them wait in a file for their reader
_ACTIONS: Final = {
    "CreatePreparedStatement": "Work out the columns of the answer to a SELECT.",
    "ClosePreparedStatement": "Nothing is kept of a statement, so nothing is done.",
    "CloseSession": "Nothing is kept of a session, so nothing is done.",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """The message of a call, who sent it, and whose room the answer takes."""

    message: bytes
    caller: Caller
    who: str


Answered: TypeAlias = Callable[[Asked], AsyncGenerator[bytes, None]]
"""What a call answers, message by message."""


class Calls:
    """The calls of one server, by their names."""

    def __init__(self, served: Served, answers: Answers) -> None:
        self._served = served
        self._answers = answers
        self._listing = asyncio.Lock()
        self._known: Mapping[str, Answered] = {
            "GetFlightInfo": self._flight_info,
            "GetSchema": self._schema,
            "DoGet": self._rows,
            "DoAction": self._action,
            "ListActions": self._actions,
        }

    async def answer(self, name: str, requests: AsyncIterator[bytes], context: Any) -> None:
        """Answer a call, or end it with a status."""
        begun, who, status = time.monotonic(), "-", grpc.StatusCode.CANCELLED
        peer = _address(context)  # which is not known of a caller who is gone
        try:
            caller = self._caller(context)
            who = caller.name
            await self._answer(name, requests, caller, context)
            status = grpc.StatusCode.OK
        except Exception as error:  # the top of a call: whoever called hears what went wrong
            status, text = _refusal(error)
            context.set_code(status)  # abort() would keep the call, and its message, in a circle
            context.set_details(text)
        finally:
            seconds = time.monotonic() - begun
            _LOG.info('%s %s "FLIGHT %s" %s - %.3f', peer, who, name, status.name, seconds)

    def _caller(self, context: Any) -> Caller:
        """Return who calls.  Raises AccessError (401, 403)."""
        given = [value for key, value in context.invocation_metadata() if key == "authorization"]
        if len(given) > 1:
            raise AccessError(401, "One token is wanted.")
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
        answered = self._known.get(name)
        if answered is None:
            raise msg.UnsupportedError(f"{name} is not answered here: datasets are only read.")
        message = await _message(requests, limits.request)
        async with aclosing(answered(Asked(message, caller, _who(caller, context)))) as replies:
            async for each in replies:
                async with asyncio.timeout(limits.piece):
                    await context.write(each)

    # what is asked

    async def _flight_info(self, asked: Asked) -> AsyncGenerator[bytes, None]:
        """Answer with the columns of a command, and the ticket for its rows."""
        data = msg.read_descriptor(asked.message)
        command = msg.read_command(data)
        if isinstance(command, msg.StatementQuery | msg.PreparedStatementQuery):
            statement = await self._statement(command, asked.caller)
            ticket = msg.statement_ticket(statement.handle())
            yield msg.flight_info(statement.columns, asked.message, ticket)
        else:
            yield msg.flight_info(schema_bytes(_columns(command)), asked.message, data)

    async def _schema(self, asked: Asked) -> AsyncGenerator[bytes, None]:
        command = msg.read_command(msg.read_descriptor(asked.message))
        if isinstance(command, msg.StatementQuery | msg.PreparedStatementQuery):
            yield msg.schema_result((await self._statement(command, asked.caller)).columns)
        else:
            yield msg.schema_result(schema_bytes(_columns(command)))

    async def _rows(self, asked: Asked) -> AsyncGenerator[bytes, None]:
        """Answer with the rows that a ticket names."""
        command = msg.read_command(msg.read_ticket(asked.message))
        match command:
            case msg.StatementTicket(handle=handle):
                statement = read_handle(handle, self._served.settings.limits)
                async for each in self._answer_rows(statement, asked):
                    yield each
            case msg.StatementQuery() | msg.PreparedStatementQuery():
                raise MalformedMessageError("it is a command, and not the ticket of its rows")
            case _:
                async with self._listing:  # one at a time, as each may read every dataset
                    table = await asyncio.to_thread(listed, command, self._served, asked.caller)
                for each in flight_data(table):
                    yield each

    async def _action(self, asked: Asked) -> AsyncGenerator[bytes, None]:
        action = msg.read_action(asked.message)
        match action.name:
            case "CreatePreparedStatement":
                command = msg.StatementQuery(msg.read_preparation(action.body))
                statement = await self._statement(command, asked.caller)
                yield msg.prepared(statement.handle(), statement.columns)
            case "ClosePreparedStatement":
                return
            case "CloseSession":
                yield msg.result(_CLOSED)
            case name:
                known = ", ".join(_ACTIONS)
                asked_for = excerpt(name, 60)
                raise msg.UnsupportedError(
                    f"The action {asked_for!r} is not answered here: {known} are."
                )

    async def _actions(self, asked: Asked) -> AsyncGenerator[bytes, None]:  # noqa: ARG002
        for name, description in _ACTIONS.items():
            yield msg.action_type(name, description)

    # statements

    async def _statement(
        self, command: msg.StatementQuery | msg.PreparedStatementQuery, caller: Caller
    ) -> Statement:
        """Return a statement as its datasets are now: one that was prepared is so anew."""
        limits = self._served.settings.limits
        if isinstance(command, msg.PreparedStatementQuery):
            known = read_handle(command.handle, limits)
            if await asyncio.to_thread(self._answers.is_current, known.question, caller):
                return known
            question = question_of(known.question.query, limits)
        else:
            question = question_of(command.query, limits)
        return Statement(*await self._answers.columns(question, caller))

    async def _answer_rows(self, statement: Statement, asked: Asked) -> AsyncGenerator[bytes, None]:
        """Yield the messages of an answer, which is whole before the first is sent.

        So a reader that is slow keeps no process waiting: the rest is in a file without a name.
        """
        folder = self._served.workspace.cache
        with SpooledTemporaryFile(_IN_MEMORY, dir=str(folder)) as file:
            spool = cast(BinaryIO, file)
            async with aclosing(
                self._answers.messages(statement.question, asked.caller)
            ) as messages:
                async for each in messages:
                    await asyncio.to_thread(spool.write, framed(each))
            spool.seek(0)
            with self._served.transfer("answer", asked.who):
                while (kept := await asyncio.to_thread(read_frame, spool)) is not None:
                    yield kept


def _columns(command: msg.Command) -> Any:
    if isinstance(command, msg.StatementQuery | msg.PreparedStatementQuery | msg.StatementTicket):
        raise MalformedMessageError("a ticket is no command")
    return columns_of(command)


async def _message(requests: AsyncIterator[bytes], seconds: float) -> bytes:
    """Return the one message of a call; gRPC keeps the last one until its generator is closed."""
    generator = cast(AsyncGenerator[bytes, None], aiter(requests))
    try:
        async with aclosing(generator), asyncio.timeout(seconds):
            return await anext(generator)
    except StopAsyncIteration:
        raise MalformedMessageError("there is none") from None


async def _shake_hands(context: Any) -> None:
    """Give the token back, as a bearer token for the calls that follow."""
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
    """Return the status of what went wrong with a call, and its text."""
    match error:
        case AccessError():
            return status_of(error)
        case MalformedMessageError():
            text = f"The bytes are no message that is due here: {error}."
            return grpc.StatusCode.INVALID_ARGUMENT, said("bad-message", text)
        case msg.UnsupportedError():
            return grpc.StatusCode.UNIMPLEMENTED, said("not-implemented", str(error))
        case TimeoutError():
            text = "The caller sends or takes nothing any more."
            return grpc.StatusCode.DEADLINE_EXCEEDED, said("too-slow", text)
        case OdfBuildError():
            _ERRORS.warning("%s: %s", error.code, error.what)
            text = f"The dataset cannot be read: {error.code}."
            return grpc.StatusCode.INTERNAL, said(error.code, text)
        case _:
            _ERRORS.error("a call failed", exc_info=error)
            text = f"The server made a mistake: {type(error).__name__}."
            return grpc.StatusCode.INTERNAL, said("failed", text)


def _who(caller: Caller, context: Any) -> str:
    """Return whose answer it is: that of a token, or of an address."""
    return (
        f"address {_address(context)}" if caller.token is None else f"token {caller.token.digest}"
    )


def _address(context: Any) -> str:
    """Return the address of a caller, without its port."""
    kind, _, rest = str(context.peer()).partition(":")
    return rest.rpartition(":")[0] if kind in ("ipv4", "ipv6") else "-"
