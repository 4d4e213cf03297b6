"""Answers of the JVM without the wait of TCP for more.

Py4J writes an answer in pieces of 8 KiB.  Java holds a second piece back until the first is
acknowledged, and Linux takes 40 ms over that, to acknowledge several at once: longer than most
queries over few rows take.  So the side that reads acknowledges each piece at once.
"""

import io
import socket
from typing import Any

__all__ = ["Prompt", "undelayed"]


class Prompt(io.RawIOBase):
    """What a socket receives, each piece acknowledged as it comes."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return self._socket.recv_into(buffer)


def undelayed(gateway: Any) -> None:
    """Let the connections of a Py4J gateway wait for nothing, where the system has the means.

    There is one for each thread, made at its first call.
    """
    client: Any = getattr(gateway, "_gateway_client", None)
    create = getattr(client, "_create_new_connection", None)
    if create is None or not hasattr(socket, "TCP_QUICKACK"):
        return

    def created() -> Any:
        return _prompt(create())

    client._create_new_connection = created
    there = client.get_thread_connection()
    if there is not None:
        _prompt(there)


def _prompt(connection: Any) -> Any:
    connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.stream.close()
    connection.stream = io.BufferedReader(Prompt(connection.socket))
    return connection
