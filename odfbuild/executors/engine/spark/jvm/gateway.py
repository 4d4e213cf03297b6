"""The Py4J gateway to a JVM, tuned: answers are acknowledged at once, names are looked up once.

Py4J writes an answer in pieces of 8 KiB.  Java holds a second piece back until the first is
acknowledged, and Linux takes 40 ms over that, to acknowledge several at once: longer than most
queries over few rows take.  So the side that reads acknowledges each piece at once.

Py4J asks Java what a name is each time that it is said: `functions` may be a class, a package or a
class of one of the packages that PySpark imports.  Java looks for each of them in each of 280
archives, for some milliseconds, and PySpark says such names for each column that it makes.  What a
name of a class, of a package or of a static method means stays as it is while its JVM runs.
"""

import io
import socket
from typing import Any


class Prompt(io.RawIOBase):
    """What a socket receives, each piece acknowledged as it comes."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return self._socket.recv_into(buffer)


def tune(gateway: Any) -> None:
    """Let a gateway that is connected answer what it was asked before, and wait for nothing."""
    _undelay(gateway)
    _remember_names(gateway)


def _undelay(gateway: Any) -> None:
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


def _remember_names(gateway: Any) -> None:
    """Answer a question about a name from what Java answered before; an import asks anew."""
    from py4j import protocol

    client: Any = getattr(gateway, "_gateway_client", None)
    ask = getattr(client, "send_command", None)
    if ask is None:
        return
    asked = protocol.REFLECTION_COMMAND_NAME + protocol.REFL_GET_UNKNOWN_SUB_COMMAND_NAME
    member = protocol.REFLECTION_COMMAND_NAME + protocol.REFL_GET_MEMBER_SUB_COMMAND_NAME
    found = (protocol.SUCCESS_PACKAGE, protocol.SUCCESS_CLASS)
    method = protocol.SUCCESS + protocol.METHOD_TYPE
    known: dict[str, str] = {}

    def send_command(command: str, *args: Any, **options: Any) -> Any:
        if command.startswith(protocol.JVMVIEW_COMMAND_NAME):
            known.clear()
        if not command.startswith((asked, member)):
            return ask(command, *args, **options)
        answer = known.get(command)
        if answer is None:
            answer = ask(command, *args, **options)
            if answer.startswith(found if command.startswith(asked) else method):
                known[command] = answer
        return answer

    client.send_command = send_command
