"""TLS before a server on loopback: a certificate of its own, and bytes that are passed on."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.servers.ftp import certificate

__all__ = ["serving_tls"]


@contextmanager
def serving_tls(port: int, folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield a port of 127.0.0.1, behind which is that of a server, and the file of its root."""
    identity, _ = certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity)
    context.set_alpn_protocols(["h2"])
    _, mark, root = identity.read_text("ascii").partition("-----BEGIN CERTIFICATE-----")
    trusted = folder / "root.pem"
    trusted.write_text(mark + root, "ascii")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_accept, args=(listening, context, port), daemon=True).start()
        yield listening.getsockname()[1], trusted


def _accept(listening: socket.socket, context: ssl.SSLContext, port: int) -> None:
    with suppress(OSError):
        while True:
            line, _ = listening.accept()
            threading.Thread(target=_pass_on, args=(line, context, port), daemon=True).start()


def _pass_on(line: socket.socket, context: ssl.SSLContext, port: int) -> None:
    with (
        suppress(OSError),
        context.wrap_socket(line, server_side=True) as client,
        socket.create_connection(("127.0.0.1", port)) as server,
    ):
        back = threading.Thread(target=_copy, args=(server, client), daemon=True)
        back.start()
        _copy(client, server)
        back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
