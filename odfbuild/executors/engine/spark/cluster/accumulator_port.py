"""Accumulator port of PySpark, closed to strangers.

PySpark serves one connection after the other, prints a traceback for bytes that are not its token,
and waits at its end for whoever is connected.  Here each connection has a thread of its own, and
who does not show the token soon is left without a word.
"""

import contextlib
import hmac
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from typing import Any

_PATIENCE = 5.0  # seconds for a token
_STRANGERS = 16  # connections at a time that showed none yet


@contextlib.contextmanager
def closed_to_strangers() -> Iterator[None]:
    """Let contexts that are made meanwhile have such a port."""
    from pyspark import accumulators

    theirs = accumulators._start_update_server

    def start(token: str, is_unix: bool, path: str | None = None) -> Any:
        return theirs(token, is_unix, path) if is_unix else _start_server(token)

    accumulators._start_update_server = start
    try:
        yield
    finally:
        accumulators._start_update_server = theirs


def _start_server(token: str) -> Any:
    from pyspark.accumulators import AccumulatorTCPServer, UpdateRequestHandler

    class Handler(UpdateRequestHandler):  # type: ignore[misc]
        def handle(self) -> None:
            if _shows(self.connection, token, strangers):
                self.connection.settimeout(None)
                super().handle()

    class Server(socketserver.ThreadingMixIn, AccumulatorTCPServer):  # type: ignore[misc]
        daemon_threads = True
        block_on_close = False

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Say nothing: what Spark misses by it is an error on its own side."""

    strangers = threading.Semaphore(_STRANGERS)
    server = Server(("localhost", 0), Handler, token)
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    return server


def _shows(connection: socket.socket, token: str, strangers: threading.Semaphore) -> bool:
    """Tell whether a connection begins with the token, which stays to be read."""
    if not strangers.acquire(blocking=False):
        return False
    try:
        expected, until = token.encode(), time.monotonic() + _PATIENCE
        there = b""
        while len(there) < len(expected) and expected.startswith(there):
            left = until - time.monotonic()
            if left <= 0:
                return False
            connection.settimeout(left)
            before, there = there, connection.recv(len(expected), socket.MSG_PEEK)
            if not there:
                return False
            if there == before:
                time.sleep(0.01)
        return hmac.compare_digest(there, expected)
    except OSError:
        return False
    finally:
        strangers.release()
