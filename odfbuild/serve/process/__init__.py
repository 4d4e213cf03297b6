"""The process of a server: its socket, and its end on a signal."""

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

from odfbuild.serve.application import LimitedApplication, application
from odfbuild.serve.process.connections import LargeMessages, bounded_protocol, timed_protocol
from odfbuild.serve.process.log import log_to_stderr
from odfbuild.serve.settings import FlightAddress, ServerSettings, unusable_port

if TYPE_CHECKING:
    from odfbuild.serve.flight.server import FlightServer

_SWEEP = 3600.0
_LOOK = 0.1  # seconds between checks for a second signal
_LOG = logging.getLogger("odfbuild.serve")


def run(
    settings: ServerSettings, listening: socket.socket, started: Callable[[int | None], None]
) -> None:
    """Serve on a socket until SIGINT or SIGTERM; running requests then have some seconds to end.

    Others are cut off with the process, as by a power cut, which leaves old heads or new ones.  A
    second signal ends the wait at once.  `started` is called with the port of FlightSQL, None
    without it.  Raises UnusablePortError if that port cannot be used.
    """
    log_to_stderr()
    limits = settings.limits
    limited = application(settings)
    config = uvicorn.Config(
        limited,
        http=timed_protocol(limits.request),
        ws=bounded_protocol(LargeMessages(limits.large), limits.turn),
        ws_max_size=limits.frame,
        ws_ping_timeout=None,  # a client may have to wait while its blocks are checked
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
    _Server(config, limited, started).run(sockets=[listening])


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 means any free one.  Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
        opened.listen()  # so that its address may be announced
    except OSError:
        opened.close()
        raise
    return opened


class _Server(uvicorn.Server):
    """A server that ends in order on a signal, and deletes files that no push used."""

    def __init__(
        self,
        config: uvicorn.Config,
        limited: LimitedApplication,
        started: Callable[[int | None], None],
    ) -> None:
        super().__init__(config)
        self._limited = limited
        self._started = started
        self._flight: FlightServer | None = None
        limits = limited.served.settings.limits
        self._last = threading.Timer(limits.stop + limits.farewell, _cut_off)
        self._last.daemon = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals by ending, and do not raise them again afterwards."""
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
        """Listen for FlightSQL first, if configured, then report its port."""
        address = self._limited.served.settings.flight
        self._started(None if address is None else await self._start_flight(address))
        await super().startup(sockets)

    async def _start_flight(self, address: FlightAddress) -> int:
        from odfbuild.serve.flight.server import FlightServer

        self._flight = FlightServer(self._limited.served, self._limited.answers)
        try:
            return await self._flight.start(address)
        except OSError as error:
            raise unusable_port(address.host, address.port, error) from error

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End both servers, each within its time, then the processes for questions."""
        limits = self._limited.served.settings.limits
        flight = self._flight
        stopping = None if flight is None else asyncio.create_task(flight.stop(limits.stop))
        await super().shutdown(sockets)
        while flight is not None and stopping is not None and not stopping.done():
            await asyncio.wait({stopping}, timeout=_LOOK)
            if self.force_exit:
                await flight.stop(0)
        await self._limited.answers.close()

    def _stop(self) -> None:
        self.force_exit = self.should_exit
        if not self.should_exit:
            self._last.start()
        self.should_exit = True
        self._limited.served.ends.set()

    async def _sweep(self) -> None:
        while True:
            await asyncio.to_thread(self._limited.served.uploads.sweep)
            await asyncio.sleep(_SWEEP)


def _cut_off() -> None:
    """End the process, whatever its threads do."""
    _LOG.warning("Requests that have not ended are cut off.")
    os._exit(0)
