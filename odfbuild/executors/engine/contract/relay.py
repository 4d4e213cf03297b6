"""Relay from a socket file to a port in the network of a container, a program by itself.

    relay.py PROCESS FOLDER SOCKET PORT

An engine in a container has no network but its own loopback interface.  This program enters that,
prints `ready` once something listens at the port, and then joins each connection to the file with
one to the port.  It ends with its standard input, and removes the folder of the file.

PROCESS is taken for one of the container only if it sees FOLDER, which is mounted there, and has a
network of its own: the runtime may be on another machine, where the number is that of another
process.  The program imports nothing of the package, so that it starts quickly.
"""

import ctypes
import os
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

_NETWORK = 0x40000000  # CLONE_NEWNET of Linux
_MOUNTED = "opt/engine/in"
_HOSTS = ("127.0.0.1", "::1")
_PAUSE = 0.05
_STARTING = 10.0  # seconds that a process has until its folders are mounted
_BLOCK = 1 << 16


def main(process: int, folder: str, path: str, port: int) -> None:
    """Relay until standard input ends."""
    try:
        _enter(process, folder)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            threading.Thread(target=_serve, args=(listener, port), daemon=True).start()
            sys.stdin.buffer.read()
    finally:
        with suppress(OSError):
            Path(path).unlink()
        with suppress(OSError):
            Path(path).parent.rmdir()


def _enter(process: int, folder: str) -> None:
    """Enter the network of a process of the container."""
    libc = ctypes.CDLL(None, use_errno=True)
    until = time.monotonic() + _STARTING
    while not _sees(process, folder):
        if time.monotonic() > until:
            raise OSError(0, "the process is not one of the container")
        time.sleep(_PAUSE)
    with open(f"/proc/{process}/ns/net", "rb") as network:  # noqa: PTH123 - of Linux
        if not _sees(process, folder):
            raise OSError(0, "the process is not one of the container")
        if os.path.samestat(os.fstat(network.fileno()), os.stat("/proc/self/ns/net")):  # noqa: PTH116
            raise OSError(0, "the container has no network of its own")
        if libc.setns(network.fileno(), _NETWORK):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def _sees(process: int, folder: str) -> bool:
    """Tell whether a folder is mounted for a process; it is not yet when its container starts."""
    try:
        return os.path.samefile(f"/proc/{process}/root/{_MOUNTED}", folder)  # noqa: PTH121
    except FileNotFoundError:
        return False


def _serve(listener: socket.socket, port: int) -> None:
    while (found := _connect(port)) is None:
        time.sleep(_PAUSE)
    found.close()
    os.write(sys.stdout.fileno(), b"ready\n")
    while True:
        caller, _ = listener.accept()
        engine = _connect(port)
        if engine is None:
            caller.close()
            continue
        for pair in ((caller, engine), (engine, caller)):
            threading.Thread(target=_copy, args=pair, daemon=True).start()


def _connect(port: int) -> socket.socket | None:
    for host in _HOSTS:
        with suppress(OSError):
            found = socket.create_connection((host, port))
            if found.getsockname() != found.getpeername():
                return found
            found.close()  # nobody listens, and it came from that port to itself
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
        main(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
    except OSError as error:
        sys.exit(str(error.strerror or error))
