"""A server on loopback that says something and then the same thing without end."""

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

__all__ = ["HEADS", "babbling"]

HEADS = {
    "heads": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 99),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n" * 99),
    "a header": (b"HTTP/1.1 200 OK\r\nA: ", b"b" * 999),
    "a size": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0" * 999),
    "a trailer": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"A: b\r\n" * 99),
}
"""Answers of HTTP: what comes first, and what comes without end."""


@contextmanager
def babbling(first: Sequence[bytes], block: bytes, pause: float = 0.0) -> Iterator[int]:
    """Run a server that says this, waits for a question, and then says `block` without end."""

    def talk(line: socket.socket) -> None:
        with suppress(OSError):
            for each in first:
                line.sendall(each)
            if first:
                line.recv(999)
            while True:
                line.sendall(block)
                time.sleep(pause)

    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    line, _ = server.accept()
                    with line:
                        talk(line)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
