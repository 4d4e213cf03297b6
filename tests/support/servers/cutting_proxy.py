"""A proxy before an HTTP server, on which a connection breaks off at any request or message.

Requests, and the messages that clients send over WebSockets, are counted together.  From the one
on at which it breaks, no connection is made any more until the next block.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Literal, TypeAlias

__all__ = ["Cut", "CuttingProxy", "Where", "proxying_cuts"]

Where: TypeAlias = Literal["before", "during", "after", "answering"]
"""Before a request goes on, in its middle, once it was answered but unheard, or in the answer."""

_PIECE = 1 << 16
_SECONDS = 20.0
_TEXT, _BINARY = 1, 2


class Cut(Exception):
    """The line is cut."""


class CuttingProxy:
    """A proxy of which each block of `breaking` says where the line is cut, if at all."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._left: int | None = None
        self._where: Where = "before"
        self._is_cut = False
        self._lines: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @contextmanager
    def breaking(self, at: int | None, where: Where = "before") -> Iterator[None]:
        """Cut the line at the n-th request; at the end of the block all lines are at rest."""
        with self._lock:
            self._left, self._where, self._is_cut = at, where, False
        try:
            yield
        finally:
            self._end_lines()

    def close(self) -> None:
        """End all lines."""
        self._listener.close()
        self._end_lines()

    def _end_lines(self) -> None:
        with self._lock:
            self._is_cut = True
            near, self._sockets = self._sockets, []
            lines, self._lines = self._lines, []
        for each in near:
            _end(each)
        for line in lines:
            line.join(_SECONDS)
            assert not line.is_alive(), "a line is not at rest"

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            line = threading.Thread(target=self._serve, args=(near,), daemon=True)
            with self._lock:
                if self._is_cut:
                    near.close()
                    continue
                self._sockets.append(near)
                self._lines.append(line)
            line.start()

    def _serve(self, near: socket.socket) -> None:
        with near, suppress(OSError), socket.create_connection(("127.0.0.1", self._target)) as far:
            far.settimeout(_SECONDS)
            try:
                with suppress(Cut, OSError, EOFError):
                    _Line(self, near, far).serve()
            finally:
                _end(near)
                _drained(far)

    def count(self, _head: bytes = b"") -> Where | None:
        """Count a request, or a message without a head; return where it is cut, if it is it."""
        with self._lock:
            if self._is_cut:
                raise Cut
            if self._left is None:
                return None
            self._left -= 1
            if self._left >= 0:
                return None
            if self._left < -1:
                raise Cut
            return self._where

    def cut(self) -> None:
        """Let nothing pass any more."""
        with self._lock:
            self._is_cut = True
            near = tuple(self._sockets)
        for each in near:
            _end(each)
        raise Cut


@dataclass
class _Line:
    """One connection of a client, and the one that is made for it."""

    proxy: CuttingProxy
    near: socket.socket
    far: socket.socket
    fails: Where | None = None
    """What happens to the answers of the server."""

    def serve(self) -> None:
        asked, answered = self.near.makefile("rb"), self.far.makefile("rb")
        with asked, answered:
            while (head := _head(asked)) is not None:
                self.fails = self.proxy.count(head)
                self._asked(head, asked)
                if self._answered(answered, bodiless=head.startswith(b"HEAD ")):
                    self._talk(asked, answered)
                    return

    def _asked(self, head: bytes, source: IO[bytes]) -> None:
        """Pass a request on."""
        if self.fails == "before":
            self.proxy.cut()
        size = _length(head) or 0
        if self.fails == "during":
            body = source.read(size)
            self.far.sendall((head + body)[: len(head) + size // 2 if size else len(head) // 2])
            self.proxy.cut()
        self.far.sendall(head)
        while size:
            piece = source.read(min(size, _PIECE))
            self.far.sendall(piece)
            size -= len(piece)

    def _answered(self, source: IO[bytes], *, bodiless: bool) -> bool:
        """Pass an answer on; say whether a conversation follows."""
        head = _head(source)
        if head is None:
            raise Cut
        status = int(head.split(b" ", 2)[1])
        if status == 101:
            self._give(head)
            return True
        size = 0 if bodiless or status in (204, 304) else _length(head)
        body = _chunks(source) if size is None else source.read(size)
        self._give(head + body)
        return False

    def _give(self, data: bytes) -> None:
        if self.fails == "after":
            self.proxy.cut()
        if self.fails == "answering":
            self.near.sendall(data[: len(data) // 2])
            self.proxy.cut()
        self.near.sendall(data)

    def _talk(self, asked: IO[bytes], answered: IO[bytes]) -> None:
        """Pass messages on, both ways."""
        back = threading.Thread(target=self._pass_back, args=(answered,), daemon=True)
        back.start()
        try:
            while (frame := _frame(asked)) is not None:
                kind, data = frame
                fails = self.proxy.count() if kind in (_TEXT, _BINARY) else None
                if fails == "before":
                    self.proxy.cut()
                if fails == "during":
                    self.far.sendall(data[: len(data) // 2])
                    self.proxy.cut()
                self.fails = fails or self.fails
                self.far.sendall(data)
        finally:
            with suppress(OSError):
                self.far.shutdown(socket.SHUT_WR)
            back.join()

    def _pass_back(self, answered: IO[bytes]) -> None:
        with suppress(Cut, OSError, EOFError):
            while (frame := _frame(answered)) is not None:
                self._give(frame[1])
        _end(self.near)


def _head(source: IO[bytes]) -> bytes | None:
    """Return a head of HTTP with its empty line; None at the end."""
    found = b""
    while line := source.readline():
        found += line
        if line == b"\r\n":
            return found
    return None


def _length(head: bytes) -> int | None:
    """Return how many bytes follow a head; None if it does not say so."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return None


def _chunks(source: IO[bytes]) -> bytes:
    """Return a body in chunks, as it comes."""
    found = b""
    while True:
        line = source.readline()
        size = int(line.strip() or b"0", 16)
        found += line + source.read(size + 2)
        if size == 0:
            return found


def _frame(source: IO[bytes]) -> tuple[int, bytes] | None:
    """Return the kind of a frame of a WebSocket (RFC 6455, 5.2), and its bytes; None at the end."""
    head = source.read(2)
    if len(head) < 2:
        return None
    size, extended = head[1] & 127, b""
    if size >= 126:
        extended = source.read(2 if size == 126 else 8)
        size = int.from_bytes(extended)
    masked = 4 if head[1] & 128 else 0
    rest = source.read(masked + size)
    if len(rest) < masked + size:
        return None
    return head[0] & 15, head + extended + rest


def _end(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)


def _drained(far: socket.socket) -> None:
    """Return when a server has ended its side, and so has done with it."""
    with suppress(OSError):
        far.shutdown(socket.SHUT_WR)
        while far.recv(_PIECE):
            pass


@contextmanager
def proxying_cuts(target: int) -> Iterator[CuttingProxy]:
    """Run a proxy to a port of this machine for the length of a block."""
    proxy = CuttingProxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
