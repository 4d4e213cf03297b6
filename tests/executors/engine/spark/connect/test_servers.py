"""Servers that are not as they have to be are refused before anything is written; and faults."""

import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from odfbuild.errors import OdfBuildError
from odfbuild.executors.engine.spark.cluster.connect.plugin import plugin_archive
from odfbuild.executors.engine.spark.cluster.properties import VARIABLE
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.settings import JAVA_OF_EXECUTORS, StepSize
from tests.executors.engine.spark.cluster.test_cluster_faults import (
    ENDLESS,
    QUICK,
    SOURCE,
    Rows,
    ended,
    rows_of,
    wait_until,
)
from tests.executors.engine.spark.connect.server import (
    CLIENT,
    ConnectServer,
    connect_server,
    properties_text,
)
from tests.executors.engine.spark.connect.tls import serving_tls
from tests.executors.engine.spark.standalone import needs_executors, standalone
from tests.support.projects import REPOSITORY, environment

pytestmark = pytest.mark.spark

DERIVED = """\
kind: DatasetSnapshot
version: 1
content:
  name: out
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{{datasetRef: src, alias: src}}]
      transform: {{kind: Sql, engine: spark, query: "{query}"}}
"""


def refusal(master: str, cache: Path) -> OdfBuildError:
    """Return why an engine does not use a server."""
    with (
        SparkEngine(cache, master=master) as engine,
        pytest.raises(OdfBuildError) as caught,
    ):
        engine._sessions.session(StepSize.SMALL)
    return caught.value


@pytest.mark.holds("local-connect")
@pytest.mark.parametrize("token", ["", properties_text("another-token-than-its-own")])
def test_a_client_with_another_token_or_none_is_refused(
    server: ConnectServer, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "spark-cluster.conf"
    path.write_text(token, "utf-8")
    path.chmod(0o600)
    monkeypatch.setenv(VARIABLE, str(path))
    error = refusal(server.address, tmp_path / "cache")
    assert error.code == "cluster-secret"
    assert "another-token" not in f"{error.what} {error.why} {error.fix}"


def other_plugin() -> bytes:
    """Return an archive whose census is another."""
    written = io.BytesIO()
    with (
        ZipFile(io.BytesIO(plugin_archive())) as ours,
        ZipFile(written, "w", ZIP_DEFLATED) as other,
    ):
        for name in ours.namelist():
            data = ours.read(name)
            other.writestr(name, data + b"\0" if "Census" in name else data)
    return written.getvalue()


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "no plugin": ({"plugin": b""}, "cluster-mismatch", "no plugin"),
    "another plugin": ({"plugin": other_plugin()}, "cluster-mismatch", "another version"),
    "another zone": (
        {"java": [e for e in JAVA_OF_EXECUTORS.split() if "timezone" not in e]},
        "cluster-mismatch",
        "user.timezone",
    ),
    "XML fetches": (
        {"java": [e for e in JAVA_OF_EXECUTORS.split() if "DTD" not in e]},
        "cluster-mismatch",
        "accessExternalDTD",
    ),
    "a setting": (
        {"settings": {"spark.sql.legacy.sizeOfNull": "true"}},
        "spark-setting",
        "spark.sql.legacy.sizeOfNull",
    ),
    "an extension": (
        {"settings": {"spark.sql.extensions": "org.example.Theirs"}},
        "spark-setting",
        "spark.sql.extensions",
    ),
    "a catalog": (
        {"settings": {"spark.sql.catalog.theirs": "org.example.Catalog"}},
        "spark-setting",
        "spark.sql.catalog.theirs",
    ),
}


@pytest.mark.slow
@pytest.mark.holds("sql-server")
@pytest.mark.parametrize("kind", WRONG)
def test_a_server_that_is_not_as_it_has_to_be_is_refused(
    kind: str, tmp_path: Path, token_file: Path
) -> None:
    given, code, said = WRONG[kind]
    assert token_file.exists()
    with connect_server(tmp_path / "server", **given) as server:
        error = refusal(server.address, tmp_path / "cache")
    assert error.code == code, error
    assert said in f"{error.what} {error.why}"


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root makes a mount of its own")
def test_a_server_that_does_not_see_the_folder_is_refused(tmp_path: Path, token_file: Path) -> None:
    assert token_file.exists()
    cache = tmp_path / "projects" / "cache"
    cache.mkdir(parents=True)
    with connect_server(tmp_path / "server", masked=tmp_path / "projects") as server:
        error = refusal(server.address, cache)
    assert error.code == "cluster-folder", error
    assert str(cache) in str(error.why)


