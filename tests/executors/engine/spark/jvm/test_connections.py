"""The gateway to the JVM: the bytes that come are those sent, a name means what Java says."""

import socket
import sys
import threading
from types import SimpleNamespace

import pytest
from py4j.clientserver import ClientServerConnection, JavaClient
from py4j.java_gateway import JavaClass, JavaPackage, JVMView, java_import
from py4j.protocol import Py4JError

from odfbuild.executors.engine.spark.jvm.gateway import Prompt, tune

LINES = [b"!yv\n", b"!ys" + b"x" * 100_000 + b"\n", b"!ys\xc3\xa9\n"]

_acknowledging = pytest.mark.skipif(
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


@_acknowledging
def test_what_is_sent_comes_over_connections_old_and_new(port: int) -> None:
    client = Client(port)
    old = client.there = client._create_new_connection()
    tune(SimpleNamespace(_gateway_client=client))
    for each in (old, client._create_new_connection()):
        assert isinstance(each.stream.raw, Prompt)
        assert each.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert [each.stream.readline() for _ in LINES] == LINES
        assert each.stream.readline() == b""
        each.stream.close()
        each.socket.close()


def test_a_gateway_of_another_kind_is_left_alone() -> None:
    other = SimpleNamespace(_gateway_client=SimpleNamespace())
    tune(other)
    assert vars(other._gateway_client) == {}
    tune(None)


def test_connections_of_py4j_have_what_is_changed() -> None:
    assert {"socket", "stream"} <= set(ClientServerConnection.__init__.__code__.co_names)


class Java:
    """Answers about names as Java does, which knows one class more after an import."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.imported = False
        self.gateway_property = SimpleNamespace(pool=None)
        self.converters: list[object] = []

    def send_command(self, command: str, *_args: object, **_options: object) -> str:
        self.asked.append(command)
        match command.split("\n")[:4]:
            case ["j", "i", *_]:
                self.imported = True
                return "yv"
            case ["r", "u", "org" | "org.apache", *_]:
                return "yp"
            case ["r", "u", "Tuple" | "org.apache.Tuple", *_]:
                return "ycorg.apache.Tuple" if self.imported else "yp"
            case ["r", "m", "org.apache.Tuple", "of"]:
                return "ym"
            case ["r", "m", "org.apache.Tuple", "count"]:
                return f"yi{len(self.asked)}"
        return "xsno such thing"


def test_a_name_is_asked_for_once_until_an_import() -> None:
    java = Java()
    tune(SimpleNamespace(_gateway_client=java))
    view = JVMView(java, "view", "rj")
    for _ in range(2):
        assert isinstance(view.org.apache, JavaPackage)
        assert isinstance(view.Tuple, JavaPackage)
    assert len(java.asked) == 3
    java_import(view, "org.apache.*")
    for _ in range(2):
        assert isinstance(view.Tuple, JavaClass)
        assert view.org.apache.Tuple._fqn == "org.apache.Tuple"
    assert len(java.asked) == 8


def test_what_may_change_is_asked_for_each_time() -> None:
    java = Java()
    tune(SimpleNamespace(_gateway_client=java))
    java_import(view := JVMView(java, "view", "rj"), "org.apache.*")
    tuples = view.Tuple
    assert [tuples.of.name, tuples.of.name] == ["of", "of"]  # a method
    first, second = tuples.count, tuples.count  # a field
    assert second == first + 1
    for _ in range(2):
        with pytest.raises(Py4JError):
            _ = view.nothing
    assert len(java.asked) == 2 + 1 + 2 + 2


def test_the_client_of_py4j_has_what_is_changed() -> None:
    assert callable(JavaClient.send_command)
    assert {"_gateway_client"} <= set(JVMView.__getattr__.__code__.co_names)
