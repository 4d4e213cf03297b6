"""Other users of the machine get nothing from the ports and folders of an engine."""

import json
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import accumulators

from odfbuild.executors.engine.spark.cluster import accumulator_port as update_port
from odfbuild.executors.engine.spark.cluster.accumulator_port import closed_to_strangers
from odfbuild.executors.engine.spark.cluster.properties import SECRET
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.jvm import launch as jvm_module
from odfbuild.executors.engine.spark.settings import StepSize
from tests.support.process.within import Within

pytestmark = pytest.mark.spark

_REQUEST, _RESPONSE = 3, 4  # kinds of messages of Spark's network library
_LISTENS = "0A"


@pytest.fixture
def jvm(engine: SparkEngine) -> Any:
    """Return the Java process of the engine, once Spark is ready."""
    engine._sessions.session(StepSize.SMALL)
    host: Any = engine._sessions._host
    assert host is not None
    return host.jvm


@pytest.mark.holds("local-ports")
def test_ports_are_open_to_this_machine_only(jvm: Any) -> None:
    there = list(listening(jvm.process.pid))
    assert there
    assert {address for address, _ in there} <= {"0100007F", "0" * 16 + "FFFF00000100007F"}


@pytest.mark.holds("local-ports")
def test_who_lacks_the_secret_is_not_answered(engine: SparkEngine, jvm: Any) -> None:
    view: Any = engine._sessions.session(StepSize.SMALL).sparkContext._gateway.jvm
    kind = "org.apache.spark.rpc.netty.RpcEndpointVerifier$CheckExistence"
    loader = view.java.lang.Thread.currentThread().getContextClassLoader()
    made = view.java.lang.Class.forName(kind, True, loader).getDeclaredConstructors()
    question = bytes(view.org.apache.spark.util.Utils.serialize(made[0].newInstance(named(engine))))
    answers = {port: asked(port, question) for _, port in listening(jvm.process.pid)}
    assert len(answers) >= 2
    assert _RESPONSE not in answers.values()


def named(engine: SparkEngine) -> Any:
    gateway: Any = engine._sessions.session(StepSize.SMALL).sparkContext._gateway
    given = gateway.new_array(gateway.jvm.java.lang.Object, 1)
    given[0] = "HeartbeatReceiver"
    return given


def asked(port: int, question: bytes) -> int | None:
    """Ask Spark at a port whether it has an endpoint; return the kind of answer, None for none."""
    name = b"endpoint-verifier"
    to = b"\1" + struct.pack(">H9si", 9, b"127.0.0.1", port) + struct.pack(">H", len(name)) + name
    body = b"\0" + to + question
    message = struct.pack(">Bqi", _REQUEST, 7, len(body)) + body
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=3) as line:
            line.sendall(struct.pack(">q", 8 + len(message)) + message)
            answer = line.recv(64)
    except OSError:
        return None
    return answer[8] if len(answer) > 8 else None


def listening(pid: int) -> Iterator[tuple[str, int]]:
    """Yield the addresses and ports at which a process listens."""
    held = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            held.add(str(each.readlink()))
        except OSError:
            continue
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text("ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and f"socket:[{fields[9]}]" in held:
                address, _, port = fields[1].partition(":")
                yield address, int(port, 16)


@pytest.mark.holds("local-updates")
def test_strangers_at_the_port_of_updates_change_nothing(
    engine: SparkEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    """One waits, one sends half of the token, one sends others' bytes: Spark is served."""
    server: Any = engine._sessions.session(StepSize.SMALL).sparkContext._accumulatorServer
    token = server.auth_token.encode()
    with (
        socket.create_connection(server.server_address) as waiting,
        socket.create_connection(server.server_address) as half,
        socket.create_connection(server.server_address, timeout=60) as wrong,
        socket.create_connection(server.server_address, timeout=60) as spark,
    ):
        half.sendall(token[:5])
        wrong.sendall(b"\x80\xff" * 200)
        assert ended(wrong)
        spark.sendall(token + struct.pack(">i", 0))
        assert spark.recv(1) == b"\x01"
        spark.sendall(struct.pack(">i", 0))
        assert spark.recv(1) == b"\x01"
        assert waiting.fileno() >= 0
    assert capfd.readouterr() == ("", "")


def ended(line: socket.socket) -> bool:
    try:
        return line.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.holds("local-updates")
def test_a_stranger_who_stays_does_not_delay_the_end(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update_port, "_PATIENCE", 600.0)
    with closed_to_strangers():
        server = accumulators._start_update_server("a secret", False)
    lines = [socket.create_connection(server.server_address) for _ in range(40)]
    lines[0].sendall(b"a sec")
    with socket.create_connection(server.server_address) as spark:
        ending = threading.Thread(target=server.shutdown)
        ending.start()
        ending.join(60)  # while all of them are connected
        assert not ending.is_alive()
        assert spark.fileno() >= 0
    for line in lines:
        line.close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.holds("local-folders")
def test_the_folder_of_java_is_for_its_owner_alone(jvm: Any) -> None:
    assert jvm.folder.stat().st_mode & 0o077 == 0


@pytest.mark.holds("local-cluster")
def test_doctor_refuses_a_cluster_without_a_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'odfbuild: 1\nname: theirs\nengine: {spark: {master: "spark://10.0.0.1:7077"}}\n'
    (tmp_path / "datasets").mkdir()
    (tmp_path / "odfbuild.yaml").write_text(text, "utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    here = Within(tmp_path, capsys, monkeypatch)

    def cluster() -> tuple[int, dict[str, str]]:
        done = here("doctor", "-o", "json")
        found = {each["name"]: each for each in json.loads(done.out)["checks"]}
        return done.code, found["cluster"]

    code, found = cluster()
    assert (code, found["health"]) == (1, "bad")
    file = tmp_path / "settings" / "odfbuild" / "spark-cluster.conf"
    assert str(file) in found["fix"]
    file.parent.mkdir(parents=True)
    for text, mode, health in (
        (f"spark.authenticate true\n{SECRET} {'a1' * 16}\n", 0o600, "ok"),
        (f"{SECRET} {'a1' * 16}\n", 0o640, "bad"),
        (f"{SECRET} short\n", 0o600, "bad"),
        ("", 0o600, "bad"),
    ):
        file.write_text(text, "utf-8")
        file.chmod(mode)
        assert cluster()[1]["health"] == health
        assert "a1a1" not in str(cluster())


@pytest.mark.holds("local-cluster")
def test_the_secret_of_a_cluster_is_on_no_command_line(tmp_path: Path) -> None:
    settings = {"spark.master": "spark://h:1", SECRET: "a1" * 16}
    shown = jvm_module._submit(jvm_module._hidden(settings, tmp_path))
    assert "a1a1" not in str(shown)
    path = tmp_path / "spark.properties"
    assert str(path) in shown
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text("utf-8") == f"{SECRET} {'a1' * 16}\n"


@pytest.mark.holds("local-cluster")
@pytest.mark.parametrize(
    "name",
    [
        "spark.kubernetes.authenticate.submission.oauthToken",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.ssl.keyPassword",
    ],
)
def test_no_credential_of_a_cluster_is_on_a_command_line(tmp_path: Path, name: str) -> None:
    settings = {"spark.master": "k8s://h:1", name: "a1\\b2"}
    assert "b2" not in str(jvm_module._submit(jvm_module._hidden(settings, tmp_path)))
    assert (tmp_path / "spark.properties").read_text("utf-8") == f"{name} a1\\\\b2\n"