class Project:
    """A source of two hundred rows and a query over it, on a server."""

    def __init__(self, folder: Path, master: str, properties: Path, query: str = QUICK) -> None:
        self.folder = folder
        for name in ("data", "datasets"):
            (folder / name).mkdir(parents=True)
        spark = {"master": master} if master.startswith("sc") else {"memory": "1g"}
        settings = {"odfbuild": 1, "name": "ours", "engine": {"spark": spark}}
        (folder / "odfbuild.yaml").write_text(json.dumps(settings), "utf-8")
        rows = [f"2024-01-01 00:00:{at % 60:02},k{at % 20},{at}" for at in range(200)]
        (folder / "data" / "1.csv").write_text("\n".join(["t,k,v", *rows, ""]), "utf-8")
        (folder / "datasets" / "src.yaml").write_text(SOURCE, "utf-8")
        self.ask(query)
        policy = folder.with_name(f"{folder.name}-policy.yaml")
        policy.write_text('odfbuild_policy: 1\nmasters: ["sc://*", local]\n', "utf-8")
        self._env = {"ODFBUILD_POLICY": str(policy), VARIABLE: str(properties)}
        self._env["PYTHONPATH"] = f"{REPOSITORY}:{CLIENT}"
        self._env["XDG_CONFIG_HOME"] = str(folder.with_name("settings"))

    def ask(self, query: str) -> None:
        """Let the derivative have this query."""
        text = DERIVED.format(query=query)
        (self.folder / "datasets" / "out.yaml").write_text(text, "utf-8")

    def start(self, *given: str, **env: str) -> "subprocess.Popen[str]":
        """Begin a command: to apply, if no other is given."""
        return subprocess.Popen(
            [str(Path(sys.executable).parent / "odfbuild"), *(given or ("apply", "--yes"))],
            cwd=self.folder,
            env=environment(**self._env, **env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *given: str, **env: str) -> tuple[int, str]:
        """Run a command; return the exit code and what was said."""
        return ended(self.start(*given, **env))

    def rows(self, name: str) -> Rows:
        return rows_of(self.folder, name)


@pytest.mark.slow
@needs_executors
def test_a_server_with_executors_on_a_cluster_gives_the_same_rows(
    tmp_path: Path, token_file: Path
) -> None:
    machines = tmp_path / "machines"
    machines.mkdir()
    alone = Project(tmp_path / "alone", "local", token_file)
    code, said = alone.run()
    assert code == 0, said
    with standalone(machines) as cluster:
        for host in ("127.0.0.1", "127.0.0.2"):
            cluster.add_worker(host=host)
        settings = {
            "spark.master": cluster.address,
            "spark.executor.memory": "1g",
            "spark.executor.extraJavaOptions": JAVA_OF_EXECUTORS,
        }
        with connect_server(tmp_path / "server", settings=settings) as server:
            there = Project(tmp_path / "there", server.address, token_file)
            code, said = there.run()
            assert code == 0, said
    for name in ("src", "out"):
        assert there.rows(name) == alone.rows(name)
    logs = [each.read_text("utf-8") for each in machines.glob("work-*/app-*/*/stderr")]
    assert len(logs) == 2
    assert any("Finished task" in each for each in logs)


@pytest.mark.slow
def test_a_server_that_is_killed_leaves_the_old_head_and_the_next_one_gives_the_same_rows(
    tmp_path: Path, token_file: Path
) -> None:
    alone = Project(tmp_path / "alone", "local", token_file)
    assert alone.run()[0] == 0
    with connect_server(tmp_path / "first") as server:
        ours = Project(tmp_path / "ours", server.address, token_file, ENDLESS)
        applying = ours.start()
        wait_until(lambda: bool(ours.rows("src")) or applying.poll() is not None)
        time.sleep(8)
        assert applying.poll() is None
        server.kill()
        code, said = ended(applying)
    assert code != 0
    assert "cluster-lost" in said, said
    assert ours.rows("out") == []
    code, said = ours.run()  # and a server that is not there
    assert (code != 0, ours.rows("out")) == (True, [])
    assert "cluster-unreachable" in said, said
    port = int(server.address.rpartition(":")[2])
    with connect_server(tmp_path / "second", port=port):
        ours.ask(QUICK)
        code, said = ours.run()
        assert code == 0, said
        assert ours.rows("out") == alone.rows("out")
        code, said = ours.run("verify", "--replay")
        assert code == 0, said
        code, said = ours.run("sql", "select count(*) as n from out", "--output", "csv")
        assert (code, said.split()[-1]) == (0, "20"), said


@pytest.mark.slow
def test_an_interrupt_ends_what_runs_on_the_server(
    server: ConnectServer, tmp_path: Path, token_file: Path
) -> None:
    ours = Project(tmp_path / "ours", server.address, token_file, ENDLESS)
    applying = ours.start()
    wait_until(lambda: bool(ours.rows("src")) or applying.poll() is not None)
    time.sleep(5)
    for _ in range(2):
        applying.send_signal(signal.SIGINT)
        time.sleep(2)
    code, said = ended(applying)
    assert code != 0, said
    assert ours.rows("out") == []
    ours.ask(QUICK)
    began = time.monotonic()
    code, said = ours.run()
    assert code == 0, said
    assert time.monotonic() - began < 120  # the processors of the server are free again


@pytest.mark.slow
@pytest.mark.holds("local-connect")
def test_a_server_behind_tls_is_used_if_its_certificate_is_trusted(
    server: ConnectServer, tmp_path: Path, token_file: Path
) -> None:
    with serving_tls(int(server.address.rpartition(":")[2]), tmp_path) as (port, root):
        ours = Project(tmp_path / "ours", f"sc://127.0.0.1:{port}/;use_ssl=true", token_file)
        code, said = ours.run("apply", "--yes", GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=str(root))
        assert code == 0, said
        assert len(ours.rows("out")) == 20
        code, said = ours.run("sql", "select count(*) as n from out")
        assert code != 0
        assert "cluster-unreachable" in said, said


@pytest.mark.slow
def test_what_is_no_server_is_told(tmp_path: Path, token_file: Path) -> None:
    """Something that accepts connections, and answers otherwise or never."""
    for answer in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b""):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
            threading.Thread(target=answering, args=(listening, answer), daemon=True).start()
            error = refusal(f"sc://127.0.0.1:{port}", tmp_path / "cache")
    assert token_file.exists()
    assert error.code == "cluster-unreachable", error


def answering(listening: socket.socket, answer: bytes) -> None:
    held = []
    with suppress(OSError):
        while True:
            line, _ = listening.accept()
            held.append(line)
            if answer:
                line.sendall(answer)
                line.close()
