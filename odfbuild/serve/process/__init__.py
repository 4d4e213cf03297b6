"""A server as a process: its socket, and its end on a signal."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator

import uvicorn

from odfbuild.serve.application import Guarded, application
from odfbuild.serve.process.connections import LargeMessages, bounded_protocol, timed_protocol
from odfbuild.serve.process.log import log_to_stderr
from odfbuild.serve.settings import ServerSettings

_SWEEP = 3600.0
_LOG = logging.getLogger("odfbuild.serve")


def run(settings: ServerSettings, listening: socket.socket) -> None:
    """Serve on a socket until SIGINT or SIGTERM; what is under way then has some seconds to end.

    What does not is cut off with the process, as by a power cut, which leaves old heads or new
    ones.  A second signal ends the wait at once.
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
    _Server(config, guarded).run(sockets=[listening])


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

    def __init__(self, config: uvicorn.Config, guarded: Guarded) -> None:
        super().__init__(config)
        self._guarded = guarded
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
