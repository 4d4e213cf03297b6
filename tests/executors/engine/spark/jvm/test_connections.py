"""Connections to the JVM: the bytes that come are those that were sent, whoever asks."""

import socket
import sys
import threading
from types import SimpleNamespace

import pytest
from py4j.clientserver import ClientServerConnection

from odfbuild.executors.engine.spark.jvm.launch import Prompt, undelayed

LINES = [b"!yv\n", b"!ys" + b"x" * 100_000 + b"\n", b"!ys\xc3\xa9\n"]

pytestmark = pytest.mark.skipif(
    not hasattr(socket, "TCP_QUICKACK"), reason=f"{sys.platform} acknowledges when it likes"
)


class Client:
    """Makes connections as that of Py4J does."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.there: SimpleNamespace | None = None

    def _create_new_connection(self) -> SimpleNamespace:
        sock = socket.create_connection(("127.0.0.1", self.port))
        return SimpleNamespace(socket=sock, stream=sock.makefile("rb"))

    def get_thread_connection(self) -> SimpleNamespace | None:
        return self.there


@pytest.fixture
def port() -> int:
    """Listen, and send the same lines to each who comes, in pieces of 8 KiB."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for _ in range(2):
            there, _ = listener.accept()
            sent = b"".join(LINES)
            with there:
                for at in range(0, len(sent), 8192):
                    there.sendall(sent[at : at + 8192])
        listener.close()

    threading.Thread(target=serve, daemon=True).start()
    return int(listener.getsockname()[1])


def test_what_is_sent_comes_over_connections_old_and_new(port: int) -> None:
    client = Client(port)
    old = client.there = client._create_new_connection()
    undelayed(SimpleNamespace(_gateway_client=client))
    for each in (old, client._create_new_connection()):
        assert isinstance(each.stream.raw, Prompt)
        assert each.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert [each.stream.readline() for _ in LINES] == LINES
        assert each.stream.readline() == b""
        each.stream.close()
        each.socket.close()


def test_a_gateway_of_another_kind_is_left_alone() -> None:
    other = SimpleNamespace(_gateway_client=SimpleNamespace())
    undelayed(other)
    assert vars(other._gateway_client) == {}
    undelayed(None)


def test_connections_of_py4j_have_what_is_changed() -> None:
    assert {"socket", "stream"} <= set(ClientServerConnection.__init__.__code__.co_names)
