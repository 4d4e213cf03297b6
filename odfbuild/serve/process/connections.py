"""Connections of a server: time limits of requests, and a limit to large messages."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

LARGE: Final = 1 << 20  # bytes of a message up to which it is received at any time
LARGE_RATE: Final = 64 << 10  # bytes per second of a larger one while others wait
_UPGRADE: Final = 7 << 10  # bytes of a head up to which WebSockets handle it


def timed_protocol(seconds: float) -> type[H11Protocol]:
    """Return the protocol of a connection on which a request must arrive within a time."""

    class TimedProtocol(H11Protocol):
        """Closes a connection without a complete request within the time."""

        _deadline: asyncio.TimerHandle | None = None

        def _should_upgrade(self) -> bool:
            """Let plain HTTP refuse a head that WebSockets would not answer."""
            names = {name for name, _ in self.headers}
            size = len(self.scope["raw_path"]) + len(self.scope["query_string"])
            size += sum(len(name) + len(value) for name, value in self.headers)
            is_odd = size > _UPGRADE or names & {b"content-length", b"transfer-encoding"}
            return not is_odd and super()._should_upgrade()

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._unwatch()
            super().connection_lost(exc)

        def _watch(self) -> None:
            """Set a deadline while a request is awaited, and none while one is answered."""
            is_answering = self.cycle is not None and not self.cycle.response_complete
            is_upgraded = self.transport.get_protocol() is not self
            if is_answering or is_upgraded:
                self._unwatch()
            elif self._deadline is None:
                self._deadline = self.loop.call_later(seconds, self._expire)

        def _expire(self) -> None:
            self._deadline = None
            if self.cycle is None or self.cycle.response_complete:
                self.transport.abort()

        def _unwatch(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return TimedProtocol


class LargeMessages:
    """Places for large messages; connections without one wait in the order of arrival."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._inside: set[object] = set()
        self._waiting: dict[object, Callable[[], None]] = {}

    def enter(self, who: object, go_on: Callable[[], None]) -> bool:
        """Return whether there is a place for a message; else `go_on` is called once there is."""
        if who in self._inside:
            return True
        self._waiting[who] = go_on
        self._admit(called=who)
        return who in self._inside

    @property
    def is_wanted(self) -> bool:
        """Whether a connection waits for a place."""
        return bool(self._waiting)

    def leave(self, who: object) -> None:
        """Give the place of a connection to the next one that waits."""
        self._inside.discard(who)
        self._waiting.pop(who, None)
        self._admit()

    def _admit(self, called: object = None) -> None:
        while self._waiting and len(self._inside) < self._most:
            who = next(iter(self._waiting))
            go_on = self._waiting.pop(who)
            self._inside.add(who)
            if who is not called:
                go_on()


def bounded_protocol(room: LargeMessages, turn: float) -> type[WebSocketsSansIOProtocol]:
    """Return the protocol of a WebSocket that receives a large message only with a place for it.

    The place is kept until the application answers, or awaits the next message.  While others wait,
    a connection that sends less than LARGE_RATE within a `turn`, in seconds, is closed.
    """

    class BoundedProtocol(WebSocketsSansIOProtocol):
        """Joins the parts of a message as they arrive, in linear time."""

        _arrived = 0
        _turn: asyncio.TimerHandle | None = None

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._arrived += len(data)
            if self._pending_size() <= LARGE:
                return
            if not room.enter(self, self._resume):
                self.transport.pause_reading()
            elif self._turn is None:
                self._begin_turn()

        def _resume(self) -> None:
            self._begin_turn()
            self.transport.resume_reading()

        def _begin_turn(self) -> None:
            self._arrived = 0
            self._turn = self.loop.call_later(turn, self._end_turn)

        def _end_turn(self) -> None:
            """Close the connection if the message is late; a complete message is not."""
            self._turn = None
            if self._pending_size() <= LARGE or self.transport.is_closing():
                return
            if self._arrived >= LARGE_RATE * turn or not room.is_wanted:
                self._begin_turn()
                return
            self.conn.fail(CloseCode.TRY_AGAIN_LATER, "it is sent too slowly, and others wait")
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()
            room.leave(self)

        def handle_cont(self, event: Frame) -> None:
            frames: list[Any] = self.frames
            if not isinstance(frames[0], bytearray):
                frames[0] = bytearray(frames[0])
            frames[0] += event.data
            if event.fin:
                self.send_receive_event_to_app()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._turn is not None:
                self._turn.cancel()
            room.leave(self)
            super().connection_lost(exc)

        async def receive(self) -> Any:
            self._free_place()
            return await super().receive()

        async def send(self, message: Any) -> None:
            self._free_place()
            await super().send(message)

        def _pending_size(self) -> int:
            return len(self.conn.reader.buffer) + sum(map(len, self.frames))

        def _free_place(self) -> None:
            if self._pending_size() <= LARGE:
                room.leave(self)

    return BoundedProtocol
