"""Connections of a server: how long a request may take to come, and how many may be large."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

LARGE: Final = 1 << 20  # bytes of a message that may come at any time
LARGE_RATE: Final = 64 << 10  # bytes a second of a larger one that others wait for
_UPGRADE: Final = 7 << 10  # bytes of a head, a line of which may be that long


def timed_protocol(seconds: float) -> type[H11Protocol]:
    """Return the protocol of a connection on which a request has to be there within a time."""

    class TimedProtocol(H11Protocol):
        """Ends a connection that opens, or begins a request, and goes on no further."""

        _deadline: asyncio.TimerHandle | None = None

        def _should_upgrade(self) -> bool:
            """Leave to plain HTTP, which refuses it, what WebSockets would not answer."""
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
            """Have a deadline while a request is awaited, and none while one is answered."""
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
    """Room for so many large messages at once; who comes later waits, first come first served."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._inside: set[object] = set()
        self._waiting: dict[object, Callable[[], None]] = {}

    def enter(self, who: object, go_on: Callable[[], None]) -> bool:
        """Say whether there is room for a message; else `go_on` is called once there is."""
        if who in self._inside:
            return True
        self._waiting[who] = go_on
        self._let_in(called=who)
        return who in self._inside

    @property
    def is_wanted(self) -> bool:
        """Tell whether anybody waits."""
        return bool(self._waiting)

    def leave(self, who: object) -> None:
        """Give the room to those who wait."""
        self._inside.discard(who)
        self._waiting.pop(who, None)
        self._let_in()

    def _let_in(self, called: object = None) -> None:
        while self._waiting and len(self._inside) < self._most:
            who = next(iter(self._waiting))
            go_on = self._waiting.pop(who)
            self._inside.add(who)
            if who is not called:
                go_on()


def bounded_protocol(room: LargeMessages, turn: float) -> type[WebSocketsSansIOProtocol]:
    """Return the protocol of a WebSocket that is read on only while there is room for its message.

    The room is kept until the application answers, or asks for the next message.  While others wait
    for it, it is taken from who sends less within the seconds of a `turn` than LARGE_RATE gives.
    """

    class BoundedProtocol(WebSocketsSansIOProtocol):
        """Puts parts of a message together as they come, however many they are."""

        _came = 0
        _turn: asyncio.TimerHandle | None = None

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._came += len(data)
            if self._coming() <= LARGE:
                return
            if not room.enter(self, self._go_on):
                self.transport.pause_reading()
            elif self._turn is None:
                self._begin_turn()

        def _go_on(self) -> None:
            self._begin_turn()
            self.transport.resume_reading()

        def _begin_turn(self) -> None:
            self._came = 0
            self._turn = self.loop.call_later(turn, self._end_turn)

        def _end_turn(self) -> None:
            """Give the room up if the message is late; it is not while it is judged."""
            self._turn = None
            if self._coming() <= LARGE or self.transport.is_closing():
                return
            if self._came >= LARGE_RATE * turn or not room.is_wanted:
                self._begin_turn()
                return
            self.conn.fail(CloseCode.TRY_AGAIN_LATER, "it comes too slowly, and others wait")
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
            self._make_room()
            return await super().receive()

        async def send(self, message: Any) -> None:
            self._make_room()
            await super().send(message)

        def _coming(self) -> int:
            return len(self.conn.reader.buffer) + sum(map(len, self.frames))

        def _make_room(self) -> None:
            if self._coming() <= LARGE:
                room.leave(self)

    return BoundedProtocol
