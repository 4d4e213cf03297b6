"""Messages of a client: frames of a stream, and error responses to invalid requests.

A request that cannot be parsed, has wrong parameters or is sent at the wrong time gets an error
response, as its client waits for one; such a notification is ignored (JSON-RPC 2.0, "Error object";
LSP 3.17, "Base Protocol" and "Server lifecycle").
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any, Final, TypeGuard

from lsprotocol.types import EXIT, INITIALIZE, SHUTDOWN
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInvalidRequest,
    JsonRpcParseError,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import LanguageServerProtocol

from odfbuild.host.json_text import parse_json

LARGEST: Final = 256 * 1024 * 1024
"""The largest message in bytes; a client that announces more does not use this protocol."""
_DIGITS: Final = 12  # the most digits of a length

_LENGTH: Final = re.compile(rb"\s*content-length\s*:\s*0*(\d+)\s*", re.IGNORECASE)

Send = Callable[[bytes], None]
"""Writes bytes to the client."""


class BrokenStreamError(Exception):
    """The beginning of the next message in the stream is not known."""


class Messages:
    """The messages of one client, which `protocol` handles; errors are sent with `send`."""

    def __init__(self, protocol: LanguageServerProtocol, send: Send) -> None:
        self._protocol = protocol
        self._send = send
        self._initialized = self._ending = False

    async def handle_all(self, reader: asyncio.StreamReader) -> None:
        """Handle each message until the stream ends.

        Raises BrokenStreamError, and asyncio.IncompleteReadError in the middle of a message.
        """
        while (size := await _message_size(reader)) is not None:
            self.handle(await reader.readexactly(size))

    def handle(self, body: bytes) -> None:
        """Handle the body of a message."""
        try:
            message = parse_json(body)
        except ValueError as error:  # also for bytes that are not UTF-8
            self._refuse(None, JsonRpcParseError(str(error)))
            return
        number = message.get("id") if isinstance(message, dict) else None
        try:
            self._handle(message)
        except JsonRpcException as error:
            if not isinstance(message, dict) or {"id", "method"} <= message.keys():
                self._refuse(number if _is_id(number) else None, error)

    def _handle(self, message: Any) -> None:
        """Pass a message to the protocol.  Raises JsonRpcException for an invalid one."""
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise JsonRpcInvalidRequest("a message is an object with jsonrpc: 2.0")
        method = message.get("method")
        if "id" in message and not _is_id(message["id"]):
            raise JsonRpcInvalidRequest("the id of a request is a whole number or a text")
        if method is not None:
            self._check_time(method)
        known = self._protocol.structure_message(message)
        self._initialized |= method == INITIALIZE
        self._ending |= method == SHUTDOWN
        self._protocol.handle_message(known)

    def _check_time(self, method: object) -> None:
        if not isinstance(method, str):
            raise JsonRpcInvalidRequest("the method of a request is a text")
        if method == EXIT:
            return
        if not self._initialized and method != INITIALIZE:
            raise JsonRpcServerNotInitialized("the first request is initialize")
        if self._initialized and method == INITIALIZE:
            raise JsonRpcInvalidRequest("initialize may be sent once only")
        if self._ending:
            raise JsonRpcInvalidRequest("no request is allowed after shutdown")

    def _refuse(self, number: int | str | None, error: JsonRpcException) -> None:
        said = {"code": error.code, "message": error.message}
        body = json.dumps({"jsonrpc": "2.0", "id": number, "error": said}).encode()
        self._send(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))


def _is_id(value: object) -> TypeGuard[int | str]:
    return isinstance(value, int | str) and not isinstance(value, bool)


async def _message_size(reader: asyncio.StreamReader) -> int | None:
    """Read the headers of a message; return its size in bytes, None if the stream has ended.

    Lines without a length are ignored.
    """
    size: int | None = None
    while True:
        try:
            line = await reader.readline()
        except ValueError:
            raise BrokenStreamError("a header is longer than 64 KiB") from None
        if not line:
            return None
        if found := _LENGTH.fullmatch(line):
            if len(found[1]) > _DIGITS or int(found[1]) > LARGEST:
                raise BrokenStreamError(f"a message of more than {LARGEST} bytes is announced")
            size = int(found[1])
        elif size is not None and not line.strip():
            return size
