"""Relay from a socket file to a port in the network of a container, a program by itself.

    relay.py PROCESS SOCKET PORT

An engine in a container has no network but its own loopback interface.  This program enters that,
prints `ready` once something listens at the port, and then joins each connection to the file with
one to the port.  When its standard input ends, with the program that started it, it kills the
process, the first of the container, and with it all others there.

It imports nothing of the package: it also runs where another user namespace has another view of it.
"""

import ctypes
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress

_NETWORK = 0x40000000  # CLONE_NEWNET of Linux
_HOSTS = ("127.0.0.1", "::1")
_PAUSE = 0.05
_BLOCK = 1 << 16


def main(process: int, path: str, port: int) -> None:
    """Relay until standard input ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/proc/{process}/ns/net", "rb") as namespace:  # noqa: PTH123 - of Linux
        if libc.setns(namespace.fileno(), _NETWORK):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        threading.Thread(target=_serve, args=(listener, port), daemon=True).start()
        sys.stdin.buffer.read()
    os.kill(process, signal.SIGKILL)


def _serve(listener: socket.socket, port: int) -> None:
    while (found := _connected(port)) is None:
        time.sleep(_PAUSE)
    found.close()
    os.write(sys.stdout.fileno(), b"ready\n")
    while True:
        caller, _ = listener.accept()
        engine = _connected(port)
        if engine is None:
            caller.close()
            continue
        for pair in ((caller, engine), (engine, caller)):
            threading.Thread(target=_copy, args=pair, daemon=True).start()


def _connected(port: int) -> socket.socket | None:
    for host in _HOSTS:
        try:
            return socket.create_connection((host, port))
        except OSError:
            continue
    return None


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Send on what comes until either end is closed."""
    try:
        while data := source.recv(_BLOCK):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
    except OSError as error:
        sys.exit(f"{error.strerror}: {error.filename or 'network of the container'}")
