"""Messages over a WebSocket, each with a time limit; late failures are reasons of a close."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from odfbuild.repositories.smart.messages import (
    Failure,
    MalformedMessageError,
    decode,
    encode,
)

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

INTERNAL = 1011
NORMAL = 1000
_LONGEST_REASON = 123  # bytes
_LARGE = 1 << 20  # characters of a message from which it is decoded in a thread
_T = TypeVar("_T")


class HungUpError(Exception):
    """The client has disconnected."""


class LateError(Exception):
    """The client sent nothing in time."""


class Frames:
    """The server's end of one conversation."""

    def __init__(self, socket: "WebSocket", seconds: float) -> None:
        self._socket = socket
        self._seconds = seconds
        self._is_closed = False

    async def receive(
        self, cls: type[_T], seconds: float | None = None, *, most: int | None = None
    ) -> _T:
        """Return the next message, of at most `most` characters.

        Raises HungUpError, LateError and MalformedMessageError.
        """
        try:
            frame = await asyncio.wait_for(self._socket.receive(), seconds or self._seconds)
        except TimeoutError:
            raise LateError from None
        except RuntimeError:  # the socket was closed before
            raise HungUpError from None
        if frame["type"] != "websocket.receive":
            self._is_closed = True
            raise HungUpError
        text = frame.get("text")
        if text is None:
            raise MalformedMessageError("message", "it is bytes, but a message is text")
        if most is not None and len(text) > most:
            raise MalformedMessageError("message", f"it has more than {most:,} characters")
        if len(text) < _LARGE:
            return decode(cls, text)
        from anyio.to_thread import run_sync

        return await run_sync(decode, cls, text)

    async def send(self, message: object) -> None:
        """Send a message.  Raises HungUpError and LateError."""
        from anyio.to_thread import run_sync
        from starlette.websockets import WebSocketDisconnect

        text = await run_sync(encode, message)
        try:
            await asyncio.wait_for(self._socket.send_text(text), self._seconds)
        except TimeoutError:
            raise LateError from None
        except (RuntimeError, WebSocketDisconnect, OSError):
            self._is_closed = True
            raise HungUpError from None

    async def fail(self, failure: Failure) -> None:
        """Close with the failure as the reason, where the protocol has no message for it."""
        await self.close(INTERNAL, encode(failure))

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        """End the conversation, if it has not ended."""
        from starlette.websockets import WebSocketDisconnect

        if self._is_closed:
            return
        self._is_closed = True
        short = reason.encode()[:_LONGEST_REASON].decode("utf-8", "ignore")
        with suppress(RuntimeError, WebSocketDisconnect, OSError, TimeoutError):
            await asyncio.wait_for(self._socket.close(code, short), self._seconds)

    async def wait_for_close(self, seconds: float) -> None:
        """Give the client time to end the conversation itself."""
        try:
            while True:
                async with asyncio.timeout(seconds):
                    frame = await self._socket.receive()
                if frame["type"] != "websocket.receive":
                    self._is_closed = True
                    return
        except (TimeoutError, RuntimeError):
            return
