"""A server as a process: its socket, its log, and its end on a signal."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from odfbuild.serve.application import Guarded, application
from odfbuild.serve.settings import ServerSettings

_SWEEP = 3600.0


def run(settings: ServerSettings, listening: socket.socket) -> None:
    """Serve on a socket until SIGINT or SIGTERM; what is under way then has some seconds to end.

    A second signal ends it at once.
    """
    _log_to_stderr()
    limits = settings.limits
    guarded = application(settings)
    config = uvicorn.Config(
        guarded,
        http=_protocol(limits.request),
        ws="websockets-sansio",
        ws_max_size=limits.frame,
        ws_per_message_deflate=False,
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_graceful_shutdown=int(limits.stop),
        h11_max_incomplete_event_size=16 << 10,
        ssl_certfile=None if settings.tls is None else settings.tls.certificate,
        ssl_keyfile=None if settings.tls is None else settings.tls.key,
    )
    _Server(config, guarded).run(sockets=[listening])


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 is any that is free.  Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
    except OSError:
        opened.close()
        raise
    return opened


class _Server(uvicorn.Server):
    """A server that ends in order on a signal, and sweeps what no push took."""

    def __init__(self, config: uvicorn.Config, guarded: Guarded) -> None:
        super().__init__(config)
        self._guarded = guarded

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take signals to end, and raise none of them afterwards."""
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, self._stop)
        sweeping = loop.create_task(self._sweep())
        try:
            yield
        finally:
            sweeping.cancel()
            for each in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(each)

    def _stop(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True

    async def _sweep(self) -> None:
        while True:
            await asyncio.to_thread(self._guarded.served.uploads.sweep)
            await asyncio.sleep(_SWEEP)


def _protocol(seconds: float) -> type[H11Protocol]:
    """Return the protocol of a connection on which a request has to be there within a time."""

    class TimedProtocol(H11Protocol):
        """Ends a connection that opens, or begins a request, and goes on no further."""

        _deadline: asyncio.TimerHandle | None = None

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


def _log_to_stderr() -> None:
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", force=True
    )
    for name in ("uvicorn.error", "websockets", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
