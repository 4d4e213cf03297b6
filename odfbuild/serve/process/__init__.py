"""A server as a process: its socket, and its end on a signal."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import uvicorn

from odfbuild.serve.application import Guarded, application
from odfbuild.serve.process.connections import LargeMessages, bounded_protocol, timed_protocol
from odfbuild.serve.process.log import log_to_stderr
from odfbuild.serve.settings import FlightAddress, ServerSettings, unusable_port

if TYPE_CHECKING:
    from odfbuild.serve.flight.server import FlightServer

_SWEEP = 3600.0
_LOOK = 0.1  # seconds between looks whether there was a second signal
_LOG = logging.getLogger("odfbuild.serve")


def run(
    settings: ServerSettings, listening: socket.socket, started: Callable[[int | None], None]
) -> None:
    """Serve on a socket until SIGINT or SIGTERM; what is under way then has some seconds to end.

    What does not is cut off with the process, as by a power cut, which leaves old heads or new
    ones.  A second signal ends the wait at once.  `started` is given the port of FlightSQL, None
    if that is not answered.  Raises UnusablePortError of a port for it that cannot be had.
    """
    log_to_stderr()
    limits = settings.limits
    guarded = application(settings)
    config = uvicorn.Config(
        guarded,
        http=timed_protocol(limits.request),
        ws=bounded_protocol(LargeMessages(limits.large), limits.turn),
        ws_max_size=limits.frame,
        ws_ping_timeout=None,  # an answer may wait until what was sent is judged
        ws_per_message_deflate=False,
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_graceful_shutdown=int(limits.stop),
        h11_max_incomplete_event_size=limits.head,
        ssl_certfile=None if settings.tls is None else settings.tls.certificate,
        ssl_keyfile=None if settings.tls is None else settings.tls.key,
    )
    _Server(config, guarded, started).run(sockets=[listening])


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 is any that is free.  Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
        opened.listen()  # its address may be announced
    except OSError:
        opened.close()
        raise
    return opened


class _Server(uvicorn.Server):
    """A server that ends in order on a signal, and sweeps what no push took."""

    def __init__(
        self, config: uvicorn.Config, guarded: Guarded, started: Callable[[int | None], None]
    ) -> None:
        super().__init__(config)
        self._guarded = guarded
        self._started = started
        self._flight: FlightServer | None = None
        limits = guarded.served.settings.limits
        self._last = threading.Timer(limits.stop + limits.farewell, _cut_off)
        self._last.daemon = True

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

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen for FlightSQL first, where it is wanted, and then say so."""
        address = self._guarded.served.settings.flight
        self._started(None if address is None else await self._start_flight(address))
        await super().startup(sockets)

    async def _start_flight(self, address: FlightAddress) -> int:
        from odfbuild.serve.flight.server import FlightServer

        self._flight = FlightServer(self._guarded.served, self._guarded.answers)
        try:
            return await self._flight.start(address)
        except OSError as error:
            raise unusable_port(address.host, address.port, error) from error

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End both servers, each within its time."""
        if self._flight is None:
            await super().shutdown(sockets)
            return
        limits = self._guarded.served.settings.limits
        stopping = asyncio.create_task(self._flight.stop(limits.stop))
        await super().shutdown(sockets)
        while not stopping.done():
            await asyncio.wait({stopping}, timeout=_LOOK)
            if self.force_exit:
                await self._flight.stop(0)

    def _stop(self) -> None:
        self.force_exit = self.should_exit
        if not self.should_exit:
            self._last.start()
        self.should_exit = True
        self._guarded.served.ends.set()

    async def _sweep(self) -> None:
        while True:
            await asyncio.to_thread(self._guarded.served.uploads.sweep)
            await asyncio.sleep(_SWEEP)


def _cut_off() -> None:
    """End the process, whatever its threads are at."""
    _LOG.warning("What was under way is cut off.")
    os._exit(0)
